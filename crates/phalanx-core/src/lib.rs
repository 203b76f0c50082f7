//! The engines of phalanx: they decide, and the drivers in `phalanx-node` act.
//!
//! Nothing in this crate opens a socket, reads a clock, starts a thread, accesses a disk or knows Python. Engines take
//! events with the time at which they happened, and return commands. So whole protocols are tested without a port and
//! without a sleep.

#![deny(missing_docs)]

pub mod cage;
pub mod error;
pub mod event;
pub mod fairness;
pub mod flow;
pub mod hub;
pub mod ids;
pub mod jobs;
pub mod lan;
pub mod launch;
pub mod level;
pub mod needs;
pub mod proxy;
pub mod space;
pub mod spmd;
pub mod text;
pub mod transfer;
pub mod voluntary;
pub mod wire;
