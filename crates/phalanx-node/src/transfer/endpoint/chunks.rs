//! Content-defined chunks of files, their digests, and an index of where the chunks belong.

use super::common::{Common, PAUSE};
use crate::transfer::system;
use phalanx_core::transfer::{Chunking, Version};
use phalanx_core::wire::transfer::Chunk;
use phalanx_net::identity::random_token;
use phalanx_net::sync::lock;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::{Condvar, Mutex, PoisonError};

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;
pub type Digest = [u8; 16];

/// The key of a copy's digests. It is random, so that digests of different copies cannot be compared.
pub struct Key(pub [u8; 32]);

impl Key {
    pub fn draw() -> Key {
        let mut key = [0; 32];
        key[..16].copy_from_slice(&random_token());
        key[16..].copy_from_slice(&random_token());
        Key(key)
    }
}

/// Called with each chunk: its offset, its bytes, and its digest.
pub type Each<'a> = dyn FnMut(u64, &[u8], Digest) -> io::Result<()> + 'a;

/// Cuts a file's bytes of this range, and calls `each` with every chunk.
pub fn cut(
    file: &File,
    (start, end): (u64, u64),
    chunking: Chunking,
    key: &[u8; 32],
    each: &mut Each<'_>,
) -> io::Result<()> {
    let mut buffer = vec![0; chunking.most() + PIECE.max(chunking.most())];
    // The buffer holds the file's bytes from `begin`, where the next chunk begins, in `from..to`.
    let (mut begin, mut from, mut to) = (start, 0, 0);
    loop {
        let unread = end - begin - (to - from) as u64;
        if to - from < chunking.most() && unread > 0 {
            buffer.copy_within(from..to, 0);
            (from, to) = (0, to - from);
            let room = ((buffer.len() - to) as u64).min(unread) as usize;
            system::read_at(file, &mut buffer[to..to + room], begin + to as u64)?;
            to += room;
        }
        if from == to {
            return Ok(());
        }
        let length = chunking.cut(&buffer[from..to]);
        let chunk = &buffer[from..from + length];
        let digest = blake3::keyed_hash(key, chunk);
        each(begin, chunk, digest.as_bytes()[..16].try_into().map_err(io::Error::other)?)?;
        begin += length as u64;
        from += length;
    }
}

/// The files that the receiving end is to compare.
#[derive(Default)]
pub struct Queue {
    waiting: Mutex<VecDeque<NewVersion>>,
    changed: Condvar,
}

/// The chunks of an entry's new version.
pub struct NewVersion {
    pub version: Version,
    pub key: [u8; 32],
    pub chunks: Vec<Chunk>,
}

impl Queue {
    /// Adds a file.
    pub fn add(&self, told: NewVersion) {
        lock(&self.waiting).push_back(told);
        self.wake();
    }

    /// Wakes the thread that waits in [`Queue::next`].
    pub fn wake(&self) {
        self.changed.notify_all();
    }

    /// Waits for the next file; `None`: the transfer is over.
    pub fn next(&self, common: &Common) -> Option<NewVersion> {
        let mut waiting = lock(&self.waiting);
        while !common.is_over() {
            if let Some(told) = waiting.pop_front() {
                return Some(told);
            }
            waiting = self.changed.wait_timeout(waiting, PAUSE).unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }
}

/// Where the chunks of the new version belong, by digest.
pub struct Index {
    /// Digest, offset and length, sorted.
    places: Vec<(Digest, u64, u32)>,
    /// For the first place of each digest, whether its places were returned already.
    found: Vec<bool>,
}

impl Index {
    /// The first chunk belongs at `start`.
    pub fn new(chunks: &[Chunk], start: u64) -> Index {
        let mut end = start;
        let places = chunks.iter().map(|chunk| {
            end += u64::from(chunk.length);
            (chunk.digest, end - u64::from(chunk.length), chunk.length)
        });
        let mut places: Vec<_> = places.collect();
        places.sort_unstable();
        Index { found: vec![false; places.len()], places }
    }

    /// The places in the new version of a chunk of the older version. Empty when the same chunk is found again.
    pub fn take(&mut self, digest: &Digest, length: u32) -> &[(Digest, u64, u32)] {
        let first = self.places.partition_point(|place| place.0 < *digest);
        let same = self.places[first..].iter().take_while(|place| place.0 == *digest && place.2 == length).count();
        if same == 0 || std::mem::replace(&mut self.found[first], true) {
            return &[];
        }
        &self.places[first..first + same]
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_file_is_cut_as_its_bytes_are_however_it_is_read() {
        let file = tempfile::tempfile().expect("a file");
        let bytes: Vec<u8> = (0..5_000_000u64).map(|at| (at.wrapping_mul(at) >> 7) as u8).collect();
        file.write_all_at(&bytes, 0).expect("is written");
        for size in [1 << 20, bytes.len() as u64, 1 << 30] {
            let (chunking, key, mut at) = (Chunking::of(size), Key::draw(), 0);
            cut(&file, (0, bytes.len() as u64), chunking, &key.0, &mut |offset, chunk, digest| {
                let rest = &bytes[at..];
                assert_eq!((offset, chunk), (at as u64, &rest[..chunking.cut(rest)]));
                assert_eq!(digest, blake3::keyed_hash(&key.0, chunk).as_bytes()[..16]);
                at += chunk.len();
                Ok(())
            })
            .expect("is cut");
            assert_eq!(at, bytes.len());
        }
        let (chunking, key, mut all) = (Chunking::of(1 << 20), Key::draw(), Vec::new());
        let mut note = |offset: u64, chunk: &[u8], _: Digest| -> io::Result<()> {
            assert_eq!(offset, 1_000_000 + all.len() as u64);
            all.extend_from_slice(chunk);
            Ok(())
        };
        cut(&file, (1_000_000, 3_000_000), chunking, &key.0, &mut note).expect("is cut");
        assert!(all == bytes[1_000_000..3_000_000]);
        let too_long = cut(&file, (0, 6_000_000), Chunking::of(1 << 20), &Key::draw().0, &mut |_, _, _| Ok(()));
        assert_eq!(too_long.expect_err("it is shorter").kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_chunk_is_put_wherever_it_is_wanted_and_once() {
        let chunk = |digest, length| Chunk { digest: [digest; 16], length };
        let mut index = Index::new(&[chunk(1, 10), chunk(2, 20), chunk(1, 10), chunk(1, 30)], 5);
        let offsets = |places: &[(Digest, u64, u32)]| places.iter().map(|place| place.1).collect::<Vec<_>>();
        assert_eq!(offsets(index.take(&[1; 16], 10)), [5, 35]);
        assert_eq!(offsets(index.take(&[1; 16], 10)), [0; 0]);
        assert_eq!(offsets(index.take(&[2; 16], 21)), [0; 0], "another length");
        assert_eq!(offsets(index.take(&[2; 16], 20)), [15]);
        assert_eq!(offsets(index.take(&[3; 16], 10)), [0; 0]);
    }
}
