//! The end that dials: a user's machine, or an executor that copies to another executor.

mod between;
pub(super) mod calling;
pub(super) mod copy;
mod dialling;
pub(super) mod job;
