//! How numbers lie in memory.

/// A number as the machine has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    U128,
    F16,
    F32,
    F64,
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
