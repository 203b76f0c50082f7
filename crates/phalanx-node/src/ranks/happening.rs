//! What a launcher hears, from whoever it is.

use super::machine::Event;
use std::io;
use std::ops::Range;
use std::sync::mpsc::Sender;

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
    /// The program was started again, or cannot be.
    Restarted,
    /// Places are kept for a world with these numbers, or cannot be.
    Placed {
        ranks: Range<u32>,
    },
    /// Whether there are places for the processes of a machine on others.
    Places {
        machine: usize,
        found: Result<(), String>,
    },
}

/// Tells the launcher's thread what happens to one start of the program.
#[derive(Debug, Clone)]
pub struct Teller {
    pub to: Sender<(u32, Happening)>,
    /// The starts before it.
    pub start: u32,
}

impl Teller {
    /// Whether it still listens.
    pub fn send(&self, happening: Happening) -> bool {
        self.to.send((self.start, happening)).is_ok()
    }
}
