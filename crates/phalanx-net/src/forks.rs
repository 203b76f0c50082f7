//! How often this process was forked off another: what a fork may not use is told apart without a system call.

#[cfg(unix)]
use std::sync::Once;
#[cfg(unix)]
use std::sync::atomic::{AtomicU32, Ordering};

#[cfg(unix)]
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The number of this process: a child of `fork` has another one than its parent. Not the system's number, since asking for
/// that is a system call.
#[cfg(unix)]
pub fn process() -> u32 {
    static COUNTED: Once = Once::new();
    COUNTED.call_once(|| {
        // SAFETY: the function only adds to a number, which may be done in the child of a process with threads. It fails
        // only without memory for a few bytes.
        let failed = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        assert!(failed == 0, "no memory");
    });
    FORKS.load(Ordering::Relaxed)
}

#[cfg(unix)]
unsafe extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The same where there are no forks.
#[cfg(not(unix))]
pub fn process() -> u32 {
    0
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_fork_has_another_number() {
        let before = process();
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
    }
}
