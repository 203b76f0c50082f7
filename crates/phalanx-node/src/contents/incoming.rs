//! Writes contents, and resumes partial files.

use super::{PART, Store};
use phalanx_core::wire::jobs::Digest;
use phalanx_net::sync::lock;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;

/// Interval in bytes at which a writer checks the room again.
const CHECKED: u64 = 16 << 20;
/// Bytes per read when a partial file is hashed again.
const AT_ONCE: usize = 256 << 10;

/// A content that is being written. If it is dropped before its end, its partial file stays for resumption.
#[derive(Debug)]
pub struct Incoming<'a> {
    store: &'a Store,
    user: String,
    path: PathBuf,
    part: PathBuf,
    /// Whether this writer has claimed the `.part` file.
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
            // Another link writes the same content. This writer uses a separate file instead of waiting, because the other link may be
            // frozen.
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
    /// The bytes are more than announced, do not match the digest, or the disk refuses them.
    pub fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
        let file = self.file.as_mut().ok_or_else(|| wrong("the content is whole already"))?;
        if piece.is_empty() || piece.len() as u64 > self.bytes - self.at {
            return Err(wrong("the content has not so many bytes"));
        }
        if self.at / CHECKED != (self.at + piece.len() as u64) / CHECKED {
            self.store.check_room(&self.user, piece.len() as u64)?; // other writers may have used the room meanwhile
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
            return Ok(()); // another link has written the same bytes
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
                // Removes the separate file, so that its bytes do not count twice.
                if fs::remove_file(&self.part).is_ok() {
                    self.store.remove_bytes(&self.user, self.at);
                }
            }
        }
    }
}
