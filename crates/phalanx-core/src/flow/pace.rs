//! How many tokens to fire together, from measured times. Users never tune a chunk size.

use crate::wire::HEAVY;
use std::time::Duration;

/// Target for the work in one firing. Long compared with a firing's fixed cost (about 50 µs on both ends together),
/// short compared with what a user or a makespan notices.
const BATCH: Duration = Duration::from_millis(2);
/// Limit on the tokens in one firing.
pub const MOST_TOKENS: u32 = 16_384;
/// A firing does not grow beyond this many bytes of tokens.
const BATCH_BYTES: f64 = 262_144.0;
/// An interpreter that computes for this long returns the tasks it has not begun, because the estimate was wrong.
pub const SLICE: Duration = Duration::from_millis(20);
/// An instruction this many times longer than the round trip is coarse. With only one in flight, the interpreter idles
/// for at most 2 % of the time.
const COARSE: u32 = 50;
const MOST_IN_FLIGHT: usize = 64;
const IN_FLIGHT_BYTES: u64 = 4 << 20;

/// The measurements of one instruction.
#[derive(Debug, Default, Clone)]
pub struct Pace {
    /// Nanoseconds per token, as a moving average; `None` before the first answer.
    time: Option<f64>,
    /// Bytes of an input token, as a moving average.
    bytes: f64,
    /// Bytes of an output token, as a moving average.
    given: f64,
    /// The same, over those output tokens that do not stay at the interpreter.
    sent: f64,
}

impl Pace {
    /// Combines the instructions that a task passes through, each with the number of its tokens per task: the sum of
    /// their times, and the heaviest of the travelling tokens.
    pub fn whole<'a>(paces: impl Iterator<Item = (&'a Pace, f64)> + Clone) -> Pace {
        let heaviest = paces.clone().map(|(pace, tokens)| pace.heaviest() * tokens).fold(0.0, f64::max);
        let time = paces.map(|(pace, tokens)| pace.time.map(|time| time * tokens)).sum();
        Pace { time, bytes: heaviest, given: heaviest, sent: heaviest }
    }

    /// Combines an instruction and those that are fired after it at the same interpreter. The tokens between them do
    /// not travel.
    pub fn path<'a>(mut paces: impl Iterator<Item = &'a Pace>) -> Pace {
        let mut path = paces.next().cloned().unwrap_or_default();
        for pace in paces {
            path.time = path.time.map(|time| time + pace.time.unwrap_or_default());
            (path.given, path.sent) = (pace.given, pace.sent);
        }
        path
    }

    /// How many times the average `busy` is, for `tokens` tokens.
    pub fn ratio(&self, tokens: u32, busy: Duration) -> f64 {
        self.time.map_or(1.0, |time| busy.as_nanos() as f64 / f64::from(tokens.max(1)) / time.max(1.0))
    }

    /// Adds a measurement: an interpreter took `busy` for `tokens` tokens and sent as many back, with `bytes` bytes.
    pub fn measured(&mut self, tokens: u32, busy: Duration, bytes: u64) {
        self.sent = average(self.sent, bytes as f64 / f64::from(tokens.max(1)));
        self.stayed(tokens, busy, bytes);
    }

    /// Adds a measurement: an interpreter took `busy` for `tokens` tokens and kept the output, which has `bytes` bytes.
    pub fn stayed(&mut self, tokens: u32, busy: Duration, bytes: u64) {
        self.given = average(self.given, bytes as f64 / f64::from(tokens.max(1)));
        let sample = busy.as_nanos() as f64 / f64::from(tokens.max(1));
        self.time = Some(self.time.map_or(sample, |time| (time + sample) / 2.0));
    }

    /// Raises the estimate: a token still has no answer after `waited`.
    pub fn waits(&mut self, waited: Duration) {
        self.time = self.time.map(|time| time.max((time + waited.as_nanos() as f64) / 2.0));
    }

    /// Adds a measurement: `tokens` input tokens had `bytes` bytes.
    pub fn weighed(&mut self, tokens: u32, bytes: u64) {
        let sample = bytes as f64 / f64::from(tokens.max(1));
        self.bytes = average(self.bytes, sample);
    }

    /// How many tokens to fire together.
    pub fn batch(&self) -> u32 {
        let Some(time) = self.time else { return 1 };
        let by_time = BATCH.as_nanos() as f64 / time.max(1.0);
        let by_bytes = BATCH_BYTES / self.heaviest().max(1.0);
        (by_time.min(by_bytes) as u32).clamp(1, MOST_TOKENS)
    }

    /// Estimated time for `tokens` tokens; `None` before the first answer.
    pub fn estimate(&self, tokens: u32) -> Option<Duration> {
        self.time.map(|time| Duration::from_nanos((time * f64::from(tokens)) as u64))
    }

    /// Whether output tokens are heavy enough to stay at the interpreter, where that is possible.
    pub fn gives_heavy(&self) -> bool {
        self.given >= HEAVY as f64
    }

    /// How many tokens keep `interpreters` busy for `ahead`.
    pub fn tokens_in(&self, ahead: Duration, interpreters: u32) -> f64 {
        self.time.map_or(0.0, |time| ahead.as_nanos() as f64 * f64::from(interpreters) / time.max(1.0))
    }

    /// Bytes of the input token or of the output token that travels, whichever is heavier.
    pub fn heaviest(&self) -> f64 {
        self.bytes.max(self.sent)
    }
}

