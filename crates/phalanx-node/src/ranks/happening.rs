//! What a launcher hears, from whoever it is.

use super::machine::Event;
use std::io;

/// Something that the launcher's thread is to take note of.
pub enum Happening {
    Event(Event),
    /// Why standard output, or a file for it, cannot be written.
    OutputFailed(io::Error),
    /// All output of a machine has been written.
    Drained,
    /// A machine is gone, and why.
    Gone {
        machine: usize,
        why: String,
    },
    /// Why the program cannot go on.
    Trouble(String),
    /// This process was sent it.
    Signal(i32),
}
