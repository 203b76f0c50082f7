//! An operation on the memory of others, until all of it is answered.

use crate::error::{Error, Result};
use crate::objects::buffer::Buffer;
use crate::process::engine::Outgoing;
use std::sync::{Arc, OnceLock};

/// An operation that is under way.
pub(super) struct Operation {
    pub target: usize,
    /// Pieces that are not answered yet.
    pub left: usize,
    /// Where what comes back goes.
    pub result: Option<Buffer>,
    pub failure: Option<Error>,
    pub long: Long,
    /// Who asks for its end: a request. None: its failure is told at the end of the epoch.
    pub end: Option<Arc<End>>,
}

/// The state of a long put or get, during which the program lends its buffer ([`super::long`]).
pub(super) enum Long {
    /// It is a short one.
    No,
    /// The data of a put, until the target wants it.
    Put(Outgoing),
    /// The number under which the target awaits the data of a put.
    Sent(u64),
    /// The number under which the data of a get is awaited.
    Get(usize),
}

/// What came of an operation that has a request, once it is done.
pub type End = OnceLock<Result<()>>;

impl Operation {
    /// A failure that nobody else tells.
    pub fn end(self) -> Option<Error> {
        let Some(end) = self.end else { return self.failure };
        let _ = end.set(self.failure.map_or(Ok(()), Err));
        None
    }
}
