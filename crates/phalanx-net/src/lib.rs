//! Links: the only sockets of phalanx, and the identities that open them.
//!
//! A link carries frames, in order, between two processes. [`dial`] is the way out: it turns an address into a link over
//! whatever transport leads there. [`link`] moves the bytes, [`tls`] does the handshake, and [`blocks`] protects what
//! follows, in the format of [`seal`]. [`stream`] carries a transfer's blocks, [`identity`] identifies the peer, and
//! [`socket`] wraps the connections of the operating system.

#![deny(missing_docs)]

pub mod address;
pub mod blocks;
pub mod body;
pub mod connection;
pub mod copy;
pub mod dial;
pub mod file_lock;
pub mod forks;
pub mod frames;
pub mod identity;
pub mod link;
pub mod memory;
pub mod multicast;
pub mod news;
mod pages;
pub mod preamble;
#[cfg(unix)]
pub mod private_folder;
pub mod relay;
pub mod replace;
pub mod runtime;
pub mod seal;
pub mod sealed;
pub mod socket;
pub mod stream;
pub mod sync;
pub mod tls;
mod transport;
