//! The firing that an interpreter is working on. Two threads share it: one begins its tokens, and the link's thread gives back
//! those that were not begun.

use phalanx_core::ids::FiringId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A firing, and the one atomic word that both threads change.
#[derive(Debug, Clone)]
pub struct Running {
    /// The firing's number.
    pub firing: FiringId,
    /// Number of tokens that were begun, in the upper half; number that may be begun, in the lower half.
    word: Arc<AtomicU64>,
}

impl Running {
    /// A firing of which no token was begun.
    pub fn new(firing: FiringId, tokens: u32) -> Running {
        Running { firing, word: Arc::new(AtomicU64::new(u64::from(tokens))) }
    }

    /// Begins the next token. Returns false if there is none.
    pub fn begin(&self) -> bool {
        let next = |word| (begun(word) < most(word)).then_some(word + (1 << 32));
        self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok()
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
