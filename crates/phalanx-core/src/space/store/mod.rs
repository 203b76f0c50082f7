//! The multiset of tuples. It is partitioned by signature, so that a search only meets tuples of the right kinds. Each
//! partition has its own indexes.

mod boxes;
mod candidates;
mod entries;
mod index;
pub(super) mod links;
mod partition;
pub(super) mod scan;
mod slab;

pub use boxes::MOST_SIDES;
pub use entries::Extra;
pub use partition::Wanted;
pub use scan::{Looked, Room, Scan, step};

use super::signature::Signature;
use super::template::Template;
use super::value::Tuple;
use crate::wire::space::{Cursor, Options, Order, PartitionInfo};
use candidates::Position;
use hashbrown::HashMap;
use partition::Partition;
use scan::{Anchor, Cost, Stand};
use slab::NIL;
use std::cmp::Reverse;
use std::hash::RandomState;

/// Limit on the signatures that have a partition of their own. Tuples of further signatures share the first partition.
const MOST_PARTITIONS: usize = 256;

/// Limit on the slots that one page of all tuples looks at, because most slots may be free.
const MOST_SLOTS: u32 = 1 << 16;

/// Where a tuple is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub partition: u32,
    pub slot: u32,
}

/// A tuple outside the store: not stored yet, or removed.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    pub number: u64,
    pub tuple: Tuple,
    pub extra: Option<Box<Extra>>,
}

impl Held {
    pub fn key(&self) -> Option<&[u8]> {
        self.extra.as_ref()?.key.as_deref()
    }

    /// Approximate bytes of memory.
    pub fn bytes(&self) -> u64 {
        self.tuple.bytes().len() as u64 + 96 + self.extra.as_ref().map_or(0, |extra| extra.bytes())
    }
}

/// The position of a tuple in an order. The smallest rank comes first.
pub type Rank = (Reverse<i64>, u64);

pub fn rank(order: Order, priority: i64, number: u64) -> Rank {
    match order {
        Order::Any | Order::Fifo => (Reverse(0), number),
        Order::Lifo => (Reverse(0), !number),
        Order::Priority => (Reverse(priority), number),
    }
}

/// The number of the tuple with this rank.
fn number_of(order: Order, rank: Rank) -> u64 {
    if order == Order::Lifo { !rank.1 } else { rank.1 }
}

