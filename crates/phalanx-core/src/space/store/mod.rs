//! The multiset of tuples: partitions by signature, so that a search meets only tuples of the right kinds, and in each of
//! them indexes.

mod boxes;
mod entries;
mod index;
pub(super) mod links;
mod partition;
mod slab;

pub use boxes::MOST_SIDES;
pub use entries::Extra;
pub use partition::Wanted;

use super::signature::Signature;
use super::template::Template;
use super::value::Tuple;
use crate::wire::space::{Cursor, Options, Order, PartitionInfo};
use hashbrown::HashMap;
use partition::Partition;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::RandomState;

/// Signatures that have a partition of their own. What comes when all are in use goes into the first one.
const MOST_PARTITIONS: usize = 256;
/// Bytes of a page that asks for no limit.
const PAGE: u64 = 1 << 24;
/// What a tuple in a page counts beside its bytes.
const PAGE_TUPLE: u64 = 64;

/// Where a tuple lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub partition: u32,
    pub slot: u32,
}

/// A tuple that is not, or not any more, in the store.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    pub number: u64,
    pub tuple: Tuple,
    pub extra: Option<Box<Extra>>,
}

impl Held {
    pub fn priority(&self) -> i64 {
        self.extra.as_ref().map_or(0, |extra| extra.priority)
    }

    pub fn key(&self) -> Option<&[u8]> {
        self.extra.as_ref()?.key.as_deref()
    }

    /// Bytes of memory, about.
    pub fn bytes(&self) -> u64 {
        self.tuple.bytes().len() as u64 + 96 + self.extra.as_ref().map_or(0, |extra| extra.bytes())
    }
}

/// The place of a tuple among others in an order: the smallest is the first.
pub type Rank = (Reverse<i64>, u64);

pub fn rank(order: Order, priority: i64, number: u64) -> Rank {
    match order {
        Order::Any | Order::Fifo => (Reverse(0), number),
        Order::Lifo => (Reverse(0), !number),
        Order::Priority => (Reverse(priority), number),
    }
}

pub struct Store {
    indexes: Vec<Vec<u16>>,
    boxes: Vec<Vec<u16>>,
    automatic: bool,
    partitions: Vec<Partition>,
    by_signature: HashMap<Signature, u32, RandomState>,
    /// The partition that was used last.
    last: Option<(Signature, u32)>,
    /// Where the tuple of a key lies; nowhere, while it is on its way.
    keys: HashMap<Box<[u8]>, Option<Place>, RandomState>,
    state: RandomState,
    tuples: u64,
    bytes: u64,
    searches: u64,
    looked_at: u64,
}

impl Store {
    pub fn new(options: &Options) -> Store {
        let state = RandomState::new();
        let first = Partition::new(None, &options.indexes, &[], options.automatic, state.clone());
        Store {
            indexes: options.indexes.clone(),
            boxes: options.boxes.clone(),
            automatic: options.automatic,
            partitions: vec![first],
            by_signature: HashMap::with_hasher(state.clone()),
            last: None,
            keys: HashMap::with_hasher(state.clone()),
            state,
            tuples: 0,
            bytes: 0,
            searches: 0,
            looked_at: 0,
        }
    }

    pub fn len(&self) -> u64 {
        self.tuples
    }

