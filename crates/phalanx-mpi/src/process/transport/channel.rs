//! A queue in shared memory with one sender and one receiver.
//!
//! Slots hold headers; data of more than a few bytes goes through a ring of its own beside them. A slot is full when its
//! turn is the number of the lap: header, short data and the news that they are there come in one cache line.

use super::Header;
use super::watched::{AtomicU32, AtomicU64, has_read, writes};
use phalanx_net::copy::copy;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

const SLOTS: u64 = 256;
/// Data that travels in the slot.
pub const INLINE: usize = 20;
/// Bytes that one slot announces: the receiver copies one chunk while the sender copies the next.
const CHUNK: usize = 16 << 10;

/// Bytes of a channel before its ring.
const BEFORE_RING: usize = size_of::<Ends>() + SLOTS as usize * size_of::<Slot>();

/// Bytes of a channel with a ring of so many bytes.
pub(super) const fn channel_bytes(ring: usize) -> usize {
    BEFORE_RING + ring
}

#[repr(C, align(128))]
struct Ends {
    receiver: ReceiverLine,
    sender: SenderLine,
}

/// Written by the receiver.
#[repr(C, align(128))]
struct ReceiverLine {
    slots: AtomicU64,
    ring: AtomicU64,
}

/// Written by the sender when it finds no room, and by the receiver when there is some again.
#[repr(C, align(128))]
struct SenderLine {
    waits: AtomicU32,
}

#[repr(C, align(64))]
struct Slot {
    turn: AtomicU32,
    chunk: u32,
    header: Header,
}

/// Where in the slot short data lies: in the padding of the header and behind it.
const INLINE_AT: usize = 64 - INLINE;
const _: () = assert!(size_of::<Slot>() == 64 && std::mem::offset_of!(Slot, header) + 36 <= INLINE_AT);

#[derive(Debug, Clone, Copy)]
struct Channel {
    start: NonNull<u8>,
    /// Bytes of the ring: a power of two.
    ring: u64,
}

impl Channel {
    fn new(start: NonNull<u8>, ring: usize) -> Channel {
        debug_assert!(ring.is_power_of_two());
        Channel { start, ring: ring as u64 }
    }

    #[inline]
    fn ends(&self) -> &Ends {
        // SAFETY: a channel begins with its ends; zero is valid.
        unsafe { self.start.cast::<Ends>().as_ref() }
    }

    #[inline]
    fn slot(&self, number: u64) -> *mut Slot {
        // SAFETY: within the channel.
        unsafe { self.start.add(size_of::<Ends>()).cast::<Slot>().add((number % SLOTS) as usize).as_ptr() }
    }

    /// The longest run of the ring from a position on, up to `most` bytes.
    #[inline]
    fn run(&self, position: u64, most: usize) -> (*mut u8, usize) {
        let offset = (position & (self.ring - 1)) as usize;
        // SAFETY: within the channel.
        (unsafe { self.start.add(BEFORE_RING + offset).as_ptr() }, most.min(self.ring as usize - offset))
    }
}

/// A slot but for its turn.
#[inline]
fn content(slot: *const Slot) -> (*const u8, usize) {
    let start = std::mem::offset_of!(Slot, chunk);
    (slot.cast::<u8>().wrapping_add(start), size_of::<Slot>() - start)
}

#[inline]
fn turn(number: u64) -> u32 {
    (number / SLOTS) as u32 + 1
}

/// The sending end.
#[derive(Debug)]
pub struct Sender {
    channel: Channel,
    /// Numbers of the next slot and byte.
    slot: u64,
    ring: u64,
    /// Up to where the receiver was seen.
    seen: (u64, u64),
}

// SAFETY: the memory is shared by design; this end is used by one thread at a time.
unsafe impl Send for Sender {}

impl Sender {
    pub(super) fn new(start: NonNull<u8>, ring: usize) -> Sender {
        Sender { channel: Channel::new(start, ring), slot: 0, ring: 0, seen: (0, 0) }
    }

