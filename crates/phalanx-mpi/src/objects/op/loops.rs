//! Loops over numbers, one for each operation and type, plain enough for the compiler to use vector instructions.
//! Buffers may begin at any address.

use super::Function;
use super::half::Half;
use super::predefined::Predefined::{self, *};
use super::truth::Truth;
use crate::objects::datatype::number::Number::{self, *};

/// `inout[i] = of(in[i], inout[i])`
///
/// # Safety
/// As of [`Function`].
#[inline(always)]
unsafe fn each<T: Copy>(incoming: *const u8, inout: *mut u8, count: usize, of: impl Fn(T, T) -> T) {
    let (incoming, inout) = (incoming.cast::<T>(), inout.cast::<T>());
    for index in 0..count {
        // SAFETY: the caller's buffers hold `count` numbers, at any alignment.
        unsafe {
            let result = of(incoming.add(index).read_unaligned(), inout.add(index).read_unaligned());
            inout.add(index).write_unaligned(result);
        }
    }
}

/// The function for `$type` that computes `$of`.
macro_rules! plain {
    ($type:ty, $of:expr) => {{
        unsafe fn function(incoming: *const u8, inout: *mut u8, count: usize) {
            // SAFETY: the caller's promise.
            unsafe { each::<$type>(incoming, inout, count, $of) }
        }
        Some(function as Function)
    }};
}

/// The same with wide vector instructions where the machine has them: the same results, since each number is computed as
/// before.
macro_rules! function {
    ($type:ty, $of:expr) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2")]
        unsafe fn wide(incoming: *const u8, inout: *mut u8, count: usize) {
            // SAFETY: the caller's promise.
            unsafe { each::<$type>(incoming, inout, count, $of) }
        }
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            return Some(wide as Function);
        }
        plain!($type, $of)
    }};
}

macro_rules! integer {
    ($op:expr, $type:ty) => {
        match $op {
            Sum => function!($type, |a, b| a.wrapping_add(b)),
            Prod => function!($type, |a, b| a.wrapping_mul(b)),
            Band => function!($type, |a, b| a & b),
            Bor => function!($type, |a, b| a | b),
            Bxor => function!($type, |a, b| a ^ b),
            Land => function!($type, |a, b| (a != 0 && b != 0) as $type),
            Lor => function!($type, |a, b| (a != 0 || b != 0) as $type),
            Lxor => function!($type, |a, b| ((a != 0) != (b != 0)) as $type),
            Min => function!($type, |a, b| if a < b { a } else { b }),
            Max => function!($type, |a, b| if a > b { a } else { b }),
            _ => None,
        }
    };
}

/// Of wide minima and maxima the compiler makes masked stores, at which some processors are slow.
macro_rules! floating {
    ($op:expr, $type:ty) => {
        match $op {
            Sum => function!($type, |a, b| a + b),
            Prod => function!($type, |a, b| a * b),
            Min => plain!($type, |a, b| if a < b { a } else { b }),
            Max => plain!($type, |a, b| if a > b { a } else { b }),
            Land => plain!($type, |a, b| <$type>::truth(a.is_true() && b.is_true())),
            Lor => plain!($type, |a, b| <$type>::truth(a.is_true() || b.is_true())),
            Lxor => plain!($type, |a, b| <$type>::truth(a.is_true() != b.is_true())),
            _ => None,
        }
    };
}

macro_rules! complex {
    ($op:expr, $type:ty) => {
        match $op {
            Sum => function!([$type; 2], |a, b| [a[0] + b[0], a[1] + b[1]]),
            Prod => function!([$type; 2], |a, b| [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]),
            _ => None,
        }
    };
}

/// None when there is no such function; which pairs the standard allows is not asked here.
pub(super) fn of_numbers(op: Predefined, number: Number) -> Option<Function> {
    match number {
        I8 => integer!(op, i8),
        I16 => integer!(op, i16),
        I32 => integer!(op, i32),
        I64 => integer!(op, i64),
        I128 => integer!(op, i128),
        U8 => integer!(op, u8),
        U16 => integer!(op, u16),
        U32 => integer!(op, u32),
        U64 => integer!(op, u64),
        U128 => integer!(op, u128),
        F16 => floating!(op, Half),
        F32 => floating!(op, f32),
        F64 => floating!(op, f64),
        #[cfg(any(target_arch = "x86_64", target_vendor = "apple"))]
        LongDouble => floating!(op, super::long_double::LongDouble),
        _ => None,
    }
}

/// The same of truth values of so many bytes: not 0 is true.
pub(super) fn of_logical(op: Predefined, size: usize) -> Option<Function> {
    of_numbers(op, *[U8, U16, U32, U64, U128].iter().find(|number| number.size() == size)?)
}

/// The same of complex numbers.
pub(super) fn of_complex(op: Predefined, number: Number) -> Option<Function> {
    match number {
        F16 => complex!(op, Half),
        F32 => complex!(op, f32),
        F64 => complex!(op, f64),
        #[cfg(any(target_arch = "x86_64", target_vendor = "apple"))]
        LongDouble => complex!(op, super::long_double::LongDouble),
        _ => None,
    }
}
