//! The basic elements of a datatype in the order in which they are packed.

use super::{Combiner, Datatype, Kind};

impl Datatype {
    /// How many basic elements `bytes` of packed data hold; None when they end inside one (MPI_Get_elements).
    pub fn elements(&self, bytes: usize) -> Option<usize> {
        let (mut datatype, mut left, mut elements) = (self, bytes, 0);
        while left > 0 {
            let whole = left.checked_div(datatype.size())?;
            (elements, left) = (elements + whole * datatype.leaves(), left % datatype.size());
            if left > 0 {
                (datatype, elements, left) = datatype.inside(elements, left)?;
            }
        }
        Some(elements)
    }

    /// Bytes of so many basic elements; None when they are no size (MPI_Status_set_elements).
    pub fn bytes_of(&self, elements: usize) -> Option<usize> {
        let (mut datatype, mut left, mut bytes) = (self, elements, 0usize);
        while left > 0 {
            let whole = left.checked_div(datatype.leaves())?;
            bytes = bytes.checked_add(datatype.packed_size(whole)?)?;
            left %= datatype.leaves();
            if left > 0 {
                (datatype, bytes, left) = datatype.inside_by_elements(bytes, left)?;
            }
        }
        Some(bytes)
    }

    /// The part in which the `left`th basic element lies: with `bytes` that were before it added, and elements left.
    fn inside_by_elements(&self, bytes: usize, left: usize) -> Option<(&Datatype, usize, usize)> {
        let (mut bytes, mut left) = (bytes, left);
        if self.contents.combiner != Combiner::Struct {
            return match self.contents.types.first() {
                Some(inner) => Some((inner, bytes, left)),
                // The value of a pair without its index.
                None => Some((self, bytes + self.basic()?.numbers().next()?.size(), 0)),
            };
        }
        for (inner, length) in self.blocks() {
            let elements = inner.leaves() * length;
            if left < elements {
                return Some((inner, bytes, left));
            }
            (bytes, left) = (bytes + inner.size() * length, left - elements);
        }
        None
    }

    /// The part in which the `left`th byte of an element lies: with `elements` that were before it added, and bytes left.
    fn inside(&self, elements: usize, left: usize) -> Option<(&Datatype, usize, usize)> {
        let (mut elements, mut left) = (elements, left);
        if self.contents.combiner != Combiner::Struct {
            return match self.contents.types.first() {
                Some(inner) => Some((inner, elements, left)),
                // The value of a pair without its index, or a part of a number.
                None => {
                    let first = self.basic()?.numbers().next()?.size();
                    (self.leaves() == 2 && left == first).then_some((self, elements + 1, 0))
                }
            };
        }
        for (inner, length) in self.blocks() {
            let bytes = inner.size() * length;
            if left < bytes {
                return Some((inner, elements, left));
            }
            (elements, left) = (elements + inner.leaves() * length, left - bytes);
        }
        None
    }

    /// Basic elements in one element.
    fn leaves(&self) -> usize {
        self.map.signature.leaves
    }

    /// The blocks of a structure.
    fn blocks(&self) -> impl Iterator<Item = (&Datatype, usize)> {
        self.contents.types.iter().zip(self.contents.blocklengths()).map(|(inner, length)| (&**inner, length))
    }

    /// Visits the kinds of `count` elements in order, each with how many of it follow each other.
    pub(super) fn each_kind(&self, count: usize, visit: &mut impl FnMut(&'static Kind, usize)) {
        match (self.basic(), self.contents.types.first()) {
            _ if self.size() == 0 => {}
            (Some(kind), _) => visit(kind, count * (self.leaves() / kind.leaves())),
            (None, Some(inner)) if self.contents.combiner != Combiner::Struct => {
                inner.each_kind(count * (self.size() / inner.size()), visit);
            }
            _ => (0..count).for_each(|_| self.blocks().for_each(|(inner, length)| inner.each_kind(length, visit))),
        }
    }
}
