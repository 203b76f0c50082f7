//! The tuples of one signature: their slots, and all indexes over them.

use super::super::signature::{LABEL, Signature, positions};
use super::super::template::Template;
use super::super::value::Tuple;
use super::boxes::Boxes;
use super::candidates::{Candidates, Mixed, Position};
use super::entries::{Entries, Extra, Extras};
use super::index::Index;
use super::links::{Links, Walk};
use super::scan::{Cost, Urgency, WHOLE};
use super::slab::{NIL, Slab};
use crate::wire::space::Order;
use hashbrown::HashMap;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::hash::RandomState;

/// Limit on the indexes that are built automatically.
const MOST_AUTOMATIC: usize = 4;
/// An index is built once this many non-matching tuples were looked at, and at least as many as the partition has.
const PATIENCE: u64 = 64;
/// An index that was useless for this many searches may be evicted for another.
const UNUSED: u64 = 1000;
/// Limit on the sets of positions whose wasted looks are counted for future indexes.
const MOST_COUNTED: usize = 64;
/// Up to this many tuples from an index are sorted by priority. Beyond that, a search walks the tuples in priority
/// order.
const FEW: usize = 64;
/// If a box holds more tuples than this, it narrows the search too little, and all tuples are searched instead.
const MOST_BOXED: usize = 1 << 16;

/// What a search looks for.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    pub template: &'a Template,
    pub key: Option<&'a [u8]>,
    pub label: Option<&'a [u8]>,
    pub order: Order,
}

impl Wanted<'_> {
    /// Whether a tuple with these attributes matches.
    pub fn accepts(&self, tuple: &[u8], extra: Option<&Extra>) -> bool {
        let has = |asked: Option<&[u8]>, is: Option<&[u8]>| asked.is_none() || asked == is;
        has(self.key, extra.and_then(|extra| extra.key.as_deref()))
            && has(self.label, extra.and_then(|extra| extra.label.as_deref()))
            && self.template.matches(tuple)
    }

    fn mask(&self) -> u32 {
        self.template.actuals() | if self.label.is_some() { LABEL } else { 0 }
    }
}

/// The tuples of one signature; without a signature, those of many.
#[derive(Debug)]
pub struct Partition {
    pub signature: Option<Signature>,
    slab: Slab,
    extras: Extras,
    extra_bytes: u64,
    newest: u64,
    head: u32,
    links: Links,
    /// The slot where the last tuple that was not the newest was inserted. The next such tuple usually belongs near it.
    near: u32,
    indexes: Vec<Index>,
    boxes: Vec<Boxes>,
    /// The tuples whose priority is not 0.
    priorities: BTreeSet<Urgency>,
    /// For each set of positions, the number of tuples looked at in vain while searching for actuals there.
    in_vain: HashMap<u32, u64, RandomState>,
    automatic: bool,
    state: RandomState,
}

impl Partition {
    /// Makes a partition. Declared positions that the signature does not have are ignored.
    pub fn new(
        signature: Option<Signature>,
        indexes: &[Vec<u16>],
        boxes: &[Vec<u16>],
        automatic: bool,
        state: RandomState,
    ) -> Partition {
        let arity = signature.map_or(u32::MAX, |signature| signature.arity);
        let declared = indexes.iter().filter(|of| of.iter().all(|position| u32::from(*position) < arity));
        let mask = |of: &Vec<u16>| of.iter().fold(0, |mask, position| mask | 1 << position);
        let numbers = |of: &Vec<u16>| {
            signature.is_some_and(|signature| of.iter().all(|position| signature.is_number(usize::from(*position))))
        };
        Partition {
            signature,
            slab: Slab::default(),
            extras: Extras::with_hasher(state.clone()),
            extra_bytes: 0,
            newest: 0,
            head: NIL,
            links: Links::default(),
            near: NIL,
            indexes: declared.map(|of| Index::new(mask(of), true)).collect(),
            boxes: boxes.iter().filter(|of| numbers(of)).map(|of| Boxes::new(of.clone())).collect(),
            priorities: BTreeSet::new(),
            in_vain: HashMap::with_hasher(state.clone()),
            automatic,
            state,
        }
    }