    /// Bytes of memory, about.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn encoded_bytes(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.slab().bytes().1).sum()
    }

    /// Tuples looked at in vain so far.
    pub fn looked_at(&self) -> u64 {
        self.looked_at
    }

    pub fn describe(&self) -> Vec<PartitionInfo> {
        let used = self.partitions.iter().filter(|partition| partition.len() > 0);
        let describe = |partition: &Partition| PartitionInfo {
            signature: partition.signature.map_or_else(String::new, |signature| signature.describe()),
            tuples: partition.len(),
            indexes: partition.indexed(),
        };
        used.map(describe).collect()
    }

    /// Whether there is a tuple of a key, here or on its way.
    pub fn has_key(&self, key: &[u8]) -> bool {
        self.keys.contains_key(key)
    }

    /// Nobody else may use the key, which is free, until it is freed again.
    pub fn reserve_key(&mut self, key: &[u8]) {
        self.keys.insert(key.into(), None);
    }

    pub fn free_key(&mut self, held: &Held) {
        if let Some(key) = held.key() {
            self.keys.remove(key);
        }
    }

    pub fn insert(&mut self, held: Held) -> Place {
        let number = self.partition_for(Signature::of(held.tuple.bytes()));
        let key = held.extra.as_ref().and_then(|extra| extra.key.clone());
        let partition = &mut self.partitions[number as usize];
        let before = partition.bytes();
        let slot = partition.insert(held.number, &held.tuple, held.extra);
        self.bytes = self.bytes + partition.bytes() - before;
        self.tuples += 1;
        let place = Place { partition: number, slot };
        if let Some(key) = key {
            self.keys.insert(key, Some(place));
        }
        place
    }

    /// Takes a tuple out; its key stays reserved.
    pub fn remove(&mut self, place: Place) -> Held {
        let partition = &mut self.partitions[place.partition as usize];
        let before = partition.bytes();
        let (number, tuple, extra) = partition.remove(place.slot);
        self.bytes = (self.bytes + partition.bytes()).saturating_sub(before);
        self.tuples -= 1;
        if let Some(key) = extra.as_ref().and_then(|extra| extra.key.as_ref()) {
            self.keys.insert(key.clone(), None);
        }
        Held { number, tuple, extra }
    }

    /// Every tuple, the oldest first.
    #[cfg(test)]
    pub fn all(&self) -> Vec<Held> {
        let of = |partition: &Partition| {
            let entries = partition.entries();
            let held = |slot| {
                let (number, tuple) = (entries.slab.number(slot), entries.slab.tuple(slot));
                Held { number, tuple, extra: entries.extra(slot).cloned().map(Box::new) }
            };
            entries.slab.slots().map(held).collect::<Vec<_>>()
        };
        let mut all: Vec<Held> = self.partitions.iter().flat_map(of).collect();
        all.sort_unstable_by_key(|held| held.number);
        all
    }

    /// A copy of the tuple at a place.
    pub fn tuple(&self, place: Place) -> Tuple {
        self.partitions[place.partition as usize].slab().tuple(place.slot)
    }

    /// What the tuple at a place has beside its fields, if it has something.
    pub fn extra_mut(&mut self, place: Place) -> Option<&mut Extra> {
        self.partitions[place.partition as usize].extra_mut(place.slot)
    }

    /// The place of the tuple at a place in an order.
    pub fn rank(&self, place: Place, order: Order) -> Rank {
        let entries = self.partitions[place.partition as usize].entries();
        rank(order, entries.priority(place.slot), entries.slab.number(place.slot))
    }

    /// The first tuple that is wanted.
    pub fn find(&mut self, wanted: &Wanted) -> Option<Place> {
        self.searches += 1;
        if let Some(key) = wanted.key {
            return self.find_key(key, wanted);
        }
        let (mut from, mut best) = (0, None::<(Rank, Place)>);
        while let Some(number) = self.next_partition(wanted.template, from) {
            from = number + 1;
            let partition = &mut self.partitions[number as usize];
            let Some(slot) = partition.find(wanted, self.searches, &mut self.looked_at) else { continue };
            let place = Place { partition: number, slot };
            if wanted.order == Order::Any {
                return Some(place);
            }
            let rank = self.rank(place, wanted.order);
            if best.is_none_or(|(other, _)| rank < other) {
                best = Some((rank, place));
            }
        }
        best.map(|(_, place)| place)
    }

    fn find_key(&self, key: &[u8], wanted: &Wanted) -> Option<Place> {
        let place = (*self.keys.get(key)?)?;
        let entries = self.partitions[place.partition as usize].entries();
        wanted.accepts(entries.slab.entry(place.slot).bytes, entries.extra(place.slot)).then_some(place)
    }

    /// Wanted tuples behind a place and with numbers below `end`, at most `limit`, and so many bytes; and where the next page begins, if there may be one.
    pub fn page(
        &mut self,
        wanted: &Wanted,
        limit: u32,
        bytes: u64,
        after: Option<Cursor>,
        end: u64,
    ) -> (Vec<Place>, Option<Cursor>) {
        self.searches += 1;
        if let Some(key) = wanted.key {
            let found = if after.is_none() { self.find_key(key, wanted) } else { None };
            return (found.into_iter().collect(), None);
        }
        let mut room = Room { tuples: limit.max(1), bytes: if bytes == 0 { PAGE } else { bytes } };
        let first = self.next_partition(wanted.template, 0);
        let one = first.is_none_or(|first| self.next_partition(wanted.template, first + 1).is_none());
        match wanted.order {
            Order::Any => self.page_in_turn(wanted, &mut room, after, end),
            Order::Fifo if one => self.page_in_turn(wanted, &mut room, after, end),
            _ => self.page_in_order(wanted, &mut room, after, end),
        }
    }

    /// One partition behind the other.
    fn page_in_turn(
        &mut self,
        wanted: &Wanted,
        room: &mut Room,
        after: Option<Cursor>,
        end: u64,
    ) -> (Vec<Place>, Option<Cursor>) {
        let mut places = Vec::new();
        let mut from = after.map_or(0, |cursor| cursor.partition);
        while let Some(number) = self.next_partition(wanted.template, from) {
            from = number + 1;
            let behind = after.filter(|cursor| cursor.partition == number).map(|cursor| (cursor.slot, cursor.number));
            let mut last = None;
            self.partitions[number as usize].each(wanted, behind, self.searches, |entries, slot| {
                if entries.slab.number(slot) >= end {
                    return false;
                }
                places.push(Place { partition: number, slot });
                last = Some(slot);
                room.has_more_after(entries.slab.entry(slot).bytes)
            });
            if let Some(slot) = last.filter(|_| room.is_full()) {
                return (places, Some(self.cursor(Place { partition: number, slot }, end)));
            }
        }
        (places, None)
    }

    /// All that is wanted is looked at, and as much as a page holds is kept.
    fn page_in_order(
        &mut self,
        wanted: &Wanted,
        room: &mut Room,
        after: Option<Cursor>,
        end: u64,
    ) -> (Vec<Place>, Option<Cursor>) {
        let order = wanted.order;
        let after = after.map(|cursor| rank(order, cursor.priority, cursor.number));
        let mut first: BinaryHeap<(Rank, u32, u32)> = BinaryHeap::new();
        let (mut from, mut more) = (0, false);
        while let Some(number) = self.next_partition(wanted.template, from) {
            from = number + 1;
            self.partitions[number as usize].each(wanted, None, self.searches, |entries, slot| {
                let rank = rank(order, entries.priority(slot), entries.slab.number(slot));
                if entries.slab.number(slot) < end && after.is_none_or(|after| rank > after) {
                    first.push((rank, number, slot));
                    if first.len() > room.tuples as usize {
                        first.pop();
                        more = true;
                    }
                }
                true
            });
        }
        let all = first.into_sorted_vec();
        let mut places = Vec::new();
        for (_, partition, slot) in &all {
            places.push(Place { partition: *partition, slot: *slot });
            let tuple = self.partitions[*partition as usize].slab().entry(*slot).bytes;
            if !room.has_more_after(tuple) {
                break;
            }
        }
        more |= places.len() < all.len();
        let next = places.last().filter(|_| more).map(|place| self.cursor(*place, end));
        (places, next)
    }

    fn cursor(&self, place: Place, end: u64) -> Cursor {
        let entries = self.partitions[place.partition as usize].entries();
        let (number, priority) = (entries.slab.number(place.slot), entries.priority(place.slot));
        Cursor { partition: place.partition, slot: place.slot, number, priority, end }
    }

    pub fn count(&mut self, wanted: &Wanted) -> u64 {
        self.searches += 1;
        if let Some(key) = wanted.key {
            return u64::from(self.find_key(key, wanted).is_some());
        }
        let (mut from, mut count) = (0, 0);
        while let Some(number) = self.next_partition(wanted.template, from) {
            from = number + 1;
            self.partitions[number as usize].each(wanted, None, self.searches, |_, _| {
                count += 1;
                true
            });
        }
        count
    }

    /// The first partition from a number on that can have what a template matches.
    fn next_partition(&mut self, template: &Template, from: u32) -> Option<u32> {
        let Some(signature) = template.exact() else {
            let may_match = |number: &u32| {
                let partition = &self.partitions[*number as usize];
                partition.len() > 0 && partition.signature.is_none_or(|signature| template.may_match(signature))
            };
            return (from..self.partitions.len() as u32).find(may_match);
        };
        if from == 0 && self.partitions[0].len() > 0 {
            return Some(0);
        }
        self.known(signature).filter(|number| *number >= from)
    }

    fn known(&mut self, signature: Signature) -> Option<u32> {
        match self.last {
            Some((last, number)) if last == signature => Some(number),
            _ => {
                let number = *self.by_signature.get(&signature)?;
                self.last = Some((signature, number));
                Some(number)
            }
        }
    }

    fn partition_for(&mut self, signature: Signature) -> u32 {
        if let Some(number) = self.known(signature) {
            return number;
        }
        let full = self.partitions.len() == MOST_PARTITIONS;
        let empty = if full { self.partitions.iter().skip(1).position(|partition| partition.len() == 0) } else { None };
        if full && empty.is_none() {
            return 0;
        }
        let new = Partition::new(Some(signature), &self.indexes, &self.boxes, self.automatic, self.state.clone());
        let number = match empty {
            Some(place) => self.replace(place + 1, new),
            None => {
                self.bytes += new.bytes();
                self.partitions.push(new);
                self.partitions.len() - 1
            }
        } as u32;
        self.by_signature.insert(signature, number);
        number
    }

    fn replace(&mut self, number: usize, new: Partition) -> usize {
        self.bytes += new.bytes();
        let old = std::mem::replace(&mut self.partitions[number], new);
        self.bytes = self.bytes.saturating_sub(old.bytes());
        old.signature.map(|signature| self.by_signature.remove(&signature));
        self.last = None;
        number
    }
}

/// What a page has room for.
struct Room {
    tuples: u32,
    bytes: u64,
}

impl Room {
    fn has_more_after(&mut self, tuple: &[u8]) -> bool {
        self.tuples -= 1;
        self.bytes = self.bytes.saturating_sub(tuple.len() as u64 + PAGE_TUPLE);
        !self.is_full()
    }

    fn is_full(&self) -> bool {
        self.tuples == 0 || self.bytes == 0
    }
}
