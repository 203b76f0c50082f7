//! Files of which the receiving end has an older version, at both ends: whose turn it is, and how much is remembered.
//!
//! The sender tells the chunks of the new version; the receiver looks for them in the older one, copies those it finds, and
//! says which bytes those are. What is left is sent as any other file's bytes are.

use super::{Chunking, LEAST_COMPARED, MOST_CHUNKS, MOST_COMPARED, Ranges};
use crate::error::WireError;
use crate::wire::transfer::{CHUNK, Chunk};
use std::collections::{HashMap, VecDeque};

/// Files of which chunks were told and that are not whole: each is open at the other end.
const MOST_BEGUN: usize = 32;
/// Chunks of all of these, before those of another are told.
const MOST_TOLD: u64 = 2 * MOST_CHUNKS as u64;
/// Ranges that are there of one file: of its chunks, and from before.
const MOST_RANGES: usize = 2 * MOST_CHUNKS as usize;
/// The last bytes of a file are sent in any case: with them comes the word that the source did not change.
const LAST: u64 = 4096;

/// An older version is compared only if neither size is more than this many times the other. Versions of very different sizes
/// have little in common.
const SIMILAR: u64 = 4;

/// Whether a file of this size may be compared at all.
pub fn is_comparable(size: u64) -> bool {
    (LEAST_COMPARED..=MOST_COMPARED).contains(&size)
}

/// Whether an older version of this size is worth comparing with a new version of that size.
pub fn is_similar(older: u64, new: u64) -> bool {
    older.saturating_mul(SIMILAR) >= new && older <= new.saturating_mul(SIMILAR)
}

/// The part of a file that is compared: from the first byte that is not there to the last. Both ends compute it of the ranges
/// that the receiving end has told.
fn span(there: &Ranges, size: u64) -> (u64, u64) {
    let missing = there.missing(size);
    match (missing.first(), missing.last()) {
        (Some((from, _)), Some((_, to))) => (*from, *to),
        _ => (0, size),
    }
}

/// A file whose chunks are to be told, or have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// The number of the entry.
    pub entry: u32,
    /// The size of the new version.
    pub size: u64,
    /// Where the chunks begin and end in the new version.
    pub span: (u64, u64),
}

/// The sending end's.
#[derive(Debug, Default)]
pub struct Asked {
    /// The other end asked for their chunks, which are not told yet.
    waiting: VecDeque<u32>,
    /// The ranges found so far, of entries that the other end still compares.
    open: HashMap<u32, Open>,
    /// How many chunks were told of those that are not whole.
    told: HashMap<u32, u32>,
}

#[derive(Debug)]
struct Open {
    size: u64,
    there: Ranges,
}

impl Asked {
    /// The other end has an older version of an entry.
    pub fn add(&mut self, entry: u32, size: u64, there: Ranges) {
        self.waiting.push_back(entry);
        self.open.insert(entry, Open { size, there });
    }

    /// The next entry whose chunks are to be told; none: not now.
    pub fn next(&mut self) -> Option<Version> {
        let told: u64 = self.told.values().map(|chunks| u64::from(*chunks)).sum();
        if self.told.len() >= MOST_BEGUN || told >= MOST_TOLD {
            return None;
        }
        while let Some(entry) = self.waiting.pop_front() {
            if let Some(open) = self.open.get(&entry) {
                self.told.insert(entry, 0);
                return Some(Version { entry, size: open.size, span: span(&open.there, open.size) });
            }
        }
        None
    }

    /// So many more chunks of an entry are told. False: it does not go on.
    pub fn on_told(&mut self, entry: u32, chunks: u32) -> bool {
        self.told.get_mut(&entry).map(|told| *told += chunks).is_some()
    }

    /// Notes ranges that the older version had, and returns how many of their bytes were not known. Fails for an entry whose
    /// chunks were not asked for, or not told.
    pub fn on_same(&mut self, entry: u32, ranges: &[(u64, u64)]) -> Result<u64, WireError> {
        let was_told = self.told.contains_key(&entry);
        let open = self.open.get_mut(&entry).filter(|_| was_told).ok_or(WireError::UnexpectedAnswer)?;
        let before = open.there.bytes();
        for (from, to) in ranges {
            if from >= to || *to > open.size {
                return Err(WireError::Lengths);
            }
            open.there.add(*from, *to);
            if open.there.count() > MOST_RANGES {
                return Err(WireError::Lengths);
            }
        }
        Ok(open.there.bytes() - before)
    }

    /// The other end has compared an entry: returns the ranges that are missing.
    pub fn on_ended(&mut self, entry: u32) -> Vec<(u64, u64)> {
        self.open.remove(&entry).map(|open| open.there.missing(open.size)).unwrap_or_default()
    }

    /// An entry is whole, or does not go on.
    pub fn forget(&mut self, entry: u32) {
        self.open.remove(&entry);
        self.told.remove(&entry);
    }
}

/// The receiving end's.
#[derive(Debug, Default)]
pub struct Compared {
    entries: HashMap<u32, Coming>,
    chunks: u64,
}

/// The chunks of one entry, as far as they came.
#[derive(Debug)]
struct Coming {
    version: Version,
    /// How far the chunks reach.
    end: u64,
    count: u32,
    chunks: Vec<Chunk>,
}

impl Compared {
    /// The chunks are asked for of an entry of which these ranges are there.
    pub fn add(&mut self, entry: u32, size: u64, there: &Ranges) {
        let version = Version { entry, size, span: span(there, size) };
        self.entries.insert(entry, Coming { version, end: version.span.0, count: 0, chunks: Vec::new() });
    }

    /// The next chunks of an entry; all of them, once they have come. An error where these cannot be its.
    pub fn on_chunks(&mut self, entry: u32, chunks: &[Chunk]) -> Result<Option<(Version, Vec<Chunk>)>, WireError> {
        let begun = self.entries.values().filter(|coming| coming.count > 0).count();
        let coming = self.entries.get_mut(&entry).ok_or(WireError::UnexpectedAnswer)?;
        let (chunking, (_, last)) = (Chunking::of(coming.version.size), coming.version.span);
        for chunk in chunks {
            let end = coming.end + u64::from(chunk.length);
            if end > last || !chunking.allows(chunk.length, end == last) {
                return Err(WireError::Lengths);
            }
            coming.end = end;
        }
        coming.count += chunks.len() as u32;
        self.chunks += chunks.len() as u64;
        // An honest sender forgets an entry later than this end does, but for one that failed there, and has told fewer.
        if chunks.is_empty() || begun > 2 * MOST_BEGUN || self.chunks > 2 * MOST_TOLD {
            return Err(WireError::Lengths);
        }
        coming.chunks.extend_from_slice(chunks);
        Ok((coming.end == last).then(|| (coming.version, std::mem::take(&mut coming.chunks))))
    }

    /// The bytes that came over the control link for chunks.
    pub fn crossing(chunks: &[Chunk]) -> u64 {
        (chunks.len() * CHUNK) as u64
    }

    /// The part of these ranges that this end reports as present. This end takes the bytes of the file up to `end`.
    pub fn told(ranges: &Ranges, size: u64, end: u64) -> Ranges {
        let mut told = ranges.up_to(end.saturating_sub(LAST));
        let others = ranges.pairs().into_iter().filter(|(_, to)| end < size && *to > end);
        others.for_each(|(from, to)| told.add(from.max(end), to));
        told
    }

    /// An entry is in its place, or never will be.
    pub fn forget(&mut self, entry: u32) {
        if let Some(coming) = self.entries.remove(&entry) {
            self.chunks -= u64::from(coming.count);
        }
    }
}
