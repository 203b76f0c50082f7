//! The receiving end's engine: what there is to come, which bytes of it have, and when an entry is whole.

use super::versions::{Compared, Version, is_comparable};
use super::{PART, Ranges, SPLIT};
use crate::error::WireError;
use crate::wire::transfer::{Chunk, Entry, Kind, MOST_ENTRIES, Record, Share, There, Totals};
use std::collections::HashMap;

/// Bytes that entries may take together, as far as they have to be remembered: a peer does not fill this end's memory.
const MOST_MEMORY: u64 = 1 << 30;
/// Files of which parts come at a time; those that are there from before do not count until something comes.
const MOST_BEGUN: usize = 256;
/// Pieces that the bytes of all unfinished files may lie in, beside those that were there before. Of an honest sender there are
/// few more than frames on the way at a time, at most some thousands; a piece takes about 40 bytes of memory.
const MOST_PIECES: usize = 1 << 16;
/// What there is of any entry, and of one that is pending or a folder, without its name, in bytes.
const ENTRY: u64 = 32;
const PENDING: u64 = 320;

/// What to do with a record.
#[derive(Debug, PartialEq, Eq)]
pub enum Accept {
    /// It is all of its file.
    Whole,
    /// It is a part of its file.
    Part,
    /// Its file needs it not: it failed, or is in its place.
    Nothing,
    /// Parts of so many files have come that this one is not begun. An honest sender begins fewer, but some that failed there
    /// may not be known here yet: asked again later, there may be room.
    TooMany,
}

/// How an entry ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was put in its place.
    Copied,
    /// It was there already.
    Kept,
    /// Its share is there, and others bring the rest.
    Shared,
    /// It could not be copied.
    Failed,
}

#[derive(Debug)]
struct Slot {
    kind: Short,
    size: u64,
    state: State,
    /// Bytes of a folder's path, or of another entry's name.
    path: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not answered yet: nothing of it can come.
    Offered,
    /// It is compared with its older version: nothing of it can come.
    Compared,
    Coming,
    /// All of it has come, and a thread puts it in its place.
    Whole,
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Short {
    File,
    Folder,
    Link,
}

/// A file that comes in parts.
#[derive(Debug, Default)]
struct Partial {
    there: Ranges,
    settled: bool,
    /// Threads that write parts of it.
    writing: u32,
    /// Something of it has come.
    begun: bool,
    /// Bytes that were taken from its older version.
    reused: u64,
    /// Pieces that this end found on its own disk: from before, and in the older version.
    own: usize,
}

impl Partial {
    /// Pieces that the other end is accountable for.
    fn loose(&self) -> usize {
        self.there.count().saturating_sub(self.own)
    }
}

/// The receiving end of one transfer.
#[derive(Debug, Default)]
pub struct Receiving {
    /// What of it is to come; none: all.
    share: Option<Share>,
    slots: Vec<Slot>,
    partial: HashMap<u32, Partial>,
    /// Files that are compared with their older versions.
    older: Compared,
    /// How many of the partial ones have begun.
    begun: usize,
    /// Pieces of all of them that the other end is accountable for.
    loose: usize,
    all_offered: bool,
    open: u64,
    memory: u64,
    totals: Totals,
    /// Bytes that are there.
    received: u64,
    /// Bytes that came over streams, and as chunks' digests.
    crossed: u64,
    /// Of these, those that did not cross since frames were compressed.
    saved: u64,
    offered: u64,
}

impl Receiving {
    /// Of a share, or of all.
    pub fn new(share: Option<Share>) -> Receiving {
        Receiving { share, ..Receiving::default() }
    }

    /// The other end tells its next entries. Each is to be answered: by [`Receiving::on_there`], or it has ended.
    pub fn on_entries(&mut self, entries: &[Entry]) -> Result<u32, WireError> {
        let first = self.slots.len() as u32;
        if self.all_offered || self.slots.len() + entries.len() > MOST_ENTRIES as usize {
            return Err(WireError::NoMessage);
        }
        for (entry, number) in entries.iter().zip(first..) {
            entry.check(number)?;
            let parent = entry.parent.map(|parent| &self.slots[parent as usize]);
            if parent.is_some_and(|parent| parent.kind != Short::Folder) {
                return Err(WireError::NoMessage);
            }
            let name = entry.name.len() as u32;
            let (kind, size, path) = match &entry.kind {
                Kind::File { size } => (Short::File, *size, name),
                Kind::Folder => (Short::Folder, 0, parent.map_or(0, |parent| parent.path).saturating_add(name)),
                Kind::Link { .. } => (Short::Link, 0, name),
            };
            self.memory += ENTRY + PENDING + u64::from(path);
            self.offered = self.offered.checked_add(size).ok_or(WireError::Lengths)?;
            self.slots.push(Slot { kind, size, state: State::Offered, path });
        }
        self.open += entries.len() as u64;
        if self.memory > MOST_MEMORY { Err(WireError::NoMessage) } else { Ok(first) }
    }

