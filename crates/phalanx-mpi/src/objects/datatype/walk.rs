//! Moving bytes between a layout in memory and their packed form, from any byte on.

use super::layout::{Layout, Shape};
use phalanx_net::copy::copy as copy_run;

/// What is done with the runs of memory that a walk comes to.
pub(super) trait Visit {
    /// `length` bytes, `at` bytes from the buffer.
    fn run(&mut self, at: isize, length: usize);

    /// `count` runs, `stride` bytes apart.
    fn runs(&mut self, at: isize, length: usize, stride: isize, count: usize) {
        let mut at = at;
        for _ in 0..count {
            self.run(at, length);
            at = at.wrapping_add(stride);
        }
    }

    /// One run at each of these places, counted from `base`.
    fn blocks(&mut self, base: isize, places: &[isize], length: usize) {
        places.iter().for_each(|place| self.run(base.wrapping_add(*place), length));
    }
}

impl Layout {
    /// Visits the memory of packed bytes `skip .. skip + take`, which must be inside; `base` bytes are added to every
    /// offset. Loops nest as deeply as lists do, which construction bounds.
    pub fn walk(&self, base: isize, skip: usize, take: usize, visit: &mut impl Visit) {
        let base = base.wrapping_add(self.at);
        match &self.shape {
            Shape::Run => visit.run(base.wrapping_add_unsigned(skip), take),
            Shape::Loop { stride, inner, .. } => walk_loop(inner, *stride, base, skip, take, visit),
            Shape::Blocks { length, places } => walk_blocks(places, *length, base, skip, take, visit),
            Shape::List(parts) => {
                let (mut skip, mut take) = (skip, take);
                let first = parts.partition_point(|part| part.start <= skip) - 1;
                for part in &parts[first..] {
                    let from = skip - part.start;
                    let now = take.min(part.layout.size - from);
                    part.layout.walk(base, from, now, visit);
                    (skip, take) = (skip + now, take - now);
                    if take == 0 {
                        break;
                    }
                }
            }
        }
    }
}

/// The rest of an element that was begun, whole elements, the beginning of one.
pub(super) fn walk_loop(inner: &Layout, stride: isize, base: isize, skip: usize, take: usize, visit: &mut impl Visit) {
    let place = |index: usize| base.wrapping_add(stride.wrapping_mul(index as isize));
    let (mut index, begun) = (skip / inner.size, skip % inner.size);
    let mut take = take;
    if begun > 0 {
        let rest = take.min(inner.size - begun);
        inner.walk(place(index), begun, rest, visit);
        (index, take) = (index + 1, take - rest);
    }
    let (whole, rest) = (take / inner.size, take % inner.size);
    if let Shape::Run = inner.shape {
        visit.runs(place(index).wrapping_add(inner.at), inner.size, stride, whole);
    } else {
        (index..index + whole).for_each(|index| inner.walk(place(index), 0, inner.size, visit));
    }
    if rest > 0 {
        inner.walk(place(index + whole), 0, rest, visit);
    }
}

/// The rest of a block that was begun, whole blocks, the beginning of one.
fn walk_blocks(places: &[isize], length: usize, base: isize, skip: usize, take: usize, visit: &mut impl Visit) {
    let (mut index, begun) = (skip / length, skip % length);
    let mut take = take;
    if begun > 0 {
        let rest = take.min(length - begun);
        visit.run(base.wrapping_add(places[index]).wrapping_add_unsigned(begun), rest);
        (index, take) = (index + 1, take - rest);
    }
    let (whole, rest) = (take / length, take % length);
    visit.blocks(base, &places[index..index + whole], length);
    if rest > 0 {
        visit.run(base.wrapping_add(places[index + whole]), rest);
    }
}

/// Reads memory around `buffer`, writes packed bytes.
pub(super) struct Pack {
    pub buffer: *const u8,
    pub packed: *mut u8,
}

/// Reads packed bytes, writes memory around `buffer`.
pub(super) struct Unpack {
    pub packed: *const u8,
    pub buffer: *mut u8,
}

