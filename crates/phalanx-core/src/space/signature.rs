//! The kinds of a tuple's fields, by which tuples are partitioned, and the hashes of some fields, by which they are
//! indexed.

use super::reader::{Reader, tag};
use std::hash::{BuildHasher, Hasher, RandomState};

/// The number of leading fields that count for signatures and indexes. Later fields are ignored.
pub const POSITIONS: usize = 16;
/// The bit for the label in a mask of positions.
pub const LABEL: u32 = 1 << 31;

/// The arity and the kinds of the first fields, 4 bits each. Integers of any size count as one kind; so do True and
/// False.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signature {
    pub arity: u32,
    pub tags: u64,
}

/// Folds kinds that a signature does not tell apart into one.
pub fn kind(tag: u8) -> u8 {
    match tag {
        tag::BIG => tag::INT,
        tag::TRUE => tag::FALSE,
        other => other,
    }
}

/// The same for a mask of tags.
pub fn kinds(mask: u32) -> u32 {
    let fold = |mask: u32, from: u8, to: u8| if mask & 1 << from == 0 { mask } else { mask & !(1 << from) | 1 << to };
    fold(fold(mask, tag::BIG, tag::INT), tag::TRUE, tag::FALSE)
}

impl Signature {
    pub fn of(tuple: &[u8]) -> Signature {
        let mut reader = Reader::new(tuple);
        let arity = reader.varint().unwrap_or(0);
        let mut tags = 0;
        for position in 0..(arity as usize).min(POSITIONS) {
            let Ok(field) = reader.field() else { break };
            tags |= u64::from(kind(field[0])) << (4 * position);
        }
        Signature { arity: arity as u32, tags }
    }

    pub fn kind(&self, position: usize) -> u8 {
        (self.tags >> (4 * position) & 15) as u8
    }

    /// Whether the field at a position is a number.
    pub fn is_number(&self, position: usize) -> bool {
        (position as u32) < self.arity && matches!(self.kind(position), tag::INT | tag::FLOAT)
    }

    /// The kinds, like `Str, Int`.
    pub fn describe(&self) -> String {
        const NAMES: [&str; 16] = [
            "None", "bool", "", "int", "", "float", "str", "bytes", "array", "tuple", "list", "record", "object",
            "sealed", "", "",
        ];
        let kinds = (0..(self.arity as usize).min(POSITIONS)).map(|position| NAMES[usize::from(self.kind(position))]);
        let mut kinds: Vec<&str> = kinds.collect();
        if self.arity as usize > POSITIONS {
            kinds.push("...");
        }
        kinds.join(", ")
    }
}

/// Hashes the fields of a tuple at the positions of a mask, and its label if the mask includes it.
pub fn hash_tuple(state: &RandomState, mask: u32, tuple: &[u8], label: Option<&[u8]>) -> u64 {
    let mut hasher = state.build_hasher();
    each_field(mask, tuple, |field| {
        hasher.write(field);
        true
    });
    hash_label(&mut hasher, mask, label);
    hasher.finish()
}

/// Adds a label to a hash, if the mask includes it.
pub fn hash_label(hasher: &mut impl Hasher, mask: u32, label: Option<&[u8]>) {
    if mask & LABEL != 0 {
        hasher.write_u8(u8::from(label.is_some()));
        hasher.write(label.unwrap_or_default());
    }
}

/// Whether two tuples have the same fields at the positions of a mask.
pub fn same_fields(mask: u32, one: &[u8], other: &[u8]) -> bool {
    let (mut a, mut b) = (Reader::new(one), Reader::new(other));
    let (Ok(arity), Ok(others)) = (a.varint(), b.varint()) else { return false };
    let count = u32::BITS - (mask & !LABEL).leading_zeros();
    for position in 0..count {
        let (one, other) = (
            (u64::from(position) < arity).then(|| a.field().ok()).flatten(),
            (u64::from(position) < others).then(|| b.field().ok()).flatten(),
        );
        if mask & 1 << position != 0 && one != other {
            return false;
        }
    }
    true
}

/// Calls `call` with each field at a position of the mask, until it returns false.
#[inline]
pub fn each_field<'a>(mask: u32, tuple: &'a [u8], mut call: impl FnMut(&'a [u8]) -> bool) -> bool {
    let mut reader = Reader::new(tuple);
    let arity = reader.varint().unwrap_or(0).min(POSITIONS as u64);
    let mut left = mask & !LABEL & ((1u32 << arity) - 1);
    while left != 0 {
        let Ok(field) = reader.field() else { return false };
        if left & 1 != 0 && !call(field) {
            return false;
        }
        left >>= 1;
    }
    true
}

pub fn positions(mask: u32) -> impl Iterator<Item = usize> {
    (0..POSITIONS).filter(move |position| mask & 1 << position != 0)
}