/// A moving average; 0 before the first sample.
pub fn average(before: f64, sample: f64) -> f64 {
    if before == 0.0 { sample } else { (before + sample) / 2.0 }
}

/// The firings that one interpreter has in flight, as far as scheduling needs them.
#[derive(Debug, Default, Clone, Copy)]
pub struct Load {
    pub firings: usize,
    pub bytes: u64,
    /// Estimated time for all of them; `None` if one of them has no estimate.
    pub time: Option<Duration>,
}

impl Load {
    /// Whether to send one more firing before the answers: one in flight when the grain is coarse, enough to hide the
    /// round trip when it is fine.
    pub fn has_room(&self, round_trip: Duration) -> bool {
        if self.firings == 0 {
            return true;
        }
        let Some(time) = self.time else { return false };
        if self.firings >= MOST_IN_FLIGHT || self.bytes >= IN_FLIGHT_BYTES && self.firings >= 2 {
            return false;
        }
        let coarse = time >= round_trip * COARSE;
        !coarse && (self.firings < 2 || time < (round_trip + BATCH) * 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn an_unknown_grain_goes_one_by_one() {
        assert_eq!(Pace::default().batch(), 1);
        assert!(!Load { firings: 1, bytes: 0, time: None }.has_room(milliseconds(1)));
    }

    #[test]
    fn fine_grains_are_coalesced_and_coarse_ones_are_not() {
        let mut fine = Pace::default();
        fine.measured(1, Duration::from_micros(10), 0);
        assert_eq!(fine.batch(), 200);
        let mut coarse = Pace::default();
        coarse.measured(1, milliseconds(30), 0);
        assert_eq!(coarse.batch(), 1);
    }

    #[test]
    fn heavy_tokens_are_not_coalesced() {
        let mut heavy = Pace::default();
        heavy.measured(1, Duration::from_micros(10), 0);
        heavy.weighed(1, 1 << 20);
        assert_eq!(heavy.batch(), 1);
        let mut heavy_result = Pace::default();
        heavy_result.measured(1, Duration::from_micros(10), 1 << 20);
        assert_eq!(heavy_result.batch(), 1);
    }

    #[test]
    fn the_window_hides_the_round_trip_only_where_it_is_felt() {
        let round_trip = Duration::from_micros(200);
        let load = |firings, time| Load { firings, bytes: 0, time: Some(time) };
        assert!(!load(1, milliseconds(10)).has_room(round_trip));
        assert!(load(1, milliseconds(9)).has_room(round_trip));
        assert!(!load(2, milliseconds(9)).has_room(round_trip));
        assert!(load(2, milliseconds(4)).has_room(round_trip));
        assert!(load(1, milliseconds(900)).has_room(milliseconds(100)));
    }
}
