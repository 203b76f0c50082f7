//! Files of which the receiving end has an older version: only the differences are transferred, as with rsync.
//!
//! The sending end cuts the new version into content-defined chunks, and sends their digests. The receiving end cuts the
//! older version in the same way. If it knows a chunk's digest, it writes the chunk to the new file from the same memory that
//! the digest was computed of. So no other bytes get into the new file, even if the older version changes meanwhile. The
//! remaining bytes are sent as usual.

use super::chunks::{Index, NewVersion, cut};
use super::common::PAUSE;
use super::receiver::Receiver;
use super::sender::Sender;
use crate::transfer::system;
use bytes::Bytes;
use cap_std::fs::Metadata;
use phalanx_core::level::Mark;
use phalanx_core::transfer::{Chunking, Ranges, Version};
use phalanx_core::wire::encode;
use phalanx_core::wire::transfer::{Chunk, MOST_CHUNKS_TOLD, MOST_SAME, Message, encode_chunk};
use phalanx_net::sync::lock;
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Interval at which the receiving end reports what it has found so far.
const OFTEN: Duration = Duration::from_secs(1);
/// How far bytes may have moved within a file, beside what it has grown or shrunk, when only a part of it is compared. Reading
/// 16 MiB takes about 20 ms.
const FAR: u64 = 16 << 20;

impl Sender {
    /// The loop of a thread: sends the digests of files of which the other end has older versions, until the transfer is
    /// over.
    pub fn tell_all_chunks(&self) {
        let mut engine = lock(&self.engine);
        while !self.common.is_over() {
            let Some(version) = engine.next_older() else {
                engine = self.less.wait_timeout(engine, PAUSE).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            };
            drop(engine);
            if let Err(error) = self.tell_chunks(version) {
                self.fail(version.entry, &error);
            }
            engine = lock(&self.engine);
        }
    }

    fn tell_chunks(&self, Version { entry, size, span }: Version) -> io::Result<()> {
        let opened = self.source.open_part(entry)?;
        let (mut count, mut body) = (0, Vec::new());
        let tell = |count: &mut u32, body: &mut Vec<u8>| {
            let (told, body) = (std::mem::take(count), std::mem::take(body));
            if !lock(&self.engine).on_chunks_told(entry, told) || self.common.is_over() {
                return Err(given_up());
            }
            self.wait_for_turn(body.len());
            let start = encode(&Message::Chunks { entry, key: self.key.0, count: told }, body.len() as u64);
            self.common.moved.fetch_add(1, Ordering::Relaxed);
            self.common.link.send(Mark::None, start, vec![Bytes::from(body)]).map_err(io::Error::other)
        };
        cut(&opened.file, span, Chunking::of(size), &self.key.0, &mut |_, chunk, digest| {
            encode_chunk(&Chunk { length: chunk.len() as u32, digest }, &mut body);
            count += 1;
            if count as usize == MOST_CHUNKS_TOLD { tell(&mut count, &mut body) } else { Ok(()) }
        })
        .map_err(crate::transfer::disk::source::shorter)?;
        if count > 0 { tell(&mut count, &mut body) } else { Ok(()) }
    }
}

impl Receiver {
    /// The other end has sent chunks of an entry. An error means that it broke the protocol.
    pub fn on_chunks(&self, entry: u32, key: [u8; 32], chunks: &[Chunk]) -> Result<(), String> {
        self.common.moved.fetch_add(1, Ordering::Relaxed);
        let all = lock(&self.engine).on_chunks(entry, chunks).map_err(|error| error.to_string())?;
        if let Some((version, chunks)) = all {
            self.older.add(NewVersion { version, key, chunks });
        }
        Ok(())
    }

    /// The loop of a thread: copies chunks from older versions to new ones, until the transfer is over.
    pub fn compare_all(&self) {
        while let Some(NewVersion { version, key, chunks }) = self.older.next(&self.common) {
            let compared = self.compare(version, &key, &chunks);
            if let Err(error) = compared {
                self.fail(version.entry, error.to_string(), true);
            }
        }
    }

    fn compare(&self, version: Version, key: &[u8; 32], chunks: &[Chunk]) -> io::Result<()> {
        let Version { entry, size, span } = version;
        let (mut index, mut found, mut last) = (Index::new(chunks, span.0), Ranges::default(), Instant::now());
        let mut failed = None;
        let older = self.sink.older(entry);
        let read = older.and_then(|(older, length)| {
            let sparse = system::may_be_sparse(&Metadata::from_just_metadata(older.metadata()?));
            cut(&older, around(version, length), Chunking::of(size), key, &mut |_, chunk, digest| {
                if self.common.is_over() || lock(&self.engine).has_ended(entry) {
                    return Err(given_up());
                }
                let hole = sparse && chunk.iter().all(|byte| *byte == 0);
                for (_, offset, length) in index.take(&digest, chunk.len() as u32) {
                    let put = match hole {
                        true => self.sink.hole(entry, *offset, *length),
                        false => self.sink.part(entry, chunk, *offset),
                    };
                    if let Err(error) = put {
                        failed = Some(error);
                        return Err(given_up());
                    }
                    found.add(*offset, offset + u64::from(*length));
                }
                if found.count() >= MOST_SAME || last.elapsed() >= OFTEN {
                    last = Instant::now();
                    self.tell_same(entry, &std::mem::take(&mut found), false);
                }
                Ok(())
            })
        });
        if let Some(error) = failed {
            return Err(error); // the new version cannot be written
        }
        // If the older version cannot be read to its end, the chunks found so far are used.
        drop(read);
        self.tell_same(entry, &found, true);
        Ok(())
    }

    /// Sends the ranges that were found, in messages of bounded length. `ended`: the comparison is complete.
    fn tell_same(&self, entry: u32, found: &Ranges, ended: bool) {
        self.common.moved.fetch_add(1, Ordering::Relaxed);
        let mut engine = lock(&self.engine);
        let told = engine.on_same(entry, found).pairs();
        if ended && !engine.on_compared(entry) {
            return; // it failed
        }
        drop(engine);
        let mut pieces = told.chunks(MOST_SAME).peekable();
        while let Some(ranges) = pieces.next() {
            let ended = ended && pieces.peek().is_none();
            self.common.tell(&Message::Same { entry, ranges: ranges.to_vec(), ended });
        }
        if told.is_empty() {
            self.common.tell(&Message::Same { entry, ranges: Vec::new(), ended });
        }
    }
}

/// The range of an older version of this length in which the bytes of a span are looked for. If only a part of the new version
/// is compared, they are looked for near their own place, so that the machines of a copy with stripes do not all read the whole
/// older version.
fn around(Version { size, span: (from, to), .. }: Version, length: u64) -> (u64, u64) {
    if (from, to) == (0, size) {
        return (0, length);
    }
    let far = size.abs_diff(length).saturating_add(FAR);
    (from.saturating_sub(far).min(length), to.saturating_add(far).min(length))
}

fn given_up() -> io::Error {
    io::Error::other("it was given up")
}
