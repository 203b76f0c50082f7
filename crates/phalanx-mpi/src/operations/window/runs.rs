//! Which bytes of the target an operation touches: what is left of a datatype when it travels.
//!
//! An operation goes in pieces of bounded length; each says where its bytes lie, as runs from the displacement on. The
//! target needs no datatype for that, and can check every run.

use crate::error::{Class, Result, fail};
use crate::objects::datatype::Datatype;
use phalanx_net::copy::{append, copy};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes of data in the longest piece.
pub(super) const PIECE: usize = 128 << 10;
/// A piece with so many runs is long enough.
const MOST_RUNS: usize = 1024;

/// `count` runs of `length` bytes, `stride` bytes apart, the first of them `offset` bytes from the displacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Runs {
    pub offset: i64,
    pub length: u64,
    pub stride: i64,
    pub count: u64,
}

/// A part of an operation.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    /// Of its first byte in the packed data.
    pub position: usize,
    pub bytes: usize,
    pub runs: Vec<Runs>,
}

impl Piece {
    fn add(&mut self, offset: isize, length: usize) {
        self.bytes += length;
        let (offset, length) = (offset as i64, length as u64);
        if let Some(last) = self.runs.last_mut().filter(|last| last.length == length) {
            if last.count == 1 {
                last.stride = offset.wrapping_sub(last.offset);
            }
            if last.stride.checked_mul(last.count as i64).and_then(|far| last.offset.checked_add(far)) == Some(offset) {
                last.count += 1;
                return;
            }
        }
        self.runs.push(Runs { offset, length, stride: 0, count: 1 });
    }
}

/// The first `bytes` bytes of `count` elements in pieces, each of a whole number of units of `unit` bytes.
pub(super) fn pieces(datatype: &Datatype, count: usize, bytes: usize, unit: usize) -> Vec<Piece> {
    let (most, mut pieces, mut piece) = (PIECE / unit * unit, Vec::new(), Piece::default());
    datatype.each_run(count, 0, bytes, |offset, length| {
        let mut done = 0;
        while done < length {
            let part = (length - done).min(most - piece.bytes);
            piece.add(offset + done as isize, part);
            done += part;
            if piece.bytes == most || (piece.runs.len() >= MOST_RUNS && piece.bytes % unit == 0) {
                let next = Piece { position: piece.position + piece.bytes, ..Piece::default() };
                pieces.push(std::mem::replace(&mut piece, next));
            }
        }
    });
    if piece.bytes > 0 {
        pieces.push(piece);
    }
    pieces
}

/// Memory that may be accessed.
pub(super) enum Reach<'a> {
    Part {
        base: usize,
        size: usize,
        unit: usize,
    },
    /// Of a dynamic window: sizes by address.
    Regions(&'a BTreeMap<usize, usize>),
}

/// Whether bytes lie in regions, of which one may begin where another ends.
fn is_attached(regions: &BTreeMap<usize, usize>, address: usize, length: usize) -> bool {
    let (mut address, mut length) = (address, length);
    loop {
        let Some((base, size)) = regions.range(..=address).next_back() else { return false };
        let Some(there) = size.checked_sub(address - base) else { return false };
        if length <= there {
            return true;
        }
        if there == 0 {
            return false;
        }
        (address, length) = (address + there, length - there);
    }
}

