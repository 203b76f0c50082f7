//! The sequence of basic types in a datatype, without their places (MPI 5.0, 4.1: type signature), as a number that
//! is the same however the sequence was put together.

use super::kind::{Family, Kind};

/// Of one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Signature {
    /// Basic elements; a pair has two.
    pub leaves: usize,
    /// Bytes in the portable representation.
    pub external: usize,
    /// The polynomial of the leaves' codes at `BASE`, modulo `PRIME`.
    hash: u64,
    /// All leaves are of it.
    pub only: Only,
    /// There is a MPI_BYTE or MPI_PACKED inside, which programs match with anything.
    untyped: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Only {
    Nothing,
    One(&'static Kind),
    Several,
}

/// A Mersenne prime, so that products fit in 128 bits.
const PRIME: u64 = (1 << 61) - 1;
/// Any number without a pattern.
const BASE: u64 = 0x0a3b_1f57_9c6e_d421;

impl Signature {
    pub const EMPTY: Signature = Signature { leaves: 0, external: 0, hash: 0, only: Only::Nothing, untyped: false };

    pub fn of(kind: &'static Kind) -> Signature {
        let code = |number| number as u64 + if kind.family == Family::Complex { 101 } else { 1 };
        let hash = kind.numbers().take(kind.leaves()).fold(0, |hash, number| add(times(hash, BASE), code(number)));
        let untyped = matches!(kind.family, Family::Byte | Family::Packed);
        Signature { leaves: kind.leaves(), external: kind.external_sizes().sum(), hash, only: Only::One(kind), untyped }
    }

    /// This one's leaves, then the other's.
    pub fn followed(self, other: Signature) -> Signature {
        let only = match (self.only, other.only) {
            (Only::Nothing, only) | (only, Only::Nothing) => only,
            (Only::One(kind), Only::One(other)) if kind == other => Only::One(kind),
            _ => Only::Several,
        };
        Signature {
            leaves: self.leaves.saturating_add(other.leaves),
            external: self.external.saturating_add(other.external),
            hash: add(times(self.hash, power(other.leaves)), other.hash),
            only,
            untyped: self.untyped || other.untyped,
        }
    }

    /// `count` times, by doubling.
    pub fn repeated(self, count: usize) -> Signature {
        let (mut result, mut doubled, mut left) = (Signature::EMPTY, self, count);
        while left > 0 {
            if left % 2 == 1 {
                result = doubled.followed(result);
            }
            doubled = doubled.followed(doubled);
            left /= 2;
        }
        result
    }

    /// None when bytes inside match with anything.
    pub fn number(self) -> Option<u64> {
        (!self.untyped).then_some(self.hash)
    }
}

fn times(one: u64, other: u64) -> u64 {
    ((one as u128 * other as u128) % PRIME as u128) as u64
}

fn add(one: u64, other: u64) -> u64 {
    (one + other) % PRIME
}

/// BASE to the power of `exponent`.
fn power(exponent: usize) -> u64 {
    let (mut result, mut square, mut left) = (1, BASE, exponent);
    while left > 0 {
        if left % 2 == 1 {
            result = times(result, square);
        }
        square = times(square, square);
        left /= 2;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(handle: u32) -> Signature {
        Signature::of(Kind::of(handle).expect("a predefined datatype"))
    }

    #[test]
    fn the_same_sequence_has_the_same_number_however_it_is_grouped() {
        let (int, double) = (signature(0x209), signature(0x214));
        let twice = int.followed(double).followed(int.followed(double));
        assert_eq!(twice, int.followed(double).repeated(2));
        assert_eq!(int.repeated(12), int.repeated(3).repeated(4));
        assert_ne!(int.followed(double).number(), double.followed(int).number());
        assert_ne!(int.repeated(3).number(), int.repeated(4).number());
        assert_eq!(signature(0x229).number(), double.followed(int).number());
        assert_eq!(signature(0x247).number(), None);
    }
}
