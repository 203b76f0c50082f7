//! What a space has done, kept: on this machine's disk, or at several members.
//!
//! The engine decides and changes at once; a log makes what it did last. The rule that whoever serves an engine must keep:
//! **no answer leaves, not even a read's, before all changes up to the state that it was computed from are stable.** So
//! what anybody saw survives. Under the engine's lock, call [`Log::append`] with what a decision changed, or
//! [`Log::position`] if it changed nothing; without the lock, [`Log::wait`] or [`Log::confirm`]; then answer.

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

/// How far a log has come: the number of groups that were appended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(pub u64);

/// Where changes go.
pub trait Log: Send + Sync {
    /// Queues the changes of one decision, which become stable together or not at all, behind all that were appended
    /// before. Never waits. The position behind them.
    fn append(&self, changes: Vec<Change>) -> Position;

    /// What a group may be, at most, by [`Change::size`] of its changes. Whoever serves the engine refuses requests that would
    /// change more before the engine decides; a group that is larger ends the log.
    fn most_bytes(&self) -> usize;

    /// The position behind all that was appended so far.
    fn position(&self) -> Position;

    /// Waits until all changes up to a position are stable: for an answer to what changed something.
    fn wait(&self, position: Position) -> Result<(), LogError>;

    /// The same, and until it is certain that at the time of this call nobody else had begun to serve the space: for an
    /// answer to what only read.
    fn confirm(&self, position: Position) -> Result<(), LogError>;

    /// The members that keep it together; none: this machine alone does.
    fn keepers(&self) -> Option<Keepers> {
        None
    }

    /// Some are to keep it too, and others, by their addresses, not any more.
    fn change_members(&self, _add: &[Joining], _remove: &[String]) -> Result<(), LogError> {
        Err(LogError::Misfit("its server alone keeps it".into()))
    }
}

/// Why changes do not last. From then on the log takes nothing, and the engine knows more than is kept: whoever serves it
/// throws it away, and its sessions end.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
pub enum LogError {
    #[error("the store {path} cannot be used: {why}")]
    Disk { path: String, why: String },
    #[error("the store {0} is in use by another process; a durable space is served by one")]
    InUse(String),
    #[error(
        "the store {path} is damaged ({why}). Put back a copy that is whole, or move it away to begin with an empty space"
    )]
    Damaged { path: String, why: String },
    #[error("the store {path} was written by another version of phalanx (format {is}, this one reads {reads})")]
    Version { path: String, is: String, reads: u8 },
    #[error("a change does not fit what the log holds: {0}")]
    Misfit(String),
    #[error("the log was closed")]
    Closed,
    /// It may have happened, or not.
    #[error("this member does not lead the space any more; {}", ask(.leader))]
    NotLeading {
        /// The member that does, if that is known.
        leader: Option<String>,
    },
}

fn ask(leader: &Option<String>) -> String {
    leader.as_ref().map_or("ask the other members".to_owned(), |leader| format!("ask {leader}"))
}
