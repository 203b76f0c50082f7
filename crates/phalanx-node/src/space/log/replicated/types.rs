//! What the consensus library is told about us.

use super::image::Image;
use bytes::Bytes;
use phalanx_core::space::Replica;
use serde::{Deserialize, Serialize};
use std::fmt;

openraft::declare_raft_types!(
    /// Spaces, as the library sees them.
    pub Types:
        D = Command,
        R = bool,
        NodeId = u64,
        Node = Replica,
        SnapshotData = Image,
);

pub type Entry = openraft::Entry<Types>;
pub type LogId = openraft::LogId<u64>;
pub type Vote = openraft::Vote<u64>;
pub type StoredMembership = openraft::StoredMembership<u64, Replica>;
pub type StorageError = openraft::StorageError<u64>;
pub type SnapshotMeta = openraft::SnapshotMeta<u64, Replica>;

/// What members agree on, in one order.
///
/// An engine is filled from the state at a `Lead`, whose place in the log then stands in all its `Changes`. They happen
/// only if no other `Lead` came between: so an engine that has been replaced, at another member or at its own, changes
/// nothing any more, whatever of its changes is still on the way. The answer of the log is whether they happened.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// From here on an engine that is filled from the state up to here decides.
    Lead,
    /// What the engine that leads since the entry `lead` decided.
    Changes { lead: u64, changes: Bytes },
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Command::Lead => f.write_str("Lead"),
            Command::Changes { lead, changes } => write!(f, "Changes of {lead}, {} bytes", changes.len()),
        }
    }
}
