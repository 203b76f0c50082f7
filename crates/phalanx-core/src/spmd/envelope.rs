//! What a message says of itself, and what a receive asks for (MPI 5.0, 3.2.3 and 3.2.4).

use std::hash::Hasher;

/// The parts of a message that decide which receive it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope {
    /// Messages of different contexts never match.
    pub context: u64,
    /// The sender's rank in the communicator.
    pub source: i32,
    /// The tag that the sender gave.
    pub tag: i32,
}

/// The parts of a receive that decide which message it matches. `None` is a wildcard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    /// The context, which must be the message's.
    pub context: u64,
    /// The sender's rank.
    pub source: Option<i32>,
    /// The tag.
    pub tag: Option<i32>,
}

impl Pattern {
    /// Whether a receive with this pattern may get this message. The caller has already compared the contexts.
    #[inline]
    pub fn takes(&self, envelope: &Envelope) -> bool {
        self.source.is_none_or(|source| source == envelope.source) && self.tag.is_none_or(|tag| tag == envelope.tag)
    }
}

/// A multiplication spreads numbers of contexts and sources well enough. A peer that chose them badly would slow down only
/// programs that it is a part of.
#[derive(Debug, Default)]
pub struct ContextHasher(u64);

impl Hasher for ContextHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}
