//! The streams of a transfer (paper 003, section III). Each is a connection with its own security context that carries
//! frames one way. A separate pool of threads reads and writes them ([`Turns`], section IV).
//!
//! A frame is a block of [`crate::blocks`]. At private it is a length and a payload in as many blocks as it takes, because those are
//! shorter. It stays in one piece of memory from the disk to the socket and on the way back: blocks are made and opened where the
//! payload lies, which moves by as many bytes as stand between them.

mod incoming;
mod outgoing;
#[cfg(test)]
mod tests;
mod turns;

pub use incoming::Incoming;
pub use outgoing::Outgoing;
pub use turns::{Stream, Turn, Turns};

use crate::blocks::{Opener, Sealer};
use crate::seal::{BLOCK, Context, HEAD, RECORD, RECORD_TAIL, SECRET, TAG, UPDATE};
use crate::tls::Shaken;
use phalanx_core::level::Level;
use phalanx_core::wire::transfer;
use std::io;
use std::ops::{Deref, DerefMut};

/// Longest payload of a frame, in bytes.
pub const PAYLOAD: usize = BLOCK;
/// Bytes of a frame around its payload, but at private.
const AROUND: usize = HEAD + TAG;
/// Bytes of the length before the payload of a private frame.
const LENGTH: usize = 4;
/// Bytes of the longest private frame: its blocks are full, but for the last one.
const SEALED: usize = LENGTH + PAYLOAD + (PAYLOAD / RECORD + 1) * (HEAD + RECORD_TAIL);
/// Bytes before the payload of a private frame that is to be sent: room for all that will stand between.
const GAP: usize = SEALED - PAYLOAD + UPDATE;
/// The key of checksums is public. A checksum detects damage, not an attacker.
const CHECKSUM: [u8; SECRET] = *b"phalanx: checksum, not a secret!";

/// How the frames of a stream are protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protection {
    /// The level of the stream.
    pub level: Level,
    /// Whether unprotected frames carry a checksum.
    pub checked: bool,
}

impl Protection {
    /// The level that frames are marked with, and what makes and opens them. Fails if a protected stream has no handshake,
    /// so that a missing handshake never weakens a stream.
    fn ends(self, shaken: Option<Shaken>) -> io::Result<(Level, Sealer, Opener)> {
        if shaken.is_none() && self.level > Level::Clear {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "this level needs a handshake"));
        }
        let (level, seal, open) = match (self.level, shaken) {
            (Level::Safe | Level::Private, Some(shaken)) => (self.level, Some(shaken.seal), Some(shaken.open)),
            _ if self.checked => (Level::Safe, Some(Context::new(CHECKSUM)), Some(Context::new(CHECKSUM))),
            _ => (self.level, None, None),
        };
        let opener = Opener::new(open, level..=level).with_longest(PAYLOAD);
        Ok((level, Sealer::new(seal, level..=level), opener))
    }
}

/// Memory for one frame and the head of the next. Behind the first record's head, bytes are aligned so that processors and the
/// system copy them fastest.
#[derive(Debug)]
struct Frame {
    bytes: Box<[u8]>,
    start: usize,
}

/// Length of a cache line, in bytes.
const LINE: usize = 64;

impl Frame {
    /// A frame at this level, with so many bytes before its payload.
    fn new(level: Level, before: usize) -> Frame {
        let room = if level == Level::Private { GAP + PAYLOAD } else { AROUND + PAYLOAD };
        let bytes = vec![0; LINE + room + HEAD].into_boxed_slice();
        let start = LINE - (bytes.as_ptr() as usize + before + transfer::RECORD) % LINE;
        Frame { bytes, start }
    }
}

impl Deref for Frame {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl DerefMut for Frame {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }
}