    /// There are no more entries.
    pub fn on_all_entries(&mut self) {
        self.all_offered = true;
    }

    /// A file is wanted, but for these bytes, which are there from before; what is told to the other end, if there is
    /// something to tell. Something is always asked for: with it comes the word that the source did not change.
    pub fn on_there(&mut self, entry: u32, there: &Ranges) -> Option<There> {
        let slot = self.slots.get_mut(entry as usize).filter(|slot| slot.state == State::Offered)?;
        slot.state = State::Coming;
        if there.bytes() == 0 {
            return None;
        }
        let size = slot.size;
        let there = there.up_to(if there.bytes() >= size { size.saturating_sub(u64::from(PART)) } else { size });
        let ranges = there.pairs();
        self.received += there.bytes();
        self.partial.insert(entry, Partial { own: there.count(), there, ..Partial::default() });
        Some(There { entry, ranges })
    }

    /// As [`Receiving::on_there`], for a file that is compared with its older version until [`Receiving::on_compared`].
    pub fn on_older(&mut self, entry: u32, there: &Ranges) -> (Option<There>, bool) {
        let size = self.slots.get(entry as usize).map_or(0, |slot| slot.size);
        let told = self.on_there(entry, &Compared::told(there, size, range(self.share, size).1));
        let slot = self.slots.get_mut(entry as usize).filter(|slot| slot.state == State::Coming);
        let Some(slot) = slot.filter(|slot| is_comparable(slot.size)) else { return (told, false) };
        slot.state = State::Compared;
        let there = self.partial.get(&entry).map(|partial| partial.there.clone()).unwrap_or_default();
        self.older.add(entry, slot.size, &there);
        (told, true)
    }

    /// The next chunks of an entry; all of them, once they have come. An error where they were not asked for, or are not
    /// chunks of it.
    pub fn on_chunks(&mut self, entry: u32, chunks: &[Chunk]) -> Result<Option<(Version, Vec<Chunk>)>, WireError> {
        match self.slots.get(entry as usize).map(|slot| slot.state) {
            Some(State::Compared) => {}
            Some(State::Ended) => return Ok(None), // it failed here, which the other end did not know
            _ => return Err(WireError::UnexpectedAnswer),
        }
        self.crossed += Compared::crossing(chunks);
        self.older.on_chunks(entry, chunks)
    }

    /// Notes bytes that an entry took from its older version, and returns the ranges that the other end is told of.
    pub fn on_same(&mut self, entry: u32, found: &Ranges) -> Ranges {
        let slot = self.slots.get(entry as usize).filter(|slot| slot.state == State::Compared);
        let Some(slot) = slot else { return Ranges::default() };
        let told = Compared::told(found, slot.size, range(self.share, slot.size).1);
        let partial = self.partial.entry(entry).or_default();
        let before = partial.there.bytes();
        told.pairs().into_iter().for_each(|(from, to)| partial.there.add(from, to));
        partial.own = partial.there.count(); // nothing of it has come yet
        let fresh = partial.there.bytes() - before;
        partial.reused += fresh;
        self.received += fresh;
        told
    }

    /// The entry is compared: its missing bytes may come from now on. False: the entry has ended.
    pub fn on_compared(&mut self, entry: u32) -> bool {
        let slot = self.slots.get_mut(entry as usize).filter(|slot| slot.state == State::Compared);
        slot.map(|slot| slot.state = State::Coming).is_some()
    }

    /// Nothing of an entry is to come; what is told to the other end, if there is something to tell.
    pub fn nothing_of(&self, entry: u32) -> Option<There> {
        let size = self.slots.get(entry as usize).map_or(0, |slot| slot.size);
        (size > 0).then(|| There { entry, ranges: vec![(0, size)] })
    }

    /// A frame came compressed: so many bytes fewer crossed than are in its records, which are accepted next.
    pub fn on_packed(&mut self, saved: u64) {
        self.saved += saved;
    }

    /// Whether a record's bytes are to be written. Who is told [`Accept::Part`] says [`Receiving::on_written`] after.
    pub fn accept(&mut self, record: &Record) -> Result<Accept, WireError> {
        let slot = self.slots.get_mut(record.entry as usize).ok_or(WireError::NoMessage)?;
        let end = record.offset.checked_add(u64::from(record.length)).ok_or(WireError::Lengths)?;
        if slot.kind != Short::File || end > slot.size || record.length == 0 || record.length > PART {
            return Err(WireError::Lengths);
        }
        if matches!(slot.state, State::Offered | State::Compared) {
            return Err(WireError::UnexpectedAnswer);
        }
        let (from, to) = range(self.share, slot.size);
        if record.offset < from || to < end {
            return Err(WireError::Lengths); // others bring that, and it is not this end's to overwrite
        }
        let length = u64::from(record.length);
        if slot.state == State::Coming && self.is_too_many(record) {
            return Ok(Accept::TooMany);
        }
        self.received += length;
        self.crossed += if record.hole { 0 } else { length };
        let slot = &mut self.slots[record.entry as usize];
        if slot.state != State::Coming {
            return Ok(Accept::Nothing);
        }
        if is_whole(slot, record) && !self.partial.contains_key(&record.entry) {
            slot.state = State::Whole;
            return Ok(Accept::Whole);
        }
        if self.loose >= MOST_PIECES {
            return Err(WireError::Scattered(MOST_PIECES));
        }
        let partial = self.partial.entry(record.entry).or_default();
        self.begun += usize::from(!partial.begun);
        partial.begun = true;
        partial.writing += 1;
        Ok(Accept::Part)
    }