impl Reach<'_> {
    /// The address that the runs' offsets count from, if all of the runs are inside.
    pub fn locate(&self, displacement: i64, runs: &[Runs]) -> Result<usize> {
        let inside = match self {
            Reach::Part { size, unit, .. } => {
                let start = displacement as i128 * *unit as i128;
                runs.iter().all(|runs| runs.is_within(start, 0, *size))
            }
            // Runs may have been joined to one that leads from region to region.
            Reach::Regions(regions) => runs.iter().flat_map(Runs::each).all(|(offset, length)| {
                let Ok(address) = usize::try_from(displacement as i128 + offset as i128) else { return false };
                is_attached(regions, address, length)
            }),
        };
        match self {
            Reach::Part { base, unit, .. } if inside => {
                Ok(base.wrapping_add((displacement as usize).wrapping_mul(*unit)))
            }
            Reach::Regions(_) if inside => Ok(displacement as usize),
            Reach::Part { size, unit, .. } => fail(
                Class::RmaRange,
                format!("displacement {displacement} in units of {unit} bytes leads out of the target's {size} bytes"),
            ),
            Reach::Regions(_) => {
                let text = format!("address {:#x} leads out of the memory that the target has attached", displacement);
                fail(Class::RmaRange, text)
            }
        }
    }
}

impl Runs {
    /// The address of the first run, where offsets count from `base`.
    pub fn start(&self, base: usize) -> usize {
        base.wrapping_add_signed(self.offset as isize)
    }

    fn is_within(&self, start: i128, low: i128, size: usize) -> bool {
        let first = start.checked_add(self.offset as i128);
        let far = (self.stride as i128).checked_mul(self.count.saturating_sub(1) as i128);
        let (Some(first), Some(far)) = (first, far) else { return false };
        let Some(last) = first.checked_add(far) else { return false };
        first.min(last) >= low
            && first.max(last).checked_add(self.length as i128).is_some_and(|end| end <= size as i128)
    }

    /// Offset and length of each.
    fn each(&self) -> impl Iterator<Item = (i64, usize)> {
        let Runs { offset, length, stride, count } = *self;
        (0..count).map(move |index| (offset.wrapping_add(stride.wrapping_mul(index as i64)), length as usize))
    }
}

/// Bytes of data in a piece, which must be one that `pieces` can make.
pub(super) fn total(runs: &[Runs]) -> Result<usize> {
    let mut total = 0u64;
    for runs in runs {
        let bytes = runs.length.checked_mul(runs.count).filter(|bytes| (1..=PIECE as u64).contains(bytes));
        total += bytes.unwrap_or(PIECE as u64 + 1);
        if total > PIECE as u64 {
            return fail(Class::Arg, "a piece of an operation is empty or too long");
        }
    }
    Ok(total as usize)
}

/// The memory of the runs, if they are one.
///
/// # Safety
/// Memory at `start` must hold the runs. No other reference to it may exist as long as the slice does.
pub(super) unsafe fn one_run<'a>(start: usize, runs: &[Runs]) -> Option<&'a mut [u8]> {
    let [run @ Runs { length, count: 1, .. }] = runs else { return None };
    let start = std::ptr::with_exposed_provenance_mut(run.start(start));
    // SAFETY: the caller's promise.
    Some(unsafe { std::slice::from_raw_parts_mut(start, *length as usize) })
}

/// Puts a copy of what lies in the runs behind `data`.
///
/// # Safety
/// Memory at `start` must hold the runs.
pub(super) unsafe fn gather(start: usize, runs: &[Runs], data: &mut Vec<u8>) {
    let start = std::ptr::with_exposed_provenance::<u8>(start);
    for (offset, length) in runs.iter().flat_map(Runs::each) {
        // SAFETY: the caller's promise.
        append(data, unsafe { std::slice::from_raw_parts(start.wrapping_offset(offset as isize), length) });
    }
}

/// Copies data to where the runs are.
///
/// # Safety
/// Memory at `start` must hold the runs, which have as many bytes as the data.
pub(super) unsafe fn scatter(start: usize, runs: &[Runs], data: &[u8]) {
    let (mut data, start) = (data, std::ptr::with_exposed_provenance_mut::<u8>(start));
    for (offset, length) in runs.iter().flat_map(Runs::each) {
        let (now, rest) = data.split_at(length);
        // SAFETY: the caller's promise. The data is a copy of its own.
        unsafe { copy(now.as_ptr(), start.wrapping_offset(offset as isize), length) };
        data = rest;
    }
}
