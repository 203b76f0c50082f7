//! The streams of a transfer (paper 003, section III): connections, each with its own security context, that carry
//! frames one way. Who reads and writes them is a pool of threads apart from them ([`Turns`], section IV).
//!
//! A frame is a block of [`crate::seal`]. It lies in one piece of memory from the disk to the cipher to the socket, and the
//! same way back.

mod incoming;
mod outgoing;
mod turns;

pub use incoming::Incoming;
pub use outgoing::Outgoing;
pub use turns::{Stream, Turn, Turns};

use crate::seal::{BLOCK, Context, HEAD, SECRET, TAG};
use crate::tls::Shaken;
use phalanx_core::level::Level;
use phalanx_core::wire::transfer::RECORD;
use std::ops::{Deref, DerefMut};

/// Longest payload of a frame, in bytes.
pub const PAYLOAD: usize = BLOCK;
/// Bytes of the whole frame around its payload.
const AROUND: usize = HEAD + TAG;
/// Of a checksum's key there is no secret: it finds what was damaged, not who did it.
const CHECKSUM: [u8; SECRET] = *b"phalanx: checksum, not a secret!";

/// How the frames of a stream are protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protection {
    pub level: Level,
    /// Whether frames that nothing protects have a checksum all the same.
    pub checked: bool,
}

impl Protection {
    /// What the frames are marked with, and the keys of each direction: what goes, what comes.
    fn contexts(self, shaken: Option<Shaken>) -> (Level, Option<Context>, Option<Context>) {
        match (self.level, shaken) {
            (Level::Safe | Level::Private, Some(shaken)) => (self.level, Some(shaken.seal), Some(shaken.open)),
            _ if self.checked => (Level::Safe, Some(Context::new(CHECKSUM)), Some(Context::new(CHECKSUM))),
            _ => (self.level, None, None),
        }
    }
}

/// Memory for one frame and the head of the next. Behind the head and the first record's, bytes lie as processors and the
/// system copy them fastest.
#[derive(Debug)]
struct Frame {
    bytes: Box<[u8]>,
    start: usize,
}

/// Of a line of a processor's cache, in bytes.
const LINE: usize = 64;

impl Frame {
    fn new() -> Frame {
        let bytes = vec![0; LINE + AROUND + PAYLOAD + HEAD].into_boxed_slice();
        let start = LINE - (bytes.as_ptr() as usize + HEAD + RECORD) % LINE;
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
