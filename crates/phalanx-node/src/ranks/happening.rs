//! The events ("happenings") that a launcher's thread handles.

use super::machine::Event;
use std::io;
use std::ops::Range;
use std::sync::mpsc::Sender;

/// An event for the launcher's thread.
pub enum Happening {
    Event(Event),
    /// Standard output, or a file for it, could not be written.
    OutputFailed(io::Error),
    /// All output of a machine was written.
    Drained,
    /// A machine is lost, and why.
    Gone {
        machine: usize,
        why: String,
    },
    /// The program cannot go on, and why.
    Trouble(String),
    /// This process received the signal.
    Signal(i32),
    /// A restart of the program has succeeded or failed.
    Restarted,
    /// The places for a world of these ranks are reserved, or are not available.
    Placed {
        ranks: Range<u32>,
    },
    /// Whether other machines have places for the processes of this machine.
    Places {
        machine: usize,
        found: Result<(), String>,
    },
}

/// Sends the launcher's thread the happenings of one start of the program.
#[derive(Debug, Clone)]
pub struct Teller {
    pub to: Sender<(u32, Happening)>,
    /// The number of restarts before this start.
    pub start: u32,
}

impl Teller {
    /// Sends a happening. Returns false if the launcher has gone.
    pub fn send(&self, happening: Happening) -> bool {
        self.to.send((self.start, happening)).is_ok()
    }
}
