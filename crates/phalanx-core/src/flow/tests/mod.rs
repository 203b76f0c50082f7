//! Conversations with the flow engine: simulated interpreters behind a simulated network, with a number as the clock.

mod check;
mod garbage;
mod grid;
mod integers;
mod plan;
mod reader;
mod remote;
mod seat;

mod abandoning;
mod closing;
mod contracts;
mod culprits;
mod grains;
mod graphs;
mod losses;
mod memory;
mod needs;
mod parts;
mod priorities;
mod random;
mod retries;
mod returned;
mod share;
mod silence;
mod staging;
mod stopping;
mod stragglers;
mod view;

pub use grid::Grid;
