//! A set of bytes of a file, as ranges.

use std::collections::BTreeMap;

/// Ranges that neither overlap nor touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranges {
    /// From, to.
    ranges: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Ranges {
    /// From pairs of from and to; `None` where they are not in order, touch, or reach beyond `end`.
    pub fn from_pairs(pairs: &[(u64, u64)], end: u64) -> Option<Ranges> {
        let in_order = pairs.windows(2).all(|pair| pair[0].1 < pair[1].0);
        let each = pairs.iter().all(|(from, to)| from < to && *to <= end);
        if !in_order || !each {
            return None;
        }
        let bytes = pairs.iter().map(|(from, to)| to - from).sum();
        Some(Ranges { ranges: pairs.iter().copied().collect(), bytes })
    }

    /// In order.
    pub fn pairs(&self) -> Vec<(u64, u64)> {
        self.ranges.iter().map(|(from, to)| (*from, *to)).collect()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.ranges.len()
    }

    /// How many bytes there are in all ranges.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a range, which may be there already.
    pub fn add(&mut self, mut from: u64, mut to: u64) {
        while let Some((other_from, other_to)) = self.ranges.range(..=to).next_back().map(|(a, b)| (*a, *b)) {
            if other_to < from {
                break;
            }
            self.ranges.remove(&other_from);
            self.bytes -= other_to - other_from;
            (from, to) = (from.min(other_from), to.max(other_to));
        }
        if from < to {
            self.ranges.insert(from, to);
            self.bytes += to - from;
        }
    }

    /// The same without what is beyond `end`.
    #[must_use]
    pub fn up_to(&self, end: u64) -> Ranges {
        let mut cut = Ranges::default();
        self.ranges.iter().take_while(|(from, _)| **from < end).for_each(|(from, to)| cut.add(*from, (*to).min(end)));
        cut
    }

    /// What is not there of the bytes up to `end`, in order.
    pub fn missing(&self, end: u64) -> Vec<(u64, u64)> {
        let mut at = 0;
        let mut missing = Vec::new();
        for (from, to) in self.pairs().into_iter().chain([(end, end)]) {
            if at < from {
                missing.push((at, from));
            }
            at = to;
        }
        missing
    }
}
