//! Niceness: users' processes get a lower priority than processes of the machine's owner.
//!
//! Niceness needs neither root nor control groups. Most desktops have autogroups: the kernel first divides the processor among sessions,
//! and the niceness of a process counts only within its session. A keeper begins a session, so it sets the niceness of that session too.

use std::sync::atomic::{AtomicI32, Ordering};

/// The highest niceness.
pub const MOST: i32 = 19;
/// The file in which a process sets the niceness of its session. It is missing if the kernel has no autogroups.
const AUTOGROUP: &std::ffi::CStr = c"/proc/self/autogroup";

/// The niceness of users' processes, added to that of this process. It is global, because a process has one executor.
static NICENESS: AtomicI32 = AtomicI32::new(0);

/// Sets the niceness that keepers add from now on.
pub fn set(niceness: i32) {
    NICENESS.store(niceness.clamp(0, MOST), Ordering::Relaxed);
}

/// Raises the niceness of this process and its session. Children inherit it. It makes system calls only, because it runs after a fork.
pub fn apply() {
    let niceness = NICENESS.load(Ordering::Relaxed);
    if niceness == 0 {
        return;
    }
    let digits = [b'0' + (niceness / 10) as u8, b'0' + (niceness % 10) as u8];
    // SAFETY: plain system calls; the path ends with a zero, and the digits live as long as the call.
    unsafe {
        libc::nice(niceness);
        let file = libc::open(AUTOGROUP.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if file >= 0 {
            libc::write(file, digits.as_ptr().cast(), digits.len());
            libc::close(file);
        }
    }
}
