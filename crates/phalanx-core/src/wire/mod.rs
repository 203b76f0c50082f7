//! The wire format: a frame has a header (one message in a compact binary encoding) and a body (raw bytes).
//!
//! ```text
//! | header length, u32 | place, u32 | body length, u64 | header | body |      little endian
//! ```
//!
//! The place is 0 if the body follows. Between processes of one machine, a long body may be in shared memory
//! ([`Place`]); then nothing follows the header.
//!
//! Every length is checked against a limit before anything is allocated. The lengths of parts of a body are checked
//! against the body before it is sliced.

pub mod comm;
pub mod files;
pub mod hub;
pub mod job_records;
pub mod jobs;
pub mod machines;
mod message;
mod news;
pub mod ranks;
pub mod space;
mod tokens;
pub mod transfer;
pub mod universe;
mod version;

pub use message::{Follow, FromExecutor, FromInterpreter, Given, PAST, Stayed, ToExecutor, ToInterpreter};
pub use news::{News, NewsDigest};
pub use tokens::{ALIGNMENT, Attached, Shape, Tokens};
pub use version::{Neighbour, VERSION, Version};

use crate::error::WireError;
use serde::{Serialize, de::DeserializeOwned};

/// Limit on the header, in bytes. The shape of a full batch is much smaller.
pub const MAX_HEADER: u64 = 1 << 20;
/// Limit on the body, in bytes. Memory for it is allocated as the bytes arrive, never on the peer's word alone.
pub const MAX_BODY: u64 = 1 << 36;
/// Limit on the body on a control link, in bytes. Such a link carries certificates and no data.
pub const MAX_CONTROL_BODY: u64 = 1 << 16;
/// Tokens of at least this many bytes stay at the interpreter that made them, if the next instruction can be fired
/// there.
pub const HEAVY: u64 = 1 << 14;
/// Limit on the printed bytes that the manager has not confirmed as shown; beyond it, the interpreter waits. It is four
/// times the capacity of a pipe, so that an ordinary task never waits. A hundred interpreters take at most 25 MiB.
pub const PRINTED: usize = 256 << 10;
/// The length of the prefix before the header, in bytes.
pub const PREFIX: usize = 16;

/// Limit on the segments of shared memory that one end of a link reuses.
pub const SLOTS: u8 = 16;

/// The place of a body in shared memory: the slot, and the generation of its segment. A `fresh` segment's file comes
/// with the prefix. The receiver knows other segments from earlier frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The number of the slot, below [`SLOTS`].
    pub slot: u8,
    /// How often the slot had another segment before.
    pub generation: u16,
    /// Whether the segment's file comes with the prefix.
    pub fresh: bool,
}

impl Place {
    /// Never 0, which stands for a body that follows its header.
    fn encode(self) -> u32 {
        let [low, high] = self.generation.to_le_bytes();
        u32::from_le_bytes([1 | u8::from(self.fresh) << 1, self.slot, low, high])
    }

    fn decode(word: u32) -> Result<Option<Place>, WireError> {
        let [flags, slot, low, high] = word.to_le_bytes();
        match flags {
            _ if word == 0 => Ok(None),
            1 | 3 if slot < SLOTS => {
                Ok(Some(Place { slot, generation: u16::from_le_bytes([low, high]), fresh: flags == 3 }))
            }
            _ => Err(WireError::NoMessage),
        }
    }
}

/// The start of every frame: its lengths, and the place of its body. Without a place, the body follows the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// Length of the header, in bytes.
    pub header: usize,
    /// Length of the body, in bytes.
    pub body: u64,
    /// Where the body is, if it is in shared memory.
    pub place: Option<Place>,
}

impl Prefix {
    /// Encodes the prefix.
    pub fn encode(self) -> [u8; PREFIX] {
        let mut bytes = [0; PREFIX];
        bytes[..4].copy_from_slice(&(self.header as u32).to_le_bytes());
        bytes[4..8].copy_from_slice(&self.place.map_or(0, Place::encode).to_le_bytes());
        bytes[8..].copy_from_slice(&self.body.to_le_bytes());
        bytes
    }

    /// Decodes a peer's prefix. Lengths over the limits are refused.
    pub fn decode(bytes: &[u8; PREFIX]) -> Result<Prefix, WireError> {
        let header = u64::from(u32::from_le_bytes(bytes[..4].try_into().expect("4 bytes")));
        let place = Place::decode(u32::from_le_bytes(bytes[4..8].try_into().expect("4 bytes")))?;
        let body = u64::from_le_bytes(bytes[8..].try_into().expect("8 bytes"));
        if header > MAX_HEADER {
            return Err(WireError::HeaderTooLong { is: header, most: MAX_HEADER });
        }
        if body > MAX_BODY {
            return Err(WireError::BodyTooLong { is: body, most: MAX_BODY });
        }
        Ok(Prefix { header: header as usize, body, place })
    }
}

/// Encodes a message as the start of a frame: prefix and header, to be followed by `body` bytes.
pub fn encode<M: Serialize>(message: &M, body: u64) -> Vec<u8> {
    let bytes = postcard::to_extend(message, vec![0; PREFIX]);
    let mut bytes = bytes.expect("messages of this crate serialize into memory");
    let prefix = Prefix { header: bytes.len() - PREFIX, body, place: None };
    bytes[..PREFIX].copy_from_slice(&prefix.encode());
    bytes
}

/// Encodes what is the body of a message. [`decode`] reads it.
pub fn encode_body<T: Serialize>(body: &T) -> Vec<u8> {
    postcard::to_stdvec(body).expect("messages of this crate serialize into memory")
}

/// Sets the place of the body in the start of a frame made by [`encode`].
pub fn set_place(start: &mut [u8], place: Option<Place>) {
    start[4..8].copy_from_slice(&place.map_or(0, Place::encode).to_le_bytes());
}

/// Decodes the message in a header. Trailing bytes are refused.
pub fn decode<M: DeserializeOwned>(header: &[u8]) -> Result<M, WireError> {
    match postcard::take_from_bytes(header) {
        Ok((message, [])) => Ok(message),
        _ => Err(WireError::NoMessage),
    }
}

#[cfg(test)]
mod tests;
