//! Operations on memory that this process has mapped: it carries them out itself, and they are done when they return.
//!
//! Numbers are accumulated under the guard of the target's part, which the target takes too for what other machines ask of it.

use super::desk::Guarded;
use super::memory::{Mapping, Memory};
use super::origin::Place;
use super::runs::{Reach, Runs, pieces};
use super::{Part, Window};
use crate::error::Result;
use crate::objects::buffer::Buffer;
use crate::objects::op::Op;
use phalanx_net::copy::copy;
use std::sync::atomic::{Ordering, fence};

/// Of so many calls that only work in mapped memory one moves messages too: a program may wait in them for what comes by message, or
/// for what a lost process was to do.
const SELDOM: u32 = 32;

/// The target's elements of an operation, in mapped memory.
pub(super) struct Elements<'a> {
    /// Where the displacement leads to.
    start: *mut u8,
    place: &'a Place,
    /// Bytes that the operation touches, from the first on.
    bytes: usize,
    /// Where they begin when they are one run.
    run: Option<*mut u8>,
}

impl Window {
    /// The memory that this process has mapped together with others.
    #[inline]
    pub(super) fn mapping(&self) -> Option<&Mapping> {
        match &self.memory {
            Memory::Mapped(mapping) => Some(mapping),
            Memory::Lent | Memory::Allocated(_) => None,
        }
    }

    /// Whether operations on a target's part need no message; fails when the target was lost.
    #[inline]
    pub(super) fn reaches(&self, target: usize) -> Result<bool> {
        match self.mapping().and_then(|mapping| mapping.number(target)) {
            None => Ok(false),
            Some(_) if self.open.reaches(target) => Ok(true),
            Some(_) => Err(self.loss_of(target)),
        }
    }

    /// Nothing is to be done any more in the memory of a rank that was lost.
    pub(super) fn lose_memory_of(&self, rank: usize) {
        self.open.lose(rank);
        self.mapping().into_iter().for_each(|mapping| mapping.lose(rank));
    }

    /// The elements of an operation on a target whose part is mapped, if all of them are inside.
    pub(super) fn elements<'a>(&self, target: usize, place: &'a Place, bytes: usize) -> Result<Elements<'a>> {
        let Part { base, size, unit } = self.parts[target];
        let (reach, run) = (Reach::Part { base, size, unit }, place.datatype.contiguous_at(place.count));
        let address = match run {
            Some(offset) => {
                let run = Runs { offset: offset as i64, length: bytes as u64, stride: 0, count: 1 };
                reach.locate(place.displacement, &[run])?
            }
            None => {
                let mut address = base;
                for piece in pieces(&place.datatype, place.count, bytes, 1) {
                    address = reach.locate(place.displacement, &piece.runs)?;
                }
                address
            }
        };
        let start = std::ptr::with_exposed_provenance_mut::<u8>(address);
        Ok(Elements { start, place, bytes, run: run.map(|offset| start.wrapping_offset(offset)) })
    }

    /// Waits until nobody else accumulates in a part; None for one that is not mapped.
    pub(super) fn guard(&self, rank: usize) -> Result<Option<Guarded<'_>>> {
        self.mapping().and_then(|mapping| mapping.desk(rank)).map(|desk| desk.guard()).transpose()
    }

    /// What this process has stored in mapped memory is there for all before what it loads next; moves messages now and then.
    #[inline]
    pub(super) fn order_direct(&self) {
        if self.mapping().is_some() {
            fence(Ordering::SeqCst);
            self.note_direct();
        }
    }

    /// Moves messages now and then.
    #[inline]
    pub(super) fn note_direct(&self) {
        let calls = self.calls.load(Ordering::Relaxed);
        self.calls.store(calls.wrapping_add(1), Ordering::Relaxed);
        if calls % SELDOM == SELDOM - 1 {
            self.world.progress();
        }
    }
}

impl Elements<'_> {
    /// Puts as many bytes there as an operation has.
    pub fn put(&self, data: &[u8]) {
        match self.run {
            // SAFETY: within the part, which is mapped as long as there is the window.
            Some(run) => unsafe { copy_any(data.as_ptr(), run, data.len()) },
            // SAFETY: as above.
            None => unsafe { _ = self.place.datatype.unpack(self.start, self.place.count, 0, data) },
        }
    }

    /// Copies them to where a result goes.
    pub fn get(&self, result: &Buffer) {
        match (self.run, result.datatype.contiguous_at(result.count)) {
            (Some(run), Some(offset)) => {
                // SAFETY: as in `put`; the caller of the operation lends the memory of the result, which has been found long enough.
                unsafe { copy_any(run, result.start.wrapping_offset(offset), self.bytes) }
            }
            // SAFETY: as above.
            _ => unsafe { _ = result.datatype.unpack(result.start, result.count, 0, &self.bytes()) },
        }
    }

    /// A copy of them.
    pub fn bytes(&self) -> Vec<u8> {
        let mut packed = vec![0; self.bytes];
        // SAFETY: as in `put`.
        unsafe { self.place.datatype.pack(self.start, self.place.count, 0, &mut packed) };
        packed
    }

    /// Whether they have these bytes.
    pub fn are(&self, expected: &[u8]) -> bool {
        match self.run {
            // SAFETY: as in `put`.
            Some(run) => unsafe { std::slice::from_raw_parts(run, self.bytes) == expected },
            None => self.bytes() == expected,
        }
    }

    /// Combines data with them.
    pub fn accumulate(&self, op: &Op, data: &[u8]) -> Result<()> {
        // SAFETY: as in `put`.
        unsafe { op.accumulate(data, self.start, self.place.count, 0, &self.place.datatype) }
    }
}

/// Copies bytes, also where both are the same memory.
///
/// # Safety
/// `from` may be read and `to` be written for `length` bytes.
#[inline]
pub(super) unsafe fn copy_any(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: the caller's promise; they do not overlap where that matters.
    unsafe {
        match length {
            8 => to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()), // without a call
            4 => to.cast::<u32>().write_unaligned(from.cast::<u32>().read_unaligned()),
            _ if from.addr().abs_diff(to.addr()) < length => std::ptr::copy(from, to, length),
            _ => copy(from, to, length),
        }
    }
}