impl Visit for Pack {
    #[inline]
    fn run(&mut self, at: isize, length: usize) {
        // SAFETY: `Datatype::pack` was promised that the buffer holds the elements, and bounds what is written.
        unsafe {
            copy_run(self.buffer.wrapping_offset(at), self.packed, length);
            self.packed = self.packed.add(length);
        }
    }

    fn runs(&mut self, at: isize, length: usize, stride: isize, count: usize) {
        let (buffer, packed) = (self.buffer.wrapping_offset(at), self.packed);
        let offsets = (0..count as isize).map(|index| index.wrapping_mul(stride));
        // SAFETY: as in `run`.
        unsafe { copy(offsets, length, |offset, done| (buffer.wrapping_offset(offset), packed.add(done))) };
        self.packed = packed.wrapping_add(length * count);
    }

    fn blocks(&mut self, base: isize, places: &[isize], length: usize) {
        let (buffer, packed) = (self.buffer.wrapping_offset(base), self.packed);
        // SAFETY: as in `run`.
        unsafe {
            copy(places.iter().copied(), length, |place, done| (buffer.wrapping_offset(place), packed.add(done)))
        };
        self.packed = packed.wrapping_add(length * places.len());
    }
}

impl Visit for Unpack {
    #[inline]
    fn run(&mut self, at: isize, length: usize) {
        // SAFETY: `Datatype::unpack` was promised that the buffer holds the elements, and bounds what is read.
        unsafe {
            copy_run(self.packed, self.buffer.wrapping_offset(at), length);
            self.packed = self.packed.add(length);
        }
    }

    fn runs(&mut self, at: isize, length: usize, stride: isize, count: usize) {
        let (buffer, packed) = (self.buffer.wrapping_offset(at), self.packed);
        let offsets = (0..count as isize).map(|index| index.wrapping_mul(stride));
        // SAFETY: as in `run`.
        unsafe { copy(offsets, length, |offset, done| (packed.add(done), buffer.wrapping_offset(offset))) };
        self.packed = packed.wrapping_add(length * count);
    }

    fn blocks(&mut self, base: isize, places: &[isize], length: usize) {
        let (buffer, packed) = (self.buffer.wrapping_offset(base), self.packed);
        // SAFETY: as in `run`.
        unsafe {
            copy(places.iter().copied(), length, |place, done| (packed.add(done), buffer.wrapping_offset(place)))
        };
        self.packed = packed.wrapping_add(length * places.len());
    }
}

/// Copies runs of `length` bytes, those of a few numbers without a call for each. `ends` says of an offset, and of how
/// many packed bytes lie before it, from where to where.
///
/// # Safety
/// Both ends of each run must be valid for `length` bytes.
#[inline]
unsafe fn copy(
    offsets: impl Iterator<Item = isize>,
    length: usize,
    ends: impl Fn(isize, usize) -> (*const u8, *mut u8),
) {
    // SAFETY: the caller's promise.
    unsafe {
        match length {
            1 => copy_numbers::<1>(offsets, ends),
            2 => copy_numbers::<2>(offsets, ends),
            4 => copy_numbers::<4>(offsets, ends),
            8 => copy_numbers::<8>(offsets, ends),
            12 => copy_numbers::<12>(offsets, ends),
            16 => copy_numbers::<16>(offsets, ends),
            24 => copy_numbers::<24>(offsets, ends),
            32 => copy_numbers::<32>(offsets, ends),
            48 => copy_numbers::<48>(offsets, ends),
            _ => offsets.enumerate().for_each(|(index, offset)| {
                let (from, to) = ends(offset, index * length);
                copy_run(from, to, length);
            }),
        }
    }
}

/// # Safety
/// As of `copy`, with `length` = `BYTES`.
#[inline]
unsafe fn copy_numbers<const BYTES: usize>(
    offsets: impl Iterator<Item = isize>,
    ends: impl Fn(isize, usize) -> (*const u8, *mut u8),
) {
    for (index, offset) in offsets.enumerate() {
        let (from, to) = ends(offset, index * BYTES);
        // SAFETY: the caller's promise; any alignment.
        unsafe { to.cast::<[u8; BYTES]>().write_unaligned(from.cast::<[u8; BYTES]>().read_unaligned()) };
    }
}
