//! Errors of a space that is in another process.

use phalanx_core::error::SpaceError;
use phalanx_core::level::Conflict;
use phalanx_net::identity::IdentityError;
use thiserror::Error;

/// Why a space cannot be used.
#[derive(Debug, Clone, Error)]
pub enum ClientError {
    #[error(transparent)]
    Space(#[from] SpaceError),
    #[error("{0}")]
    Unreachable(String),
    #[error(
        "the connection to the space {space} ended: {why}. What waited has taken nothing; whether what was put without \
         an answer is there, nobody here knows"
    )]
    Ended { space: String, why: String },
    #[error("no answer came in time from {space}")]
    Late { space: String },
    #[error(transparent)]
    Level(#[from] Conflict),
    #[error("{0}")]
    Identity(String),
}

impl From<IdentityError> for ClientError {
    fn from(error: IdentityError) -> ClientError {
        ClientError::Identity(error.to_string())
    }
}
