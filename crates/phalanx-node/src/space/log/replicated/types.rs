//! The types that the consensus library is instantiated with.

use super::image::Image;
use bytes::Bytes;
use phalanx_core::space::Replica;
use serde::{Deserialize, Serialize};
use std::fmt;

openraft::declare_raft_types!(
    /// The type configuration of a space for the library.
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

/// A command that the members agree on, in one order.
///
/// An engine is filled from the state at a `Lead`. The index of that `Lead` in the log then stands in all the engine's
/// `Changes`. They are applied only if no other `Lead` came in between. So a replaced engine, at another member or at its own,
/// changes nothing any more, even if changes of it are still on the way. The log's answer to `Changes` says whether they were
/// applied.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// From here on, an engine filled from the state up to here decides.
    Lead,
    /// What the engine decided that leads since entry `lead`.
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
