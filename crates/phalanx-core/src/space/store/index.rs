//! From the fields at some positions to the tuples that have them.

use super::super::signature::{LABEL, hash_tuple, same_fields};
use super::super::template::Template;
use super::entries::Entries;
use super::links::Links;
use super::slab::NIL;
use hashbrown::HashMap;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::hash::RandomState;

/// A list for all tuples with the same fields at the positions of a mask.
#[derive(Debug)]
pub struct Index {
    pub mask: u32,
    /// Was asked for; never makes room for another.
    pub declared: bool,
    /// When it was last of use: the space's count of searches.
    pub used: u64,
    /// A hash's half and the first slot of its list: so neither growing nor most misses need a look at tuples.
    table: HashTable<(u32, u32)>,
    links: Links,
    /// By hash: a slot of its list where one was put that is not the newest. The next one belongs near to it.
    near: HashMap<u32, u32, RandomState>,
}

/// Slots kept in `near`, at most.
const MOST_NEAR: usize = 4096;

/// The table wants 64 bits, with good ones at both ends.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Index {
    pub fn new(mask: u32, declared: bool) -> Index {
        Index { mask, declared, used: 0, table: HashTable::new(), links: Links::default(), near: HashMap::default() }
    }

    /// Bytes of memory, beside those for chunks of links.
    pub fn table_bytes(&self) -> u64 {
        self.table.allocation_size() as u64
    }

    fn hash(&self, state: &RandomState, slot: u32, entries: &Entries) -> u32 {
        hash_tuple(state, self.mask, entries.slab.entry(slot).bytes, entries.label(slot)) as u32
    }

    pub fn insert(&mut self, state: &RandomState, slot: u32, newest: bool, entries: &Entries) {
        let (mask, hash) = (self.mask, self.hash(state, slot, entries));
        let tuple = entries.slab.entry(slot).bytes;
        let same = |(known, head): &(u32, u32)| {
            *known == hash
                && same_fields(mask, tuple, entries.slab.entry(*head).bytes)
                && (mask & LABEL == 0 || entries.label(slot) == entries.label(*head))
        };
        match self.table.entry(spread(hash), same, |(hash, _)| spread(*hash)) {
            Entry::Occupied(mut list) => {
                let near = match newest || self.near.is_empty() {
                    true => NIL,
                    // Another list can have the same hash.
                    false => self.near.get(&hash).copied().filter(|near| same(&(hash, *near))).unwrap_or(NIL),
                };
                if self.links.insert(&mut list.get_mut().1, slot, newest, near, entries.slab) {
                    if self.near.len() >= MOST_NEAR {
                        self.near.clear();
                    }
                    self.near.insert(hash, slot);
                }
            }
            Entry::Vacant(place) => {
                let mut head = NIL;
                self.links.insert(&mut head, slot, newest, NIL, entries.slab);
                place.insert((hash, head));
            }
        }
    }

    /// The slot must still have its tuple.
    pub fn remove(&mut self, state: &RandomState, slot: u32, entries: &Entries) {
        let (mask, hash) = (self.mask, self.hash(state, slot, entries));
        let tuple = entries.slab.entry(slot).bytes;
        let same = |(known, head): &(u32, u32)| {
            *known == hash
                && (*head == slot
                    || (same_fields(mask, tuple, entries.slab.entry(*head).bytes)
                        && (mask & LABEL == 0 || entries.label(slot) == entries.label(*head))))
        };
        if self.near.get(&hash) == Some(&slot) {
            self.near.remove(&hash);
        }
        let Ok(mut list) = self.table.find_entry(spread(hash), same) else { return };
        self.links.remove(&mut list.get_mut().1, slot);
        if list.get().1 == NIL {
            list.remove();
        }
    }

    /// The first of the tuples with a template's actuals (and this label, if the index is of labels).
    pub fn head(&self, state: &RandomState, template: &Template, label: Option<&[u8]>, entries: &Entries) -> u32 {
        let mask = self.mask;
        let hash = template.hash(state, mask, label) as u32;
        let same = |(known, head): &(u32, u32)| {
            *known == hash
                && template.has_actuals(mask, entries.slab.entry(*head).bytes)
                && (mask & LABEL == 0 || entries.label(*head) == label)
        };
        self.table.find(spread(hash), same).map_or(NIL, |(_, head)| *head)
    }

    pub fn links(&self) -> &Links {
        &self.links
    }

    pub fn forget(&mut self, chunk: usize) {
        self.links.forget(chunk);
    }

    /// Gives back the memory that a table keeps after most of its tuples left.
    pub fn shrink(&mut self) {
        if self.table.capacity() > 64 && self.table.len() < self.table.capacity() / 8 {
            self.table.shrink_to(self.table.len() * 2, |(hash, _)| spread(*hash));
        }
    }
}
