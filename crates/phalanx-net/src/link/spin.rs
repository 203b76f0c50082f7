//! Spinning before a wait: a message that comes within a moment then finds its reader awake, on a core that is awake too.
//!
//! To be woken costs some 30 µs on an idle core of a virtual machine, and leaves the caches cold: a call and its answer took
//! 112 µs without a spin at either end, 63 µs with one at the caller, 29 µs with one at both, and half of the CPU time.

use std::hint::spin_loop;
use std::io;
use std::time::{Duration, Instant};

/// How long a spin lasts at most: longer than an interpreter takes for a call that does nothing (some 30 µs), and the most
/// that a wait which is not over soon costs in addition.
const SPIN: Duration = Duration::from_micros(100);
/// A look that comes this late shows that another process had the core: it may be the one that is waited for.
const LATE: Duration = Duration::from_micros(50);
/// Waits without a spin after a spin that found nothing; twice as many after each further one, up to [`MOST_REST`].
const REST: u32 = 1;
/// After so many waits a spin is tried again, where all before were for nothing: 1 % of a wait of 100 µs.
const MOST_REST: u32 = 64;

/// Whether the waits of one reader begin with a spin: they do while spins find something (exponential backoff).
#[derive(Debug)]
pub(crate) struct Spin {
    /// Waits that are to begin without.
    resting: u32,
    next_rest: u32,
}

impl Default for Spin {
    fn default() -> Spin {
        Spin { resting: 0, next_rest: REST }
    }
}

impl Spin {
    /// Spins, where that has paid lately, until something is ready; whether it is.
    pub fn until(&mut self, mut is_ready: impl FnMut() -> io::Result<bool>) -> io::Result<bool> {
        if !self.begin() {
            return Ok(false);
        }
        let began = Instant::now();
        let mut last = began;
        let found = loop {
            if is_ready()? {
                break true;
            }
            spin_loop();
            let now = Instant::now();
            if now - began > SPIN || now - last > LATE {
                break false;
            }
            last = now;
        };
        self.end(found);
        Ok(found)
    }

    fn begin(&mut self) -> bool {
        let rests = self.resting > 0;
        self.resting = self.resting.saturating_sub(1);
        !rests
    }

    fn end(&mut self, found: bool) {
        match found {
            true => *self = Spin::default(),
            false => {
                self.resting = self.next_rest;
                self.next_rest = (self.next_rest * 2).min(MOST_REST);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spins_that_find_nothing_become_rare_and_one_that_finds_brings_them_back() {
        let mut spin = Spin::default();
        let spun: Vec<u32> = (0..400)
            .filter(|_| {
                spin.begin() && {
                    spin.end(false);
                    true
                }
            })
            .collect();
        assert_eq!(spun, [0, 2, 5, 10, 19, 36, 69, 134, 199, 264, 329, 394]);
        while !spin.begin() {}
        spin.end(true);
        assert!(spin.begin());
    }

    #[test]
    fn a_spin_ends_with_what_it_waits_for_and_after_a_moment() {
        let (mut spin, mut looks) = (Spin::default(), 0);
        assert!(
            spin.until(|| {
                looks += 1;
                Ok(looks == 3)
            })
            .unwrap()
                || looks < 3,
            "ended late"
        );
        assert!(!Spin::default().until(|| Ok(false)).unwrap());
        assert!(Spin::default().until(|| Err(io::ErrorKind::Other.into())).is_err());
    }
}
