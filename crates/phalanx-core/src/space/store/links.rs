//! Circular doubly linked lists of slots, in the order of tuple numbers. Removing a slot needs no search.

use super::slab::{CHUNK, NIL, Slab};

#[cfg(test)]
thread_local! {
    /// Steps spent on searching for insertion points, in this thread.
    pub static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

type Pairs = Box<[[u32; 2]; CHUNK]>;

/// For each slot, the slots before and behind it. Many lists share this memory; a slot is in one list only.
#[derive(Debug, Default)]
pub struct Links {
    chunks: Vec<Option<Pairs>>,
}

impl Links {
    /// Bytes of memory for the links of one chunk.
    pub const CHUNK_BYTES: u64 = (CHUNK * 8 + 8) as u64;

    pub fn previous(&self, slot: u32) -> u32 {
        self.pair(slot)[0]
    }

    pub fn next(&self, slot: u32) -> u32 {
        self.pair(slot)[1]
    }

    /// Inserts a slot into the list that begins at `head`. `newest`: its number is above all others. `near`: a slot of
    /// the list near which the insertion point may be, or none. Returns whether the insertion point had to be searched
    /// for.
    pub fn insert(&mut self, head: &mut u32, slot: u32, newest: bool, near: u32, slab: &Slab) -> bool {
        self.make_room(slot);
        if *head == NIL {
            *self.pair_mut(slot) = [slot, slot];
            *head = slot;
            return false;
        }
        let tail = self.previous(*head);
        let number = slab.number(slot);
        if newest || slab.number(tail) < number {
            self.insert_before(*head, slot);
            return false;
        }
        let behind = self.behind(*head, near, number, slab);
        self.insert_before(behind, slot);
        if behind == *head {
            *head = slot;
        }
        true
    }

    /// The first slot of a list whose number is above `number`; the list has some below. The search alternates between
    /// both ends and one direction from `near`. So tuples that come back in order take a few steps each.
    fn behind(&self, head: u32, near: u32, number: u64, slab: &Slab) -> u32 {
        let near = if near == NIL { head } else { near };
        let forward = slab.number(near) < number;
        let (mut up, mut down, mut beside) = (head, self.previous(head), near);
        loop {
            #[cfg(test)]
            STEPS.with(|steps| steps.set(steps.get() + 1));
            if slab.number(up) > number {
                return up;
            }
            if slab.number(down) < number {
                return self.next(down);
            }
            (up, down) = (self.next(up), self.previous(down));
            if forward {
                beside = self.next(beside);
                if slab.number(beside) > number {
                    return beside;
                }
            } else {
                let before = self.previous(beside);
                if slab.number(before) < number {
                    return beside;
                }
                beside = before;
            }
        }
    }

    /// Removes a slot from the list that begins at `head`.
    pub fn remove(&mut self, head: &mut u32, slot: u32) {
        let [previous, next] = *self.pair(slot);
        if next == slot {
            *head = NIL;
            return;
        }
        self.pair_mut(previous)[1] = next;
        self.pair_mut(next)[0] = previous;
        if *head == slot {
            *head = next;
        }
    }

    /// Frees the links of a chunk of slots.
    pub fn forget(&mut self, chunk: usize) {
        if let Some(pairs) = self.chunks.get_mut(chunk) {
            *pairs = None;
        }
    }

    fn insert_before(&mut self, behind: u32, slot: u32) {
        let before = self.previous(behind);
        *self.pair_mut(slot) = [before, behind];
        self.pair_mut(before)[1] = slot;
        self.pair_mut(behind)[0] = slot;
    }

    fn make_room(&mut self, slot: u32) {
        let chunk = slot as usize / CHUNK;
        if chunk >= self.chunks.len() {
            self.chunks.resize_with(chunk + 1, || None);
        }
        self.chunks[chunk].get_or_insert_with(|| Box::new([[NIL; 2]; CHUNK]));
    }

    fn pair(&self, slot: u32) -> &[u32; 2] {
        let pairs = self.chunks[slot as usize / CHUNK].as_ref().expect("slots in a list have room");
        &pairs[slot as usize % CHUNK]
    }

    fn pair_mut(&mut self, slot: u32) -> &mut [u32; 2] {
        let pairs = self.chunks[slot as usize / CHUNK].as_mut().expect("slots in a list have room");
        &mut pairs[slot as usize % CHUNK]
    }
}

/// Iterates over the slots of a list, oldest or newest first. Links are followed only on demand, because most searches
/// end with the first slot.
#[derive(Debug, Clone)]
pub struct Walk<'a> {
    links: &'a Links,
    head: u32,
    /// The slot before the next one, or none at the beginning.
    at: u32,
    backward: bool,
}

impl<'a> Walk<'a> {
    pub fn all(links: &'a Links, head: u32, backward: bool) -> Walk<'a> {
        Walk { links, head, at: NIL, backward }
    }

    /// The slots behind a slot of the list, in one direction. Behind none: all slots.
    pub fn behind(links: &'a Links, head: u32, slot: u32, backward: bool) -> Walk<'a> {
        Walk { links, head, at: slot, backward }
    }

    /// An empty iteration.
    pub fn none(walk: Walk<'a>) -> Walk<'a> {
        Walk { head: NIL, ..walk }
    }
}

impl Iterator for Walk<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let next = match (self.at, self.backward) {
            _ if self.head == NIL => return None,
            (NIL, false) => self.head,
            (NIL, true) => self.links.previous(self.head),
            (at, true) if at == self.head => NIL,
            (at, true) => self.links.previous(at),
            (at, false) => match self.links.next(at) {
                next if next == self.head => NIL,
                next => next,
            },
        };
        if next == NIL {
            self.head = NIL;
            return None;
        }
        self.at = next;
        Some(next)
    }
}
