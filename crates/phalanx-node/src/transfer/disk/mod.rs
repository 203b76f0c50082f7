//! The disk: what a copy reads from it, what it writes to it, and what it leaves there when it is cut off.

pub(super) mod abandoned;
pub(super) mod attributes;
pub(super) mod exports;
mod following;
mod hard_links;
mod holes;
pub(super) mod sink;
pub(super) mod source;
pub(super) mod unfinished;
#[cfg(target_os = "linux")]
pub(super) mod users;
mod written;
