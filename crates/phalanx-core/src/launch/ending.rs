//! How processes are ended: those that pass messages hear why, then all are asked, then made to.

use std::time::Duration;

/// For a process to hear why the program ends, and to say its own last words.
const HEAR: Duration = Duration::from_millis(300);
/// For a process that was asked to end.
const ASKED: Duration = Duration::from_secs(1);

const TERM: i32 = 15;
const KILL: i32 = 9;

/// What comes next, and when.
#[derive(Debug)]
pub struct Ending {
    next: i32,
    at: Duration,
    signalled: bool,
}

impl Ending {
    /// The processes were told.
    pub fn tell(now: Duration) -> Ending {
        Ending { next: TERM, at: now + HEAR, signalled: false }
    }

    /// There is nobody to tell.
    pub fn terminate(now: Duration) -> Ending {
        Ending { next: TERM, at: now, signalled: false }
    }

    /// There is nothing to be said any more.
    pub fn kill(now: Duration) -> Ending {
        Ending { next: KILL, at: now, signalled: false }
    }

    /// Whether a process may have ended by our signals.
    pub fn has_signalled(&self) -> bool {
        self.signalled
    }

    /// What comes next comes now.
    pub fn hurry(&mut self, now: Duration) {
        self.at = now;
    }

    /// The signal that is due.
    pub fn due(&mut self, now: Duration) -> Option<i32> {
        if now < self.at {
            return None;
        }
        self.at = now + ASKED;
        self.signalled = true;
        Some(std::mem::replace(&mut self.next, KILL))
    }

    /// When the next signal is due.
    pub fn next(&self) -> Duration {
        self.at
    }
}
