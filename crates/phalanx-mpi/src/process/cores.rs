//! Ranks that wait for each other on one core, while others are free.
//!
//! The system puts a process that is woken near the one that woke it. Two ranks that let each other have the core look like little work, and
//! may stay on one core for a while, where each spins until it lets the other one work: a stream of short messages is ten times as
//! slow then. A rank that notices leaves the core. It is free to go wherever the system wants it next.

use crate::process::transport::Segment;
use phalanx_net::sync::lock;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Waits in a row in which it spun in vain next to another rank, after which a rank leaves: about 500 µs.
const TOGETHER: u32 = 8;
/// Between two times that a rank leaves: where it comes back each time, it leaves the system its way.
const PAUSE: Duration = Duration::from_millis(20);

/// What a rank knows of those on its core.
#[derive(Debug, Default)]
pub struct Cores(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Waits in a row in which it spun in vain while another rank was on this core.
    together: u32,
    left: Option<Instant>,
}

impl Cores {
    /// A rank has spun in vain: it leaves the core if one with a lower number has been on it, too, time after time.
    pub fn wait_in_vain(&self, segment: &Segment, own: usize, local: usize) {
        let Some(core) = system::current() else { return };
        segment.desk(own).core.store(core as u32 + 1, Ordering::Relaxed);
        let at = |rank: usize| (segment.desk(rank).core.load(Ordering::Relaxed) as usize).checked_sub(1);
        let is_shared = (0..own).any(|rank| at(rank) == Some(core));
        if lock(&self.0).is_to_leave(is_shared, Instant::now()) {
            let taken: Vec<usize> = (0..local).filter_map(at).collect();
            system::leave(core, &taken);
        }
    }
}

impl State {
    fn is_to_leave(&mut self, is_shared: bool, now: Instant) -> bool {
        self.together = if is_shared { self.together + 1 } else { 0 };
        if self.together < TOGETHER || self.left.is_some_and(|left| now - left < PAUSE) {
            return false;
        }
        (self.together, self.left) = (0, Some(now));
        true
    }
}

#[cfg(target_os = "linux")]
mod system {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

    /// The core of this thread.
    pub fn current() -> Option<usize> {
        Some(sched_getcpu())
    }

    /// Moves this thread to a core that is not taken, or at least to another one, if it may run there.
    pub fn leave(core: usize, taken: &[usize]) {
        let Ok(allowed) = sched_getaffinity(None) else { return };
        let without = |cores: &[usize]| {
            let mut set = allowed;
            cores.iter().filter(|core| **core < CpuSet::MAX_CPU).for_each(|core| set.unset(*core));
            (set.count() > 0).then_some(set)
        };
        let Some(others) = without(taken).or_else(|| without(&[core])) else { return };
        if sched_setaffinity(None, &others).is_ok() {
            let _ = sched_setaffinity(None, &allowed); // was allowed before
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub fn current() -> Option<usize> {
        None
    }

    pub fn leave(_: usize, _: &[usize]) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_shares_a_core_leaves_it_but_not_time_after_time() {
        let (mut state, now) = (State::default(), Instant::now());
        let mut times = |count: u32, is_shared, now| (0..count).filter(|_| state.is_to_leave(is_shared, now)).count();
        assert_eq!(times(TOGETHER - 1, true, now), 0);
        assert_eq!(times(1, false, now), 0, "the system has moved one of them");
        assert_eq!((times(TOGETHER - 1, true, now), times(1, true, now)), (0, 1));
        assert_eq!(times(5 * TOGETHER, true, now + PAUSE / 2), 0);
        assert_eq!(times(1, true, now + PAUSE), 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn who_leaves_a_core_may_come_back() {
        let before = rustix::thread::sched_getaffinity(None).expect("told to everybody");
        let core = system::current().expect("on one");
        system::leave(core, &[core, usize::MAX]);
        assert_eq!(rustix::thread::sched_getaffinity(None).expect("told to everybody"), before);
    }
}
