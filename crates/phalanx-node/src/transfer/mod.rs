//! Bulk transfer (paper 003): files over parallel, secured streams, at the speed of the wire.
//!
//! One end sends and one receives, whoever asked for it. What is to be copied, what of it is there and what failed goes over a
//! control link; the bytes go over streams, each with a security context of its own, which a pool of threads serves: a
//! thread that gets a stream reads from the disk, seals and sends, or receives, opens and writes, without handing a
//! block to another. The engines of `phalanx_core::transfer` decide which block is next.

pub mod files;

mod client;
mod disk;
mod endpoint;
mod patterns;
mod server;
mod system;

pub use client::copy::Copy;
pub use client::job::{CopyError, Here, Job, Report};
pub use disk::exports::Exports;
pub use endpoint::common::Failure;
pub(crate) use server::service::Service;
pub use system::{from_bytes, to_bytes};
