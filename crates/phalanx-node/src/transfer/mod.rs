//! Bulk transfer (paper 003): files over parallel, secured streams, at the speed of the wire.
//!
//! One end sends and one receives, whoever asked for it. What is to be copied, what of it is there and what failed goes over a
//! control link; the bytes go over streams, each with a security context of its own, which a pool of threads serves: a
//! thread that gets a stream reads from the disk, seals and sends, or receives, opens and writes, without handing a
//! block to another. The engines of `phalanx_core::transfer` decide which block is next.

mod abandoned;
mod attributes;
mod between;
mod braces;
mod calling;
mod carrying;
mod chunks;
mod client;
mod dialling;
mod ear;
mod end;
mod ending;
mod exports;
pub mod files;
mod following;
mod going;
mod hard_links;
mod holes;
mod job;
mod pace;
mod packing;
mod partial;
mod parts;
mod receiver;
mod reception;
mod sender;
mod served;
mod service;
mod sieve;
mod sink;
mod source;
mod system;
mod versions;
mod written;

pub use client::Copy;
pub use ending::Failure;
pub use exports::Exports;
pub use job::{CopyError, Here, Job, Report};
pub(crate) use service::Service;
pub use system::{from_bytes, to_bytes};
