//! Files in chunks: cut where their content says, with a digest of each, and where chunks are to be.

use super::common::{Common, PAUSE};
use crate::transfer::system;
use phalanx_core::transfer::Chunking;
use phalanx_core::wire::transfer::Chunk;
use phalanx_net::identity::random_token;
use phalanx_net::sync::lock;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::{Condvar, Mutex, PoisonError};

/// Read at once, in bytes.
const PIECE: usize = 1 << 20;
/// An older version is compared whose size is not more than so many times the new one's, nor the other way round: of one that
/// has another size altogether, little is alike.
const SIMILAR: u64 = 4;

pub type Digest = [u8; 16];

/// Drawn for each copy: digests say nothing to whoever sees those of another copy.
pub struct Key(pub [u8; 32]);

impl Key {
    pub fn draw() -> Key {
        let mut key = [0; 32];
        key[..16].copy_from_slice(&random_token());
        key[16..].copy_from_slice(&random_token());
        Key(key)
    }
}

/// Whether an older version of this size is worth comparing with a new one of that.
pub fn is_similar(older: u64, new: u64) -> bool {
    older.saturating_mul(SIMILAR) >= new && older <= new.saturating_mul(SIMILAR)
}

/// Is told a chunk: where it is, its bytes, and its digest.
pub type Each<'a> = dyn FnMut(u64, &[u8], Digest) -> io::Result<()> + 'a;

/// Tells every chunk of a file of `size` bytes: where it is, its bytes, and its digest.
pub fn cut(file: &File, size: u64, chunking: Chunking, key: &[u8; 32], each: &mut Each<'_>) -> io::Result<()> {
    let mut buffer = vec![0; chunking.most() + PIECE.max(chunking.most())];
    // Of the file, what is in the buffer: from the chunk that begins at `begin`, as far as it was read.
    let (mut begin, mut from, mut to) = (0, 0, 0);
    loop {
        let unread = size - begin - (to - from) as u64;
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

/// The receiving end's files that are to be compared.
#[derive(Default)]
pub struct Queue {
    waiting: Mutex<VecDeque<Told>>,
    changed: Condvar,
}

/// All chunks of an entry.
pub struct Told {
    pub entry: u32,
    pub key: [u8; 32],
    pub chunks: Vec<Chunk>,
}

impl Queue {
    /// One more.
    pub fn add(&self, told: Told) {
        lock(&self.waiting).push_back(told);
        self.wake();
    }

    /// All is over, or there is something to do.
    pub fn wake(&self) {
        self.changed.notify_all();
    }

    /// The next; none: all is over.
    pub fn next(&self, common: &Common) -> Option<Told> {
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

/// Where the chunks of the new version are to be, by their digests.
pub struct Index {
    /// Digest, offset, length; in order.
    places: Vec<(Digest, u64, u32)>,
    /// Whether that one, the first of its digest, was written with all others of it.
    found: Vec<bool>,
}

impl Index {
    pub fn new(chunks: &[Chunk]) -> Index {
        let mut end = 0;
        let places = chunks.iter().map(|chunk| {
            end += u64::from(chunk.length);
            (chunk.digest, end - u64::from(chunk.length), chunk.length)
        });
        let mut places: Vec<_> = places.collect();
        places.sort_unstable();
        Index { found: vec![false; places.len()], places }
    }

    /// Where a chunk of the older version is to be in the new one, the first time that it is met.
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
            cut(&file, bytes.len() as u64, chunking, &key.0, &mut |offset, chunk, digest| {
                let rest = &bytes[at..];
                assert_eq!((offset, chunk), (at as u64, &rest[..chunking.cut(rest)]));
                assert_eq!(digest, blake3::keyed_hash(&key.0, chunk).as_bytes()[..16]);
                at += chunk.len();
                Ok(())
            })
            .expect("is cut");
            assert_eq!(at, bytes.len());
        }
        let too_long = cut(&file, 6_000_000, Chunking::of(1 << 20), &Key::draw().0, &mut |_, _, _| Ok(()));
        assert_eq!(too_long.expect_err("it is shorter").kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_chunk_is_put_wherever_it_is_wanted_and_once() {
        let chunk = |digest, length| Chunk { digest: [digest; 16], length };
        let mut index = Index::new(&[chunk(1, 10), chunk(2, 20), chunk(1, 10), chunk(1, 30)]);
        let offsets = |places: &[(Digest, u64, u32)]| places.iter().map(|place| place.1).collect::<Vec<_>>();
        assert_eq!(offsets(index.take(&[1; 16], 10)), [0, 30]);
        assert_eq!(offsets(index.take(&[1; 16], 10)), [0; 0]);
        assert_eq!(offsets(index.take(&[2; 16], 21)), [0; 0], "another length");
        assert_eq!(offsets(index.take(&[2; 16], 20)), [10]);
        assert_eq!(offsets(index.take(&[3; 16], 10)), [0; 0]);
    }

    #[test]
    fn versions_of_other_sizes_are_not_compared() {
        assert!(is_similar(100, 400) && is_similar(400, 100) && is_similar(u64::MAX, u64::MAX));
        assert!(!is_similar(100, 401) && !is_similar(401, 100) && !is_similar(0, 1 << 20));
    }
}
