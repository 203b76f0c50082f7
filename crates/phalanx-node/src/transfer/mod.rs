//! Bulk transfer (paper 003): files over parallel, secured streams, at the speed of the line.
//!
//! One end sends and the other receives, whichever of them the user is at. A control link carries what is to be copied, what
//! is there already, and what has failed. The bytes travel over streams, each with its own security context. A pool of
//! threads serves the streams. A thread reads from the disk, seals and sends a block, or receives, opens and writes it,
//! without handing it to another thread. The engines of `phalanx_core::transfer` decide which block is next.
//!
//! The wings, from low to high: `system` hides what differs between operating systems, `patterns` decides which paths a
//! copy takes, `disk` reads and writes, `endpoint` is one end of a transfer, `client` dials, `files` answers requests
//! about files, `server` is the executor's service. A wing imports only wings before it.

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
pub(crate) use system::most_open;
pub use system::{from_bytes, to_bytes};
