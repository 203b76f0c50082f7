//! A program that the watch observes, and the reason for its end.

use rustix::net::{Shutdown, shutdown};
use rustix::process::Pid;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// Timeout for the end of a program, before its files are removed, and the polling interval.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(25);

/// The reason for which a program was ended. Empty: it was not ended, or not for a limit.
#[derive(Debug, Clone, Default)]
pub struct Reason(Arc<OnceLock<Why>>);

/// Why a program was ended, in words for its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// For others of the machine, or for a limit of its owner.
    Machine(String),
    /// For the limit that the user's own program has set.
    Program(String),
}

impl Why {
    /// The words.
    pub fn words(self) -> String {
        match self {
            Why::Machine(words) | Why::Program(words) => words,
        }
    }
}

impl Reason {
    /// Sets the reason. Only the first one counts.
    pub fn give(&self, why: Why) {
        let _ = self.0.set(why);
    }

    /// The reason, if there is one.
    pub fn why(&self) -> Option<Why> {
        self.0.get().cloned()
    }
}

/// A program that the watch observes.
#[derive(Debug, Clone)]
pub struct Program {
    pub keeper: Pid,
    /// The keeper's socket. Shutting it down ends the program. It is dropped when the program has ended.
    pub socket: Weak<OwnedFd>,
    /// Folders to which only this program, and other programs of its manager, write.
    pub folders: Vec<PathBuf>,
    pub places: u64,
    /// The bytes of memory that its user lets it have. `None`: what the machine gives.
    pub memory: Option<u64>,
    pub reason: Reason,
}

impl Program {
    /// Whether the program has received no order to end.
    pub fn lives(&self) -> bool {
        self.reason.why().is_none()
    }

    /// Waits for the end of the program, with a timeout.
    pub fn wait(&self) {
        let until = Instant::now() + PATIENCE;
        while self.socket.strong_count() > 0 && Instant::now() < until {
            thread::sleep(PAUSE);
        }
    }

    /// Ends the program for a limit of the machine.
    pub fn end(&self, why: String) {
        self.end_for(Why::Machine(why));
    }

    /// Ends the program, in the same way as its owner.
    pub fn end_for(&self, why: Why) {
        if let Some(socket) = self.socket.upgrade().filter(|_| self.lives()) {
            self.reason.give(why);
            let _ = shutdown(&*socket, Shutdown::Write);
        }
    }
}
