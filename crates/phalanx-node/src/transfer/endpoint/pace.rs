//! How fast an end may send, over all of its streams together.

use phalanx_net::sync::lock;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Gives each frame its time, so that a rate is kept.
#[derive(Debug, Default)]
pub struct Pace {
    /// Bytes/s; 0: there is no limit.
    limit: u64,
    /// When the next frame may go.
    next: Mutex<Option<Instant>>,
}

impl Pace {
    pub fn new(limit: u64) -> Pace {
        Pace { limit, next: Mutex::default() }
    }

    /// So many bytes are to go: from when on they may. What was not used before is not caught up with.
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
        let pace = Pace::new(1000);
        let (began, first) = (Instant::now(), pace.take(500).expect("there is a limit"));
        let second = pace.take(1).expect("there is a limit");
        assert!(first >= began && second == first + Duration::from_millis(500));
        assert_eq!(Pace::default().take(1 << 40), None);
    }
}
