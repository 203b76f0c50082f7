//! Moving bytes between a layout in memory and their packed form, from any byte on.

use super::layout::{Layout, Shape};

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
}

impl Layout {
    /// Visits the memory of packed bytes `skip .. skip + take`, which must be inside; `base` bytes are added to every
    /// offset. Loops nest as deeply as lists do, which construction bounds.
    pub fn walk(&self, base: isize, skip: usize, take: usize, visit: &mut impl Visit) {
        let base = base.wrapping_add(self.at);
        match &self.shape {
            Shape::Run => visit.run(base.wrapping_add_unsigned(skip), take),
            Shape::Loop { stride, inner, .. } => walk_loop(inner, *stride, base, skip, take, visit),
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
            self.packed.copy_from_nonoverlapping(self.buffer.wrapping_offset(at), length);
            self.packed = self.packed.add(length);
        }
    }

    fn runs(&mut self, at: isize, length: usize, stride: isize, count: usize) {
        let from = self.buffer.wrapping_offset(at);
        // SAFETY: as in `run`.
        unsafe { copy_runs(from, stride, self.packed, length as isize, length, count) };
        self.packed = self.packed.wrapping_add(length * count);
    }
}

impl Visit for Unpack {
    #[inline]
    fn run(&mut self, at: isize, length: usize) {
        // SAFETY: `Datatype::unpack` was promised that the buffer holds the elements, and bounds what is read.
        unsafe {
            self.buffer.wrapping_offset(at).copy_from_nonoverlapping(self.packed, length);
            self.packed = self.packed.add(length);
        }
    }

    fn runs(&mut self, at: isize, length: usize, stride: isize, count: usize) {
        let to = self.buffer.wrapping_offset(at);
        // SAFETY: as in `run`.
        unsafe { copy_runs(self.packed, length as isize, to, stride, length, count) };
        self.packed = self.packed.wrapping_add(length * count);
    }
}

/// Copies `count` runs; those of one number without a call for each.
///
/// # Safety
/// Both sides must hold `count` runs of `length` bytes with their strides.
unsafe fn copy_runs(from: *const u8, from_stride: isize, to: *mut u8, to_stride: isize, length: usize, count: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match length {
            1 => copy_numbers::<1>(from, from_stride, to, to_stride, count),
            2 => copy_numbers::<2>(from, from_stride, to, to_stride, count),
            4 => copy_numbers::<4>(from, from_stride, to, to_stride, count),
            8 => copy_numbers::<8>(from, from_stride, to, to_stride, count),
            16 => copy_numbers::<16>(from, from_stride, to, to_stride, count),
            32 => copy_numbers::<32>(from, from_stride, to, to_stride, count),
            _ => {
                let (mut from, mut to) = (from, to);
                for _ in 0..count {
                    to.copy_from_nonoverlapping(from, length);
                    (from, to) = (from.wrapping_offset(from_stride), to.wrapping_offset(to_stride));
                }
            }
        }
    }
}

/// # Safety
/// As of `copy_runs`, with `length` = `BYTES`.
unsafe fn copy_numbers<const BYTES: usize>(
    from: *const u8,
    from_stride: isize,
    to: *mut u8,
    to_stride: isize,
    count: usize,
) {
    let (mut from, mut to) = (from, to);
    for _ in 0..count {
        // SAFETY: the caller's promise; any alignment.
        unsafe { to.cast::<[u8; BYTES]>().write_unaligned(from.cast::<[u8; BYTES]>().read_unaligned()) };
        (from, to) = (from.wrapping_offset(from_stride), to.wrapping_offset(to_stride));
    }
}
