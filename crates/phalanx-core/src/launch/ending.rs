//! How processes are ended: those that pass messages are told why, then all are asked to end (a signal), then all are
//! killed.

use std::time::Duration;

/// Time for a process to hear why the program ends, and to write its own last output.
const HEAR: Duration = Duration::from_millis(300);
/// Time for a process that was asked to end, before it is killed.
const ASKED: Duration = Duration::from_secs(1);

const TERM: i32 = 15;
const KILL: i32 = 9;

/// The next step, and when it is due.
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

    /// There is no process to tell, so they are asked to end at once.
    pub fn terminate(now: Duration) -> Ending {
        Ending { next: TERM, at: now, signalled: false }
    }

    /// Kill at once.
    pub fn kill(now: Duration) -> Ending {
        Ending { next: KILL, at: now, signalled: false }
    }

    /// Whether our signals may have ended a process.
    pub fn has_signalled(&self) -> bool {
        self.signalled
    }

    /// Makes the next step due now.
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
