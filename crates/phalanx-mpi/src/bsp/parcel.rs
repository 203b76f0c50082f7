//! What one process has for another in a superstep, as one message: entries, each with a head of 24 bytes.

use crate::error::{Class, Result, fail};
use crate::operations::collective::Span;
use phalanx_net::copy::append;
use std::ops::Range;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Data for an area; it follows the head.
    Put = 0,
    /// Data for an area, as a message of its own.
    HpPut = 1,
    /// Asks for data of an area.
    Get = 2,
    /// Asks for it as a message of its own.
    HpGet = 3,
    /// A message for the queue: tag and payload follow the head.
    Send = 4,
}

/// An entry. For a message of the queue, `slot` is the length of the tag, and `data` is tag and payload.
pub(super) struct Entry {
    pub kind: Kind,
    pub slot: u32,
    pub offset: u64,
    pub length: u64,
    /// Where in the parcel its data is.
    pub data: Range<usize>,
}

const HEAD: usize = 24;

/// What a process collects for another one.
#[derive(Default)]
pub(super) struct Parcel {
    pub bytes: Vec<u8>,
    /// Of it, what the program sees as data.
    pub data: u64,
    /// Where what was asked for goes, in the order of the entries; the first is of those that come together.
    pub gets: Vec<Span>,
    pub hpgets: Vec<Span>,
    /// What goes as messages of its own, in the order of the entries.
    pub hpputs: Vec<Span>,
}

// SAFETY: the memory is lent until the superstep has ended, to whichever thread works on it.
unsafe impl Send for Parcel {}

impl Parcel {
    fn head(&mut self, kind: Kind, slot: u32, offset: u64, length: usize) {
        let mut head = [0; HEAD];
        head[..4].copy_from_slice(&(kind as u32).to_le_bytes());
        head[4..8].copy_from_slice(&slot.to_le_bytes());
        head[8..16].copy_from_slice(&offset.to_le_bytes());
        head[16..].copy_from_slice(&(length as u64).to_le_bytes());
        self.bytes.extend_from_slice(&head);
    }

    pub fn put(&mut self, slot: u32, offset: u64, data: &[u8]) {
        self.bytes.reserve(HEAD + data.len());
        self.head(Kind::Put, slot, offset, data.len());
        append(&mut self.bytes, data);
        self.data += data.len() as u64;
    }

    pub fn hpput(&mut self, slot: u32, offset: u64, data: Span) {
        self.head(Kind::HpPut, slot, offset, data.length());
        self.hpputs.push(data);
        self.data += data.length() as u64;
    }

    pub fn get(&mut self, kind: Kind, slot: u32, offset: u64, into: Span) {
        self.head(kind, slot, offset, into.length());
        if kind == Kind::Get { self.gets.push(into) } else { self.hpgets.push(into) }
    }

    pub fn send(&mut self, tag: &[u8], payload: &[u8]) {
        self.bytes.reserve(HEAD + tag.len() + payload.len());
        self.head(Kind::Send, tag.len() as u32, 0, payload.len());
        self.bytes.extend_from_slice(tag);
        append(&mut self.bytes, payload);
        self.data += (tag.len() + payload.len()) as u64;
    }

    /// Bytes that answer the gets that come together.
    pub fn answer(&self) -> usize {
        self.gets.iter().map(|into| into.length()).sum()
    }
}

/// The entries of a parcel that has come.
pub(super) fn entries(bytes: &[u8]) -> impl Iterator<Item = Result<Entry>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        (at < bytes.len()).then(|| {
            let entry = entry(bytes, at);
            at = entry.as_ref().map_or(bytes.len(), |entry| entry.data.end);
            entry
        })
    })
}

fn entry(bytes: &[u8], at: usize) -> Result<Entry> {
    let Some(head) = bytes.get(at..at + HEAD) else { return broken() };
    let (number, slot) = (short(&head[..4]), short(&head[4..8]));
    let (offset, length) = (long(&head[8..16]), long(&head[16..]));
    let (kind, follows) = match number {
        0 => (Kind::Put, Some(length)),
        1 => (Kind::HpPut, Some(0)),
        2 => (Kind::Get, Some(0)),
        3 => (Kind::HpGet, Some(0)),
        4 => (Kind::Send, length.checked_add(slot.into())),
        _ => return broken(),
    };
    let start = at + HEAD;
    match follows {
        Some(follows) if follows <= (bytes.len() - start) as u64 => {
            Ok(Entry { kind, slot, offset, length, data: start..start + follows as usize })
        }
        _ => broken(),
    }
}

fn broken<T>() -> Result<T> {
    fail(Class::Intern, "what another process sent makes no sense: has it another version of phalanx?")
}

fn short(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

fn long(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}
