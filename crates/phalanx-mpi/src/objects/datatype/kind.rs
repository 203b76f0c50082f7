//! The predefined datatypes: what the leaves of every datatype are made of (MPI 5.0, 3.2.2, 5.9.4 and appendix A).

use super::number::Number::{self, *};

/// What a predefined operation may be applied to (MPI 5.0, 5.9.2 "groups of MPI basic datatypes").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// C's integers.
    Integer,
    /// Fortran's integers.
    FortranInteger,
    /// Floating-point numbers.
    Floating,
    /// Truth values.
    Logical,
    /// Complex numbers.
    Complex,
    /// MPI_BYTE.
    Byte,
    /// MPI_AINT, MPI_OFFSET, MPI_COUNT: the same in all languages.
    Address,
    /// Printable: no operation.
    Character,
    /// MPI_PACKED.
    Packed,
    /// A value and its index, for MPI_MINLOC and MPI_MAXLOC.
    Pair,
}

/// Of which numbers one element is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One number.
    One(Number),
    /// Two equal numbers: one basic element.
    Complex(Number),
    /// A value and an index as a C struct has them: two basic elements.
    Pair(Number, Number),
}

/// A predefined datatype. There is one of each: compare by `handle`.
#[derive(Debug)]
pub struct Kind {
    /// Its handle, with the number of the standard interface.
    pub handle: u32,
    /// Its name, as C programs spell it.
    pub name: &'static str,
    /// What a predefined operation may be applied to.
    pub family: Family,
    /// The numbers that one element is made of.
    pub form: Form,
    /// How many bytes its (first) number has in the portable representation "external32" (MPI 5.0, 14.5.2).
    external: usize,
}

impl PartialEq for Kind {
    fn eq(&self, other: &Kind) -> bool {
        self.handle == other.handle
    }
}

impl Eq for Kind {}

impl Kind {
    /// The kind with this handle; None for MPI_DATATYPE_NULL and for numbers without a meaning.
    pub fn of(handle: u32) -> Option<&'static Kind> {
        KINDS.binary_search_by_key(&handle, |kind| kind.handle).ok().map(|index| &KINDS[index])
    }

    /// Bytes of data in one element: without a pair's gaps.
    pub fn size(&self) -> usize {
        self.numbers().map(Number::size).sum()
    }

    /// Bytes of each number in "external32", in order.
    pub fn external_sizes(&self) -> impl Iterator<Item = usize> {
        let second = match self.form {
            Form::One(_) => None,
            Form::Complex(_) => Some(self.external),
            Form::Pair(_, index) => Some(index.size()),
        };
        std::iter::once(self.external).chain(second)
    }

    /// The numbers of one element, in order.
    pub fn numbers(&self) -> impl Iterator<Item = Number> {
        let (first, second) = match self.form {
            Form::One(number) => (number, None),
            Form::Complex(number) => (number, Some(number)),
            Form::Pair(value, index) => (value, Some(index)),
        };
        std::iter::once(first).chain(second)
    }

    /// Where the second number of a pair begins.
    pub fn second(&self) -> usize {
        match self.form {
            Form::Pair(value, index) => value.size().next_multiple_of(index.align()),
            Form::Complex(number) | Form::One(number) => number.size(),
        }
    }

    /// Of the C (or Fortran) type, in bytes.
    pub fn align(&self) -> usize {
        self.numbers().map(Number::align).max().unwrap_or(1)
    }

    /// How many basic elements MPI_Get_elements sees in one.
    pub fn leaves(&self) -> usize {
        if matches!(self.form, Form::Pair(..)) { 2 } else { 1 }
    }
}

const C_INT: Number = I32;
/// `char` has a sign where C says so. On aarch64 it has none, and the compiler sees that the comparison is false.
#[allow(unused_comparisons)]
const C_CHAR: Number = if std::ffi::c_char::MIN < 0 { I8 } else { U8 };
/// `long` has a pointer's size wherever this library is built.
const C_LONG: Number = if cfg!(target_pointer_width = "64") { I64 } else { I32 };
const C_UNSIGNED_LONG: Number = if cfg!(target_pointer_width = "64") { U64 } else { U32 };
const ADDRESS: Number = C_LONG;
/// MPI_LOGICAL has the size of MPI_INTEGER.
const LOGICAL: Number = U32;

