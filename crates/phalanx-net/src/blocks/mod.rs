//! The blocks of every link: a [`Sealer`] protects what is sent, an [`Opener`] cuts and opens what arrives.
//!
//! Links, streams and the connections of MPI ranks differ in how they move bytes. The rules of blocks are here, once: which
//! levels a link carries, how long a block may be, that a number is used with a key once, and that a fork of a process
//! seals nothing. Neither end reads or writes a socket. The format and the cryptography are those of [`crate::seal`].

mod opener;
mod placed;
mod sealer;
#[cfg(test)]
mod tests;

pub use opener::{Block, Cut, Opener};
pub use placed::{Placed, TAIL};
pub use sealer::{Around, Sealer};

use crate::seal::{BLOCK, PLAIN_BLOCK, RECORD, RECORD_TAIL, TAG};
use phalanx_core::level::{Level, Levels};
use std::ops::RangeInclusive;

/// The levels of a link's blocks, from the weakest to the strongest that both ends have agreed on.
pub type Carried = RangeInclusive<Level>;

/// What a link of these levels carries: nothing weaker than unmarked frames.
pub fn carried(levels: Levels) -> Carried {
    levels.base..=Level::Private
}

/// Longest payload of a block of this level, in bytes.
pub fn longest(level: Level) -> usize {
    match level {
        Level::Clear | Level::Authenticated => PLAIN_BLOCK,
        Level::Safe => BLOCK,
        Level::Private => RECORD,
    }
}

/// Bytes behind the payload of a block of this level.
fn tail_length(level: Level) -> usize {
    match level {
        Level::Clear | Level::Authenticated => 0,
        Level::Safe => TAG,
        Level::Private => RECORD_TAIL,
    }
}
