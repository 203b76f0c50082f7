//! From a program's buffers to packed bytes and back. Elements that lie in one run of memory are used where they are.

use super::span::{Blocks, Scratch, Span};
use crate::error::{Class, Error, Result, fail};
use crate::objects::datatype::Datatype;
use std::sync::Arc;

/// A buffer as a program passes it; nothing of it is looked at before it is known to be significant.
#[derive(Clone, Copy)]
pub struct Argument<'a> {
    /// As the standard calls it.
    pub name: &'static str,
    /// None is MPI_IN_PLACE.
    pub start: Option<*mut u8>,
    /// The number and datatype of the elements.
    pub shape: Shape<'a>,
}

/// How many elements of which datatype.
#[derive(Clone, Copy)]
pub enum Shape<'a> {
    /// As many for each rank.
    Equal {
        /// The number of elements.
        count: i64,
        /// The handle of the datatype.
        datatype: u32,
    },
    /// For each rank its count and displacement, in elements.
    Vector {
        /// Gives the count and the displacement of a rank.
        block: &'a dyn Fn(usize) -> Result<(i64, i64)>,
        /// The handle of the datatype.
        datatype: u32,
    },
    /// For each rank its count, displacement in bytes, and datatype.
    Mixed {
        /// Gives the count, the displacement and the datatype of a rank.
        block: &'a dyn Fn(usize) -> Result<(i64, i64, u32)>,
    },
}

impl Argument<'_> {
    /// Whether the program passed MPI_IN_PLACE.
    pub fn is_in_place(&self) -> bool {
        self.start.is_none()
    }

    /// The elements of a buffer that has no blocks.
    pub(super) fn elements(&self) -> Result<Elements> {
        match self.shape {
            Shape::Equal { count, datatype } => self.checked(count, 0, &Datatype::of(datatype)?),
            Shape::Vector { .. } | Shape::Mixed { .. } => fail(Class::Intern, "blocks where there are none"),
        }
    }

    /// The blocks of so many ranks.
    pub(super) fn many(&self, ranks: usize) -> Result<Many> {
        match self.shape {
            Shape::Equal { count, datatype } => {
                let one = self.checked(count, 0, &Datatype::of(datatype)?)?;
                let count = count.checked_mul(ranks as i64).ok_or_else(|| self.too_large())?;
                let all = self.checked(count, 0, &one.datatype)?;
                Ok(Many::Equal { all, each: one.length })
            }
            Shape::Vector { block, datatype } => {
                let datatype = Datatype::of(datatype)?;
                let one = |rank| {
                    let (count, displacement) = block(rank)?;
                    let bytes = displacement.checked_mul(datatype.extent() as i64).ok_or_else(|| self.too_large())?;
                    self.checked(count, bytes, &datatype)
                };
                Ok(Many::Each((0..ranks).map(one).collect::<Result<_>>()?))
            }
            Shape::Mixed { block } => {
                let one = |rank| {
                    let (count, displacement, datatype) = block(rank)?;
                    self.checked(count, displacement, &Datatype::of(datatype)?)
                };
                Ok(Many::Each((0..ranks).map(one).collect::<Result<_>>()?))
            }
        }
    }

    fn checked(&self, count: i64, displacement: i64, datatype: &Arc<Datatype>) -> Result<Elements> {
        let Some(start) = self.start else {
            return fail(Class::Buffer, format!("{} must not be MPI_IN_PLACE here", self.name));
        };
        let elements = Elements::new(start.wrapping_offset(displacement as isize), count, datatype.clone());
        let elements = elements.map_err(|error| Error::new(error.class, format!("{}: {}", self.name, error.text)))?;
        // Displacements, and the offsets of a derived datatype, may be addresses (MPI_BOTTOM).
        if elements.start.is_null() && elements.length > 0 && datatype.predefined().is_some() {
            return fail(Class::Buffer, format!("{} is NULL, but has {count} elements", self.name));
        }
        Ok(elements)
    }

    fn too_large(&self) -> Error {
        Error::new(Class::Count, format!("{} is larger than the address space", self.name))
    }
}

/// Elements of a datatype in a program's memory.
#[derive(Clone)]
pub(super) struct Elements {
    pub start: *mut u8,
    count: usize,
    pub datatype: Arc<Datatype>,
    /// Bytes of data.
    pub length: usize,
}

impl Elements {
    pub fn new(start: *mut u8, count: i64, datatype: Arc<Datatype>) -> Result<Elements> {
        let Ok(count) = usize::try_from(count) else { return fail(Class::Count, format!("count is {count}")) };
        datatype.check_committed()?;
        match datatype.packed_size(count) {
            Some(length) => Ok(Elements { start, count, datatype, length }),
            None => fail(Class::Count, format!("{count} elements are larger than the address space")),
        }
    }

