//! Groups: processes in an order (MPI 5.0, 7.3).

/// Processes by their numbers in the program. A process's place is its rank.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Group {
    pub processes: Vec<u32>,
}

impl Group {
    pub fn size(&self) -> usize {
        self.processes.len()
    }

    /// The rank of a process, if it belongs to the group.
    pub fn rank_of(&self, process: u32) -> Option<usize> {
        self.processes.iter().position(|member| *member == process)
    }
}
