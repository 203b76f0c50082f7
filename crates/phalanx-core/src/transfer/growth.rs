//! How many streams a transfer has where nobody says: more, while more of them carry more.

use core::time::Duration;

/// On lines with a shorter round trip more streams than cores gain nothing: what limits there is not the line.
const LONG: Duration = Duration::from_millis(1);
/// Streams to begin with on a long line.
const FIRST: u16 = 4;
/// A rate is looked at for so many round trips, and for at least so long: a stream begins slowly.
const ROUNDS: u32 = 10;
const LEAST: Duration = Duration::from_millis(300);
/// Twice the streams are worth it if they carry so many percent more.
const WORTH: u64 = 10;

/// Decides how many streams there are to be.
#[derive(Debug)]
pub struct Growth {
    first: u16,
    wanted: u16,
    /// Most that were there at a time.
    reached: u16,
    most: u16,
    /// How often one more could not be opened since as many as are wanted were there.
    failures: u16,
    round_trip: Duration,
    /// The best rate so far, in bytes/s.
    best: u64,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Not all of the streams are there.
    Opening,
    /// They are since then, and not yet as fast as they can be.
    Warming(Duration),
    /// From then on and these bytes.
    Measuring(Duration, u64),
    /// More would not carry more.
    Settled,
}

impl Growth {
    /// From `first` streams to at most `most`.
    pub fn new(first: u16, most: u16) -> Growth {
        let first = first.min(most);
        let (reached, failures, round_trip, best) = (0, 0, Duration::ZERO, 0);
        Growth { first, wanted: first, reached, most, failures, round_trip, best, phase: Phase::Opening }
    }

    /// So long the line takes there and back.
    pub fn on_round_trip(&mut self, round_trip: Duration) {
        let is_first = self.round_trip.is_zero();
        self.round_trip = if is_first { round_trip } else { round_trip.min(self.round_trip) };
        if self.round_trip >= LONG {
            self.wanted = self.wanted.max(FIRST.min(self.most));
        }
    }

    /// By `now`, from any beginning, `bytes` have arrived, and there are `there` streams. How many there are to be.
    pub fn on_progress(&mut self, now: Duration, bytes: u64, there: u16) -> u16 {
        self.reached = self.reached.max(there);
        self.failures = if there >= self.wanted { 0 } else { self.failures };
        let span = LEAST.max(self.round_trip * ROUNDS);
        let is_over = |since: Duration| now.saturating_sub(since) >= span;
        self.phase = match self.phase {
            _ if self.wanted >= self.most || self.round_trip < LONG => return self.wanted,
            Phase::Settled => Phase::Settled,
            _ if there < self.wanted => Phase::Opening,
            Phase::Opening => Phase::Warming(now),
            Phase::Warming(since) if is_over(since) => Phase::Measuring(now, bytes),
            Phase::Measuring(since, before) if is_over(since) => {
                let milliseconds = (now - since).as_millis().max(1) as u64;
                self.on_rate(bytes.saturating_sub(before).saturating_mul(1000) / milliseconds)
            }
            phase => phase,
        };
        self.wanted
    }

    /// A stream could not be opened; `there` are there, and others `under_way`. How many fewer there are to be now: where more
    /// never were there, as many as are have to do, but one failure may be chance.
    pub fn on_failure(&mut self, there: u16, under_way: u16) -> u16 {
        self.reached = self.reached.max(there);
        let enough = self.reached.max(self.first).max(there.saturating_add(under_way));
        if self.wanted <= enough {
            return 0;
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures < 2 {
            return 0;
        }
        self.phase = Phase::Settled;
        let fewer = self.wanted - enough;
        self.wanted = enough;
        fewer
    }

    fn on_rate(&mut self, rate: u64) -> Phase {
        if rate <= self.best.saturating_add(self.best / 100 * WORTH) {
            return Phase::Settled;
        }
        self.best = rate;
        self.wanted = self.wanted.saturating_mul(2).min(self.most);
        Phase::Opening
    }

    /// How many there are to be, or were if those were more.
    pub fn wanted(&self) -> u16 {
        self.wanted.max(self.reached)
    }
}
