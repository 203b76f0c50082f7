//! Links: the only sockets of phalanx, and the identities that open them.
//!
//! A link carries frames, in order, between two processes. [`link`] moves the bytes, [`tls`] shakes hands and [`seal`]
//! protects what follows, [`stream`] carries a transfer's blocks, [`identity`] says who is at the other end, [`socket`] hides what the operating system
//! calls a connection.

pub mod address;
pub mod body;
pub mod copy;
pub mod forks;
pub mod frames;
pub mod identity;
pub mod link;
pub mod memory;
mod pages;
pub mod preamble;
pub mod runtime;
pub mod seal;
pub mod sealed;
pub mod socket;
pub mod stream;
pub mod sync;
pub mod tls;