    /// Whether a record is the first part of a file, and parts of others are all that may be.
    fn is_too_many(&self, record: &Record) -> bool {
        let partial = self.partial.get(&record.entry);
        let comes_whole = partial.is_none() && is_whole(&self.slots[record.entry as usize], record);
        !comes_whole && self.begun >= MOST_BEGUN && !partial.is_some_and(|partial| partial.begun)
    }

    /// A part was written. True: that was the last, and the caller puts the file in its place.
    pub fn on_written(&mut self, record: &Record) -> bool {
        let Some(partial) = self.partial.get_mut(&record.entry) else { return false };
        partial.writing -= 1;
        let before = partial.loose();
        partial.there.add(record.offset, record.offset + u64::from(record.length));
        self.loose = self.loose + partial.loose() - before;
        partial.settled |= record.settles;
        let slot = &mut self.slots[record.entry as usize];
        let is_last = partial.settled && partial.writing == 0 && partial.there.bytes() == slot.size;
        if is_last {
            slot.state = State::Whole;
        }
        is_last
    }

    /// Of the first so many files that come in parts, and of which something is there, what.
    pub fn partial(&self, most: usize) -> Vec<There> {
        let some = self.partial.iter().filter(|(_, partial)| partial.there.bytes() > 0);
        some.take(most).map(|(entry, partial)| There { entry: *entry, ranges: partial.there.pairs() }).collect()
    }

    /// An entry is in its place, or never will be; false: that was known, or there is no such entry.
    pub fn on_ended(&mut self, entry: u32, outcome: Outcome) -> bool {
        let slot = self.slots.get_mut(entry as usize).filter(|slot| slot.state != State::Ended);
        let Some(slot) = slot else { return false };
        let was_offered = slot.state == State::Offered;
        slot.state = State::Ended;
        self.open -= 1;
        if slot.kind != Short::Folder {
            self.memory -= PENDING + u64::from(slot.path);
        }
        if outcome == Outcome::Kept || (outcome == Outcome::Shared && was_offered) {
            self.received += slot.size; // it is there, as after a cut
        }
        self.older.forget(entry);
        let partial = self.partial.remove(&entry).unwrap_or_default();
        self.begun -= usize::from(partial.begun);
        self.loose -= partial.loose();
        let totals = &mut self.totals;
        match (outcome, slot.kind) {
            (Outcome::Failed, _) => totals.failed += 1,
            (_, Short::Folder) => totals.folders += 1,
            (_, Short::Link) => totals.links += 1,
            (_, Short::File) => {
                totals.files += 1;
                totals.bytes += if outcome == Outcome::Shared { 0 } else { slot.size };
                totals.kept_files += u64::from(outcome != Outcome::Copied);
                totals.reused += partial.reused;
            }
        }
        true
    }

    /// Whether an entry has ended, or there is none of that number.
    pub fn has_ended(&self, entry: u32) -> bool {
        self.slots.get(entry as usize).is_none_or(|slot| slot.state == State::Ended)
    }

    /// Something failed that is no entry, or had ended.
    pub fn on_skipped(&mut self) {
        self.totals.failed += 1;
    }

    /// Whether everything has ended, folders but for their times.
    pub fn is_ended(&self) -> bool {
        self.all_offered && self.open == 0
    }

    /// What came of the entries that have ended.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Bytes that came, over streams and as chunks' digests, without what was there and without holes.
    pub fn crossed(&self) -> u64 {
        self.crossed.saturating_sub(self.saved)
    }

    /// Bytes that are there, and of all files that were offered so far; whether there may be more.
    pub fn progress(&self) -> (u64, u64, bool) {
        (self.received, self.offered, !self.all_offered)
    }
}

/// From where to where this end takes a file of this size.
fn range(share: Option<Share>, size: u64) -> (u64, u64) {
    share.filter(|_| size >= SPLIT).map_or((0, size), |it| it.range(size))
}

/// Whether a record is all of its file.
fn is_whole(slot: &Slot, record: &Record) -> bool {
    u64::from(record.length) == slot.size && record.settles && !record.hole
}
