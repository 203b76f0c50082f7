//! What windows do with an operation: the target may be scattered, of one kind of numbers (MPI 5.0, 12.3.4).

use super::{Op, Predefined};
use crate::error::{Class, Result, fail};
use crate::objects::datatype::{Datatype, Kind};
use std::sync::Arc;

/// Bytes that are gathered, computed and scattered at a time.
const PIECE: usize = 1 << 14;

impl Op {
    /// Whether MPI_Accumulate and its like may use it with this datatype.
    pub fn check_accumulate(&self, datatype: &Datatype) -> Result<()> {
        match (self, datatype.basic()) {
            (Op::User { .. }, _) => fail(Class::Op, "op is a user's operation, which windows do not allow"),
            (Op::Predefined(Predefined::Replace | Predefined::NoOp), _) => Ok(()),
            _ if datatype.size() == 0 => Ok(()),
            (Op::Predefined(op), Some(kind)) => op.for_kind(kind).map(|_| ()),
            (_, None) => fail(Class::Type, "datatype is not made of one predefined datatype"),
        }
    }

    /// `target[i] = incoming[i] op target[i]`, where `incoming` are the packed bytes from the `position`th on of `count`
    /// elements at `target`. Pieces of a message must end between two numbers (two pairs).
    ///
    /// # Safety
    /// Memory at `target` must hold `count` elements.
    pub unsafe fn accumulate(
        &self,
        incoming: &[u8],
        target: *mut u8,
        count: usize,
        position: usize,
        datatype: &Datatype,
    ) -> Result<()> {
        self.check_accumulate(datatype)?;
        match (self, datatype.basic()) {
            (Op::Predefined(Predefined::NoOp), _) => Ok(()),
            // SAFETY: the caller's promise.
            (Op::Predefined(Predefined::Replace), _) | (_, None) => unsafe {
                datatype.unpack(target, count, position, incoming);
                Ok(())
            },
            // SAFETY: the caller's promise.
            (_, Some(kind)) => unsafe { self.by_pieces(incoming, target, count, position, datatype, kind) },
        }
    }

    /// # Safety
    /// As of `accumulate`.
    unsafe fn by_pieces(
        &self,
        incoming: &[u8],
        target: *mut u8,
        count: usize,
        position: usize,
        datatype: &Datatype,
        kind: &Kind,
    ) -> Result<()> {
        let number = Datatype::of(kind.handle)?;
        let size = number.size();
        if incoming.len() % size != 0 || position % size != 0 {
            return fail(Class::Type, format!("data for {} ends inside a number", kind.name));
        }
        if let (Some(at), true) = (datatype.contiguous_at(count), number.is_contiguous()) {
            let there = (datatype.size() * count).saturating_sub(position).min(incoming.len());
            let place = target.wrapping_offset(at).wrapping_add(position);
            // SAFETY: the caller's promise; no more numbers than there are.
            return unsafe { self.apply(incoming.as_ptr(), place, there / size, &number) };
        }
        let (mut old, mut position) = (vec![0; PIECE / size * size], position);
        for piece in incoming.chunks(PIECE / size * size) {
            // SAFETY: the caller's promise; both pieces hold `length / size` numbers, and pairs have their gaps inside.
            unsafe {
                let length = datatype.pack(target, count, position, &mut old[..piece.len()]);
                combine(self, &piece[..length], &mut old[..length], &number)?;
                datatype.unpack(target, count, position, &old[..length]);
                position += length;
            }
        }
        Ok(())
    }
}

/// `old[i] = piece[i] op old[i]` for packed numbers, which pairs with gaps must be unpacked for.
///
/// # Safety
/// Both must hold the same whole count of numbers.
pub(crate) unsafe fn combine(op: &Op, piece: &[u8], old: &mut [u8], number: &Arc<Datatype>) -> Result<()> {
    let count = old.len() / number.size();
    // SAFETY: arrays of `count` numbers, with and without gaps.
    unsafe {
        if number.is_contiguous() {
            return op.apply(piece.as_ptr(), old.as_mut_ptr(), count, number);
        }
        let spread = || vec![0; count * number.extent() as usize];
        let (mut incoming, mut inout) = (spread(), spread());
        number.unpack(incoming.as_mut_ptr(), count, 0, piece);
        number.unpack(inout.as_mut_ptr(), count, 0, old);
        op.apply(incoming.as_ptr(), inout.as_mut_ptr(), count, number)?;
        number.pack(inout.as_ptr(), count, 0, old);
    }
    Ok(())
}
