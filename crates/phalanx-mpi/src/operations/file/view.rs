//! What a process sees of a file (MPI 5.0, 14.3): filetypes one after the other from a displacement on, and of them only
//! the bytes of their data. Those are numbered in a row; offsets count them in etypes.

use super::representation::{self, EXTERNAL};
use crate::constants::MPI_BYTE;
use crate::error::{Class, Error, Result, fail};
use crate::objects::buffer::Buffer;
use crate::objects::datatype::Datatype;
use std::sync::Arc;

/// The part of a file that a process sees (MPI 5.0, 14.3).
#[derive(Debug)]
pub struct View {
    /// Bytes of the file before the first filetype.
    pub displacement: i64,
    /// As they lie in the file.
    pub etype: Arc<Datatype>,
    /// The datatype that lays out the etypes that the process sees.
    pub filetype: Arc<Datatype>,
    /// The program's own.
    pub given: [Arc<Datatype>; 2],
    /// How numbers are written: its name.
    pub representation: String,
}

impl View {
    /// Of a file that was just opened: all bytes.
    pub fn of_bytes() -> Result<View> {
        let byte = Datatype::of(MPI_BYTE)?;
        let (given, representation) = ([byte.clone(), byte.clone()], "native".to_string());
        Ok(View { displacement: 0, etype: byte.clone(), filetype: byte, given, representation })
    }

    /// `written` tells whether the file may be written.
    pub fn new(
        displacement: i64,
        etype: Arc<Datatype>,
        filetype: Arc<Datatype>,
        representation: &str,
        written: bool,
    ) -> Result<View> {
        if displacement < 0 {
            return fail(Class::Arg, format!("disp is {displacement}"));
        }
        let named = |name: &str, error: Error| Error::new(error.class, format!("{name}: {}", error.text));
        etype.check_committed().map_err(|error| named("etype", error))?;
        filetype.check_committed().map_err(|error| named("filetype", error))?;
        representation::check(representation, &etype)?;
        let given = [etype, filetype];
        let [etype, filetype] = match representation {
            EXTERNAL => [given[0].in_external()?, given[1].in_external()?],
            _ => given.clone(),
        };
        if etype.size() == 0 {
            return fail(Class::Arg, "etype has no data");
        }
        if filetype.size() % etype.size() != 0 {
            let (whole, part) = (filetype.size(), etype.size());
            return fail(Class::Arg, format!("filetype has {whole} bytes of data, no multiple of etype's {part}"));
        }
        if filetype.size() > 0 && filetype.extent() <= 0 {
            return fail(Class::Arg, format!("filetype has the extent {}", filetype.extent()));
        }
        filetype.check_ascends(!written)?;
        Ok(View { displacement, etype, filetype, given, representation: representation.to_string() })
    }

    /// Whether numbers are written in another way than they have in memory.
    pub fn converts(&self) -> bool {
        self.representation == EXTERNAL
    }

    /// Bytes of the file that the data of a buffer takes.
    pub fn bytes(&self, buffer: &Buffer) -> Result<usize> {
        if self.converts() { buffer.datatype.external_size(buffer.count) } else { Ok(buffer.bytes()) }
    }

    /// A datatype as it lies in the file.
    pub fn in_file(&self, datatype: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        if self.converts() { datatype.in_external() } else { Ok(datatype.clone()) }
    }

    /// How many etypes these bytes are.
    pub fn etypes(&self, bytes: usize) -> Result<i64> {
        match bytes % self.etype.size() == 0 {
            true => Ok((bytes / self.etype.size()) as i64),
            false => {
                let etype = self.etype.size();
                fail(Class::Io, format!("{bytes} bytes are no number of etypes, which have {etype} bytes each"))
            }
        }
    }

    /// Where the data of an etype begins in the view, in bytes of data. All of `length` bytes from there on lie at
    /// places that a file may have.
    pub fn position(&self, offset: i64, length: usize) -> Result<usize> {
        let etype = self.etype.size();
        let place = usize::try_from(offset).ok().and_then(|offset| offset.checked_mul(etype));
        let Some(position) = place else {
            return fail(Class::Arg, format!("offset is {offset} etypes of {etype} bytes"));
        };
        if length == 0 {
            return Ok(position);
        }
        let size = self.filetype.size();
        if size == 0 {
            return fail(Class::Arg, "filetype has no data: this process can read and write nothing");
        }
        let last = position.checked_add(length - 1).map(|last| (last / size) as i128);
        let reach = (self.filetype.true_lower_bound() + self.filetype.true_extent()) as i128;
        let end = last.map(|tile| tile * self.filetype.extent() as i128 + reach + self.displacement as i128);
        match end.is_some_and(|end| end <= i64::MAX as i128) {
            true => Ok(position),
            false => {
                fail(Class::Arg, format!("{length} bytes from offset {offset} on reach beyond what a file can have"))
            }
        }
    }

    /// Visits the runs of bytes of the file that `length` bytes of data from a position on are; what touches is one run.
    /// The position was checked.
    pub fn each_run(&self, position: usize, length: usize, mut visit: impl FnMut(u64, usize)) {
        let mut run: Option<(u64, usize)> = None;
        self.filetype.each_run(usize::MAX, position, length, |at, length| {
            let at = (self.displacement as u64).wrapping_add_signed(at as i64);
            run = match run {
                Some((start, before)) if start + before as u64 == at => Some((start, before + length)),
                Some((start, before)) => {
                    visit(start, before);
                    Some((at, length))
                }
                None => Some((at, length)),
            };
        });
        if let Some((start, length)) = run {
            visit(start, length);
        }
    }

    /// Where an etype begins in the file.
    pub fn byte_offset(&self, offset: i64) -> Result<i64> {
        if self.filetype.size() == 0 {
            return self.position(offset, 0).map(|_| self.displacement);
        }
        let position = self.position(offset, 1)?;
        let mut place = 0;
        self.each_run(position, 1, |at, _| place = at as i64);
        Ok(place)
    }

    /// How many etypes of the view begin before the end of a file of this size.
    pub fn etypes_before(&self, size: u64) -> Result<i64> {
        let inside = i64::try_from(size).unwrap_or(i64::MAX).saturating_sub(self.displacement);
        if inside <= 0 || self.filetype.size() == 0 {
            return Ok(0);
        }
        // The least one that begins at the end or behind it, which is in the next filetype at the latest.
        let tiles = inside / self.filetype.extent() as i64 + 1;
        let (mut low, mut high) = (0, tiles.saturating_mul((self.filetype.size() / self.etype.size()) as i64));
        while low < high {
            let middle = low + (high - low) / 2;
            let is_before = self.byte_offset(middle).is_ok_and(|at| (at as u64) < size);
            (low, high) = if is_before { (middle + 1, high) } else { (low, middle) };
        }
        Ok(low)
    }
}
