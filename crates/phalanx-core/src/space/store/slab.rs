//! The memory of tuples: a slab allocator with chunks of 64 slots of about one size. Each slot also has the tuple's
//! number. A small tuple costs few bytes more than its own and is found in one look.

use super::super::value::Tuple;
use bytes::Bytes;
use hashbrown::HashMap;
use std::hash::RandomState;

/// No slot, or no chunk.
pub const NIL: u32 = u32::MAX;
/// Slots of a chunk.
pub const CHUNK: usize = 64;
/// The header of a slot: the number (with a mark in its highest byte if there are extras), and the length.
const HEADER: usize = 10;
/// Longer tuples are stored on their own. Readers share them instead of getting a copy.
const LONGEST: usize = 1014;
/// The last size class: slots with only a header.
const ALONE: usize = CLASSES - 1;
const CLASSES: usize = 24 + 24 + 8 + 2;
const EXTRA: u64 = 1 << 63;

#[derive(Debug)]
struct Chunk {
    /// Empty: this chunk is vacant.
    memory: Box<[u8]>,
    /// One bit for each free slot.
    free: u64,
    class: u8,
    /// Neighbours in the list of this class's chunks with free slots.
    previous: u32,
    next: u32,
}

/// A stored tuple.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    pub has_extra: bool,
    pub bytes: &'a [u8],
}

/// Tuples in slots. A tuple keeps its slot number.
#[derive(Debug)]
pub struct Slab {
    chunks: Vec<Chunk>,
    /// For each size class, the first chunk with free slots.
    open: [u32; CLASSES],
    vacant: Vec<u32>,
    alone: HashMap<u32, Bytes, RandomState>,
    memory: u64,
    encoded: u64,
    len: u64,
}

impl Default for Slab {
    fn default() -> Slab {
        Slab {
            chunks: Vec::new(),
            open: [NIL; CLASSES],
            vacant: Vec::new(),
            alone: HashMap::default(),
            memory: 0,
            encoded: 0,
            len: 0,
        }
    }
}

/// The size class of a tuple, in steps of 4, 16 and 64 bytes, and the size of its slots.
fn class_of(length: usize) -> (usize, usize) {
    match length + HEADER {
        _ if length > LONGEST => (ALONE, 12),
        size if size <= 96 => (size.div_ceil(4) - 1, size.next_multiple_of(4)),
        size if size <= 480 => (24 + (size - 96).div_ceil(16) - 1, size.next_multiple_of(16)),
        size => (48 + (size - 480).div_ceil(64) - 1, 480 + (size - 480).next_multiple_of(64)),
    }
}

impl Slab {
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Bytes of memory used, and bytes of the tuples in it.
    pub fn bytes(&self) -> (u64, u64) {
        (self.memory, self.encoded)
    }

    /// Chunks that are not vacant.
    pub fn chunks(&self) -> u64 {
        (self.chunks.len() - self.vacant.len()) as u64
    }

    pub fn insert(&mut self, number: u64, has_extra: bool, tuple: &Tuple) -> u32 {
        let bytes = tuple.bytes();
        let (class, stride) = class_of(bytes.len());
        let chunk = match self.open[class] {
            NIL => self.open_chunk(class, stride),
            open => open,
        };
        let at = &mut self.chunks[chunk as usize];
        let place = at.free.trailing_zeros();
        at.free &= !(1 << place);
        let slot = chunk * CHUNK as u32 + place;
        let memory = &mut at.memory[place as usize * stride..][..stride];
        memory[..8].copy_from_slice(&(number | if has_extra { EXTRA } else { 0 }).to_le_bytes());
        if class == ALONE {
            self.memory += bytes.len() as u64 + 64;
            self.alone.insert(slot, bytes.clone());
        } else {
            memory[8..HEADER].copy_from_slice(&(bytes.len() as u16).to_le_bytes());
            memory[HEADER..HEADER + bytes.len()].copy_from_slice(bytes);
        }
        if self.chunks[chunk as usize].free == 0 {
            self.close(chunk);
        }
        self.encoded += bytes.len() as u64;
        self.len += 1;
        slot
    }

    /// Frees a slot. Returns its chunk, if that became vacant.
    pub fn remove(&mut self, slot: u32) -> Option<usize> {
        let length = self.entry(slot).bytes.len();
        if let Some(bytes) = self.alone.remove(&slot) {
            self.memory -= bytes.len() as u64 + 64;
        }
        self.encoded -= length as u64;
        self.len -= 1;
        let number = slot / CHUNK as u32;
        let chunk = &mut self.chunks[number as usize];
        let was_full = chunk.free == 0;
        chunk.free |= 1 << (slot % CHUNK as u32);
        if was_full {
            self.reopen(number);
        }
        // One empty chunk of each class is kept for the next tuples.
        let chunk = &self.chunks[number as usize];
        let alone = chunk.previous == NIL && chunk.next == NIL;
        (chunk.free == u64::MAX && !alone).then(|| self.vacate(number))
    }

