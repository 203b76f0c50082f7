//! The sending end's engine: what is read and sent next, over which stream it went, and what is to be sent again.

use super::versions::{Asked, Version, is_comparable};
use super::{FRAME, PART, Ranges};
use crate::error::WireError;
use crate::wire::transfer::{Entry, Kind, RECORD, There, Totals};
use std::collections::{HashMap, HashSet, VecDeque};

/// Entries that the other end is left to remember.
const MOST_PENDING: usize = 1 << 20;
/// Files that come in parts, of which some are sent and not all are taken: each is open at the other end.
const MOST_BEGUN: usize = 128;
/// Ranges that the other end may have of one entry from before. An honest one tells no more than 64, and those of its share.
const MOST_THERE: usize = 256;

/// Bytes of one entry that go into one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The number of the entry.
    pub entry: u32,
    /// Where the bytes begin in the file.
    pub offset: u64,
    /// How many bytes.
    pub length: u32,
}

/// What a thread with a free stream is to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Read these pieces and send them in one frame.
    Frame(Vec<Piece>),
    /// Nothing now; ask again when something has happened.
    Wait,
    /// Nothing any more.
    Ended,
}

/// An entry of which the other end has not taken all that it wants.
#[derive(Debug)]
struct Open {
    /// More than one piece.
    parts: bool,
    /// Bytes that were not yet given to a thread to read.
    unread: u64,
    /// Bytes that the other end has not taken.
    untaken: u64,
    /// Pieces that a thread is reading.
    reading: u32,
    /// Something of it was lost. The other end may have the word of a look at the source that was before what is read now: the
    /// source is looked at after each further piece.
    again: bool,
}

/// A frame that was given to a thread, and not taken by the other end.
#[derive(Debug)]
struct Flight {
    pieces: Vec<Piece>,
    /// How many of these were read.
    read: usize,
    /// Bytes that go over the stream for them.
    crossing: u64,
}

/// The sending end of one transfer.
#[derive(Debug, Default)]
pub struct Sending {
    /// Sizes of the entries that the other end has not answered, in order; none: it is no file.
    offered: VecDeque<Option<u64>>,
    /// Number of the first of these.
    answered: u32,
    all_offered: bool,
    open: HashMap<u32, Open>,
    /// Of these, those that come in parts and have begun.
    begun: HashSet<u32>,
    /// Entries that do not go on.
    failed: HashSet<u32>,
    /// Entries of which the other end has older versions.
    older: Asked,
    /// Ranges to be read, first ones first.
    wanted: VecDeque<(u32, u64, u64)>,
    /// What was sent on each stream and not yet taken by the other end, in order.
    flights: HashMap<u32, VecDeque<Flight>>,
    /// Of these streams, those that are no more. What the other end still says of them came too late.
    lost: HashSet<u32>,
    done: bool,
    /// Bytes that the other end has, with those it had before.
    there: u64,
    total: u64,
    /// Bytes that crossed streams.
    crossed: u64,
}

impl Sending {
    /// The next entries were told to the other end.
    pub fn on_offered(&mut self, entries: &[Entry]) {
        for entry in entries {
            let size = if let Kind::File { size } = entry.kind { Some(size) } else { None };
            self.total += size.unwrap_or(0);
            self.offered.push_back(size);
        }
    }

    /// The other end has to remember so much that no more is to be offered now.
    pub fn is_ahead(&self) -> bool {
        self.offered.len() + self.open.len().max(self.wanted.len()) > MOST_PENDING
    }

    /// There are no more entries.
    pub fn on_all_offered(&mut self) {
        self.all_offered = true;
    }

    /// The other end wants of the next `count` entries all but what is `there`, and of those in `older` the chunks first. An
    /// error where it names others.
    pub fn on_wanted(&mut self, count: u32, there: &[There], older: &[u32]) -> Result<(), WireError> {
        if count as usize > self.offered.len() {
            return Err(WireError::UnexpectedAnswer);
        }
        let (mut there, mut older) = (there.iter().peekable(), older.iter().peekable());
        for entry in self.answered..self.answered + count {
            let size = self.offered.pop_front().expect("as many were offered");
            let Some(size) = size.filter(|size| *size > 0) else { continue };
            let known = there.next_if(|known| known.entry == entry);
            if known.is_some_and(|known| known.ranges.len() > MOST_THERE) {
                return Err(WireError::Lengths);
            }
            let known = known.map_or(Some(Ranges::default()), |known| Ranges::from_pairs(&known.ranges, size));
            let compares = is_comparable(size) && older.next_if(|older| **older == entry).is_some();
            self.want(entry, size, known.ok_or(WireError::Lengths)?, compares);
        }
        self.answered += count;
        if there.next().is_some() || older.next().is_some() { Err(WireError::UnexpectedAnswer) } else { Ok(()) }
    }

