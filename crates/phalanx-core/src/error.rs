//! What can be wrong with bytes that a peer sent.

use thiserror::Error;

/// A frame that breaks the protocol. The peer is at fault, and its link ends.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum WireError {
    #[error("a header of {is} bytes is longer than the limit of {most}")]
    HeaderTooLong { is: u64, most: u64 },
    #[error("a body of {is} bytes is longer than the limit of {most}")]
    BodyTooLong { is: u64, most: u64 },
    #[error("the header is no message of this protocol")]
    NoMessage,
    #[error("the lengths in the header do not add up to the body")]
    Lengths,
    #[error("an answer to a firing that was not sent, or more results than tasks")]
    UnexpectedAnswer,
}
