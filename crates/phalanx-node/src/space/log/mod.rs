//! The log of a space: keeps what the space has done, on this machine's disk or at several members.
//!
//! The engine decides and changes its state at once; the log makes these changes last. The driver of an engine must keep one
//! rule: **no answer leaves, not even a read's, before all changes up to the state that it was computed from are stable.** So
//! what any client saw survives. Under the engine's lock, call [`Log::append`] with what a decision changed, or
//! [`Log::position`] if it changed nothing. Without the lock, call [`Log::wait`] or [`Log::confirm`]. Then answer.

pub mod replicated;

mod durable;
mod records;
mod store;

#[cfg(test)]
mod tests;

pub use durable::Durable;
pub use replicated::Replicated;

use phalanx_core::space::change::Change;
use phalanx_core::space::{Joining, Keepers};
use thiserror::Error;

/// A position in the log: the number of groups of changes appended so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(pub u64);

/// The log that an engine's changes are appended to.
pub trait Log: Send + Sync {
    /// Queues the changes of one decision as a group, behind all groups appended before. The group becomes stable as a whole or
    /// not at all. Never blocks. Returns the position after the group.
    fn append(&self, changes: Vec<Change>) -> Position;

    /// Largest size of a group, as the sum of [`Change::size`] of its changes. The driver of the engine refuses requests that
    /// would change more before the engine decides. A larger group ends the log.
    fn most_bytes(&self) -> usize;

    /// The position after everything appended so far.
    fn position(&self) -> Position;

    /// Waits until all changes up to a position are stable. For answers to requests that changed something.
    fn wait(&self, position: Position) -> Result<(), LogError>;

    /// Like [`Log::wait`]. Also makes sure that, at the time of this call, no other member had begun to serve the space. For
    /// answers to requests that only read.
    fn confirm(&self, position: Position) -> Result<(), LogError>;

    /// The members that replicate the space; `None` if this machine alone keeps it.
    fn keepers(&self) -> Option<Keepers> {
        None
    }

    /// Adds members that keep the space too, and removes others by their addresses.
    fn change_members(&self, _add: &[Joining], _remove: &[String]) -> Result<(), LogError> {
        Err(LogError::Misfit("its server alone keeps it".into()))
    }
}

/// Why changes do not last. After such an error the log takes nothing, and the engine holds more than the log. The driver must
/// discard the engine and end its sessions.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
pub enum LogError {
    /// The operating system reported an error of the disk.
    #[error("the store {path} cannot be used: {why}")]
    Disk {
        /// The path of the store.
        path: String,
        /// The error.
        why: String,
    },
    /// The disk of the store is full, or the quota of its owner is used up.
    #[error("the store {path} cannot be used: its disk is full")]
    Full {
        /// The path of the store.
        path: String,
    },
    /// Another process has the store open.
    #[error("the store {0} is in use by another process; a durable space is served by one")]
    InUse(String),
    /// The store's contents are damaged.
    #[error(
        "the store {path} is damaged ({why}). Put back a copy that is whole, or move it away to begin with an empty space"
    )]
    Damaged {
        /// The path of the store.
        path: String,
        /// What is wrong with them.
        why: String,
    },
    /// Another version of phalanx has written the store.
    #[error("the store {path} was written by another version of phalanx (format {is}, this one reads {reads})")]
    Version {
        /// The path of the store.
        path: String,
        /// The format of the store.
        is: String,
        /// The format that this version reads.
        reads: u8,
    },
    /// The driver asks for a change that the log cannot hold.
    #[error("a change does not fit what the log holds: {0}")]
    Misfit(String),
    /// The log was closed by this process.
    #[error("the log was closed")]
    Closed,
    /// The change may or may not have happened.
    #[error("this member does not lead the space any more; {}", ask(.leader))]
    NotLeading {
        /// The address of the member that leads, if known.
        leader: Option<String>,
    },
}

fn ask(leader: &Option<String>) -> String {
    leader.as_ref().map_or("ask the other members".to_owned(), |leader| format!("ask {leader}"))
}
