//! A program, as the watch sees it, and why it was ended.

use rustix::net::{Shutdown, shutdown};
use rustix::process::Pid;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// How long the end of a program is waited for, before its files are removed, and the pause between two looks.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(25);

/// Why a program was ended, in words for its user. Empty: it was not, or not for a limit.
#[derive(Debug, Clone, Default)]
pub struct Reason(Arc<OnceLock<String>>);

impl Reason {
    /// Says why. Only the first reason counts.
    pub fn give(&self, words: String) {
        let _ = self.0.set(words);
    }

    /// The reason, if there is one.
    pub fn words(&self) -> Option<String> {
        self.0.get().cloned()
    }
}

/// A program, as the watch sees it.
#[derive(Debug, Clone)]
pub struct Program {
    pub keeper: Pid,
    /// The keeper's socket, by which it is told to end. Gone: the program is.
    pub socket: Weak<OwnedFd>,
    /// The folders that only this program, and others of its manager, write to.
    pub folders: Vec<PathBuf>,
    pub places: u64,
    pub reason: Reason,
}

impl Program {
    /// Whether the program was not told to end.
    pub fn lives(&self) -> bool {
        self.reason.words().is_none()
    }

    /// Waits for the end of the program, for a while.
    pub fn wait(&self) {
        let until = Instant::now() + PATIENCE;
        while self.socket.strong_count() > 0 && Instant::now() < until {
            thread::sleep(PAUSE);
        }
    }

    /// Ends the program, as its owner does.
    pub fn end(&self, why: String) {
        if let Some(socket) = self.socket.upgrade().filter(|_| self.lives()) {
            self.reason.give(why);
            let _ = shutdown(&*socket, Shutdown::Write);
        }
    }
}
