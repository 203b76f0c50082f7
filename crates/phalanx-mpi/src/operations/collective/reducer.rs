//! Operations on packed operands.

use super::span::Span;
use crate::error::Result;
use crate::objects::datatype::Datatype;
use crate::objects::op::Op;
use std::sync::Arc;

/// An operation and the datatype of its operands.
pub struct Reducer {
    op: Arc<Op>,
    datatype: Arc<Datatype>,
}

impl Reducer {
    /// Fails when the operation is not for this datatype.
    pub fn new(op: Arc<Op>, datatype: Arc<Datatype>) -> Result<Reducer> {
        op.check(&datatype)?;
        Ok(Reducer { op, datatype })
    }

    /// Bytes of one element when it is packed.
    pub fn unit(&self) -> usize {
        self.datatype.size()
    }

    /// Whether operands may change places.
    pub fn is_commutative(&self) -> bool {
        self.op.is_commutative()
    }

    /// `inout[i] = left[i] op inout[i]`, as far as there are whole elements. The operation sees them as they lie in a
    /// program's memory: where that is not as in messages, in copies.
    pub fn apply(&self, left: Span, inout: Span) -> Result<()> {
        let count = inout.length().checked_div(self.unit()).unwrap_or(0);
        if count == 0 {
            return Ok(());
        }
        if let Some(at) = self.datatype.contiguous_at(count) {
            let (left, inout) = (left.start().wrapping_offset(-at), inout.start().wrapping_offset(-at));
            // SAFETY: both hold `count` elements, the first of which begins `at` bytes before its data.
            return unsafe { self.op.apply(left, inout, count, &self.datatype) };
        }
        let (mut left_room, mut inout_room) = (self.room(count), self.room(count));
        let (left_at, inout_at) = (self.origin(&mut left_room, count), self.origin(&mut inout_room, count));
        // SAFETY: the rooms have all bytes of `count` elements; the spans are lent.
        unsafe {
            self.datatype.unpack(left_at, count, 0, left.bytes());
            self.datatype.unpack(inout_at, count, 0, inout.bytes());
            self.op.apply(left_at, inout_at, count, &self.datatype)?;
            let packed = std::slice::from_raw_parts_mut(inout.start(), inout.length());
            self.datatype.pack(inout_at, count, 0, packed);
        }
        Ok(())
    }

    /// Memory for elements with their gaps, which are zero.
    fn room(&self, count: usize) -> Vec<u128> {
        let stride = self.datatype.extent().unsigned_abs();
        let bytes = self.datatype.true_extent().unsigned_abs().saturating_add((count - 1).saturating_mul(stride));
        vec![0; bytes.div_ceil(16)]
    }

    /// Where the buffer begins so that its first byte of data, at whichever end, lies in the room.
    fn origin(&self, room: &mut [u128], count: usize) -> *mut u8 {
        let below = self.datatype.extent().min(0).wrapping_mul(count as isize - 1);
        let lowest = self.datatype.true_lower_bound().wrapping_add(below);
        room.as_mut_ptr().cast::<u8>().wrapping_offset(lowest.wrapping_neg())
    }
}
