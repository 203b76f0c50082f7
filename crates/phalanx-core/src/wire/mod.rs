//! What travels on a link: frames of a header (one message, compact binary) and a body (raw bytes).
//!
//! ```text
//! | header length, u32 | 0, u32 | body length, u64 | header | body |      little endian
//! ```
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
/// Bytes before the header.
pub const PREFIX: usize = 16;

/// The lengths with which every frame begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    pub header: usize,
    pub body: u64,
}

impl Prefix {
    /// As bytes on the wire.
    pub fn encode(self) -> [u8; PREFIX] {
        let mut bytes = [0; PREFIX];
        bytes[..4].copy_from_slice(&(self.header as u32).to_le_bytes());
        bytes[8..].copy_from_slice(&self.body.to_le_bytes());
        bytes
    }

    /// From bytes of a peer; lengths over the limits are refused.
    pub fn decode(bytes: &[u8; PREFIX]) -> Result<Prefix, WireError> {
        let header = u64::from(u32::from_le_bytes(bytes[..4].try_into().expect("4 bytes")));
        let reserved = u32::from_le_bytes(bytes[4..8].try_into().expect("4 bytes"));
        let body = u64::from_le_bytes(bytes[8..].try_into().expect("8 bytes"));
        if reserved != 0 {
            return Err(WireError::NoMessage);
        }
        if header > MAX_HEADER {
            return Err(WireError::HeaderTooLong { is: header, most: MAX_HEADER });
        }
        if body > MAX_BODY {
            return Err(WireError::BodyTooLong { is: body, most: MAX_BODY });
        }
        Ok(Prefix { header: header as usize, body })
    }
}

/// A message as a frame's beginning: prefix and header, ready to be followed by `body` bytes.
pub fn encode<M: Serialize>(message: &M, body: u64) -> Vec<u8> {
    let bytes = postcard::to_extend(message, vec![0; PREFIX]);
    let mut bytes = bytes.expect("messages of this crate serialize into memory");
    let prefix = Prefix { header: bytes.len() - PREFIX, body };
    bytes[..PREFIX].copy_from_slice(&prefix.encode());
    bytes
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
