//! The tuples that may match, in search order, from any position in that order.

use super::entries::Entries;
use super::links::Walk;
use super::scan::Urgency;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::collections::btree_set::Range;
use std::ops::Bound::{Excluded, Unbounded};

/// After all tuples of a priority above 0, before all below.
const MIDDLE: Urgency = (Reverse(0), 0, 0);

/// Where a search continues in a partition.
#[derive(Debug)]
pub enum Position {
    Beginning,
    /// Behind a slot (or at the start, if there is none) in the list of an index, named by its mask, or of all tuples
    /// (`scan::WHOLE`).
    Listed {
        list: u32,
        slot: u32,
        backward: bool,
    },
    /// Behind this one of the tuples that have a priority.
    Urgent(Urgency),
    /// At these slots, where they still hold the tuples with these numbers.
    Picked(std::vec::IntoIter<(u32, u64)>),
}

#[derive(Debug)]
pub enum Candidates<'a> {
    Listed { walk: Walk<'a>, list: u32, backward: bool },
    Picked(std::vec::IntoIter<(u32, u64)>),
    Mixed(Mixed<'a>),
}

/// The tuples above priority 0, then those of a list that have no priority, then those below 0.
#[derive(Debug)]
pub struct Mixed<'a> {
    above: Option<Range<'a, Urgency>>,
    walk: Walk<'a>,
    below: Range<'a, Urgency>,
    list: u32,
    /// Whether the last tuple came from the list.
    walked: bool,
}

impl Candidates<'_> {
    /// The next slot, and whether it is a candidate. A slot that is none still costs work, so it is returned too.
    #[inline]
    pub fn next(&mut self, entries: &Entries) -> Option<(u32, bool)> {
        match self {
            Candidates::Listed { walk, .. } => walk.next().map(|slot| (slot, true)),
            Candidates::Picked(slots) => {
                slots.find(|(slot, number)| entries.slab.has(*slot, *number)).map(|it| (it.0, true))
            }
            Candidates::Mixed(mixed) => mixed.next(entries),
        }
    }

    /// The position behind the slot that was returned last.
    pub fn position(self, slot: u32, entries: &Entries) -> Position {
        match self {
            Candidates::Listed { list, backward, .. } => Position::Listed { list, slot, backward },
            Candidates::Picked(slots) => Position::Picked(slots),
            Candidates::Mixed(Mixed { walked: true, list, .. }) => Position::Listed { list, slot, backward: false },
            Candidates::Mixed(_) => {
                Position::Urgent((Reverse(entries.priority(slot)), entries.slab.number(slot), slot))
            }
        }
    }
}

impl<'a> Mixed<'a> {
    pub fn all(urgent: &'a BTreeSet<Urgency>, walk: Walk<'a>, list: u32) -> Mixed<'a> {
        let above = Some(urgent.range(..MIDDLE));
        Mixed { above, walk, below: urgent.range(MIDDLE..), list, walked: false }
    }

    /// Continues from a place in the list.
    pub fn in_the_middle(urgent: &'a BTreeSet<Urgency>, walk: Walk<'a>, list: u32) -> Mixed<'a> {
        Mixed { above: None, ..Mixed::all(urgent, walk, list) }
    }

    /// Continues behind a tuple that has a priority.
    pub fn behind(urgent: &'a BTreeSet<Urgency>, last: Urgency, walk: Walk<'a>, list: u32) -> Mixed<'a> {
        if last < MIDDLE {
            let above = Some(urgent.range((Excluded(last), Excluded(MIDDLE))));
            return Mixed { above, ..Mixed::all(urgent, walk, list) };
        }
        let below = urgent.range((Excluded(last), Unbounded));
        Mixed { above: None, walk: Walk::none(walk), below, list, walked: false }
    }

    fn next(&mut self, entries: &Entries) -> Option<(u32, bool)> {
        self.walked = false;
        if let Some((_, _, slot)) = self.above.as_mut().and_then(Range::next) {
            return Some((*slot, true));
        }
        self.above = None;
        if let Some(slot) = self.walk.next() {
            self.walked = true;
            return Some((slot, entries.priority(slot) == 0));
        }
        self.below.next().map(|(_, _, slot)| (*slot, true))
    }
}