    fn want(&mut self, entry: u32, size: u64, there: Ranges, compares: bool) {
        self.there += there.bytes();
        let unread = size - there.bytes();
        if unread == 0 {
            return;
        }
        let parts = size > u64::from(PART);
        self.open.insert(entry, Open { parts, unread, untaken: unread, reading: 0, again: false });
        match compares {
            true => self.older.add(entry, size, there),
            false => self.wanted.extend(there.missing(size).into_iter().map(|(from, to)| (entry, from, to))),
        }
    }

    /// The next entry whose chunks are to be told; none: not now.
    pub fn next_older(&mut self) -> Option<Version> {
        self.older.next()
    }

    /// So many more chunks of an entry are told. False: it does not go on.
    pub fn on_chunks_told(&mut self, entry: u32, chunks: u32) -> bool {
        self.older.on_told(entry, chunks)
    }

    /// The other end took these bytes of an entry from its older version; `ended`: all others are wanted. They go before those of
    /// other entries, since the other end has this one open. An error where nothing was asked, or told, of the entry.
    pub fn on_same(&mut self, entry: u32, ranges: &[(u64, u64)], ended: bool) -> Result<(), WireError> {
        let Some(open) = self.open.get_mut(&entry) else {
            return if self.failed.contains(&entry) { Ok(()) } else { Err(WireError::UnexpectedAnswer) };
        };
        let found = self.older.on_same(entry, ranges)?;
        (open.unread, open.untaken) = (open.unread - found, open.untaken - found);
        self.there += found;
        if !ended {
            return Ok(());
        }
        let missing = self.older.on_ended(entry);
        if missing.is_empty() {
            self.forget(entry);
        }
        missing.into_iter().rev().for_each(|(from, to)| self.wanted.push_front((entry, from, to)));
        Ok(())
    }

    /// Nothing more of an entry is sent, or taken. False: that was known.
    fn forget(&mut self, entry: u32) -> bool {
        self.begun.remove(&entry);
        self.older.forget(entry);
        self.open.remove(&entry).is_some()
    }

    /// What goes next over a stream.
    pub fn next(&mut self, stream: u32) -> Next {
        if self.done {
            return Next::Ended;
        }
        let pieces = self.fill();
        if pieces.is_empty() {
            return Next::Wait;
        }
        self.flights.entry(stream).or_default().push_back(Flight { pieces: pieces.clone(), read: 0, crossing: 0 });
        Next::Frame(pieces)
    }

    /// Pieces that fill a frame: one part, or as many whole small files as fit.
    fn fill(&mut self) -> Vec<Piece> {
        let (mut pieces, mut room) = (Vec::new(), FRAME as usize);
        while let Some((entry, from, to)) = self.wanted.pop_front() {
            let Some(open) = self.open.get_mut(&entry) else { continue }; // it failed meanwhile
            let length = (to - from).min(u64::from(PART)) as u32;
            let is_one_more = open.parts && !self.begun.contains(&entry);
            if RECORD + length as usize > room || (is_one_more && self.begun.len() >= MOST_BEGUN) {
                self.wanted.push_front((entry, from, to));
                break;
            }
            if is_one_more {
                self.begun.insert(entry);
            }
            room -= RECORD + length as usize;
            open.unread -= u64::from(length);
            open.reading += 1;
            pieces.push(Piece { entry, offset: from, length });
            let rest = from + u64::from(length);
            if rest < to {
                self.wanted.push_front((entry, rest, to));
                break; // the next part would not fit, and a small file can wait
            }
        }
        pieces
    }

