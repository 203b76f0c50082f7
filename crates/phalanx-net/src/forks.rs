//! Detects forks of this process without a system call, because a fork must not use some of its parent's resources.

#[cfg(unix)]
use std::sync::Once;
#[cfg(unix)]
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

#[cfg(unix)]
static FORKS: AtomicU32 = AtomicU32::new(0);
/// Counts the beginning and the end of each fork. Memory that is lent out in between may be shared with the fork.
#[cfg(unix)]
static BEGUN_AND_DONE: AtomicU64 = AtomicU64::new(0);
#[cfg(unix)]
static COUNTED: Once = Once::new();

/// A number for this process, which differs between a parent and its forked child. It is not the system's process id,
/// because getting that takes a system call.
#[cfg(unix)]
pub fn process() -> u32 {
    count();
    FORKS.load(Ordering::Relaxed)
}

/// A counter that changes with every fork that this process makes. Memory that was lent out before the change has a
/// copy in the fork.
#[cfg(unix)]
pub fn so_far() -> u64 {
    count();
    BEGUN_AND_DONE.load(Ordering::SeqCst)
}

#[cfg(unix)]
fn count() {
    COUNTED.call_once(|| {
        // SAFETY: the functions only add to numbers, which may be done in the child of a process with threads. It fails
        // only without memory for a few bytes.
        let failed = unsafe { libc::pthread_atfork(Some(at_fork), Some(at_fork), Some(in_child)) };
        assert!(failed == 0, "no memory");
    });
}

#[cfg(unix)]
unsafe extern "C" fn at_fork() {
    BEGUN_AND_DONE.fetch_add(1, Ordering::SeqCst);
}

#[cfg(unix)]
unsafe extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The same on systems without forks.
#[cfg(not(unix))]
pub fn process() -> u32 {
    0
}

/// The same on systems without forks.
#[cfg(not(unix))]
pub fn so_far() -> u64 {
    0
}

/// A lock for tests that fork, and for tests that another test's fork would disturb.
#[cfg(test)]
pub(crate) fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_fork_has_another_number() {
        let _alone = alone();
        let (before, copies) = (process(), so_far());
        // SAFETY: the child does nothing but end, with the answer.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends the child without anything of the parent's being done.
            unsafe { libc::_exit(i32::from(process() != before)) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 1);
        assert_eq!(process(), before);
        assert_eq!(so_far(), copies + 2);
    }
}
