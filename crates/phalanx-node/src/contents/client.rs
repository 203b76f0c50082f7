//! The member's end of a link for contents: it sends contents to the hub, and fetches them.

use crate::dial::{DIAL_PATIENCE, printable};
use phalanx_core::level::{Levels, Mark};
use phalanx_core::wire::hub::LEVEL;
use phalanx_core::wire::jobs::{Content, Digest, FromContent, MOST_FILES, MOST_HERE, PIECE, ToContent};
use phalanx_core::wire::{decode, encode};
use phalanx_net::address::Address;
use phalanx_net::dial::{Expected, Judge, Target, dial};
use phalanx_net::frames::Frame;
use phalanx_net::identity::{Member, Role};
use phalanx_net::link::{Link, LinkError, Reader};
use phalanx_net::preamble::Preamble;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Timeout for an answer of the hub, which writes to its disk first.
const PATIENCE: Duration = Duration::from_secs(60);
/// Window of pieces in flight: 4 MB, so that a path with a round-trip time of 40 ms carries 100 MB/s.
const AHEAD: usize = 4 << 20 >> 16;
/// Bytes per read when a file is hashed.
const AT_ONCE: usize = 256 << 10;

#[derive(Debug)]
struct AnyHub;

impl Judge for AnyHub {
    fn judge(&self, _: &str, _: Option<SocketAddr>) -> io::Result<()> {
        Ok(())
    }
}

/// A link for contents. Dropping it closes the link.
pub struct Contents {
    link: Arc<Link>,
    reader: Reader,
    heard: VecDeque<(FromContent, Vec<u8>)>,
}

impl Drop for Contents {
    fn drop(&mut self) {
        self.link.close();
    }
}

impl Contents {
    /// Opens a link to the hub at this address.
    ///
    /// # Errors
    /// The hub is unreachable, or is not a hub of the grid.
    pub fn open(member: &Member, hub: &Address) -> io::Result<Contents> {
        let client = member.newest().client_of(Role::Hub).map_err(io::Error::other)?;
        let dialled = dial(&Target::Hub(hub.clone()), DIAL_PATIENCE)?;
        let expected = Expected::Judged(&client, &AnyHub);
        let introduced = dialled.introduce(Preamble::Content, expected, Levels::all(LEVEL), DIAL_PATIENCE)?;
        let (link, reader) = introduced.link(PIECE as u64)?;
        Ok(Contents { link, reader, heard: VecDeque::new() })
    }

    /// Whether the link has ended.
    pub fn has_ended(&self) -> bool {
        self.link.is_closed()
    }

    /// The contents of a user that the hub lacks.
    ///
    /// # Errors
    /// The hub refuses, or does not answer.
    pub fn lacking(&mut self, user: &str, digests: &[Digest]) -> io::Result<Vec<Digest>> {
        let mut lacking = Vec::new();
        for some in digests.chunks(MOST_FILES) {
            self.send(&ToContent::Lacking { user: user.to_owned(), digests: some.to_vec() }, Vec::new());
            match self.hear()?.0 {
                FromContent::Lacking { digests } => lacking.extend(digests),
                _ => return Err(other()),
            }
        }
        Ok(lacking)
    }

    /// Sends a content of `bytes` bytes to the hub, unless the hub has it.
    ///
    /// # Errors
    /// The hub refuses, or the content has changed since its digest was computed.
    pub fn put(&mut self, user: &str, digest: Digest, bytes: u64, from: &mut (impl Read + Seek)) -> io::Result<()> {
        self.send(&ToContent::Put { user: user.to_owned(), digest, bytes }, Vec::new());
        let mut sent = self.hear_from()?;
        let mut taken = sent;
        from.seek(SeekFrom::Start(sent))?;
        while taken < bytes {
            while sent < bytes && sent - taken < (AHEAD * PIECE) as u64 {
                let mut piece = Vec::with_capacity(PIECE);
                from.take((bytes - sent).min(PIECE as u64)).read_to_end(&mut piece)?;
                if piece.is_empty() {
                    return Err(io::Error::other("the file has become shorter while it was sent"));
                }
                sent += piece.len() as u64;
                self.send(&ToContent::Piece, piece);
            }
            taken = self.hear_from()?;
        }
        Ok(())
    }

