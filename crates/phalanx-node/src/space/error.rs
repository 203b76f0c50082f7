//! Errors of a space that is in another process.

use phalanx_core::error::SpaceError;
use phalanx_core::level::Conflict;
use phalanx_net::identity::IdentityError;
use thiserror::Error;

/// Why a space cannot be used.
#[derive(Debug, Clone, Error)]
pub enum ClientError {
    /// The space refuses the request.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// The server cannot be reached.
    #[error("{0}")]
    Unreachable(String),
    /// The connection ended with requests open.
    #[error(
        "the connection to the space {space} ended: {why}. What waited has taken nothing; whether what was put without \
         an answer is there, nobody here knows"
    )]
    Ended {
        /// The address of the space.
        space: String,
        /// Why the connection ended.
        why: String,
    },
    /// The server did not answer in time.
    #[error("no answer came in time from {space}")]
    Late {
        /// The address of the space.
        space: String,
    },
    /// The answer is longer than this client takes. What it took was given back.
    #[error("the tuple has {bytes} bytes, and may have {most} here")]
    TooLong {
        /// The bytes of the answer.
        bytes: u64,
        /// Most bytes of an answer.
        most: u64,
    },
    /// No level is left for the link.
    #[error(transparent)]
    Level(#[from] Conflict),
    /// The user's certificate is missing or wrong.
    #[error("{0}")]
    Identity(String),
    /// Another member answers than the one that is expected.
    #[error("{0}")]
    Unexpected(String),
}

impl From<IdentityError> for ClientError {
    fn from(error: IdentityError) -> ClientError {
        ClientError::Identity(error.to_string())
    }
}
