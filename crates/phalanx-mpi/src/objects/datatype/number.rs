//! How numbers lie in memory.

/// A number as the machine has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// An integer of 8 bits.
    I8,
    /// An integer of 16 bits.
    I16,
    /// An integer of 32 bits.
    I32,
    /// An integer of 64 bits.
    I64,
    /// An integer of 128 bits.
    I128,
    /// An unsigned integer of 8 bits.
    U8,
    /// An unsigned integer of 16 bits.
    U16,
    /// An unsigned integer of 32 bits.
    U32,
    /// An unsigned integer of 64 bits.
    U64,
    /// An unsigned integer of 128 bits.
    U128,
    /// A floating-point number of 16 bits.
    F16,
    /// A floating-point number of 32 bits.
    F32,
    /// A floating-point number of 64 bits.
    F64,
    /// A floating-point number of 128 bits.
    F128,
    /// C's `long double`.
    LongDouble,
}

use Number::*;

/// On Apple's ARM processors `long double` is `double`; elsewhere it takes 16 bytes, of which x86 uses 10.
pub const LONG_DOUBLE_SIZE: usize = if cfg!(all(target_vendor = "apple", target_arch = "aarch64")) { 8 } else { 16 };

impl Number {
    /// In bytes.
    pub const fn size(self) -> usize {
        match self {
            I8 | U8 => 1,
            I16 | U16 | F16 => 2,
            I32 | U32 | F32 => 4,
            I64 | U64 | F64 => 8,
            I128 | U128 | F128 => 16,
            LongDouble => LONG_DOUBLE_SIZE,
        }
    }

    /// In bytes: all of them are aligned to their size in C structs.
    pub const fn align(self) -> usize {
        self.size()
    }

    pub(super) fn is_signed(self) -> bool {
        matches!(self, I8 | I16 | I32 | I64 | I128)
    }
}