#[derive(Debug)]
pub struct Store {
    indexes: Vec<Vec<u16>>,
    boxes: Vec<Vec<u16>>,
    automatic: bool,
    partitions: Vec<Partition>,
    by_signature: HashMap<Signature, u32, RandomState>,
    /// The partition used last.
    last: Option<(Signature, u32)>,
    /// The place of the tuple with each key. `None`: the key is reserved, but its tuple is not in the store.
    keys: HashMap<Box<[u8]>, Option<Place>, RandomState>,
    state: RandomState,
    tuples: u64,
    bytes: u64,
    searches: u64,
    looked_at: u64,
    /// Anchors of the unfinished searches.
    anchors: Vec<Anchor>,
    anchored: u64,
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
            anchors: Vec::new(),
            anchored: 0,
        }
    }

    pub fn len(&self) -> u64 {
        self.tuples
    }

    /// Approximate bytes of memory.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn encoded_bytes(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.slab().bytes().1).sum()
    }

    /// The number of tuples looked at so far that did not match.
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

    /// Whether a key is in use, by a stored tuple or by a reservation.
    pub fn has_key(&self, key: &[u8]) -> bool {
        self.keys.contains_key(key)
    }

    /// Reserves a free key until it is freed again.
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

    /// Removes a tuple. Its key stays reserved.
    pub fn remove(&mut self, place: Place) -> Held {
        self.move_anchors(place);
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

    /// All tuples, oldest first.
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

    /// The tuples behind a place, as many as fit into `room` and as a bounded look finds. Also the last place looked
    /// at, if there may be more tuples.
    pub fn behind(&self, after: Option<Place>, mut room: Room) -> (Vec<(Place, Held)>, Option<Place>) {
        let (start, mut first) = after.map_or((0, 0), |after| (after.partition, after.slot.saturating_add(1)));
        let (mut found, mut left) = (Vec::new(), MOST_SLOTS);
        for (partition, it) in (0u32..).zip(&self.partitions).skip(start as usize) {
            let entries = it.entries();
            for slot in std::mem::take(&mut first)..entries.slab.end() {
                left -= 1;
                if !entries.slab.is_used(slot) {
                    if left == 0 {
                        return (found, Some(Place { partition, slot }));
                    }
                    continue;
                }
                let (number, tuple) = (entries.slab.number(slot), entries.slab.tuple(slot));
                let more = room.has_more_after(tuple.bytes());
                let place = Place { partition, slot };
                found.push((place, Held { number, tuple, extra: entries.extra(slot).cloned().map(Box::new) }));
                if !more || left == 0 {
                    return (found, Some(place));
                }
            }
        }
        (found, None)
    }

    /// A copy of the tuple at a place.
    pub fn tuple(&self, place: Place) -> Tuple {
        self.partitions[place.partition as usize].slab().tuple(place.slot)
    }

    /// The number of the tuple at a place.
    pub fn number(&self, place: Place) -> u64 {
        self.partitions[place.partition as usize].slab().number(place.slot)
    }

    /// The attributes of the tuple at a place, if it has any.
    pub fn extra_mut(&mut self, place: Place) -> Option<&mut Extra> {
        self.partitions[place.partition as usize].extra_mut(place.slot)
    }

    /// The rank of the tuple at a place.
    pub fn rank(&self, place: Place, order: Order) -> Rank {
        let entries = self.partitions[place.partition as usize].entries();
        rank(order, entries.priority(place.slot), entries.slab.number(place.slot))
    }

    /// Finds the first wanted tuple.
    pub fn find(&mut self, wanted: &Wanted, scan: &mut Scan) -> Looked<Option<Place>> {
        self.searches += 1;
        if let Some(key) = wanted.key {
            return Looked::Done(self.find_key(key, wanted));
        }
        while let Some(number) = self.next_partition(wanted.template, scan.partition) {
            let mut slot = NIL;
            let met = |_: &entries::Entries, found| {
                slot = found;
                false
            };
            if self.look(number, wanted, None, scan, met) == Looked::Tired {
                return Looked::Tired;
            }
            if slot == NIL {
                continue;
            }
            let place = Place { partition: number, slot };
            if wanted.order == Order::Any {
                return Looked::Done(Some(place));
            }
            let rank = self.rank(place, wanted.order);
            if scan.best.is_none_or(|(other, ..)| rank < other) {
                scan.best = Some((rank, place));
            }
        }
        match scan.best.take() {
            None => Looked::Done(None),
            Some((rank, place)) if self.has(place, number_of(wanted.order, rank)) => Looked::Done(Some(place)),
            // Another request took the tuple meanwhile, so the search starts again.
            Some(_) => {
                scan.partition = 0;
                Looked::Tired
            }
        }
    }

    /// Searches one partition, as far as the work of this step allows.
    fn look(
        &mut self,
        number: u32,
        wanted: &Wanted,
        after: Option<(u32, u64)>,
        scan: &mut Scan,
        call: impl FnMut(&entries::Entries, u32) -> bool,
    ) -> Looked<()> {
        let from = self.weigh(number, std::mem::take(&mut scan.stand));
        let cost = &mut Cost { left: &mut scan.left, looked_at: &mut self.looked_at, clock: self.searches };
        match self.partitions[number as usize].look(wanted, from, after, cost, call) {
            None => {
                scan.leave(number);
                Looked::Done(())
            }
            Some(position) => {
                (scan.partition, scan.stand) = (number, self.drop_anchor(number, position));
                Looked::Tired
            }
        }
    }

    /// Turns a search's stand into a position and removes its anchor.
    fn weigh(&mut self, partition: u32, stand: Stand) -> Position {
        let (number, in_partition) = match stand {
            Stand::Listed { anchor, partition } => (anchor, partition),
            Stand::Beginning => return Position::Beginning,
            Stand::Urgent(urgency, of) if of == partition => return Position::Urgent(urgency),
            Stand::Picked(slots, of) if of == partition => return Position::Picked(slots),
            Stand::Urgent(..) | Stand::Picked(..) => return Position::Beginning,
        };
        let Some(at) = self.anchors.iter().position(|anchor| anchor.number == number) else {
            return Position::Beginning;
        };
        let Anchor { list, slot, backward, .. } = self.anchors.swap_remove(at);
        match in_partition == partition {
            true => Position::Listed { list, slot, backward },
            false => Position::Beginning,
        }
    }

    fn drop_anchor(&mut self, partition: u32, position: Position) -> Stand {
        match position {
            Position::Beginning => Stand::Beginning,
            Position::Urgent(urgency) => Stand::Urgent(urgency, partition),
            Position::Picked(slots) => Stand::Picked(slots, partition),
            Position::Listed { list, slot, backward } => {
                self.anchored += 1;
                self.anchors.push(Anchor { number: self.anchored, partition, list, slot, backward });
                Stand::Listed { anchor: self.anchored, partition }
            }
        }
    }

    /// Drops the anchor of a search that was given up.
    pub fn forget(&mut self, scan: &Scan) {
        if let Stand::Listed { anchor, .. } = scan.stand {
            self.anchors.retain(|other| other.number != anchor);
        }
    }

    /// Moves the anchors at a tuple that is about to be removed to its neighbour.
    fn move_anchors(&mut self, place: Place) {
        for anchor in &mut self.anchors {
            if anchor.partition == place.partition && anchor.slot == place.slot {
                let partition = &self.partitions[place.partition as usize];
                (anchor.list, anchor.slot) = partition.beside(anchor.list, anchor.slot, anchor.backward);
            }
        }
    }

    /// Whether a place still holds the tuple with this rank.
    pub fn has_ranked(&self, place: Place, order: Order, rank: Rank) -> bool {
        self.has(place, number_of(order, rank))
    }

    /// Whether a place holds the tuple with this number.
    pub fn has(&self, place: Place, number: u64) -> bool {
        self.partitions.get(place.partition as usize).is_some_and(|it| it.slab().has(place.slot, number))
    }

    fn find_key(&self, key: &[u8], wanted: &Wanted) -> Option<Place> {
        let place = (*self.keys.get(key)?)?;
        let entries = self.partitions[place.partition as usize].entries();
        wanted.accepts(entries.slab.entry(place.slot).bytes, entries.extra(place.slot)).then_some(place)
    }

    /// Finds wanted tuples behind a place with numbers below `end`, as many as fit. When the page is complete, also
    /// returns where the next page begins, if there may be one.
    pub fn page(
        &mut self,
        wanted: &Wanted,
        room: &mut Room,
        after: Option<Cursor>,
        end: u64,
        scan: &mut Scan,
    ) -> (Vec<Place>, Looked<Option<Cursor>>) {
        self.searches += 1;
        if let Some(key) = wanted.key {
            let found = if after.is_none() { self.find_key(key, wanted) } else { None };
            return (found.into_iter().collect(), Looked::Done(None));
        }
        let sorts = *scan.sorts.get_or_insert_with(|| match wanted.order {
            Order::Any => false,
            Order::Fifo => {
                let first = self.next_partition(wanted.template, 0);
                first.is_some_and(|first| self.next_partition(wanted.template, first + 1).is_some())
            }
            Order::Lifo | Order::Priority => true,
        });
        match sorts {
            false => self.page_in_turn(wanted, room, after, end, scan),
            true => self.page_in_order(wanted, room, after, end, scan),
        }
    }

    /// Fills a page from one partition after the other.
    fn page_in_turn(
        &mut self,
        wanted: &Wanted,
        room: &mut Room,
        after: Option<Cursor>,
        end: u64,
        scan: &mut Scan,
    ) -> (Vec<Place>, Looked<Option<Cursor>>) {
        let (wanted, mut places) = (&Wanted { order: Order::Fifo, ..*wanted }, Vec::new());
        scan.partition = scan.partition.max(after.map_or(0, |cursor| cursor.partition));
        while let Some(number) = self.next_partition(wanted.template, scan.partition) {
            let behind = after.filter(|cursor| cursor.partition == number).map(|cursor| (cursor.slot, cursor.number));
            let looked = self.look(number, wanted, behind, scan, |entries, slot| {
                if entries.slab.number(slot) >= end {
                    return false;
                }
                places.push(Place { partition: number, slot });
                room.has_more_after(entries.slab.entry(slot).bytes)
            });
            if let Some(last) = places.last().copied().filter(|_| room.is_full()) {
                return (places, Looked::Done(Some(self.cursor(last, end))));
            }
            if looked == Looked::Tired {
                return (places, Looked::Tired);
            }
        }
        (places, Looked::Done(None))
    }

    /// Fills a page in order: looks at all wanted tuples and keeps the first ones, as many as fit.
    fn page_in_order(
        &mut self,
        wanted: &Wanted,
        room: &mut Room,
        after: Option<Cursor>,
        end: u64,
        scan: &mut Scan,
    ) -> (Vec<Place>, Looked<Option<Cursor>>) {
        let (order, looks) = (wanted.order, &Wanted { order: Order::Fifo, ..*wanted });
        let after = after.map(|cursor| rank(order, cursor.priority, cursor.number));
        while let Some(number) = self.next_partition(wanted.template, scan.partition) {
            let (mut first, mut more) = (std::mem::take(&mut scan.first), false);
            let looked = self.look(number, looks, None, scan, |entries, slot| {
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
            (scan.first, scan.more) = (first, scan.more | more);
            if looked == Looked::Tired {
                return (Vec::new(), Looked::Tired);
            }
        }
        let all = std::mem::take(&mut scan.first).into_sorted_vec();
        let (mut places, mut last, count) = (Vec::new(), None, all.len());
        for (nth, (rank, partition, slot)) in all.into_iter().enumerate() {
            let (place, number) = (Place { partition, slot }, number_of(order, rank));
            last = Some((rank, place));
            // Another request may have taken it meanwhile.
            if self.has(place, number) {
                places.push(place);
                let tuple = self.partitions[partition as usize].slab().entry(slot).bytes;
                if !room.has_more_after(tuple) {
                    scan.more |= nth + 1 < count;
                    break;
                }
            }
        }
        let next = last.filter(|_| scan.more).map(|(rank, place)| {
            let (number, priority) = (number_of(order, rank), rank.0.0);
            Cursor { partition: place.partition, slot: place.slot, number, priority, end }
        });
        (places, Looked::Done(next))
    }

    /// The cursor of a page that ends with this tuple.
    pub fn cursor(&self, place: Place, end: u64) -> Cursor {
        let entries = self.partitions[place.partition as usize].entries();
        let (number, priority) = (entries.slab.number(place.slot), entries.priority(place.slot));
        Cursor { partition: place.partition, slot: place.slot, number, priority, end }
    }

    /// Calls `see` with the number of each wanted tuple.
    pub fn count(&mut self, wanted: &Wanted, scan: &mut Scan, mut see: impl FnMut(u64)) -> Looked<()> {
        self.searches += 1;
        if let Some(key) = wanted.key {
            self.find_key(key, wanted).into_iter().for_each(|place| see(self.number(place)));
            return Looked::Done(());
        }
        let wanted = &Wanted { order: Order::Fifo, ..*wanted };
        while let Some(number) = self.next_partition(wanted.template, scan.partition) {
            let looked = self.look(number, wanted, None, scan, |entries, slot| {
                see(entries.slab.number(slot));
                true
            });
            if looked == Looked::Tired {
                return Looked::Tired;
            }
        }
        Looked::Done(())
    }

    /// The first partition from `from` on that may hold a match.
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
        self.anchors.retain(|anchor| anchor.partition as usize != number);
        old.signature.map(|signature| self.by_signature.remove(&signature));
        self.last = None;
        number
    }
}
