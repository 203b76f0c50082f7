//! The first bytes of a connection to an executor, in the clear: what the connection is for.
//!
//! They decide only which process does the handshake that follows; nothing is trusted because of them.

use std::io::{self, Read, Write};

const MAGIC: [u8; 6] = *b"phlnx\x01";
const CONTROL: u8 = 0;
const DATA: u8 = 1;

/// What a connection to an executor is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preamble {
    /// A manager's control link, answered by the executor itself.
    Control,
    /// The data link of the interpreter that was started under this token.
    Data { token: [u8; 16] },
}

impl Preamble {
    /// Writes the 23 bytes.
    pub fn write(self, to: &mut impl Write) -> io::Result<()> {
        let (kind, token) = match self {
            Preamble::Control => (CONTROL, [0; 16]),
            Preamble::Data { token } => (DATA, token),
        };
        to.write_all(&[&MAGIC[..], &[kind], &token].concat())
    }

    /// Reads the 23 bytes; anything else than a preamble of this version is an error.
    pub fn read(from: &mut impl Read) -> io::Result<Preamble> {
        let mut bytes = [0; MAGIC.len() + 17];
        from.read_exact(&mut bytes)?;
        let token = bytes[MAGIC.len() + 1..].try_into().expect("16 bytes");
        match (bytes[..MAGIC.len()] == MAGIC, bytes[MAGIC.len()]) {
            (true, CONTROL) => Ok(Preamble::Control),
            (true, DATA) => Ok(Preamble::Data { token }),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the peer does not speak phalanx")),
        }
    }
}
