//! Messages that no receive waits for yet, in order of arrival: of all sources, and of each source by itself. A receive
//! that names its source looks only at that source's messages, however many others have come before them.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::matching::{ContextHasher, Envelope, Pattern};

/// The unexpected messages of one context. Each is a member of two doubly linked lists.
#[derive(Debug)]
pub(super) struct Unexpected<M> {
    /// Holds each message in a slot, whose index is its place in the lists. Free slots are in a list of their own.
    slots: Vec<Slot<M>>,
    free: Option<u32>,
    all: Ends,
    /// A list for each source. It stays when it is empty: there are no more lists than ranks that sent something unexpected.
    lists: Vec<Ends>,
    /// The index of each source's list, and the one that was looked up last.
    sources: HashMap<u64, u32, BuildHasherDefault<ContextHasher>>,
    recent: Option<(i32, u32)>,
}

#[derive(Debug)]
struct Slot<M> {
    envelope: Envelope,
    /// None: the slot is free.
    message: Option<M>,
    /// The index of its source's list.
    list: u32,
    links: [Links; 2],
}

/// The neighbours of a slot in one list.
#[derive(Debug, Clone, Copy, Default)]
struct Links {
    before: Option<u32>,
    after: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Ends {
    first: Option<u32>,
    last: Option<u32>,
}

/// The two lists of a slot.
const ALL: usize = 0;
const SOURCE: usize = 1;

impl<M> Default for Unexpected<M> {
    fn default() -> Unexpected<M> {
        let (slots, lists, sources) = (Vec::new(), Vec::new(), HashMap::default());
        Unexpected { slots, free: None, all: Ends::default(), lists, sources, recent: None }
    }
}

impl<M> Unexpected<M> {
    /// Whether there is no message.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.all.first.is_none()
    }

    /// Appends a message.
    #[inline]
    pub(super) fn push(&mut self, envelope: Envelope, message: M) {
        let list = self.list_of(envelope.source).unwrap_or_else(|| self.add_list(envelope.source));
        self.recent = Some((envelope.source, list));
        let slot = Slot { envelope, message: Some(message), list, links: [Links::default(); 2] };
        let index = match self.free {
            Some(index) => {
                self.free = self.slots[index as usize].links[ALL].after;
                self.slots[index as usize] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        append(&mut self.slots, &mut self.all, ALL, index);
        append(&mut self.slots, &mut self.lists[list as usize], SOURCE, index);
    }

    /// The first message that matches.
    pub(super) fn look(&self, pattern: &Pattern) -> Option<(&Envelope, &M)> {
        let slot = &self.slots[self.find(pattern)? as usize];
        slot.message.as_ref().map(|message| (&slot.envelope, message))
    }

    /// Removes and returns the first message that matches.
    pub(super) fn take(&mut self, pattern: &Pattern) -> Option<(Envelope, M)> {
        let index = self.find(pattern)?;
        self.remove(index)
    }

    /// Removes and returns the first message of which `is_it` is true.
    pub(super) fn withdraw(&mut self, is_it: impl Fn(&M) -> bool) -> Option<M> {
        let mut next = self.all.first;
        while let Some(index) = next {
            let slot = &self.slots[index as usize];
            if slot.message.as_ref().is_some_and(&is_it) {
                return self.remove(index).map(|(_, message)| message);
            }
            next = slot.links[ALL].after;
        }
        None
    }

    /// All messages in order of arrival.
    pub(super) fn into_messages(mut self) -> Vec<M> {
        let mut messages = Vec::new();
        while let Some((_, message)) = self.all.first.and_then(|index| self.remove(index)) {
            messages.push(message);
        }
        messages
    }

    /// The index of a source's list; None: it has sent nothing unexpected so far.
    #[inline]
    fn list_of(&self, source: i32) -> Option<u32> {
        match self.recent {
            Some((recent, list)) if recent == source => Some(list),
            _ => self.sources.get(&key(source)).copied(),
        }
    }

    fn add_list(&mut self, source: i32) -> u32 {
        let list = self.lists.len() as u32;
        self.lists.push(Ends::default());
        self.sources.insert(key(source), list);
        list
    }

    #[inline]
    fn find(&self, pattern: &Pattern) -> Option<u32> {
        let (list, mut next) = match pattern.source {
            Some(source) => (SOURCE, self.lists[self.list_of(source)? as usize].first),
            None => (ALL, self.all.first),
        };
        while let Some(index) = next {
            let slot = &self.slots[index as usize];
            if pattern.takes(&slot.envelope) {
                return Some(index);
            }
            next = slot.links[list].after;
        }
        None
    }

    #[inline]
    fn remove(&mut self, index: u32) -> Option<(Envelope, M)> {
        let slot = &mut self.slots[index as usize];
        let (envelope, list, message) = (slot.envelope, slot.list, slot.message.take()?);
        unlink(&mut self.slots, &mut self.all, ALL, index);
        unlink(&mut self.slots, &mut self.lists[list as usize], SOURCE, index);
        self.slots[index as usize].links[ALL].after = self.free;
        self.free = Some(index);
        Some((envelope, message))
    }
}

/// A source as the hash map has it.
fn key(source: i32) -> u64 {
    u64::from(source as u32)
}

#[inline]
fn append<M>(slots: &mut [Slot<M>], ends: &mut Ends, list: usize, index: u32) {
    slots[index as usize].links[list] = Links { before: ends.last, after: None };
    match ends.last {
        Some(last) => slots[last as usize].links[list].after = Some(index),
        None => ends.first = Some(index),
    }
    ends.last = Some(index);
}

#[inline]
fn unlink<M>(slots: &mut [Slot<M>], ends: &mut Ends, list: usize, index: u32) {
    let Links { before, after } = slots[index as usize].links[list];
    match before {
        Some(before) => slots[before as usize].links[list].after = after,
        None => ends.first = after,
    }
    match after {
        Some(after) => slots[after as usize].links[list].before = before,
        None => ends.last = before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(source: Option<i32>, tag: Option<i32>) -> Pattern {
        Pattern { context: 1, source, tag }
    }

    #[test]
    fn slots_are_used_again() {
        let mut unexpected = Unexpected::default();
        for round in 0..100 {
            for source in 0..4 {
                unexpected.push(Envelope { context: 1, source, tag: round }, (round, source));
            }
            for source in [3, 0, 2, 1] {
                let taken = unexpected.take(&pattern(Some(source), Some(round)));
                assert_eq!(taken.map(|(_, message)| message), Some((round, source)));
            }
            assert!(unexpected.is_empty());
        }
        assert_eq!(unexpected.slots.len(), 4);
    }

    #[test]
    fn messages_come_out_in_order_of_arrival() {
        let mut unexpected = Unexpected::default();
        for (number, source) in [2, 1, 2, 0, 1].into_iter().enumerate() {
            unexpected.push(Envelope { context: 1, source, tag: 0 }, number);
        }
        assert_eq!(unexpected.withdraw(|number| *number == 2), Some(2));
        assert_eq!(unexpected.look(&pattern(Some(1), None)).map(|(_, number)| *number), Some(1));
        assert_eq!(unexpected.take(&pattern(None, None)).map(|(_, number)| number), Some(0));
        assert_eq!(unexpected.take(&pattern(Some(2), None)), None);
        assert_eq!(unexpected.into_messages(), [1, 3, 4]);
    }
}
