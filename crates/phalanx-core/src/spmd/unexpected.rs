//! Messages that no receive waits for yet, in order of arrival: of all sources, and of each source by itself. A receive
//! that names its source looks only at that source's messages, however many others have come before them.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::envelope::{ContextHasher, Envelope, Pattern};

/// The unexpected messages of one context. Each is a member of two doubly linked lists.
#[derive(Debug)]
pub(super) struct Unexpected<M> {
    /// Holds each message in a slot, whose index is its place in the lists. Free slots are in a list of their own.
    slots: Vec<Slot<M>>,
    free: u32,
    all: Ends,
    /// A list for each source.
    lists: Vec<Ends>,
    /// Lists that no source has.
    idle: Vec<u32>,
    /// The index of each source's list, and the one that was looked up last.
    sources: HashMap<u64, u32, BuildHasherDefault<ContextHasher>>,
    recent: Option<(i32, u32)>,
}

/// 48 bytes for a message that is an index, so that what a peer may leave here stays within its credit.
#[derive(Debug)]
struct Slot<M> {
    source: i32,
    tag: i32,
    /// The index of its source's list.
    list: u32,
    links: [Links; 2],
    /// None: the slot is free.
    message: Option<M>,
}

/// The neighbours of a slot in one list, or [`NONE`].
#[derive(Debug, Clone, Copy)]
struct Links {
    before: u32,
    after: u32,
}

#[derive(Debug, Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
}

const NONE: u32 = u32::MAX;
const EMPTY: Ends = Ends { first: NONE, last: NONE };
/// The two lists of a slot.
const ALL: usize = 0;
const SOURCE: usize = 1;
/// Sources that keep their lists when these are empty. Further ones do not: a peer may name any number of sources.
const KEPT: usize = 64;

impl<M> Default for Unexpected<M> {
    fn default() -> Unexpected<M> {
        let (slots, lists, idle, sources) = (Vec::new(), Vec::new(), Vec::new(), HashMap::default());
        Unexpected { slots, free: NONE, all: EMPTY, lists, idle, sources, recent: None }
    }
}

impl<M> Unexpected<M> {
    /// Whether there is no message.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.all.first == NONE
    }

    /// Appends a message.
    #[inline]
    pub(super) fn push(&mut self, envelope: Envelope, message: M) {
        let Envelope { source, tag, .. } = envelope;
        let list = self.list_of(source).unwrap_or_else(|| self.add_list(source));
        self.recent = Some((source, list));
        let links = [Links { before: NONE, after: NONE }; 2];
        let slot = Slot { source, tag, list, links, message: Some(message) };
        let index = self.place(slot);
        append(&mut self.slots, &mut self.all, ALL, index);
        append(&mut self.slots, &mut self.lists[list as usize], SOURCE, index);
    }

    /// The first message that matches. The caller has already compared the contexts.
    pub(super) fn look(&self, pattern: &Pattern) -> Option<(Envelope, &M)> {
        let slot = &self.slots[self.find(pattern)? as usize];
        slot.message.as_ref().map(|message| (slot.envelope(pattern.context), message))
    }

    /// Removes and returns the first message that matches. The caller has already compared the contexts.
    pub(super) fn take(&mut self, pattern: &Pattern) -> Option<(Envelope, M)> {
        let index = self.find(pattern)?;
        let envelope = self.slots[index as usize].envelope(pattern.context);
        self.remove(index).map(|message| (envelope, message))
    }

    /// Removes and returns the first message of which `is_it` is true.
    pub(super) fn withdraw(&mut self, is_it: impl Fn(&M) -> bool) -> Option<M> {
        let mut next = self.all.first;
        while let Some(slot) = self.slots.get(next as usize) {
            if slot.message.as_ref().is_some_and(&is_it) {
                return self.remove(next);
            }
            next = slot.links[ALL].after;
        }
        None
    }

    /// All messages in order of arrival.
    pub(super) fn into_messages(mut self) -> Vec<M> {
        let mut messages = Vec::new();
        let mut next = self.all.first;
        while let Some(slot) = self.slots.get_mut(next as usize) {
            messages.extend(slot.message.take());
            next = slot.links[ALL].after;
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
        let list = self.idle.pop().unwrap_or_else(|| {
            self.lists.push(EMPTY);
            (self.lists.len() - 1) as u32
        });
        self.sources.insert(key(source), list);
        list
    }

    /// Puts a slot at a free place.
    #[inline]
    fn place(&mut self, slot: Slot<M>) -> u32 {
        let index = self.free;
        match self.slots.get_mut(index as usize) {
            Some(free) => {
                self.free = free.links[ALL].after;
                *free = slot;
                index
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        }
    }

    #[inline]
    fn find(&self, pattern: &Pattern) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        let (list, mut next) = match pattern.source {
            Some(source) => (SOURCE, self.lists[self.list_of(source)? as usize].first),
            None => (ALL, self.all.first),
        };
        while let Some(slot) = self.slots.get(next as usize) {
            if pattern.takes(&slot.envelope(pattern.context)) {
                return Some(next);
            }
            next = slot.links[list].after;
        }
        None
    }

    #[inline]
    fn remove(&mut self, index: u32) -> Option<M> {
        let slot = &mut self.slots[index as usize];
        let (source, list, message) = (slot.source, slot.list, slot.message.take()?);
        unlink(&mut self.slots, &mut self.all, ALL, index);
        unlink(&mut self.slots, &mut self.lists[list as usize], SOURCE, index);
        self.slots[index as usize].links[ALL].after = self.free;
        self.free = index;
        if self.lists[list as usize].first == NONE && self.sources.len() > KEPT {
            self.sources.remove(&key(source));
            self.idle.push(list);
            self.recent = None;
        }
        Some(message)
    }
}

impl<M> Slot<M> {
    #[inline]
    fn envelope(&self, context: u64) -> Envelope {
        Envelope { context, source: self.source, tag: self.tag }
    }
}

/// A source as the hash map has it.
fn key(source: i32) -> u64 {
    u64::from(source as u32)
}

#[inline]
fn append<M>(slots: &mut [Slot<M>], ends: &mut Ends, list: usize, index: u32) {
    slots[index as usize].links[list] = Links { before: ends.last, after: NONE };
    match slots.get_mut(ends.last as usize) {
        Some(last) => last.links[list].after = index,
        None => ends.first = index,
    }
    ends.last = index;
}

#[inline]
fn unlink<M>(slots: &mut [Slot<M>], ends: &mut Ends, list: usize, index: u32) {
    let Links { before, after } = slots[index as usize].links[list];
    match slots.get_mut(before as usize) {
        Some(slot) => slot.links[list].after = after,
        None => ends.first = after,
    }
    match slots.get_mut(after as usize) {
        Some(slot) => slot.links[list].before = before,
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
    fn sources_that_sent_long_ago_leave_nothing() {
        let mut unexpected = Unexpected::default();
        for source in 0..10_000 {
            unexpected.push(Envelope { context: 1, source, tag: 0 }, source);
            unexpected.push(Envelope { context: 1, source, tag: 1 }, source);
            assert_eq!(unexpected.take(&pattern(None, None)).map(|(_, message)| message), Some(source));
            assert_eq!(unexpected.take(&pattern(Some(source), Some(1))).map(|(_, message)| message), Some(source));
        }
        assert!(unexpected.sources.len() <= KEPT + 1 && unexpected.lists.len() <= KEPT + 1);
    }

    #[test]
    fn a_message_takes_as_much_room_as_its_credit_says() {
        assert_eq!(size_of::<Slot<usize>>(), 48);
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
