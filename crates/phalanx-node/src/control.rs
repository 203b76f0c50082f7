//! The control link between a user's manager and an executor: what both ends do alike.

use phalanx_core::level::{Level, Levels};
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

/// Of the time between two looks, at most this part of the silence that is allowed counts as the other end's silence: an
/// end that is starved, or was suspended, therefore needs several looks to find the other one silent.
const HEEDED: u32 = 4;
/// And at most this long, since every link is looked at more often.
const LONGEST_LOOK: Duration = Duration::from_millis(600);

/// Says that this end lives, and notices when the other does not.
#[derive(Debug)]
pub struct Pulse {
    last_beat: Instant,
    last_pause: Instant,
    received: u64,
    /// How long nothing came, as far as this end listened.
    silent: Duration,
    /// The longest time of late for which nothing came: long where the other end's machine is busy.
    gap: Duration,
    silence: Duration,
}

impl Pulse {
    pub fn new() -> Pulse {
        let now = Instant::now();
        Pulse {
            last_beat: now,
            last_pause: now,
            received: 0,
            silent: Duration::ZERO,
            gap: Duration::ZERO,
            silence: SILENCE,
        }
    }

    /// From now on the other end is given up after this long.
    pub fn set_silence(&mut self, silence: Duration) {
        self.silence = silence;
    }

    /// Whether the other end was heard of within `time`, or within what is usual on its busy machine.
    pub fn is_heard(&self, time: Duration) -> bool {
        self.silent < time.max(self.gap * 3 / 2)
    }

    /// To be called at every pause of the link's reader; closes the link when its other end is silent.
    pub fn pause(&mut self, link: &Link, beat: &impl Serialize) {
        self.pause_with(link, || beat);
    }

    /// The same, with a beat that is made when it is due.
    pub fn pause_with<B: Serialize>(&mut self, link: &Link, beat: impl FnOnce() -> B) {
        let now = Instant::now();
        let received = link.counters().received.load(Ordering::Relaxed);
        let since = std::mem::replace(&mut self.last_pause, now).elapsed();
        self.silent += since.min(self.silence / HEEDED).min(LONGEST_LOOK);
        if std::mem::replace(&mut self.received, received) != received {
            self.gap = (self.gap * 7 / 8).max(self.silent);
            self.silent = Duration::ZERO;
        }
        // What has arrived and was not read yet is no silence either.
        if self.silent >= self.limit() && !link.has_unread() {
            return link.close();
        }
        if now - self.last_beat >= BEAT {
            self.last_beat = now;
            tell(link, &beat());
        }
    }

    /// Where the other end's beats come late, twice their distance is allowed.
    fn limit(&self) -> Duration {
        self.silence.max((self.gap * 2).min(SILENCE))
    }
}

/// Sends a message without a body.
pub fn tell(link: &Link, message: &impl Serialize) {
    link.queue_ahead(encode(message, 0));
    link.flush_heads();
}
