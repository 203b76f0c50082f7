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

use crate::seal::{BLOCK, PLAIN_BLOCK, TAG, has_tag};
use phalanx_core::level::{Level, Levels};
use std::ops::RangeInclusive;

/// The levels of a link's blocks, from the weakest to the strongest that both ends have agreed on.
pub type Carried = RangeInclusive<Level>;

/// What a link of these levels carries: nothing weaker than unmarked frames.
pub fn carried(levels: Levels) -> Carried {
    levels.base..=Level::Private
}

/// Longest payload of a block of this level, in bytes.
fn longest(level: Level) -> usize {
    if has_tag(level) { BLOCK } else { PLAIN_BLOCK }
}

/// Bytes behind the payload of a block of this level.
fn tag_length(level: Level) -> usize {
    if has_tag(level) { TAG } else { 0 }
}
