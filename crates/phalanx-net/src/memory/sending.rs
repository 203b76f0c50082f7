//! The segments that this end of a link fills.

use super::segment::Segment;
use bytes::Bytes;
use phalanx_core::wire::{Place, SLOTS};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A segment is reused for bodies of at least this fraction (1/`SHORTEST`) of its length.
const SHORTEST: usize = 4;
/// A segment that was not needed for this many bodies is assumed not to be needed again.
const LONG_UNUSED: u64 = 4 * SLOTS as u64;

/// Free memory is kept for one more call of [`Pool::trim`] for each so many bytes, because fresh memory takes that long
/// to fill. A body of 1 GB takes 0.4 s, so its memory would otherwise be returned before the next body could use it.
const BYTES_PER_CALL: usize = 128 << 20;
/// Limit on the calls that it is kept for: about 4 s.
const MOST_CALLS: usize = 9;

/// A body in a segment, ready to be announced to the receiver.
#[derive(Debug)]
pub(crate) struct Filled {
    pub place: Place,
    /// The file to pass along with the frame's prefix, if the segment is fresh.
    pub file: Option<OwnedFd>,
    segment: Arc<Segment>,
    length: usize,
}

impl Filled {
    /// Bytes of the body.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The body as bytes for the socket, in case the file cannot be passed.
    pub fn into_bytes(self) -> Bytes {
        Bytes::from_owner(Unsent(self.segment, self.length))
    }
}

struct Unsent(Arc<Segment>, usize);

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        self.0.body(self.1)
    }
}

#[derive(Debug, Default)]
struct Slot {
    segment: Option<Arc<Segment>>,
    generation: u16,
    /// The number of the last body.
    last: u64,
}

impl Slot {
    fn is_free(&self) -> bool {
        self.segment.as_ref().is_some_and(|segment| segment.is_free())
    }

    fn fits(&self, length: usize) -> bool {
        let capacity = self.segment.as_ref().map_or(0, |segment| segment.capacity());
        capacity >= length && capacity / SHORTEST <= length && self.is_free()
    }

    /// Returns the memory to the system if the segment is free. Otherwise the receiver still uses it, and it goes when
    /// the receiver drops it.
    fn retire(&mut self) {
        if let Some(segment) = self.segment.take().filter(|segment| segment.is_free()) {
            segment.empty();
        }
    }
}

/// The segments of one direction of a link. A segment that the receiver keeps for long does not count: its slot gets
/// another one.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    slots: [Slot; SLOTS as usize],
    /// The number of bodies sent, and that number at the last call of [`Pool::trim`].
    bodies: u64,
    trimmed: u64,
    /// Calls of [`Pool::trim`] since the last body.
    calls: usize,
}

impl Pool {
    pub fn new() -> Option<Pool> {
        Some(Pool::default())
    }

    /// Copies a body into a segment. Fails if the system gives no memory or no file.
    pub fn fill(&mut self, body: &[Bytes]) -> io::Result<Filled> {
        let length = body.iter().map(Bytes::len).sum();
        self.bodies += 1;
        let fitting = self.slots.iter().enumerate().filter(|(_, slot)| slot.fits(length));
        // Prefers the segment used last: it is still in the caches, and the others can then be returned.
        if let Some(number) = fitting.max_by_key(|(_, slot)| slot.last).map(|(number, _)| number) {
            let slot = &mut self.slots[number];
            slot.last = self.bodies;
            let segment = slot.segment.clone().expect("it fits");
            segment.fill(body);
            let place = Place { slot: number as u8, generation: slot.generation, fresh: false };
            return Ok(Filled { place, file: None, segment, length });
        }
        let (segment, file) = Segment::new(body)?;
        let segment = Arc::new(segment);
        let number = self.least_needed();
        let slot = &mut self.slots[number];
        slot.retire();
        let generation = slot.generation.wrapping_add(1);
        *slot = Slot { segment: Some(segment.clone()), generation, last: self.bodies };
        let place = Place { slot: number as u8, generation, fresh: true };
        Ok(Filled { place, file: Some(file), segment, length })
    }

    /// An empty slot, else a free one, else the one whose body was sent first.
    fn least_needed(&self) -> usize {
        let rank = |slot: &Slot| if slot.segment.is_none() { 0 } else { 2 - u8::from(slot.is_free()) };
        let slots = self.slots.iter().enumerate();
        slots.min_by_key(|(_, slot)| (rank(slot), slot.last)).map_or(0, |(number, _)| number)
    }

    /// Returns memory of free segments to the system. If no body was sent since the last call (the last few calls, if
    /// it is much memory), returns all free segments. Otherwise returns only those that no body has needed for long.
    pub fn trim(&mut self) {
        let was_used = std::mem::replace(&mut self.trimmed, self.bodies) != self.bodies;
        self.calls = if was_used { 0 } else { self.calls.saturating_add(1) };
        let free = self.slots.iter().filter(|slot| slot.is_free()).filter_map(|slot| slot.segment.as_ref());
        let bytes: usize = free.map(|segment| segment.capacity()).sum();
        let is_idle = self.calls > (bytes / BYTES_PER_CALL).min(MOST_CALLS - 1);
        for slot in &mut self.slots {
            let is_unused = is_idle || self.bodies - slot.last > LONG_UNUSED;
            if (is_unused && slot.is_free()) || slot.segment.as_ref().is_some_and(|it| it.is_abandoned()) {
                slot.retire();
            } else if is_idle {
                slot.segment.iter().for_each(|segment| segment.look_away());
            }
        }
    }
}