    pub fn len(&self) -> u64 {
        self.slab.len()
    }

    pub fn entries(&self) -> Entries<'_> {
        Entries { slab: &self.slab, extras: &self.extras }
    }

    pub fn slab(&self) -> &Slab {
        &self.slab
    }

    /// The positions that each index covers.
    pub fn indexed(&self) -> Vec<Vec<u16>> {
        let of = |index: &Index| positions(index.mask).map(|position| position as u16).collect();
        self.indexes.iter().map(of).collect()
    }

    /// Approximate bytes of memory.
    pub fn bytes(&self) -> u64 {
        let links = (1 + self.indexes.len() as u64) * Links::CHUNK_BYTES * self.slab.chunks();
        let tables: u64 = self.indexes.iter().map(Index::table_bytes).sum();
        let boxes = self.boxes.len() as u64 * Boxes::TUPLE_BYTES * self.len();
        self.slab.bytes().0 + links + tables + boxes + self.extra_bytes + 64 * self.priorities.len() as u64
    }

    pub fn insert(&mut self, number: u64, tuple: &Tuple, extra: Option<Box<Extra>>) -> u32 {
        let slot = self.slab.insert(number, extra.is_some(), tuple);
        if let Some(extra) = extra {
            if extra.priority != 0 {
                self.priorities.insert((Reverse(extra.priority), number, slot));
            }
            self.extra_bytes += extra.bytes();
            self.extras.insert(slot, extra);
        }
        let newest = number > self.newest;
        self.newest = self.newest.max(number);
        if self.links.insert(&mut self.head, slot, newest, self.near, &self.slab) {
            self.near = slot;
        }
        let entries = Entries { slab: &self.slab, extras: &self.extras };
        self.indexes.iter_mut().for_each(|index| index.insert(&self.state, slot, newest, &entries));
        self.boxes.iter_mut().for_each(|boxes| boxes.insert(slot, tuple.bytes()));
        slot
    }

    /// Removes a tuple.
    pub fn remove(&mut self, slot: u32) -> (u64, Tuple, Option<Box<Extra>>) {
        let (number, tuple) = (self.slab.number(slot), self.slab.tuple(slot));
        let entries = Entries { slab: &self.slab, extras: &self.extras };
        self.indexes.iter_mut().for_each(|index| index.remove(&self.state, slot, &entries));
        self.boxes.iter_mut().for_each(|boxes| boxes.remove(slot, tuple.bytes()));
        self.links.remove(&mut self.head, slot);
        if self.near == slot {
            self.near = NIL;
        }
        let has_extra = self.slab.entry(slot).has_extra;
        let extra = has_extra.then(|| self.extras.remove(&slot)).flatten();
        if let Some(extra) = &extra {
            self.priorities.remove(&(Reverse(extra.priority), number, slot));
            self.extra_bytes -= extra.bytes();
        }
        if let Some(chunk) = self.slab.remove(slot) {
            self.links.forget(chunk);
            self.indexes.iter_mut().for_each(|index| {
                index.forget(chunk);
                index.shrink();
            });
        }
        (number, tuple, extra)
    }

    /// The attributes of a tuple, to change. The label must stay the same.
    pub fn extra_mut(&mut self, slot: u32) -> Option<&mut Extra> {
        self.extras.get_mut(&slot).map(|extra| &mut **extra)
    }

    /// Looks at the tuples that may match, in order, until `call` says stop or the step is over. Then it returns where
    /// to continue. `clock` counts searches.
    pub fn look(
        &mut self,
        wanted: &Wanted,
        from: Position,
        after: Option<(u32, u64)>,
        cost: &mut Cost,
        mut call: impl FnMut(&Entries, u32) -> bool,
    ) -> Option<Position> {
        let (mut in_vain, mut tired) = (0, None);
        let entries = self.entries();
        let mut candidates = self.candidates(wanted, from, after);
        while let Some((slot, counts)) = candidates.next(&entries) {
            let tuple = self.slab.entry(slot).bytes;
            if counts && after.is_none_or(|(_, number)| self.slab.number(slot) > number) {
                if !wanted.accepts(tuple, entries.extra(slot)) {
                    in_vain += 1;
                } else if !call(&entries, slot) {
                    break;
                }
            }
            *cost.left = cost.left.saturating_sub(wanted.template.cost(tuple));
            if *cost.left == 0 {
                tired = Some(candidates.position(slot, &entries));
                break;
            }
        }
        *cost.looked_at += in_vain;
        self.learn(wanted, in_vain, cost.clock);
        tired
    }

    fn accepts(&self, wanted: &Wanted, slot: u32, entries: &Entries) -> bool {
        wanted.accepts(self.slab.entry(slot).bytes, entries.extra(slot))
    }

    /// Where a search continues that stands behind a slot which is about to be freed.
    pub fn beside(&self, list: u32, slot: u32, backward: bool) -> (u32, u32) {
        let (list, links) = self.links_of(list);
        let number = self.slab.number(slot);
        // Lists are circular and sorted by number.
        let (beside, is_on) = match backward {
            false => (links.previous(slot), self.slab.number(links.previous(slot)) < number),
            true => (links.next(slot), self.slab.number(links.next(slot)) > number),
        };
        (list, if is_on { beside } else { NIL })
    }

    /// The links of an index, or of the list of all tuples. The index may have been evicted in the meantime; then it is
    /// the latter.
    fn links_of(&self, list: u32) -> (u32, &Links) {
        let index = self.indexes.iter().find(|index| index.mask == list);
        index.map_or((WHOLE, &self.links), |index| (list, index.links()))
    }

    /// The slots that may match, in search order. With `Order::Any`, or from boxes, in no order.
    fn candidates<'a>(&'a self, wanted: &Wanted, from: Position, after: Option<(u32, u64)>) -> Candidates<'a> {
        let backward = wanted.order == Order::Lifo;
        match from {
            Position::Picked(slots) => Candidates::Picked(slots),
            Position::Listed { list, slot, backward } => {
                let list = self.links_of(list).0;
                let walk = Walk::behind(self.links_of(list).1, self.head_of(list, wanted), slot, backward);
                match wanted.order {
                    Order::Priority => Candidates::Mixed(Mixed::in_the_middle(&self.priorities, walk, list)),
                    _ => Candidates::Listed { walk, list, backward },
                }
            }
            Position::Urgent(urgency) => {
                let list = self.list_for(wanted);
                let walk = Walk::all(self.links_of(list).1, self.head_of(list, wanted), false);
                Candidates::Mixed(Mixed::behind(&self.priorities, urgency, walk, list))
            }
            Position::Beginning => {
                let index = self.index_for(wanted.mask());
                if index.is_none_or(|index| index.mask & !LABEL == 0) {
                    if let Some(slots) = self.in_box(wanted) {
                        return Candidates::Picked(slots.into_iter());
                    }
                }
                let (links, head, list) = match index {
                    Some(index) => (index.links(), self.head_in(index, wanted), index.mask),
                    None => (&self.links, self.head, WHOLE),
                };
                if wanted.order == Order::Priority && !self.priorities.is_empty() {
                    return self.by_priority(Walk::all(links, head, false), list);
                }
                let walk = match after {
                    // A cursor comes from a client and may be forged. Only a tuple that matches is sure to be in this
                    // list.
                    Some((slot, number))
                        if self.slab.has(slot, number) && self.accepts(wanted, slot, &self.entries()) =>
                    {
                        Walk::behind(links, head, slot, false)
                    }
                    _ => Walk::all(links, head, backward),
                };
                Candidates::Listed { walk, list, backward }
            }
        }
    }

    fn list_for(&self, wanted: &Wanted) -> u32 {
        self.index_for(wanted.mask()).map_or(WHOLE, |index| index.mask)
    }

    fn head_of(&self, list: u32, wanted: &Wanted) -> u32 {
        let index = self.indexes.iter().find(|index| index.mask == list);
        index.map_or(self.head, |index| self.head_in(index, wanted))
    }

    fn head_in(&self, index: &Index, wanted: &Wanted) -> u32 {
        index.head(&self.state, wanted.template, wanted.label, &self.entries())
    }

    fn by_priority<'a>(&'a self, walk: Walk<'a>, list: u32) -> Candidates<'a> {
        let mut few: Vec<u32> = walk.clone().take(FEW).collect();
        if few.len() < FEW {
            let entries = self.entries();
            few.sort_by_key(|slot| (Reverse(entries.priority(*slot)), self.slab.number(*slot)));
            return Candidates::Picked(self.numbered(few).into_iter());
        }
        Candidates::Mixed(Mixed::all(&self.priorities, walk, list))
    }

    fn numbered(&self, slots: Vec<u32>) -> Vec<(u32, u64)> {
        slots.into_iter().map(|slot| (slot, self.slab.number(slot))).collect()
    }

    /// The slots in a box, if they are few enough to sort.
    fn in_box(&self, wanted: &Wanted) -> Option<Vec<(u32, u64)>> {
        let mut found = self.boxes.iter().find_map(|boxes| boxes.search(wanted.template))?;
        if wanted.order == Order::Any {
            let entries = self.entries();
            if let Some(slot) = found.by_ref().take(FEW).find(|slot| self.accepts(wanted, *slot, &entries)) {
                return Some(self.numbered(vec![slot]));
            }
        }
        let mut slots: Vec<u32> = found.take(MOST_BOXED + 1).collect();
        if slots.len() > MOST_BOXED {
            return None;
        }
        let number = |slot: &u32| self.slab.number(*slot);
        match wanted.order {
            Order::Lifo => slots.sort_by_key(|slot| Reverse(number(slot))),
            Order::Priority => slots.sort_by_key(|slot| (Reverse(self.entries().priority(*slot)), number(slot))),
            Order::Any | Order::Fifo => slots.sort_by_key(number),
        }
        Some(self.numbered(slots))
    }

    /// The most selective index for actuals at these positions.
    fn index_for(&self, mask: u32) -> Option<&Index> {
        let fitting = self.indexes.iter().filter(|index| index.mask & !mask == 0);
        fitting.max_by_key(|index| index.mask.count_ones())
    }

    /// Records what a search cost, and builds the index that would have saved it.
    fn learn(&mut self, wanted: &Wanted, in_vain: u64, clock: u64) {
        let mask = wanted.mask();
        if mask == 0 {
            return;
        }
        let fitting = self.indexes.iter_mut().filter(|index| index.mask & !mask == 0);
        let best = fitting.max_by_key(|index| index.mask.count_ones());
        let covered = best.is_some_and(|index| {
            index.used = clock;
            index.mask == mask
        });
        if in_vain == 0 || covered || !self.automatic {
            return;
        }
        if self.in_vain.len() >= MOST_COUNTED && !self.in_vain.contains_key(&mask) {
            self.in_vain.clear();
        }
        let total = self.in_vain.entry(mask).or_default();
        *total += in_vain;
        if *total >= PATIENCE.max(self.slab.len()) && self.make_room(clock) {
            self.in_vain.remove(&mask);
            self.build(mask, clock);
        }
    }

    fn make_room(&mut self, clock: u64) -> bool {
        let automatic = || self.indexes.iter().enumerate().filter(|(_, index)| !index.declared);
        if automatic().count() < MOST_AUTOMATIC {
            return true;
        }
        let oldest = automatic().min_by_key(|(_, index)| index.used);
        match oldest.filter(|(_, index)| index.used + UNUSED < clock).map(|(place, _)| place) {
            Some(place) => {
                self.indexes.swap_remove(place);
                true
            }
            None => false,
        }
    }

    fn build(&mut self, mask: u32, clock: u64) {
        let mut index = Index::new(mask, false);
        index.used = clock;
        let entries = self.entries();
        Walk::all(&self.links, self.head, false).for_each(|slot| index.insert(&self.state, slot, true, &entries));
        self.indexes.push(index);
    }
}