const fn one(handle: u32, name: &'static str, family: Family, number: Number, external: usize) -> Kind {
    Kind { handle, name, family, form: Form::One(number), external }
}

const fn complex(handle: u32, name: &'static str, number: Number, external: usize) -> Kind {
    Kind { handle, name, family: Family::Complex, form: Form::Complex(number), external }
}

const fn pair(handle: u32, name: &'static str, value: Number, index: Number, external: usize) -> Kind {
    Kind { handle, name, family: Family::Pair, form: Form::Pair(value, index), external }
}

/// In the order of the handles.
pub static KINDS: [Kind; 71] = [
    one(0x201, "MPI_AINT", Family::Address, ADDRESS, 8),
    one(0x202, "MPI_COUNT", Family::Address, I64, 8),
    one(0x203, "MPI_OFFSET", Family::Address, I64, 8),
    one(0x207, "MPI_PACKED", Family::Packed, U8, 1),
    one(0x208, "MPI_SHORT", Family::Integer, I16, 2),
    one(0x209, "MPI_INT", Family::Integer, C_INT, 4),
    one(0x20a, "MPI_LONG", Family::Integer, C_LONG, 4),
    one(0x20b, "MPI_LONG_LONG", Family::Integer, I64, 8),
    one(0x20c, "MPI_UNSIGNED_SHORT", Family::Integer, U16, 2),
    one(0x20d, "MPI_UNSIGNED", Family::Integer, U32, 4),
    one(0x20e, "MPI_UNSIGNED_LONG", Family::Integer, C_UNSIGNED_LONG, 4),
    one(0x20f, "MPI_UNSIGNED_LONG_LONG", Family::Integer, U64, 8),
    one(0x210, "MPI_FLOAT", Family::Floating, F32, 4),
    complex(0x212, "MPI_C_FLOAT_COMPLEX", F32, 4),
    complex(0x213, "MPI_CXX_FLOAT_COMPLEX", F32, 4),
    one(0x214, "MPI_DOUBLE", Family::Floating, F64, 8),
    complex(0x216, "MPI_C_DOUBLE_COMPLEX", F64, 8),
    complex(0x217, "MPI_CXX_DOUBLE_COMPLEX", F64, 8),
    one(0x218, "MPI_LOGICAL", Family::Logical, LOGICAL, 4),
    one(0x219, "MPI_INTEGER", Family::FortranInteger, C_INT, 4),
    one(0x21a, "MPI_REAL", Family::Floating, F32, 4),
    complex(0x21b, "MPI_COMPLEX", F32, 4),
    one(0x21c, "MPI_DOUBLE_PRECISION", Family::Floating, F64, 8),
    complex(0x21d, "MPI_DOUBLE_COMPLEX", F64, 8),
    one(0x21e, "MPI_CHARACTER", Family::Character, U8, 1),
    one(0x220, "MPI_LONG_DOUBLE", Family::Floating, LongDouble, 16),
    complex(0x224, "MPI_C_LONG_DOUBLE_COMPLEX", LongDouble, 16),
    complex(0x225, "MPI_CXX_LONG_DOUBLE_COMPLEX", LongDouble, 16),
    pair(0x228, "MPI_FLOAT_INT", F32, C_INT, 4),
    pair(0x229, "MPI_DOUBLE_INT", F64, C_INT, 8),
    pair(0x22a, "MPI_LONG_INT", C_LONG, C_INT, 4),
    pair(0x22b, "MPI_2INT", C_INT, C_INT, 4),
    pair(0x22c, "MPI_SHORT_INT", I16, C_INT, 2),
    pair(0x22d, "MPI_LONG_DOUBLE_INT", LongDouble, C_INT, 16),
    pair(0x230, "MPI_2REAL", F32, F32, 4),
    pair(0x231, "MPI_2DOUBLE_PRECISION", F64, F64, 8),
    pair(0x232, "MPI_2INTEGER", C_INT, C_INT, 4),
    one(0x238, "MPI_C_BOOL", Family::Logical, U8, 1),
    one(0x239, "MPI_CXX_BOOL", Family::Logical, U8, 1),
    one(0x23c, "MPI_WCHAR", Family::Character, U32, 2),
    one(0x240, "MPI_INT8_T", Family::Integer, I8, 1),
    one(0x241, "MPI_UINT8_T", Family::Integer, U8, 1),
    // The standard has no operation for it, MPICH and Open MPI have those of integers.
    one(0x243, "MPI_CHAR", Family::Integer, C_CHAR, 1),
    one(0x244, "MPI_SIGNED_CHAR", Family::Integer, I8, 1),
    one(0x245, "MPI_UNSIGNED_CHAR", Family::Integer, U8, 1),
    one(0x247, "MPI_BYTE", Family::Byte, U8, 1),
    one(0x248, "MPI_INT16_T", Family::Integer, I16, 2),
    one(0x249, "MPI_UINT16_T", Family::Integer, U16, 2),
    one(0x250, "MPI_INT32_T", Family::Integer, I32, 4),
    one(0x251, "MPI_UINT32_T", Family::Integer, U32, 4),
    one(0x258, "MPI_INT64_T", Family::Integer, I64, 8),
    one(0x259, "MPI_UINT64_T", Family::Integer, U64, 8),
    one(0x2c0, "MPI_LOGICAL1", Family::Logical, U8, 1),
    one(0x2c1, "MPI_INTEGER1", Family::FortranInteger, I8, 1),
    one(0x2c8, "MPI_LOGICAL2", Family::Logical, U16, 2),
    one(0x2c9, "MPI_INTEGER2", Family::FortranInteger, I16, 2),
    one(0x2ca, "MPI_REAL2", Family::Floating, F16, 2),
    // MPICH's, not the standard's, which leaves this number free.
    one(0x2cb, "MPIX_C_FLOAT16", Family::Floating, F16, 2),
    one(0x2d0, "MPI_LOGICAL4", Family::Logical, U32, 4),
    one(0x2d1, "MPI_INTEGER4", Family::FortranInteger, I32, 4),
    one(0x2d2, "MPI_REAL4", Family::Floating, F32, 4),
    complex(0x2d3, "MPI_COMPLEX4", F16, 2),
    one(0x2d8, "MPI_LOGICAL8", Family::Logical, U64, 8),
    one(0x2d9, "MPI_INTEGER8", Family::FortranInteger, I64, 8),
    one(0x2da, "MPI_REAL8", Family::Floating, F64, 8),
    complex(0x2db, "MPI_COMPLEX8", F32, 4),
    one(0x2e0, "MPI_LOGICAL16", Family::Logical, U128, 16),
    one(0x2e1, "MPI_INTEGER16", Family::FortranInteger, I128, 16),
    one(0x2e2, "MPI_REAL16", Family::Floating, F128, 16),
    complex(0x2e3, "MPI_COMPLEX16", F64, 8),
    complex(0x2eb, "MPI_COMPLEX32", F128, 16),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{align_of, offset_of, size_of};

    #[test]
    fn handles_are_in_order_so_that_a_search_finds_each() {
        assert!(KINDS.is_sorted_by(|one, next| one.handle < next.handle));
        assert!(KINDS.iter().all(|kind| Kind::of(kind.handle) == Some(kind)));
        assert!(Kind::of(0x200).is_none() && Kind::of(0x242).is_none());
    }

    #[test]
    fn pairs_lie_in_memory_as_c_structs_do() {
        #[repr(C)]
        struct ShortInt {
            value: i16,
            index: i32,
        }
        let kind = Kind::of(0x22c).expect("MPI_SHORT_INT");
        assert_eq!((kind.second(), kind.align()), (offset_of!(ShortInt, index), align_of::<ShortInt>()));
        assert_eq!((kind.size(), size_of::<ShortInt>()), (6, 8));
    }
}
