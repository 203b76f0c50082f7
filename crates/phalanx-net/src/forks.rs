//! Detects forks of this process without a system call, because a fork must not use some of its parent's resources.

use crate::sync::lock;
use std::io;
#[cfg(unix)]
use std::sync::Once;
#[cfg(unix)]
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

#[cfg(unix)]
static FORKS: AtomicU32 = AtomicU32::new(0);
/// Where the number of this process is. On Linux it is a page that the kernel wipes in every child with memory of its own, so that also
/// a child is noticed that no handler runs in: one of `clone`, or of `_Fork`.
#[cfg(unix)]
static NUMBER: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const UNWIPED).cast_mut());
/// The number where the system wipes no page.
#[cfg(unix)]
static UNWIPED: AtomicU32 = AtomicU32::new(WIPED);
/// The number that no process has.
#[cfg(unix)]
const WIPED: u32 = 0;
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
    if counted() == WIPED {
        renumber();
    }
    counted()
}

/// A counter that changes with every fork that this process makes. Memory that was lent out before the change has a
/// copy in the fork.
#[cfg(unix)]
pub fn so_far() -> u64 {
    count();
    BEGUN_AND_DONE.load(Ordering::SeqCst)
}

/// State that belongs to one process. A fork begins with empty state, because it has none of its parent's threads.
#[derive(Debug, Default)]
pub struct OfProcess<T>(Mutex<(u32, T)>);

/// Tries to take a lock that is held for a moment only, and the pause between two of them.
const TRIES: usize = 20;
const BETWEEN: Duration = Duration::from_millis(5);

/// Takes a lock that is held for a moment only. `None`: this is a fork, and the thread that held the lock does not exist here.
pub fn lock_soon<T>(state: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    let attempt = |_| {
        state.try_lock().ok().or_else(|| {
            thread::sleep(BETWEEN);
            None
        })
    };
    (0..TRIES).find_map(attempt)
}

impl<T: Default> OfProcess<T> {
    /// Calls `work` with the state of the calling process. `None`: this is a fork, and the thread that held the lock does not
    /// exist here, so that the state stays locked.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let process = process();
        let mut state = lock_soon(&self.0)?;
        if state.0 != process {
            *state = (process, T::default());
        }
        Some(work(&mut state.1))
    }

    /// Calls `work` with the state, unless it belongs to another process. For a thread of the process that has used it before.
    pub fn again<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut state = lock(&self.0);
        (state.0 == process()).then(|| work(&mut state.1))
    }
}

/// The process that made something which its forks must not use: a key whose numbers must not repeat, or a socket whose
/// bytes would mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner(u32);

impl Owner {
    /// The process that calls.
    pub fn this() -> Owner {
        Owner(process())
    }

    /// Whether the calling process is the owner. A fork is not. This takes one load, so it may be asked for every block.
    #[inline]
    pub fn is_this(self) -> bool {
        counted() == self.0
    }

    /// Fails in a fork of the owner.
    #[inline]
    pub fn check(self) -> io::Result<()> {
        if self.is_this() { Ok(()) } else { refuse() }
    }
}

#[cold]
fn refuse() -> io::Result<()> {
    let text = "the connection belongs to the process that made it, and this is a fork of that process";
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}

/// Calls the function in every later fork of this process, before any other code runs there.
///
/// # Safety
/// The function does nothing but what a signal handler may do.
#[cfg(unix)]
pub unsafe fn call_in_forks(call: unsafe extern "C" fn()) {
    // SAFETY: the caller promises that the function may run in the child of a process with threads.
    let failed = unsafe { libc::pthread_atfork(None, None, Some(call)) };
    assert!(failed == 0, "no memory");
}

/// The number of this process, without a look at whether forks are counted yet. [`WIPED`]: this process was made without handlers, and
/// owns nothing yet.
#[cfg(unix)]
#[inline]
fn counted() -> u32 {
    number().load(Ordering::Relaxed)
}

#[cfg(unix)]
#[inline]
fn number() -> &'static AtomicU32 {
    // SAFETY: it points to a static, or to a page that is never unmapped.
    unsafe { &*NUMBER.load(Ordering::Relaxed) }
}

