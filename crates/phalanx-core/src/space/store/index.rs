//! A hash index: from the fields at some positions to the tuples that have them.

use super::super::signature::{LABEL, hash_tuple, same_fields};
use super::super::template::Template;
use super::entries::Entries;
use super::links::Links;
use super::slab::NIL;
use hashbrown::HashMap;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::hash::RandomState;

/// One list of tuples for each combination of fields at the positions of the mask.
#[derive(Debug)]
pub struct Index {
    pub mask: u32,
    /// Declared in the options. A declared index is never evicted for another.
    pub declared: bool,
    /// When the index was last useful, in searches of the space.
    pub used: u64,
    /// Half of a hash, and the first slot of its list. With the hash at hand, growing the table and most misses need no
    /// look at tuples.
    table: HashTable<(u32, u32)>,
    links: Links,
    /// By hash: the slot where the last tuple that was not the newest was inserted. The next such tuple usually belongs
    /// near it.
    near: HashMap<u32, u32, RandomState>,
}

/// Limit on the entries of `near`.
const MOST_NEAR: usize = 4096;

/// Spreads the hash over 64 bits, because the table uses the bits at both ends.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Index {
    pub fn new(mask: u32, declared: bool) -> Index {
        Index { mask, declared, used: 0, table: HashTable::new(), links: Links::default(), near: HashMap::default() }
    }

    /// Bytes of memory, without the chunks of links.
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
                    // Another list may have the same hash.
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

    /// Removes a slot from the index. The slot must still hold its tuple.
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

    /// The first tuple with a template's actuals (and this label, if the index covers labels).
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

    /// Frees the memory that a table keeps after most of its tuples are gone.
    pub fn shrink(&mut self) {
        if self.table.capacity() > 64 && self.table.len() < self.table.capacity() / 8 {
            self.table.shrink_to(self.table.len() * 2, |(hash, _)| spread(*hash));
        }
    }
}
