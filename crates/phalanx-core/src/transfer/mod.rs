//! The engines of a transfer: which blocks are to be read and sent, and which of an entry's bytes have come.
//!
//! Neither moves a byte: the drivers read, send and write, in any number of threads, and tell. So a cut stream, a changed
//! source or a resumed copy is tested by conversation.

mod chunks;
mod compression;
mod growth;
mod ranges;
mod receiving;
mod sending;
mod share;
mod versions;

pub use chunks::{Chunking, LEAST_COMPARED, MOST_CHUNKS, MOST_COMPARED};
pub use compression::Compression;
pub use growth::Growth;
pub use ranges::Ranges;
pub use receiving::{Accept, Outcome, Receiving};
pub use sending::{Next, Piece, Sending};
pub use share::SPLIT;
pub use versions::{Version, is_comparable, is_similar};

/// Longest data of a block that is a part of a file: with its record it fits a frame, and files are cut at pages.
pub const PART: u32 = (256 << 10) - 4096;
/// Longest payload of a frame.
pub const FRAME: u32 = crate::wire::transfer::MOST_PAYLOAD as u32;

#[cfg(test)]
mod tests;
