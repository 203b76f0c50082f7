//! The control link between a user's manager and an executor: what both ends do alike.

use phalanx_core::level::{Level, Levels, Mark};
use phalanx_core::wire::encode;
use phalanx_net::link::Link;
use serde::Serialize;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often each end says that it lives.
pub const BEAT: Duration = Duration::from_millis(400);
/// After this long without a byte the other end is given up.
pub const SILENCE: Duration = Duration::from_secs(10);

/// Whatever the policy is: over it an executor learns whom to serve.
pub const LEVELS: Levels = Levels::all(Level::Private);

/// Says that this end lives, and notices when the other does not.
#[derive(Debug)]
pub struct Pulse {
    last_beat: Instant,
    last_heard: Instant,
    last_pause: Instant,
    received: u64,
    silence: Duration,
}

impl Pulse {
    pub fn new() -> Pulse {
        let now = Instant::now();
        Pulse { last_beat: now, last_heard: now, last_pause: now, received: 0, silence: SILENCE }
    }

    /// From now on the other end is given up after this long.
    pub fn set_silence(&mut self, silence: Duration) {
        self.silence = silence;
    }

    /// To be called at every pause of the link's reader; closes the link when its other end is silent.
    pub fn pause(&mut self, link: &Link, beat: &impl Serialize) {
        let now = Instant::now();
        let received = link.counters().received.load(Ordering::Relaxed);
        let slept = now - self.last_pause > self.silence / 2; // it was us who did not listen
        self.last_pause = now;
        if received != self.received || slept {
            (self.received, self.last_heard) = (received, now);
        }
        if now - self.last_heard >= self.silence {
            return link.close();
        }
        if now - self.last_beat >= BEAT {
            self.last_beat = now;
            tell(link, beat);
        }
    }
}

/// Sends a message without a body.
pub fn tell(link: &Link, message: &impl Serialize) {
    link.queue(Mark::None, encode(message, 0), Vec::new());
    link.flush();
}
