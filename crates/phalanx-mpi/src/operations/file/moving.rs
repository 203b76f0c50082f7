//! Moving data between a program's memory and the runs of a view.
//!
//! What lies in one run of memory goes from there and to there; other memory is packed into pieces. Each run of the file
//! is read or written by itself, unless runs that are read are short and close together: then what lies between them is
//! read as well, and left aside ("data sieving", Thakur et al. 1999). Nothing but the runs is ever written.

use super::disk::Disk;
use super::view::View;
use crate::error::{Error, Result};
use crate::objects::buffer::Buffer;

/// Bytes of data that are looked at together.
const PIECE: usize = 4 << 20;
/// Runs that are shorter in the mean are read together, if there are no more than this many bytes for one of theirs.
const SHORT_RUN: usize = 4 << 10;
const MOST_WASTE: usize = 4;

/// Reads into the buffer; how many bytes there were up to the end of the file. The position was checked.
pub fn read(disk: &Disk, view: &View, position: usize, buffer: &Buffer) -> Result<usize> {
    let mut done = 0;
    while done < buffer.bytes() {
        let length = piece(view, buffer, done);
        let got = match in_one_run(buffer) {
            // SAFETY: the caller lends the buffer, which has room for this.
            Some(start) => read_piece(disk, view, position + done, unsafe {
                std::slice::from_raw_parts_mut(start.add(done), length)
            })?,
            None => {
                let mut packed = vec![0; length];
                let got = read_piece(disk, view, position + done, &mut packed)?;
                // SAFETY: as above.
                unsafe { buffer.datatype.unpack(buffer.start, buffer.count, done, &packed[..got]) };
                got
            }
        };
        done += got;
        if got < length {
            break;
        }
    }
    Ok(done)
}

/// Writes the buffer. The position was checked.
pub fn write(disk: &Disk, view: &View, position: usize, buffer: &Buffer) -> Result<()> {
    let mut done = 0;
    while done < buffer.bytes() {
        let length = piece(view, buffer, done);
        match in_one_run(buffer) {
            // SAFETY: the caller lends the buffer, which holds this.
            Some(start) => write_piece(disk, view, position + done, unsafe {
                std::slice::from_raw_parts(start.add(done), length)
            })?,
            None => {
                let mut packed = vec![0; length];
                // SAFETY: as above.
                unsafe { buffer.datatype.pack(buffer.start, buffer.count, done, &mut packed) };
                write_piece(disk, view, position + done, &packed)?;
            }
        }
        done += length;
    }
    Ok(())
}

/// What is done next: all at once where it is one run on both sides.
fn piece(view: &View, buffer: &Buffer, done: usize) -> usize {
    let left = buffer.bytes() - done;
    let whole = view.filetype.is_contiguous() && in_one_run(buffer).is_some();
    if whole { left } else { left.min(PIECE) }
}

fn in_one_run(buffer: &Buffer) -> Option<*mut u8> {
    buffer.datatype.contiguous_at(buffer.count).map(|at| buffer.start.wrapping_offset(at))
}

pub(super) fn read_piece(disk: &Disk, view: &View, position: usize, into: &mut [u8]) -> Result<usize> {
    if let Some(reach) = close_together(view, position, into.len()) {
        return read_around(disk, view, position, reach, into);
    }
    let (mut done, mut ended, mut failure) = (0, false, None);
    view.each_run(position, into.len(), |at, length| {
        if !ended {
            match disk.read(at, &mut into[done..done + length]) {
                Ok(got) => (done, ended) = (done + got, got < length),
                Err(error) => (ended, failure) = (true, Some(error)),
            }
        }
    });
    outcome(done, failure)
}

pub(super) fn write_piece(disk: &Disk, view: &View, position: usize, bytes: &[u8]) -> Result<()> {
    let (mut done, mut failure) = (0, None);
    view.each_run(position, bytes.len(), |at, length| {
        if failure.is_none() {
            failure = disk.write(at, &bytes[done..done + length]).err();
            done += length;
        }
    });
    outcome((), failure)
}

fn outcome<T>(value: T, failure: Option<Error>) -> Result<T> {
    failure.map_or(Ok(value), Err)
}

/// From where to where the runs reach, if it pays to read them together.
fn close_together(view: &View, position: usize, length: usize) -> Option<(u64, u64)> {
    if view.filetype.is_contiguous() {
        return None;
    }
    let (mut count, mut start, mut end, mut ascends) = (0, 0, 0, true);
    view.each_run(position, length, |at, length| {
        start = if count == 0 { at } else { start };
        ascends &= count == 0 || at >= end;
        (count, end) = (count + 1, at + length as u64);
    });
    let pays = ascends && count > 1 && length / count < SHORT_RUN && end - start <= (length * MOST_WASTE) as u64;
    pays.then_some((start, end))
}

fn read_around(disk: &Disk, view: &View, position: usize, (start, end): (u64, u64), into: &mut [u8]) -> Result<usize> {
    let mut all = vec![0; (end - start) as usize];
    let got = disk.read(start, &mut all)?;
    let mut done = 0;
    view.each_run(position, into.len(), |at, length| {
        let from = (at - start) as usize;
        let there = got.saturating_sub(from).min(length); // none from the end of the file on, since runs ascend
        into[done..done + there].copy_from_slice(&all[from..from + there]);
        done += there;
    });
    Ok(done)
}