    #[inline]
    fn in_one_run(&self) -> Option<Span> {
        let at = self.datatype.contiguous_at(self.count)?;
        // SAFETY: by the contract of the call, the program lends its buffer until the operation is done.
        Some(unsafe { Span::new(self.start.wrapping_offset(at), self.length) })
    }

    /// Where their packed bytes are to go: their own memory, or `kept`.
    #[inline]
    pub fn room(&self, kept: &mut Scratch) -> Span {
        self.in_one_run().unwrap_or_else(|| {
            *kept = Scratch::new(self.length);
            kept.span()
        })
    }

    /// Their packed bytes.
    #[inline]
    pub fn load(&self, kept: &mut Scratch) -> Span {
        let span = self.room(kept);
        if self.in_one_run().is_none() {
            self.pack(span);
        }
        span
    }

    fn pack(&self, into: Span) {
        into.clear(0);
        // SAFETY: the program's buffer holds the elements; the room is all initialized.
        unsafe {
            let out = std::slice::from_raw_parts_mut(into.start(), into.length());
            self.datatype.pack(self.start, self.count, 0, out)
        };
    }

    /// Puts what arrived in the room to its places.
    #[inline]
    pub fn store(&self, room: Span) {
        if self.in_one_run().is_none() {
            // SAFETY: the program's buffer has room for the elements.
            unsafe { self.datatype.unpack(self.start, self.count, 0, room.bytes()) };
        }
    }
}

/// A block of elements for each of several ranks.
pub(super) enum Many {
    Equal { all: Elements, each: usize },
    Each(Vec<Elements>),
}

impl Many {
    /// Bytes of a rank's block.
    pub fn length(&self, rank: usize) -> usize {
        match self {
            Many::Equal { each, .. } => *each,
            Many::Each(blocks) => blocks[rank].length,
        }
    }

    /// A rank's block.
    pub fn block(&self, rank: usize) -> Elements {
        match self {
            Many::Equal { all, each } => {
                let size = all.datatype.size().max(1);
                let count = each / size;
                let bytes = (rank * count) as isize * all.datatype.extent();
                Elements {
                    start: all.start.wrapping_offset(bytes),
                    count,
                    length: *each,
                    datatype: all.datatype.clone(),
                }
            }
            Many::Each(blocks) => blocks[rank].clone(),
        }
    }

    pub fn is_equal(&self) -> bool {
        matches!(self, Many::Equal { .. })
    }

    /// Where the blocks' packed bytes are to go.
    pub fn room(&self, kept: &mut Scratch) -> Blocks {
        match self {
            Many::Equal { all, each } => Blocks::Equal { all: all.room(kept), each: *each },
            Many::Each(blocks) => {
                let is_apart = |block: &&Elements| block.in_one_run().is_none();
                *kept = Scratch::new(blocks.iter().filter(is_apart).map(|block| block.length).sum());
                let (room, mut at) = (kept.span(), 0);
                let place = |block: &Elements| {
                    block.in_one_run().unwrap_or_else(|| {
                        at += block.length;
                        room.part(at - block.length, block.length)
                    })
                };
                Blocks::Each(blocks.iter().map(place).collect())
            }
        }
    }

    /// The blocks' packed bytes.
    pub fn load(&self, kept: &mut Scratch) -> Blocks {
        if let Many::Equal { all, each } = self {
            return Blocks::Equal { all: all.load(kept), each: *each };
        }
        let blocks = self.room(kept);
        if let Many::Each(each) = self {
            let apart = each.iter().enumerate().filter(|(_, block)| block.in_one_run().is_none());
            apart.for_each(|(rank, block)| block.pack(blocks.at(rank)));
        }
        blocks
    }

    /// A copy of the blocks' packed bytes, so that they can be overwritten while they are sent.
    pub fn copy(&self, kept: &mut Scratch, ranks: usize) -> Blocks {
        let mut packed = Scratch::new(0);
        let blocks = self.load(&mut packed);
        let total = (0..ranks).map(|rank| self.length(rank)).sum();
        *kept = Scratch::new(total);
        let copies = Blocks::in_a_row(kept.span(), (0..ranks).map(|rank| self.length(rank)));
        (0..ranks).for_each(|rank| blocks.at(rank).copy_to(copies.at(rank)));
        copies
    }

    pub fn store(&self, room: &Blocks) {
        match (self, room) {
            (Many::Equal { all, .. }, Blocks::Equal { all: span, .. }) => all.store(*span),
            (Many::Each(blocks), _) => blocks.iter().enumerate().for_each(|(rank, block)| block.store(room.at(rank))),
            _ => {}
        }
    }
}
