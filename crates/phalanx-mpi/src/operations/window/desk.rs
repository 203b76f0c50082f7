//! What the ranks of a machine share about one rank's part of a window: the lock of MPI_Win_lock, and the guard under which
//! numbers are accumulated.
//!
//! Neither keeps others waiting when its holder dies. The lock has a bit for each rank that holds it, so that the bits of lost ranks
//! can be passed over; the guard is a mutex that the system passes on when its holder ends.

use crate::error::{Class, Error, Result};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Ranks that the lock has bits for: those with the first desks.
pub(super) const MOST_LOCKERS: usize = 63;
/// Beside the bit of the holder.
const EXCLUSIVE: u64 = 1 << 63;
/// Tries to take the guard before the thread sleeps: longer than a few numbers take.
const TRIES: u32 = 200;

/// The desk of one rank. Zero, but for the guard, is one that nobody uses.
#[repr(C, align(128))]
pub(super) struct Desk {
    pub lock: Lock,
    guard: UnsafeCell<libc::pthread_mutex_t>,
}

// SAFETY: the lock is atomic, and the guard is a mutex between processes.
unsafe impl Sync for Desk {}

/// Who has locked a part (MPI_Win_lock), as bits by the numbers of desks.
#[derive(Default)]
#[repr(C)]
pub(super) struct Lock {
    holders: AtomicU64,
    waiting: AtomicU64,
    /// Who got it last: those who wait get it in turn, beginning behind this one.
    last: AtomicU32,
}

/// The guard, until this is dropped.
pub(super) struct Guarded<'a>(&'a Desk);

impl Desk {
    /// Makes one.
    ///
    /// # Safety
    /// There must be zeroed memory for it, which nobody uses yet.
    pub unsafe fn make(desk: *mut Desk) {
        let mut attributes = std::mem::MaybeUninit::uninit();
        // SAFETY: the attributes are made before they are used, and the mutex lies in the caller's memory.
        unsafe {
            libc::pthread_mutexattr_init(attributes.as_mut_ptr());
            libc::pthread_mutexattr_setpshared(attributes.as_mut_ptr(), libc::PTHREAD_PROCESS_SHARED);
            #[cfg(target_os = "linux")]
            libc::pthread_mutexattr_setrobust(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST);
            libc::pthread_mutex_init(UnsafeCell::raw_get(&raw const (*desk).guard), attributes.as_ptr());
            libc::pthread_mutexattr_destroy(attributes.as_mut_ptr());
        }
    }

    /// Waits until nobody else accumulates.
    #[inline]
    pub fn guard(&self) -> Result<Guarded<'_>> {
        for _ in 0..TRIES {
            // SAFETY: it was made when the memory was.
            match unsafe { libc::pthread_mutex_trylock(self.guard.get()) } {
                0 => return Ok(Guarded(self)),
                libc::EBUSY => std::hint::spin_loop(),
                code => return self.inherit(code),
            }
        }
        // SAFETY: as above.
        match unsafe { libc::pthread_mutex_lock(self.guard.get()) } {
            0 => Ok(Guarded(self)),
            code => self.inherit(code),
        }
    }

    /// Takes the guard over from a process that has died with it.
    #[cold]
    fn inherit(&self, code: i32) -> Result<Guarded<'_>> {
        #[cfg(target_os = "linux")]
        if code == libc::EOWNERDEAD {
            // SAFETY: this thread has the mutex now.
            unsafe { libc::pthread_mutex_consistent(self.guard.get()) };
            return Ok(Guarded(self));
        }
        let error = std::io::Error::from_raw_os_error(code);
        Err(Error::new(Class::Intern, format!("the window's memory is damaged: its mutex says {error}")))
    }
}

impl Drop for Guarded<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this thread has it.
        unsafe { libc::pthread_mutex_unlock(self.0.guard.get()) };
    }
}

impl Lock {
    /// Takes the lock if it is free and nobody else's turn; otherwise the rank waits from now on. `lost`: the ranks that hold nothing
    /// and wait for nothing any more.
    pub fn try_take(&self, number: u32, exclusive: bool, lost: u64) -> bool {
        let own = 1 << number;
        let mut waits = self.waiting.load(Ordering::SeqCst) & own != 0;
        loop {
            if self.next(lost & !own, own) == Some(number) && self.try_hold(own, exclusive, lost & !own) {
                self.last.store(number, Ordering::Release); // seen at the latest with the word that the lock is free again
                if waits {
                    self.waiting.fetch_and(!own, Ordering::SeqCst);
                }
                return true;
            }
            if waits {
                return false;
            }
            // Whoever frees it looks for those who wait after that: one of the two sees the other.
            self.waiting.fetch_or(own, Ordering::SeqCst);
            waits = true;
        }
    }

    fn try_hold(&self, own: u64, exclusive: bool, lost: u64) -> bool {
        let mut found = self.holders.load(Ordering::SeqCst);
        loop {
            let living = if found & !lost & !EXCLUSIVE == 0 { 0 } else { found & !lost };
            if living != 0 && (exclusive || living & EXCLUSIVE != 0) {
                return false;
            }
            let new = living | own | if exclusive { EXCLUSIVE } else { 0 };
            match self.holders.compare_exchange_weak(found, new, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return true,
                Err(now) => found = now,
            }
        }
    }

