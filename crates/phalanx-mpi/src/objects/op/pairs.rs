//! MPI_MINLOC and MPI_MAXLOC: the best value and the lowest index that has it (MPI 5.0, 5.9.4).

use super::Function;
use super::predefined::Predefined::{self, *};
use crate::objects::datatype::number::Number::{self, *};
use std::ptr::addr_of_mut;

/// As the C structs behind MPI_DOUBLE_INT and its like.
#[derive(Clone, Copy)]
#[repr(C)]
struct Pair<Value, Index> {
    value: Value,
    index: Index,
}

/// # Safety
/// As of [`Function`].
#[inline(always)]
unsafe fn each<Value, Index>(incoming: *const u8, inout: *mut u8, count: usize, better: impl Fn(Value, Value) -> bool)
where
    Value: Copy + PartialEq,
    Index: Copy + PartialOrd,
{
    let (incoming, inout) = (incoming.cast::<Pair<Value, Index>>(), inout.cast::<Pair<Value, Index>>());
    for place in 0..count {
        // SAFETY: the caller's buffers hold `count` pairs, at any alignment. The gaps of a pair are not written.
        unsafe {
            let to = inout.add(place);
            let (new, old) = (incoming.add(place).read_unaligned(), to.read_unaligned());
            if better(new.value, old.value) {
                addr_of_mut!((*to).value).write_unaligned(new.value);
                addr_of_mut!((*to).index).write_unaligned(new.index);
            } else if new.value == old.value && new.index < old.index {
                addr_of_mut!((*to).index).write_unaligned(new.index);
            }
        }
    }
}

macro_rules! pair {
    ($op:expr, $value:ty, $index:ty) => {{
        unsafe fn least(incoming: *const u8, inout: *mut u8, count: usize) {
            // SAFETY: the caller's promise.
            unsafe { each::<$value, $index>(incoming, inout, count, |new, old| new < old) }
        }
        unsafe fn greatest(incoming: *const u8, inout: *mut u8, count: usize) {
            // SAFETY: the caller's promise.
            unsafe { each::<$value, $index>(incoming, inout, count, |new, old| new > old) }
        }
        match $op {
            Minloc => Some(least as Function),
            Maxloc => Some(greatest as Function),
            _ => None,
        }
    }};
}

pub(super) fn of_pairs(op: Predefined, value: Number, index: Number) -> Option<Function> {
    match (value, index) {
        (I16, I32) => pair!(op, i16, i32),
        (I32, I32) => pair!(op, i32, i32),
        (I64, I32) => pair!(op, i64, i32),
        (F32, I32) => pair!(op, f32, i32),
        (F64, I32) => pair!(op, f64, i32),
        (F32, F32) => pair!(op, f32, f32),
        (F64, F64) => pair!(op, f64, f64),
        #[cfg(any(target_arch = "x86_64", target_vendor = "apple"))]
        (LongDouble, I32) => pair!(op, super::long_double::LongDouble, i32),
        _ => None,
    }
}
