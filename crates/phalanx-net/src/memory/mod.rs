//! Memory that two processes of one machine share, for bodies too long to be pushed through a socket.
//!
//! A body lies in a *segment*: an anonymous file (memfd_create) that the sender passes on over the unix socket, once. It
//! has no name, so nothing is left behind whichever process is killed. The receiver maps it and says, in a word of the segment
//! itself, when its user has dropped the body; then the sender fills the segment again. Fresh memory costs the system
//! some ten times as much as a copy into memory that is there, so segments are worth keeping (docs/decisions/0033).
//!
//! ```text
//! | the bodies' memory, a multiple of 64 KiB | 64 KiB, of which one word says whether the segment is free |
//! ```
//!
//! Seals keep the file's length as it is: no peer can make a read here fail by cutting it.

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

/// What is passed on to the other process.
#[cfg(unix)]
pub(crate) type File = std::os::fd::OwnedFd;
#[cfg(not(unix))]
pub(crate) type File = std::convert::Infallible;

/// Bytes from which on a body lies in shared memory. Shorter ones stay in a core's cache on their way through the socket.
pub const LONG: usize = 512 << 10;

/// Gives back to the system what this process has freed and keeps for later: bodies that came through sockets, and up to
/// 64 MB, or more where something small lies behind it, that the C library holds. For a process that is idle.
pub fn give_back() {
    crate::body::trim();
    crate::body::trim(); // also what was used since the last call
    // SAFETY: may be called by any thread at any time.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