    /// Puts the next chunk of a frame in, the first one with the header; how many bytes of `payload` that were. None when
    /// there is no room.
    ///
    /// # Safety
    /// `payload` may be read for `length` bytes.
    pub unsafe fn push(&mut self, header: &Header, payload: *const u8, length: usize) -> Option<usize> {
        let short = header.length <= INLINE as u64;
        debug_assert!(!short || length <= INLINE);
        let wanted = if short { 0 } else { length.min(CHUNK) };
        if !self.has_room(wanted) {
            return None;
        }
        let slot = self.channel.slot(self.slot);
        let (to, chunk) = if short {
            // SAFETY: the last bytes of the slot.
            (unsafe { slot.cast::<u8>().add(INLINE_AT) }, length)
        } else {
            self.channel.run(self.ring, wanted)
        };
        let (rest, length) = content(slot);
        writes(rest, length);
        writes(to, chunk);
        // SAFETY: the slot is empty, so nobody else touches it, and the ring has this room.
        unsafe {
            (*slot).header = *header; // first: short data lies in its padding
            copy(payload, to, chunk);
            (*slot).chunk = chunk as u32;
            (*slot).turn.store(turn(self.slot), Ordering::Release);
        }
        self.slot += 1;
        self.ring += if short { 0 } else { chunk as u64 };
        Some(chunk)
    }

    #[inline]
    fn has_room(&mut self, bytes: usize) -> bool {
        let has = |this: &Sender| {
            this.slot - this.seen.0 < SLOTS && this.ring + bytes as u64 - this.seen.1 <= this.channel.ring
        };
        if has(self) {
            return true;
        }
        let receiver = &self.channel.ends().receiver;
        self.seen = (receiver.slots.load(Ordering::Acquire), receiver.ring.load(Ordering::Acquire));
        has(self)
    }

    /// Asks the receiver for a sign when there is room again. It may just have missed that: who sleeps until the sign
    /// comes looks again after a moment.
    pub fn ask_for_room(&self) {
        self.channel.ends().sender.waits.store(1, Ordering::Relaxed);
    }
}

/// The receiving end.
#[derive(Debug)]
pub struct Receiver {
    channel: Channel,
    slot: u64,
    ring: u64,
}

// SAFETY: as the sender.
unsafe impl Send for Receiver {}

/// A chunk that arrived: valid until [`Receiver::pop`].
pub struct Chunk {
    pub header: Header,
    pub bytes: *const u8,
    pub length: usize,
    in_ring: bool,
}

impl Receiver {
    pub(super) fn new(start: NonNull<u8>, ring: usize) -> Receiver {
        Receiver { channel: Channel::new(start, ring), slot: 0, ring: 0 }
    }

    /// The next chunk, with the header that was pushed with it.
    #[inline]
    pub fn peek(&self) -> Option<Chunk> {
        let slot = self.channel.slot(self.slot);
        // SAFETY: a slot of the channel; its turn says that the sender is done with it.
        unsafe {
            if (*slot).turn.load(Ordering::Acquire) != turn(self.slot) {
                return None;
            }
            let (header, length) = ((*slot).header, (*slot).chunk as usize);
            if header.length <= INLINE as u64 {
                let length = length.min(INLINE);
                let bytes = slot.cast::<u8>().add(INLINE_AT);
                return Some(Chunk { header, bytes, length, in_ring: false });
            }
            let (bytes, length) = self.channel.run(self.ring, length.min(CHUNK));
            Some(Chunk { header, bytes, length, in_ring: true })
        }
    }

    /// Gives the room of a chunk back. True when the sender asked for a sign of it.
    #[inline]
    pub fn pop(&mut self, chunk: &Chunk) -> bool {
        let ends = self.channel.ends();
        let (rest, length) = content(self.channel.slot(self.slot));
        has_read(rest, length);
        has_read(chunk.bytes, chunk.length);
        self.slot += 1;
        ends.receiver.slots.store(self.slot, Ordering::Release);
        if chunk.in_ring {
            self.ring += chunk.length as u64;
            ends.receiver.ring.store(self.ring, Ordering::Release);
        }
        let waits = &ends.sender.waits;
        waits.load(Ordering::Relaxed) == 1 && waits.swap(0, Ordering::Relaxed) == 1
    }
}

#[cfg(test)]
mod tests;
