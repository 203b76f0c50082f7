//! A lock whose release is a plain write.
//!
//! What the standard library's lock costs at its release is a read and a write in one, which waits until all writes
//! before it have come to the memory: after a message was put into a channel, as long as it takes to the other core.

use phalanx_net::sync::lock;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Tries before a thread sleeps: longer than a write takes to be seen by all.
const TRIES: u32 = 100;
/// Whoever releases may just have missed that somebody began to wait.
const LONGEST_SLEEP: Duration = Duration::from_micros(500);

/// What threads use one after the other, each for a moment.
pub struct Turn<T> {
    taken: AtomicBool,
    /// Nobody takes it any more.
    closed: AtomicBool,
    waiting: AtomicU32,
    /// Of those who wait.
    sleepers: AtomicU32,
    sleeping: Mutex<()>,
    free: Condvar,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time has the value.
unsafe impl<T: Send> Sync for Turn<T> {}

/// The value, until this is dropped.
pub struct Taken<'a, T> {
    turn: &'a Turn<T>,
    /// Neither it nor what is in it goes to another thread.
    stays: PhantomData<*mut T>,
}

impl<T> Turn<T> {
    pub fn new(value: T) -> Turn<T> {
        let (taken, closed) = (AtomicBool::new(false), AtomicBool::new(false));
        let (waiting, sleepers) = (AtomicU32::new(0), AtomicU32::new(0));
        let (sleeping, free, value) = (Mutex::new(()), Condvar::new(), UnsafeCell::new(value));
        Turn { taken, closed, waiting, sleepers, sleeping, free, value }
    }

    /// From now on nobody takes it: whoever wants to panics. It stays as taken, so this costs nothing before.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.taken.store(true, Ordering::Relaxed);
    }

    /// Waits for it.
    #[inline]
    pub fn take(&self) -> Taken<'_, T> {
        if !self.try_take() {
            self.wait();
        }
        Taken { turn: self, stays: PhantomData }
    }

    /// Whether other threads wait for it.
    #[inline]
    pub fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    #[inline]
    fn try_take(&self) -> bool {
        self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn wait(&self) {
        assert!(!self.closed.load(Ordering::Relaxed), "a fork of a process of the program has no part in it");
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut tries = 0;
        while !self.try_take() {
            if tries < TRIES {
                tries += 1;
                std::hint::spin_loop();
                continue;
            }
            let sleeping = lock(&self.sleeping);
            self.sleepers.fetch_add(1, Ordering::SeqCst);
            if self.taken.load(Ordering::SeqCst) {
                drop(self.free.wait_timeout(sleeping, LONGEST_SLEEP));
            }
            self.sleepers.fetch_sub(1, Ordering::Relaxed);
            tries = 0;
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    #[cold]
    fn wake(&self) {
        drop(lock(&self.sleeping)); // who has seen that it is taken sleeps by now
        self.free.notify_one();
    }
}

impl<T> Deref for Taken<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this thread has taken it.
        unsafe { &*self.turn.value.get() }
    }
}

impl<T> DerefMut for Taken<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread has taken it.
        unsafe { &mut *self.turn.value.get() }
    }
}

impl<T> Drop for Taken<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.turn.taken.store(false, Ordering::Release);
        if self.turn.sleepers.load(Ordering::Relaxed) > 0 {
            self.turn.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More threads than cores, each of which sometimes has it for so long that the others sleep.
    #[test]
    fn one_thread_at_a_time_has_it() {
        let (turn, rounds) = (Turn::new((0u64, 0u64)), 20_000);
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    for round in 0..rounds {
                        let mut both = turn.take();
                        assert_eq!(both.0, both.1);
                        both.0 += 1;
                        if round % 1000 == 0 {
                            std::thread::sleep(Duration::from_micros(100));
                        }
                        both.1 += 1;
                    }
                });
            }
        });
        assert_eq!(*turn.take(), (6 * rounds, 6 * rounds));
        assert!(!turn.is_awaited());
    }

    #[test]
    fn nobody_takes_what_is_closed() {
        let turn = Turn::new(1);
        turn.close();
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(turn.take()))).is_err());
    }

    #[test]
    fn a_panic_does_not_keep_it() {
        let turn = Turn::new(1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _taken = turn.take();
            panic!("while it is taken");
        }));
        assert!(panicked.is_err());
        assert_eq!(*turn.take(), 1);
    }
}
