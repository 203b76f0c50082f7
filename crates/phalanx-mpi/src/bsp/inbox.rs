//! The queue of messages of a superstep. They stay in the parcels in which they came.

use std::collections::VecDeque;
use std::ops::Range;

#[derive(Default)]
pub(super) struct Inbox {
    parcels: Vec<Vec<u8>>,
    letters: VecDeque<Letter>,
    payloads: usize,
}

struct Letter {
    parcel: usize,
    tag: Range<usize>,
    payload: Range<usize>,
}

impl Inbox {
    /// Of the parcels of all processes.
    pub fn new(parcels: Vec<Vec<u8>>) -> Inbox {
        Inbox { parcels, ..Inbox::default() }
    }

    /// Of messages: tag and payload.
    pub fn of(letters: &[(&[u8], &[u8])]) -> Inbox {
        let mut inbox =
            Inbox::new(vec![letters.iter().flat_map(|(tag, payload)| [*tag, *payload]).flatten().copied().collect()]);
        let mut start = 0;
        for (tag, payload) in letters {
            let end = start + tag.len() + payload.len();
            inbox.add(0, tag.len(), start..end);
            start = end;
        }
        inbox
    }

    /// Those that are left: tag and payload.
    pub fn letters(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.letters.iter().map(|letter| self.read(letter))
    }

    pub fn parcels(&self) -> &[Vec<u8>] {
        &self.parcels
    }

    /// A message, whose tag and payload lie in a parcel one after the other.
    pub fn add(&mut self, parcel: usize, tag: usize, data: Range<usize>) {
        let middle = data.start + tag;
        self.payloads += data.end - middle;
        self.letters.push_back(Letter { parcel, tag: data.start..middle, payload: middle..data.end });
    }

    /// Messages, and the bytes of their payloads.
    pub fn size(&self) -> (usize, usize) {
        (self.letters.len(), self.payloads)
    }

    pub fn first(&self) -> Option<(&[u8], &[u8])> {
        self.letters.front().map(|letter| self.read(letter))
    }

    pub fn take(&mut self) -> Option<(&[u8], &[u8])> {
        let letter = self.letters.pop_front()?;
        self.payloads -= letter.payload.len();
        Some(self.read(&letter))
    }

    fn read(&self, letter: &Letter) -> (&[u8], &[u8]) {
        let parcel = &self.parcels[letter.parcel];
        (&parcel[letter.tag.clone()], &parcel[letter.payload.clone()])
    }
}