    /// The slots in use.
    pub fn slots(&self) -> impl Iterator<Item = u32> {
        (0..self.end()).filter(|slot| self.is_used(*slot))
    }

    /// An upper bound: all slots are below it.
    pub fn end(&self) -> u32 {
        (self.chunks.len() * CHUNK) as u32
    }

    /// Whether a slot below the end holds a tuple.
    pub fn is_used(&self, slot: u32) -> bool {
        let chunk = &self.chunks[slot as usize / CHUNK];
        !chunk.memory.is_empty() && chunk.free & 1 << (slot % CHUNK as u32) == 0
    }

    /// Whether a slot holds the tuple with this number.
    pub fn has(&self, slot: u32, number: u64) -> bool {
        let chunk = self.chunks.get(slot as usize / CHUNK);
        let live = chunk.is_some_and(|it| !it.memory.is_empty() && it.free & 1 << (slot % CHUNK as u32) == 0);
        live && self.number(slot) == number
    }

    #[inline]
    pub fn number(&self, slot: u32) -> u64 {
        self.head(slot).0 & !EXTRA
    }

    #[inline]
    fn head(&self, slot: u32) -> (u64, &[u8]) {
        let chunk = &self.chunks[slot as usize / CHUNK];
        let stride = chunk.memory.len() / CHUNK;
        let memory = &chunk.memory[slot as usize % CHUNK * stride..][..stride];
        (u64::from_le_bytes(memory[..8].try_into().expect("8 bytes")), &memory[8..])
    }

    #[inline]
    pub fn entry(&self, slot: u32) -> Entry<'_> {
        let (head, rest) = self.head(slot);
        let bytes = match self.chunks[slot as usize / CHUNK].class as usize == ALONE {
            true => self.alone.get(&slot).map_or(&[][..], |bytes| bytes),
            false => {
                let length = u16::from_le_bytes(rest[..2].try_into().expect("2 bytes"));
                &rest[2..][..usize::from(length)]
            }
        };
        Entry { has_extra: head & EXTRA != 0, bytes }
    }

    /// The tuple in a slot. A long one is shared, a short one copied.
    pub fn tuple(&self, slot: u32) -> Tuple {
        match self.alone.get(&slot).filter(|_| self.chunks[slot as usize / CHUNK].class as usize == ALONE) {
            Some(bytes) => Tuple::known(bytes.clone()),
            None => Tuple::known(Bytes::copy_from_slice(self.entry(slot).bytes)),
        }
    }

    fn open_chunk(&mut self, class: usize, stride: usize) -> u32 {
        let memory = vec![0; stride * CHUNK].into_boxed_slice();
        self.memory += memory.len() as u64 + size_of::<Chunk>() as u64;
        let chunk = Chunk { memory, free: u64::MAX, class: class as u8, previous: NIL, next: NIL };
        let number = match self.vacant.pop() {
            Some(number) => {
                self.chunks[number as usize] = chunk;
                number
            }
            None => {
                self.chunks.push(chunk);
                (self.chunks.len() - 1) as u32
            }
        };
        self.reopen(number);
        number
    }

    /// Adds a chunk at the head of the list of chunks with free slots.
    fn reopen(&mut self, number: u32) {
        let class = usize::from(self.chunks[number as usize].class);
        let first = std::mem::replace(&mut self.open[class], number);
        if first != NIL {
            self.chunks[first as usize].previous = number;
        }
        (self.chunks[number as usize].previous, self.chunks[number as usize].next) = (NIL, first);
    }

    fn close(&mut self, number: u32) {
        let Chunk { previous, next, class, .. } = self.chunks[number as usize];
        match previous {
            NIL => self.open[usize::from(class)] = next,
            _ => self.chunks[previous as usize].next = next,
        }
        if next != NIL {
            self.chunks[next as usize].previous = previous;
        }
        (self.chunks[number as usize].previous, self.chunks[number as usize].next) = (NIL, NIL);
    }

    fn vacate(&mut self, number: u32) -> usize {
        self.close(number);
        let memory = std::mem::take(&mut self.chunks[number as usize].memory);
        self.memory -= memory.len() as u64 + size_of::<Chunk>() as u64;
        self.vacant.push(number);
        number as usize
    }
}
