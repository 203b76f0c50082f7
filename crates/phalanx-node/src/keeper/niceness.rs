//! The priority of users' processes, below that of the machine's owner.
//!
//! Niceness needs neither root nor control groups. Where the kernel divides the processor among sessions first (autogroups, as on most
//! desktops), the niceness of a process counts within its session only. A keeper begins a session, so it makes that session nice too.

use std::sync::atomic::{AtomicI32, Ordering};

/// The most niceness that there is.
pub const MOST: i32 = 19;
/// Where a process sets the niceness of its session. The file is missing where the kernel has no autogroups.
const AUTOGROUP: &std::ffi::CStr = c"/proc/self/autogroup";

/// By how much users' processes are nicer than this one. A process has one executor.
static NICENESS: AtomicI32 = AtomicI32::new(0);

/// From now on, keepers make what they keep nicer by so much.
pub fn set(niceness: i32) {
    NICENESS.store(niceness.clamp(0, MOST), Ordering::Relaxed);
}

/// Makes this process and its session nicer, and all that it starts. It makes system calls only, because it runs after a fork.
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
