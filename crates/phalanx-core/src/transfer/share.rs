//! What of a copy each of several takes that go on between other machines (stripes, paper 003, section IV).
//!
//! Nobody tells another what it takes: that follows from names and sizes alone, so that all agree without a word. Where they
//! should not, something comes twice or is left out, and the copy of all that follows them puts that right.

use super::{PART, Ranges};
use crate::wire::transfer::Share;

/// Files from this size on are divided, smaller ones are one's or another's.
pub const SPLIT: u64 = 32 << 20;

impl Share {
    /// Whether a file that is not divided is in it; `path`: within the copy.
    pub fn has(self, path: &[u8]) -> bool {
        // FNV-1a, which is the same everywhere.
        let hash = path
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        (hash >> 32) % u64::from(self.count.max(1)) == u64::from(self.index)
    }

    /// From where to where a file of this size that is divided is in it; it begins where a block does.
    pub fn range(self, size: u64) -> (u64, u64) {
        let blocks = u128::from(size.div_ceil(u64::from(PART)));
        let at = |index: u16| {
            let block = blocks * u128::from(index) / u128::from(self.count.max(1));
            (block as u64).saturating_mul(u64::from(PART)).min(size)
        };
        (at(self.index), at(self.index.saturating_add(1)))
    }

    /// What need not come in it of such a file, of which some is there.
    pub fn without(self, there: &Ranges, size: u64) -> Ranges {
        let (from, to) = self.range(size);
        let mut all = there.clone();
        all.add(0, from);
        all.add(to, size);
        all
    }

    /// What is there of such a file, when there was something before it began, and what was taken for there came.
    pub fn real(self, before: &Ranges, there: &[(u64, u64)], size: u64) -> Ranges {
        let (from, to) = self.range(size);
        let mut real = before.clone();
        for (one, other) in there.iter().map(|(one, other)| (*one.max(&from), *other.min(&to))) {
            if one < other {
                real.add(one, other);
            }
        }
        real
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shares(count: u16) -> impl Iterator<Item = Share> {
        (0..count).map(move |index| Share { index, count })
    }

    #[test]
    fn shares_that_are_none_are_refused() {
        let is_one = |index, count| Share { index, count }.check().is_ok();
        assert!(is_one(0, 1) && is_one(15, 16));
        assert!(!is_one(0, 0) && !is_one(1, 1) && !is_one(0, 17) && !is_one(u16::MAX, u16::MAX));
    }

    proptest! {
        #[test]
        fn every_byte_is_in_one_range_and_every_path_in_one_share(
            size in 1u64..i64::MAX as u64, count in 1u16..=16, path in proptest::collection::vec(any::<u8>(), 0..40)
        ) {
            let mut at = 0;
            for (from, to) in shares(count).map(|share| share.range(size)) {
                prop_assert_eq!((from, from % u64::from(PART)), (at, 0));
                at = to;
            }
            prop_assert_eq!(at, size);
            prop_assert_eq!(shares(count).filter(|share| share.has(&path)).count(), 1);
        }

        #[test]
        fn what_others_bring_is_never_said_to_be_there(
            size in SPLIT..SPLIT * 4, count in 1u16..=16, at in 0u64..SPLIT, length in 1u64..SPLIT, index in 0u16..16
        ) {
            let share = Share { index: index % count, count };
            let mut before = Ranges::default();
            before.add(at, (at + length).min(size));
            let coming = share.without(&before, size).missing(size);
            let (from, to) = share.range(size);
            for (one, other) in &coming {
                prop_assert!(from <= *one && *other <= to);
            }
            let nothing = share.real(&before, &share.without(&before, size).pairs(), size);
            prop_assert_eq!(nothing.bytes(), before.bytes());
            let all = share.real(&before, &[(0, size)], size);
            let came: u64 = coming.iter().map(|(one, other)| other - one).sum();
            prop_assert_eq!(all.bytes(), before.bytes() + came);
        }

        #[test]
        fn hostile_shares_never_panic(index: u16, count: u16, size: u64) {
            let (from, to) = Share { index, count }.range(size);
            prop_assert!(from <= to && to <= size);
        }
    }
}
