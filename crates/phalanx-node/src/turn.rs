//! The firing that an interpreter is working on. Two threads share it: one begins its tokens, and the link's thread gives back
//! those that were not begun.

use phalanx_core::ids::FiringId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A firing, and the one atomic word that both threads change.
#[derive(Debug, Clone)]
pub struct Running {
    /// The firing's number.
    pub firing: FiringId,
    /// Number of tokens that were begun, in the upper half; number that may be begun, in the lower half.
    word: Arc<AtomicU64>,
    /// The clock of the token that was begun last. `None`: the firing has no timeout.
    clock: Option<Arc<Clock>>,
}

/// When a token was begun, and how long it may run.
#[derive(Debug)]
struct Clock {
    timeout: Duration,
    /// What the times count from.
    base: Instant,
    /// Nanoseconds from `base` to the token's begin, plus one. 0: no token runs.
    began: AtomicU64,
}

impl Clock {
    fn now(&self) -> u64 {
        u64::try_from(self.base.elapsed().as_nanos()).unwrap_or(u64::MAX - 1) + 1
    }
}

impl Running {
    /// A firing of which no token was begun.
    pub fn new(firing: FiringId, tokens: u32) -> Running {
        Running { firing, word: Arc::new(AtomicU64::new(u64::from(tokens))), clock: None }
    }

    /// Each token may run for this long; zero: as long as it takes.
    pub fn with_timeout(self, timeout: Duration) -> Running {
        let clock = Clock { timeout, base: Instant::now(), began: AtomicU64::new(0) };
        Running { clock: (!timeout.is_zero()).then(|| Arc::new(clock)), ..self }
    }

    /// Begins the next token. Returns false if there is none.
    pub fn begin(&self) -> bool {
        if let Some(clock) = &self.clock {
            clock.began.store(0, Ordering::SeqCst); // so that the time of the token before counts for no other one
        }
        let next = |word| (begun(word) < most(word)).then_some(word + (1 << 32));
        let has_begun = self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok();
        if let Some(clock) = self.clock.as_deref().filter(|_| has_begun) {
            clock.began.store(clock.now(), Ordering::Release);
        }
        has_begun
    }

    /// Stops the clock while an answer is sent. Returns how long the token has run until now.
    pub fn pause(&self) -> Duration {
        let Some(clock) = &self.clock else { return Duration::ZERO };
        let began = clock.began.swap(0, Ordering::AcqRel);
        if began == 0 { Duration::ZERO } else { Duration::from_nanos(clock.now().saturating_sub(began)) }
    }

    /// Starts the clock again for a token that has run for this long.
    pub fn resume(&self, ran: Duration) {
        if let Some(clock) = &self.clock {
            let began = clock.now().saturating_sub(u64::try_from(ran.as_nanos()).unwrap_or(u64::MAX)).max(1);
            clock.began.store(began, Ordering::Release);
        }
    }

    /// How much time the token has left; zero: it is late. `None`: no token runs, or the firing has no timeout.
    pub fn left(&self) -> Option<Duration> {
        let clock = self.clock.as_deref()?;
        let began = clock.began.load(Ordering::Acquire);
        (began > 0).then(|| clock.timeout.saturating_sub(Duration::from_nanos(clock.now().saturating_sub(began))))
    }

    /// The token that is late, if one is. Its clock stops, so that it is told once.
    pub fn late(&self) -> Option<u32> {
        let clock = self.clock.as_deref()?;
        let began = clock.began.load(Ordering::SeqCst);
        if began == 0 || Duration::from_nanos(clock.now().saturating_sub(began)) < clock.timeout {
            return None;
        }
        let at = self.at()?;
        clock.began.compare_exchange(began, 0, Ordering::SeqCst, Ordering::SeqCst).ok().map(|_| at)
    }

    /// The timeout of its tokens, if it has one.
    pub fn timeout(&self) -> Option<Duration> {
        self.clock.as_ref().map(|clock| clock.timeout)
    }

    /// The token that was begun last; `None`: none was.
    pub fn at(&self) -> Option<u32> {
        begun(self.word.load(Ordering::Acquire)).checked_sub(1)
    }

    /// Whether any token was begun.
    pub fn has_begun(&self) -> bool {
        begun(self.word.load(Ordering::Relaxed)) > 0
    }

    /// Takes back the tokens that were not begun, except the first one, which Python's thread is about to begin. Returns how
    /// many tokens are kept. `None`: there is nothing to take back.
    pub fn give_back(&self) -> Option<u32> {
        let kept = |word| begun(word).max(1);
        let cut = |word| (kept(word) < most(word)).then(|| (u64::from(begun(word)) << 32) | u64::from(kept(word)));
        self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, cut).ok().map(kept)
    }
}

fn begun(word: u64) -> u32 {
    (word >> 32) as u32
}

fn most(word: u64) -> u32 {
    word as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_begun_or_given_back() {
        let running = Running::new(FiringId(7), 3);
        assert!(running.begin() && running.begin());
        assert_eq!(running.give_back(), Some(2));
        assert!(!running.begin());
        assert_eq!(running.give_back(), None, "it is said once");
    }

    #[test]
    fn the_first_token_is_kept() {
        let running = Running::new(FiringId(7), 3);
        assert_eq!(running.give_back(), Some(1));
        assert!(running.begin() && !running.begin());
        assert_eq!(Running::new(FiringId(7), 1).give_back(), None);
    }

    #[test]
    fn the_clock_runs_from_the_begin_of_a_token() {
        let running = Running::new(FiringId(7), 3).with_timeout(Duration::from_secs(60));
        assert_eq!((running.left(), running.at()), (None, None), "no token was begun");
        assert!(running.begin());
        assert!(running.left().is_some_and(|left| left > Duration::from_secs(30)));
        let ran = running.pause();
        assert_eq!(running.left(), None, "while an answer is sent");
        running.resume(ran);
        assert!(running.left().is_some());
        let late = Running::new(FiringId(8), 2).with_timeout(Duration::from_nanos(1));
        assert!(late.begin());
        assert_eq!((late.left(), late.at()), (Some(Duration::ZERO), Some(0)));
        assert_eq!(Running::new(FiringId(7), 1).timeout(), None);
    }

    #[test]
    fn no_token_is_both_begun_and_given_back() {
        for _ in 0..200 {
            let running = Running::new(FiringId(7), 1000);
            let other = running.clone();
            let taker = std::thread::spawn(move || other.give_back());
            let begun = std::iter::from_fn(|| running.begin().then_some(())).count() as u32;
            assert_eq!(taker.join().unwrap().unwrap_or(1000), begun);
        }
    }
}
