//! The owner's limits for users' processes.

/// The limits that the owner of a machine sets. `None`: no limit.
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
    /// Bytes of files of all programs together, in their folders and in memory.
    pub disk: Option<u64>,
    /// The number of places.
    pub places: u64,
}
