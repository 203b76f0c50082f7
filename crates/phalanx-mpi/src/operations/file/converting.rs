//! Moving data whose numbers are written in "external32" (MPI 5.0, 14.5.2).

use super::disk::Disk;
use super::moving::{read_piece, write_piece};
use super::view::View;
use crate::error::Result;
use crate::objects::buffer::Buffer;

/// As [`super::moving::read`]: how many bytes there were, as memory has them.
pub fn read(disk: &Disk, view: &View, position: usize, buffer: &Buffer) -> Result<usize> {
    let mut position = position;
    // SAFETY: the caller lends the buffer.
    unsafe {
        buffer.datatype.fill_external(buffer.start, buffer.count, |piece| {
            let got = read_piece(disk, view, position, piece)?;
            position += got;
            Ok(got)
        })
    }
}

/// As [`super::moving::write`]. A number that does not fit into the bytes that it has in files is an error; what was before
/// it may have been written.
pub fn write(disk: &Disk, view: &View, position: usize, buffer: &Buffer) -> Result<()> {
    let mut position = position;
    // SAFETY: the caller lends the buffer.
    unsafe {
        buffer.datatype.each_external(buffer.start, buffer.count, |piece| {
            write_piece(disk, view, position, piece)?;
            position += piece.len();
            Ok(())
        })
    }
}
