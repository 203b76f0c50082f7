//! A member at its hub: how it joins, asks, and stays.

mod asking;
mod joining;
mod paths;
mod staying;

pub use asking::{AtHub, hub_address};
pub use joining::{Joined, come_back, join, why};
pub use paths::Paths;
pub use staying::{BEAT, Come, Stay, Telling};

use phalanx_net::identity::IdentityError;
use std::io;
use thiserror::Error;

/// A hub was asked in vain.
#[derive(Debug, Error)]
pub enum AskError {
    /// No hub answers. Says for each why.
    #[error("no hub of the grid answers: {0}")]
    Unreachable(String),
    /// The hub refuses.
    #[error("{0}")]
    Refused(String),
    /// This end is no member, or no more.
    #[error("{0}")]
    NoMember(String),
    /// This end's identity is at fault.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The link has ended before the answer.
    #[error("the hub hung up: {0}")]
    Ended(#[from] io::Error),
}
