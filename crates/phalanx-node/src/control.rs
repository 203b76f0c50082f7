//! Keep-alive on control links. Both ends, a user's manager and an executor, use it alike.

use phalanx_core::level::{Level, Levels, Mark};
use phalanx_core::wire::encode;
use phalanx_net::link::{Link, Reader};
use serde::Serialize;
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Interval at which each end sends a beat.
pub const BEAT: Duration = Duration::from_millis(400);
/// An end that sends nothing for this long is given up.
pub const SILENCE: Duration = Duration::from_secs(10);

/// The level of control links, whatever the policy says. It is private, because an executor learns over it which program to
/// serve.
pub const LEVELS: Levels = Levels::all(Level::Private);

/// At most 1/`HEEDED` of the allowed silence is counted per look. An end that is starved or was suspended looks late, and would
/// otherwise mistake its own pause for silence of the other end. With this limit it needs several looks.
const HEEDED: u32 = 4;
/// At most this much silence is counted per look, because every link is looked at more often.
const LONGEST_LOOK: Duration = Duration::from_millis(600);
/// How long to wait until the other end has read a last message.
const LAST_MESSAGE: Duration = Duration::from_secs(5);

/// Sends beats, and closes the link when the other end falls silent.
#[derive(Debug)]
pub struct Pulse {
    last_beat: Instant,
    last_pause: Instant,
    received: u64,
    /// For how long nothing has arrived, counted only while this end was looking.
    silent: Duration,
    /// The longest recent silence, decaying with each arrival. It is long where the other end's machine is busy.
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

    /// Sets after how much silence the other end is given up.
    pub fn set_silence(&mut self, silence: Duration) {
        self.silence = silence;
    }

    /// Whether the other end was heard from within `time`, or within 1.5 times its longest recent silence.
    pub fn is_heard(&self, time: Duration) -> bool {
        self.silent < time.max(self.gap * 3 / 2)
    }

    /// Call this at every pause of the link's reader. It sends beats, and closes the link if the other end is silent.
    pub fn pause(&mut self, link: &Link, beat: &impl Serialize) {
        self.pause_with(link, || beat);
    }

    /// The same; the beat is made only when it is due.
    pub fn pause_with<B: Serialize>(&mut self, link: &Link, beat: impl FnOnce() -> B) {
        let now = Instant::now();
        let received = link.counters().received.load(Ordering::Relaxed);
        let since = std::mem::replace(&mut self.last_pause, now).elapsed();
        self.silent += since.min(self.silence / HEEDED).min(LONGEST_LOOK);
        if std::mem::replace(&mut self.received, received) != received {
            self.gap = (self.gap * 7 / 8).max(self.silent);
            self.silent = Duration::ZERO;
        }
        // Bytes that have arrived and wait to be read are no silence either.
        if self.silent >= self.limit() && !link.has_unread() {
            return link.close();
        }
        if now - self.last_beat >= BEAT {
            self.last_beat = now;
            tell(link, &beat());
        }
    }

    /// The allowed silence. If the other end's beats arrive late, twice their longest recent gap is allowed.
    fn limit(&self) -> Duration {
        self.silence.max((self.gap * 2).min(SILENCE))
    }
}

/// Sends a message without a body.
pub fn tell(link: &Link, message: &impl Serialize) {
    link.queue_ahead(encode(message, 0));
    link.flush_heads();
}

/// Sends a message with a body.
pub fn tell_with(link: &Link, message: &impl Serialize, body: Vec<u8>) {
    link.queue(Mark::None, encode(message, body.len() as u64), vec![body.into()]);
    link.flush();
}

/// Sends a last message, and waits until the other end has read it. Returns the error that is the reason.
pub fn turn_away(link: &Link, reader: Reader, last: &impl Serialize, why: io::Error) -> io::Error {
    tell(link, last);
    await_end(reader);
    why
}

/// Waits until the other end has read the last message and closed the link, or for [`LAST_MESSAGE`].
pub fn await_end(mut reader: Reader) {
    let until = Instant::now() + LAST_MESSAGE;
    while Instant::now() < until && reader.poll(LAST_MESSAGE, &mut |_| ()).is_ok() {}
}