    /// A thread has read the next piece for a stream, of which so many bytes go over it. True: whether the source changed is to be seen now, since all of the
    /// entry has been read, or some of it for the second time.
    pub fn on_read(&mut self, stream: u32, crossing: u32) -> bool {
        let flight = self.flights.get_mut(&stream).and_then(VecDeque::back_mut);
        let Some(flight) = flight.filter(|flight| flight.read < flight.pieces.len()) else { return false }; // it was lost
        flight.read += 1;
        flight.crossing += u64::from(crossing);
        let Some(open) = self.open.get_mut(&flight.pieces[flight.read - 1].entry) else { return false };
        open.reading -= 1;
        open.again || (open.unread == 0 && open.reading == 0)
    }

    /// The frame that was read last for a stream is compressed: so many bytes fewer go over it.
    pub fn on_packed(&mut self, stream: u32, saved: u64) {
        if let Some(flight) = self.flights.get_mut(&stream).and_then(VecDeque::back_mut) {
            flight.crossing = flight.crossing.saturating_sub(saved);
        }
    }

    /// This entry does not go on; false: that was known.
    pub fn on_failed(&mut self, entry: u32) -> bool {
        self.forget(entry) && self.failed.insert(entry)
    }

    /// The other end says that an entry does not go on; false: that was known. An error where it was not offered.
    pub fn on_refused(&mut self, entry: u32) -> Result<bool, WireError> {
        if u64::from(entry) >= u64::from(self.answered) + self.offered.len() as u64 {
            return Err(WireError::UnexpectedAnswer);
        }
        self.forget(entry);
        Ok(self.failed.insert(entry))
    }

    /// The other end has written what was in the first frames of a stream. An error where there were not so many.
    pub fn on_taken(&mut self, stream: u32, frames: u32) -> Result<(), WireError> {
        if self.lost.contains(&stream) {
            return Ok(());
        }
        let flight = self.flights.get_mut(&stream).ok_or(WireError::UnexpectedAnswer)?;
        for _ in 0..frames {
            let taken = flight.pop_front().filter(|flight| flight.read == flight.pieces.len());
            let Flight { pieces, crossing, .. } = taken.ok_or(WireError::UnexpectedAnswer)?;
            self.crossed += crossing;
            for Piece { entry, length, .. } in pieces {
                let length = u64::from(length);
                self.there += length;
                let Some(open) = self.open.get_mut(&entry) else { continue };
                open.untaken -= length;
                if open.untaken == 0 {
                    self.open.remove(&entry);
                    self.begun.remove(&entry);
                    self.older.forget(entry);
                }
            }
        }
        Ok(())
    }

    /// A stream is no more: what was not taken is read and sent again.
    pub fn on_lost(&mut self, stream: u32) {
        let Some(flights) = self.flights.remove(&stream) else { return };
        self.lost.insert(stream);
        for Flight { pieces, read, .. } in flights.into_iter().rev() {
            for (index, Piece { entry, offset, length }) in pieces.into_iter().enumerate().rev() {
                let Some(open) = self.open.get_mut(&entry) else { continue };
                open.reading -= u32::from(index >= read); // whoever still reads it does so for nothing
                open.unread += u64::from(length);
                open.again = true;
                self.wanted.push_front((entry, offset, offset + u64::from(length)));
            }
        }
    }

    /// The other end has everything. An error where it cannot: something was not answered, or never sent.
    pub fn on_done(&mut self, totals: &Totals) -> Result<(), WireError> {
        let answered = self.all_offered && self.offered.is_empty();
        let Totals { files, folders, links, failed, .. } = totals;
        let counted = [files, folders, links, failed].into_iter().fold(0u64, |sum, one| sum.saturating_add(*one));
        // Its word of what it took may have been lost with a stream, after which all is sent again; or comes after this one.
        let was_sent = |open: &Open| open.again || (open.unread == 0 && open.reading == 0);
        if !answered || counted < u64::from(self.answered) || !self.open.values().all(was_sent) {
            return Err(WireError::UnexpectedAnswer);
        }
        self.done = true;
        Ok(())
    }

    /// Bytes that crossed streams and were taken, without what was there and without holes.
    pub fn crossed(&self) -> u64 {
        self.crossed
    }

    /// Bytes that are there, and of all that were offered so far; whether there may be more.
    pub fn progress(&self) -> (u64, u64, bool) {
        (self.there, self.total, !self.all_offered)
    }
}
