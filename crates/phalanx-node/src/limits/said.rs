//! What the owner of a machine lets users' processes use of it.

/// What the owner of the machine says. `None`: no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory of all programs together.
    pub memory: Option<u64>,
    /// Bytes of memory for each place of a program.
    pub program_memory: Option<u64>,
    /// Processors of all programs together, in hundredths of one.
    pub cpu: Option<u64>,
    /// Processes and threads of all programs together.
    pub processes: Option<u64>,
    /// Bytes of files of all programs together: in their folders, and in memory.
    pub disk: Option<u64>,
    /// How many places there are.
    pub places: u64,
}