    /// Waits no more.
    pub fn give_up(&self, number: u32) {
        self.waiting.fetch_and(!(1 << number), Ordering::SeqCst);
    }

    /// Gives the lock back.
    pub fn leave(&self, number: u32) {
        let without = |holders: u64| {
            let others = holders & !(1 << number);
            Some(if others & !EXCLUSIVE == 0 { 0 } else { others })
        };
        let _ = self.holders.fetch_update(Ordering::SeqCst, Ordering::SeqCst, without);
    }

    /// Whose turn it is among those who wait and these.
    #[inline]
    pub fn next(&self, lost: u64, these: u64) -> Option<u32> {
        let waiting = self.waiting.load(Ordering::SeqCst) & !lost | these;
        let behind = (self.last.load(Ordering::SeqCst) + 1) % u64::BITS;
        (waiting != 0).then(|| (waiting.rotate_right(behind).trailing_zeros() + behind) % u64::BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_wait_get_the_lock_in_turn() {
        let lock = Lock::default();
        assert!(lock.try_take(1, true, 0));
        assert!(!lock.try_take(0, false, 0) && !lock.try_take(3, true, 0) && !lock.try_take(2, false, 0));
        assert_eq!(lock.next(0, 0), Some(2));
        lock.leave(1);
        assert!(!lock.try_take(1, true, 0) && !lock.try_take(3, true, 0), "it is the turn of another");
        assert!(lock.try_take(2, false, 0));
        assert!(!lock.try_take(0, false, 0), "who wants it alone comes first");
        lock.leave(2);
        assert!(!lock.try_take(2, true, 0) && lock.try_take(3, true, 0));
        lock.leave(3);
        assert!(lock.try_take(0, false, 0) && !lock.try_take(1, true, 0));
        lock.give_up(1);
        lock.give_up(2);
        assert_eq!(lock.next(0, 0), None);
        assert!(lock.try_take(3, false, 0), "shared");
    }

    #[test]
    fn lost_ranks_hold_and_await_nothing() {
        let lock = Lock::default();
        assert!(lock.try_take(5, true, 0) && !lock.try_take(6, true, 0) && !lock.try_take(62, false, 0));
        assert!(!lock.try_take(62, false, 1 << 5), "it is the turn of another");
        assert!(lock.try_take(62, false, 1 << 5 | 1 << 6));
        assert!(lock.try_take(4, false, 1 << 5 | 1 << 6), "which is no longer held alone");
        lock.leave(62);
        assert!(!lock.try_take(7, true, 1 << 5 | 1 << 6) && lock.try_take(7, true, 1 << 4 | 1 << 5 | 1 << 6));
    }

    /// More threads than cores, each a rank: nobody reads while another writes, and all get their turns.
    #[test]
    fn nobody_has_it_beside_one_who_has_it_alone() {
        const TIMES: u64 = 2000;
        let (lock, value, readers) = (Lock::default(), AtomicU64::new(0), AtomicU32::new(0));
        let take = |number: u32, exclusive: bool| {
            while !lock.try_take(number, exclusive, 0) {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            for number in 0..6 {
                let (take, lock, value, readers) = (&take, &lock, &value, &readers);
                scope.spawn(move || {
                    for _ in 0..TIMES {
                        take(number, number < 3);
                        if number < 3 {
                            let before = value.load(Ordering::Relaxed);
                            assert_eq!(readers.load(Ordering::Relaxed), 0);
                            std::hint::spin_loop();
                            value.store(before + 1, Ordering::Relaxed);
                        } else {
                            readers.fetch_add(1, Ordering::Relaxed);
                            std::hint::spin_loop();
                            readers.fetch_sub(1, Ordering::Relaxed);
                        }
                        lock.leave(number);
                    }
                });
            }
        });
        assert_eq!(value.into_inner(), 3 * TIMES);
        assert_eq!((lock.holders.into_inner(), lock.waiting.into_inner()), (0, 0));
    }

    /// A process that dies with the guard passes it on.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_guard_of_one_who_dies_is_passed_on() {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let length = size_of::<Desk>();
        // SAFETY: a new mapping, which is zero and as long as a desk.
        let desk = unsafe {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            let memory = mmap_anonymous(std::ptr::null_mut(), length, protection, MapFlags::SHARED).expect("memory");
            Desk::make(memory.cast());
            &*memory.cast::<Desk>()
        };
        drop(desk.guard().expect("free"));
        // SAFETY: the child calls nothing that a process with several threads may not call after a fork.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: the mutex was made; the child ends at once.
            unsafe {
                let code = libc::pthread_mutex_lock(desk.guard.get());
                libc::_exit(code);
            }
        }
        let mut status = -1;
        // SAFETY: the child is this process's.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "it had the guard");
        drop(desk.guard().expect("passed on"));
        drop(desk.guard().expect("free again"));
    }
}
