//! The engines of phalanx: they think, and the drivers of `phalanx-node` do.
//!
//! Nothing in this crate opens a socket, reads a clock, starts a thread, touches a disk or knows
//! Python. Engines take events with the time at which they happened and answer with commands, so
//! whole protocols are tested without a port and without a sleep.

pub mod error;
pub mod event;
pub mod flow;
pub mod ids;
pub mod launch;
pub mod level;
pub mod space;
pub mod spmd;
pub mod transfer;
pub mod wire;
