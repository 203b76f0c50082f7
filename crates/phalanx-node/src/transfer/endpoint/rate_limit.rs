//! The rate limit of a sending end, over all its streams together.

use phalanx_net::sync::lock;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Delays frames so that a rate is not exceeded.
#[derive(Debug, Default)]
pub struct RateLimit {
    /// Bytes per second; 0: no limit.
    limit: u64,
    /// When the next frame may be sent.
    next: Mutex<Option<Instant>>,
}

impl RateLimit {
    pub fn new(limit: u64) -> RateLimit {
        RateLimit { limit, next: Mutex::default() }
    }

    /// Reserves the time of `bytes`. Returns when they may be sent; `None`: at once. Unused time is not saved up for later
    /// bursts.
    pub fn take(&self, bytes: u64) -> Option<Instant> {
        if self.limit == 0 {
            return None;
        }
        let mut next = lock(&self.next);
        let now = Instant::now();
        let from = next.map_or(now, |next| next.max(now));
        *next = Some(from + Duration::from_secs_f64(bytes as f64 / self.limit as f64));
        Some(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_go_one_after_the_other() {
        let pace = RateLimit::new(1000);
        let (began, first) = (Instant::now(), pace.take(500).expect("there is a limit"));
        let second = pace.take(1).expect("there is a limit");
        assert!(first >= began && second == first + Duration::from_millis(500));
        assert_eq!(RateLimit::default().take(1 << 40), None);
    }
}
