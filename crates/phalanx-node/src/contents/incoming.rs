//! A content that is being written.

use super::{PART, Store};
use phalanx_core::wire::jobs::Digest;
use phalanx_net::sync::lock;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;

/// Bytes after which it is looked again whether there is room.
const CHECKED: u64 = 16 << 20;
/// Bytes read at once when a beginning is read again.
const AT_ONCE: usize = 256 << 10;

/// A content that is being written. If it is dropped before its end, its beginning stays.
#[derive(Debug)]
pub struct Incoming<'a> {
    store: &'a Store,
    user: String,
    path: PathBuf,
    part: PathBuf,
    /// Whether the `.part` is this one's own.
    is_claimed: bool,
    file: Option<File>,
    hasher: Box<blake3::Hasher>,
    digest: Digest,
    bytes: u64,
    at: u64,
}

impl<'a> Incoming<'a> {
    pub(super) fn begin(
        store: &'a Store,
        user: &str,
        path: PathBuf,
        content: (Digest, u64),
    ) -> io::Result<Incoming<'a>> {
        let (digest, bytes) = content;
        let mut part = path.with_extension(PART);
        let is_claimed = lock(&store.claimed).insert(part.clone());
        if !is_claimed {
            // Another link brings the same. The slower one of both is not to wait for the other, which may be frozen.
            part = path.with_extension(format!("{}.{PART}", phalanx_net::identity::random_number()));
        }
        let (hasher, user) = (Box::default(), user.to_owned());
        let mut incoming = Incoming { store, user, path, part, is_claimed, file: None, hasher, digest, bytes, at: 0 };
        if store.uses(&incoming.user, &digest) {
            incoming.at = bytes;
            return Ok(incoming);
        }
        let mut file = File::options().create(true).read(true).append(true).open(&incoming.part)?;
        let mut buffer = vec![0; AT_ONCE];
        loop {
            let count = file.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            incoming.hasher.update(&buffer[..count]);
            incoming.at += count as u64;
        }
        if incoming.at > bytes {
            incoming.begin_anew(&file)?;
        }
        incoming.file = Some(file);
        if incoming.at == bytes {
            incoming.finish()?;
        }
        Ok(incoming)
    }

    /// The byte at which the next piece begins.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Whether the content is whole.
    pub fn is_whole(&self) -> bool {
        self.at == self.bytes
    }

    /// Writes the next piece. The last one ends the content.
    ///
    /// # Errors
    /// There are more bytes than were announced, they are not those of the digest, or the disk refuses.
    pub fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
        let file = self.file.as_mut().ok_or_else(|| wrong("the content is whole already"))?;
        if piece.is_empty() || piece.len() as u64 > self.bytes - self.at {
            return Err(wrong("the content has not so many bytes"));
        }
        if self.at / CHECKED != (self.at + piece.len() as u64) / CHECKED {
            self.store.check_room(&self.user, piece.len() as u64)?; // others may have taken the room meanwhile
        }
        file.write_all(piece)?;
        self.store.add(&self.user, piece.len() as u64);
        self.hasher.update(piece);
        self.at += piece.len() as u64;
        if self.is_whole() { self.finish() } else { Ok(()) }
    }

    /// Begins at the first byte again.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn restart(&mut self) -> io::Result<()> {
        match self.file.take() {
            Some(file) => {
                self.begin_anew(&file)?;
                self.file = Some(file);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        if *self.hasher.finalize().as_bytes() != self.digest {
            self.begin_anew(&file)?;
            self.file = Some(file);
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the content has changed while it was sent"));
        }
        file.sync_all()?;
        if self.path.exists() && !self.is_claimed {
            return Ok(()); // the same bytes, by another link
        }
        fs::rename(&self.part, &self.path)?;
        File::open(self.path.parent().expect("has a folder"))?.sync_all()
    }

    fn begin_anew(&mut self, file: &File) -> io::Result<()> {
        file.set_len(0)?;
        self.hasher.reset();
        self.store.remove_bytes(&self.user, self.at);
        self.at = 0;
        Ok(())
    }
}

impl Write for Incoming<'_> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        Incoming::write(self, piece)?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Incoming<'_> {
    fn drop(&mut self) {
        match self.is_claimed {
            true => drop(lock(&self.store.claimed).remove(&self.path.with_extension(PART))),
            false => {
                // It is not counted twice, whether another link has brought the same or not.
                if fs::remove_file(&self.part).is_ok() {
                    self.store.remove_bytes(&self.user, self.at);
                }
            }
        }
    }
}
