//! Errors in the bytes that a peer sent, and in requests to a space.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A frame that breaks the protocol. The peer is at fault, and its link ends.
#[derive(Debug, Error, PartialEq, Eq)]
#[allow(missing_docs, reason = "the text of each error says what it is")]
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
    #[error("the bytes of unfinished files come in more pieces than the {0} that this end remembers")]
    Scattered(usize),
    #[error("compressed bytes that are damaged, or not as long as was said")]
    Compressed,
    #[error("memory that the peer shares is not what it says: {0}")]
    Memory(&'static str),
}

/// Why bytes are not a tuple, template or query (the encoding is in `space::value`). The sender is at fault.
#[derive(Debug, Clone, Error, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the text of each error says what it is")]
pub enum EncodingError {
    #[error("a tuple's bytes end too early")]
    TooShort,
    #[error("there are {0} bytes behind the end")]
    TooLong(u64),
    #[error("{0} is no kind of field, pattern or query")]
    Unknown(u8),
    #[error("bytes that are not in the one form their value has: {0}")]
    NotCanonical(String),
    #[error("{is} {what} are more than the limit of {most}")]
    TooMany { what: String, is: u64, most: u64 },
    #[error("a query cannot be evaluated: {0}")]
    Query(String),
}

/// Why a space refuses a request. The space is unchanged.
#[derive(Debug, Clone, Error, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the text of each error says what it is")]
pub enum SpaceError {
    #[error(transparent)]
    Encoding(#[from] EncodingError),
    #[error("the space is full: its limit is {most} {what}")]
    Full { what: String, most: u64 },
    #[error("there is already a tuple with this key")]
    KeyTaken,
    #[error("no lease is known by this number: it has ended, or its tuple was taken")]
    NoLease,
    #[error("no such transaction: it has ended, or was never begun")]
    NoTransaction,
    #[error("the transaction is prepared: it can only be committed or aborted")]
    Prepared,
    /// For a transaction with repeatable reads.
    #[error("a tuple that the transaction has read is not there any more: begin it again")]
    ReadChanged,
    #[error("a transaction, request or watch of this number is already there")]
    NumberTaken,
    #[error("nothing matching came in time")]
    TimedOut,
    #[error("the request was cancelled")]
    Cancelled,
    #[error("the space cannot be opened: {0}")]
    NoSpace(String),
    #[error("not allowed: {0}")]
    Forbidden(String),
    #[error("the options of a space do not fit together: {0}")]
    Options(String),
    #[error("the space cannot be kept: {0}")]
    NotKept(String),
    /// Nothing was done at this member.
    #[error("another member leads the space: {}", .leader.as_deref().unwrap_or("which one is not known yet"))]
    Elsewhere {
        /// The address of the leading member, if known.
        leader: Option<String>,
    },
    #[error("whether it was done is not known: {0}")]
    Uncertain(String),
    #[error("there is no event {since} to go on behind, only {last} so far: the space has begun anew since then")]
    NoEvent { since: u64, last: u64 },
    /// Nothing was done at this member.
    #[error("this client is not known here, or not any more: what it asked before is forgotten")]
    UnknownClient,
    /// For a member of a spread space.
    #[error("the members of the space, or its placement, were changed: open the space again")]
    OtherMembers,
}
