//! What travels on a link: frames of a header (one message, compact binary) and a body (raw bytes).
//!
//! ```text
//! | header length, u32 | place, u32 | body length, u64 | header | body |      little endian
//! ```
//!
//! The place is 0 where the body follows. Between processes of one machine a long body may lie in memory that both see
//! ([`Place`]); then nothing follows the header.
//!
//! Every length is checked against a limit before anything is allocated, and the bodies' own
//! lengths are checked against the body before anybody slices it.

pub mod files;
pub mod machines;
mod message;
pub mod ranks;
pub mod space;
mod tokens;
pub mod transfer;
pub mod universe;

pub use message::{Follow, FromExecutor, FromInterpreter, PAST, Stayed, ToExecutor, ToInterpreter};
pub use tokens::{ALIGNMENT, Attached, Shape, Tokens};

use crate::error::WireError;
use serde::{Serialize, de::DeserializeOwned};

/// Peers of another version are told so, and not talked to.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Longest header in bytes: the shape of a full batch fits many times.
pub const MAX_HEADER: u64 = 1 << 20;
/// Longest body in bytes. Memory for it is taken as the bytes arrive, never on the peer's word.
pub const MAX_BODY: u64 = 1 << 36;
/// Longest body in bytes on a control link, which carries certificates and no data.
pub const MAX_CONTROL_BODY: u64 = 1 << 16;
/// Bytes from which on a token stays at the interpreter that made it, if the next instruction can be fired there.
pub const HEAVY: u64 = 1 << 14;
/// Bytes that an interpreter has printed and that its manager has not yet said it has shown; then the interpreter waits.
/// A pipe's content four times, so that an ordinary task never waits; a hundred interpreters take 25 MiB at most.
pub const PRINTED: usize = 256 << 10;
/// Bytes before the header.
pub const PREFIX: usize = 16;

/// Segments of shared memory that one end of a link fills again and again.
pub const SLOTS: u8 = 16;

/// A body's place in shared memory: the slot and its segment's generation. A `fresh` segment is passed on with the prefix;
/// one of an earlier frame is known by its slot and generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub slot: u8,
    pub generation: u16,
    pub fresh: bool,
}

impl Place {
    /// Never 0, which is the place of a body that follows its header.
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

/// The lengths with which every frame begins, and where its body lies (none: behind the header).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    pub header: usize,
    pub body: u64,
    pub place: Option<Place>,
}

impl Prefix {
    /// As bytes on the wire.
    pub fn encode(self) -> [u8; PREFIX] {
        let mut bytes = [0; PREFIX];
        bytes[..4].copy_from_slice(&(self.header as u32).to_le_bytes());
        bytes[4..8].copy_from_slice(&self.place.map_or(0, Place::encode).to_le_bytes());
        bytes[8..].copy_from_slice(&self.body.to_le_bytes());
        bytes
    }

    /// From bytes of a peer; lengths over the limits are refused.
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

/// A message as a frame's beginning: prefix and header, ready to be followed by `body` bytes.
pub fn encode<M: Serialize>(message: &M, body: u64) -> Vec<u8> {
    let bytes = postcard::to_extend(message, vec![0; PREFIX]);
    let mut bytes = bytes.expect("messages of this crate serialize into memory");
    let prefix = Prefix { header: bytes.len() - PREFIX, body, place: None };
    bytes[..PREFIX].copy_from_slice(&prefix.encode());
    bytes
}

/// Says in a frame's beginning, made by [`encode`], where the body lies.
pub fn set_place(start: &mut [u8], place: Option<Place>) {
    start[4..8].copy_from_slice(&place.map_or(0, Place::encode).to_le_bytes());
}

/// The message in a header; anything left over is refused.
pub fn decode<M: DeserializeOwned>(header: &[u8]) -> Result<M, WireError> {
    match postcard::take_from_bytes(header) {
        Ok((message, [])) => Ok(message),
        _ => Err(WireError::NoMessage),
    }
}

#[cfg(test)]
mod tests;
