//! The process among those of its program: how it moves messages, waits and makes progress.

pub mod blocking;
pub(crate) mod control;
pub(crate) mod cores;
pub(crate) mod elsewhere;
pub(crate) mod encounters;
pub mod engine;
pub mod hold;
pub mod life;
pub mod losses;
pub mod progress;
pub mod service;
pub mod slices;
pub mod tasks;
pub mod transport;
pub(crate) mod turn;
pub(crate) mod wait;
pub mod world;