    /// Fetches a content of `bytes` bytes, and checks its digest.
    ///
    /// # Errors
    /// The hub refuses, or does not have the content.
    pub fn get(&mut self, user: &str, digest: Digest, bytes: u64, to: &mut impl Write) -> io::Result<()> {
        let (mut asked, mut got, mut hasher) = (0, 0, blake3::Hasher::new());
        while got < bytes {
            while asked < bytes && asked - got < (AHEAD * PIECE) as u64 {
                self.send(&ToContent::Get { user: user.to_owned(), digest, from: asked }, Vec::new());
                asked += PIECE as u64;
            }
            let (answer, piece) = self.hear()?;
            if answer != FromContent::Piece || piece.is_empty() {
                return Err(other());
            }
            hasher.update(&piece);
            to.write_all(&piece)?;
            got += piece.len() as u64;
        }
        match *hasher.finalize().as_bytes() == digest && got == bytes {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "the hub has sent another content")),
        }
    }

    fn send(&self, message: &ToContent, body: Vec<u8>) {
        // All messages share one queue, because a request must not overtake the pieces before it.
        let start = encode(message, body.len() as u64);
        self.link.queue(Mark::None, start, if body.is_empty() { Vec::new() } else { vec![body.into()] });
        self.link.flush();
    }

    fn hear_from(&mut self) -> io::Result<u64> {
        match self.hear()?.0 {
            FromContent::From { byte } => Ok(byte),
            _ => Err(other()),
        }
    }

    fn hear(&mut self) -> io::Result<(FromContent, Vec<u8>)> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some((answer, body)) = self.heard.pop_front() {
                return match answer {
                    FromContent::Refused { reason } => {
                        self.link.close(); // answers to the remaining messages in flight would be taken for later ones
                        Err(io::Error::new(io::ErrorKind::PermissionDenied, printable(&reason)))
                    }
                    answer => Ok((answer, body)),
                };
            }
            if Instant::now() >= until {
                self.link.close();
                return Err(io::ErrorKind::TimedOut.into());
            }
            let heard = &mut self.heard;
            let mut is_wrong = false;
            let mut on_frame = |frame: Frame| match decode(&frame.header) {
                Ok(answer) => heard.push_back((answer, frame.body.to_vec())),
                Err(_) => is_wrong = true,
            };
            // The wait also sends queued bytes for which the socket had no room.
            let waited = self.link.wait(until - Instant::now()).map_err(LinkError::from);
            let polled = waited.and_then(|_| self.reader.read_all(&mut on_frame));
            if is_wrong {
                return Err(other());
            }
            if self.heard.is_empty() {
                polled.map_err(io::Error::other)?;
            }
        }
    }
}

fn other() -> io::Error {
    io::Error::other("the hub answers something else")
}

/// The digest and the length of the bytes that a reader yields.
///
/// # Errors
/// Reading fails.
pub fn digest_of(from: &mut impl Read) -> io::Result<(Digest, u64)> {
    let (mut hasher, mut buffer, mut bytes) = (blake3::Hasher::new(), vec![0; AT_ONCE], 0);
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok((hasher.finalize().into(), bytes)),
            count => {
                hasher.update(&buffer[..count]);
                bytes += count as u64;
            }
        }
    }
}

/// The content of a file: inline bytes if the file is small, and the digest otherwise.
///
/// # Errors
/// The file cannot be read, or is not a regular file.
pub fn content_of(path: &Path) -> io::Result<Content> {
    let mut file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    let mut here = Vec::new();
    Read::by_ref(&mut file).take(MOST_HERE as u64 + 1).read_to_end(&mut here)?;
    if here.len() <= MOST_HERE {
        return Ok(Content::Here(here));
    }
    file.rewind()?;
    let (digest, bytes) = digest_of(&mut file)?;
    Ok(Content::Kept { digest, bytes })
}
