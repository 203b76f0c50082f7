//! The two ends of a transfer, whichever machine has them: the sending end, the receiving end, and what both have in common.

pub(super) mod chunks;
pub(super) mod common;
mod compression;
pub(super) mod end;
pub(super) mod greeting;
mod rate_limit;
mod receiver;
mod sender;
mod streams;
mod versions;
