//! Shared memory between two processes of one machine, for bodies that are too long for a socket.
//!
//! A body is put into a *segment*: an anonymous file (memfd_create) that the sender passes once over the unix socket.
//! It has no name, so nothing is left behind when a process is killed. The receiver maps it. When the receiver's user
//! has dropped the body, the receiver says so in a word of the segment itself, and the sender fills the segment again.
//! Fresh memory costs the system about ten times as much as a copy into existing memory, so segments are worth keeping
//! (docs/decisions/0033).
//!
//! ```text
//! | the bodies' memory, a multiple of 64 KiB | 64 KiB, of which one word says whether the segment is free |
//! ```
//!
//! Seals fix the file's length, so that no peer can make a read here fail by truncating the file.

#[cfg(target_os = "linux")]
mod receiving;
#[cfg(target_os = "linux")]
mod segment;
#[cfg(target_os = "linux")]
mod sending;
#[cfg(all(test, target_os = "linux"))]
mod tests;
#[cfg(not(target_os = "linux"))]
mod without;

#[cfg(target_os = "linux")]
pub(crate) use receiving::Table;
#[cfg(target_os = "linux")]
pub(crate) use sending::{Filled, Pool};
#[cfg(not(target_os = "linux"))]
pub(crate) use without::{Filled, Pool, Table};

/// A file that is passed to the other process.
#[cfg(unix)]
pub(crate) type File = std::os::fd::OwnedFd;
#[cfg(not(unix))]
pub(crate) type File = std::convert::Infallible;

/// Bodies of at least this many bytes go through shared memory. Shorter ones stay in a core's cache on their way
/// through the socket.
pub const LONG: usize = 512 << 10;

/// Returns unused memory to the system: memory kept for bodies that came through sockets, and up to 64 MB (more, if
/// something small lies behind it) that the C library keeps. For a process that is idle.
pub fn give_back() {
    crate::body::trim();
    crate::body::trim(); // also what was used since the last call
    // SAFETY: may be called by any thread at any time.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::malloc_trim(0);
    }
}
