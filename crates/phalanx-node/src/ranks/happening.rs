//! The events ("happenings") that a launcher's thread handles.

use super::machine::Event;
use bytes::Bytes;
use phalanx_core::wire::machines::FromMachine;
use std::io;
use std::ops::Range;
use std::sync::Arc;
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
    /// A rank has completed its files of a step, from which the program can be restarted.
    Completed {
        rank: u32,
        step: u64,
    },
    /// The files of a machine's ranks of a step were written here; or the reason why not.
    Fetched {
        machine: usize,
        step: u64,
        outcome: Result<(), String>,
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
    /// Takes the files of checkpoints, if the program survives losses.
    pub parcels: Option<Sender<Parcel>>,
}

impl Teller {
    /// Sends a happening. Returns false if the launcher has gone.
    pub fn send(&self, happening: Happening) -> bool {
        self.to.send((self.start, happening)).is_ok()
    }
}

/// A message of a machine about files of its ranks.
pub struct Parcel {
    pub happenings: Teller,
    /// The machine's number in the program, and its ranks.
    pub machine: usize,
    pub ranks: Range<u32>,
    pub message: FromMachine,
    pub bytes: Bytes,
    /// Is told how many bytes were written.
    pub receipt: Arc<dyn Fn(u32) + Send + Sync>,
}