/// Gives this process a number that none of its ancestors has: the count of forks is a part of the memory that a child has a copy of.
#[cfg(unix)]
fn renumber() {
    number().store(FORKS.fetch_add(1, Ordering::Relaxed) + 2, Ordering::Relaxed);
}

/// A page with a number, which the kernel wipes in every child. `None`: the kernel cannot (before Linux 4.14).
#[cfg(target_os = "linux")]
fn wiped_in_children() -> Option<*mut AtomicU32> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let length = size_of::<AtomicU32>();
    // SAFETY: the kernel chooses an address that nothing else uses.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
    // SAFETY: the page was mapped above, and is used by nothing yet.
    let is_wiped = page != libc::MAP_FAILED && unsafe { libc::madvise(page, length, libc::MADV_WIPEONFORK) } == 0;
    is_wiped.then_some(page.cast())
}

#[cfg(not(unix))]
#[inline]
fn counted() -> u32 {
    0
}

#[cfg(unix)]
fn count() {
    COUNTED.call_once(|| {
        // SAFETY: the functions only add to numbers, which may be done in the child of a process with threads. It fails
        // only without memory for a few bytes.
        let failed = unsafe { libc::pthread_atfork(Some(at_fork), Some(at_fork), Some(in_child)) };
        assert!(failed == 0, "no memory");
        #[cfg(target_os = "linux")]
        if let Some(page) = wiped_in_children() {
            NUMBER.store(page, Ordering::Relaxed);
        }
        number().store(1, Ordering::Relaxed);
    });
}

#[cfg(unix)]
unsafe extern "C" fn at_fork() {
    BEGUN_AND_DONE.fetch_add(1, Ordering::SeqCst);
}

#[cfg(unix)]
unsafe extern "C" fn in_child() {
    renumber();
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

/// Whether `holds` is true in a fork of this process. It must not take a lock that another thread may hold.
#[cfg(all(test, unix))]
pub(crate) fn in_a_fork(holds: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child does nothing but find the answer, and end.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let holds = std::panic::catch_unwind(std::panic::AssertUnwindSafe(holds)).unwrap_or(false);
        // SAFETY: ends the child without anything of the parent's being done.
        unsafe { libc::_exit(i32::from(holds)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 1
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_fork_has_another_number() {
        let _alone = alone();
        let (before, copies) = (process(), so_far());
        assert!(in_a_fork(|| process() != before));
        assert_eq!(process(), before);
        assert_eq!(so_far(), copies + 2);
    }

    #[test]
    fn a_fork_owns_what_it_makes_itself_only() {
        let _alone = alone();
        let owner = Owner::this();
        assert!(owner.is_this());
        assert!(in_a_fork(|| owner.check().is_err() && Owner::this().is_this()));
        assert!(in_a_fork(|| {
            let child = Owner::this();
            in_a_fork(|| !owner.is_this() && !child.is_this())
        }));
        assert!(owner.is_this());
    }

    /// No handler runs in what the system call makes.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_of_clone_owns_nothing_of_its_parent() {
        let _alone = alone();
        let owner = Owner::this();
        // SAFETY: the child makes no call that takes a lock, and ends.
        let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } as libc::pid_t;
        if child == 0 {
            let refuses = owner.check().is_err() && Owner::this() != owner && Owner::this().is_this();
            // SAFETY: ends the child without anything of the parent's being done.
            unsafe { libc::_exit(i32::from(refuses)) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(libc::WEXITSTATUS(status), 1);
        assert!(owner.is_this());
    }

    #[test]
    fn a_function_is_called_in_forks_only() {
        static CALLED: AtomicU32 = AtomicU32::new(0);
        unsafe extern "C" fn note() {
            CALLED.fetch_add(1, Ordering::Relaxed);
        }
        let _alone = alone();
        // SAFETY: it adds to a number.
        unsafe { call_in_forks(note) };
        assert!(in_a_fork(|| CALLED.load(Ordering::Relaxed) == 1));
        assert_eq!(CALLED.load(Ordering::Relaxed), 0);
    }
}
