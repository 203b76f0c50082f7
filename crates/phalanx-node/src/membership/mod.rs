//! A member at its hub: how the member joins, sends requests, and stays.

mod asking;
mod founding;
mod hubs_file;
mod jobs;
mod joining;
mod paths;
mod seeking;
mod staying;
mod watching;

pub use asking::AtHub;
pub use founding::{NewHub, join_as_hub};
pub use hubs_file::{HUBS, HubsFile, merged};
pub use jobs::{JobsAtHub, Log, from_json, to_json};
pub use joining::{Joined, become_owner, come_back, join, open_again, why};
pub use paths::Paths;
pub use seeking::hub_address;
pub use staying::{BEAT, Resident, Stay, Telling};

use phalanx_net::identity::IdentityError;
use std::io;
use thiserror::Error;

/// A request to a hub has failed.
#[derive(Debug, Error)]
pub enum AskError {
    /// No hub answers. The text has the reason for each hub.
    #[error("no hub of the grid answers: {0}")]
    Unreachable(String),
    /// The hub does not lead. One of these does.
    #[error("the hub does not lead")]
    Elsewhere(Vec<String>),
    /// The hub refuses.
    #[error("{0}")]
    Refused(String),
    /// This end is no member, or its membership has ended.
    #[error("{0}")]
    NoMember(String),
    /// This end's identity is at fault.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The link has ended before the answer.
    #[error("the hub hung up: {0}")]
    Ended(#[from] io::Error),
}
