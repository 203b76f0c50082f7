//! Where a search stands that is cut into steps, so that others have the space between them.
//!
//! A search stands behind the tuple that it looked at last. That one can be taken before the search goes on: its place
//! moves then, so that what was there all the time is met, and met once.

use super::{Place, Rank};
use std::collections::BinaryHeap;

/// What a step may cost, in [`super::super::Template::cost`]: about a millisecond.
pub const STEP: u64 = 20_000;
/// The same.
#[cfg(not(test))]
pub fn step() -> u64 {
    STEP
}

#[cfg(test)]
thread_local! {
    /// What a step may cost in this thread.
    pub static STEP_HERE: std::cell::Cell<u64> = const { std::cell::Cell::new(STEP) };
}

#[cfg(test)]
pub fn step() -> u64 {
    STEP_HERE.get()
}

/// A list of all tuples of a partition, where others are of an index's mask.
pub const WHOLE: u32 = u32::MAX;

/// How far a search has come.
#[derive(Debug, Default)]
pub struct Scan {
    /// The partition where it goes on.
    pub partition: u32,
    /// Where in that; nothing: at its beginning.
    pub stand: Stand,
    /// The best so far, where there is an order and several partitions.
    pub best: Option<(Rank, Place)>,
    /// Whether the tuples of a page are put into an order, once that is decided.
    pub sorts: Option<bool>,
    /// The first ones of a page that is put into an order: partition and slot.
    pub first: BinaryHeap<(Rank, u32, u32)>,
    /// Whether there are more than these.
    pub more: bool,
    /// What this step may still cost.
    pub left: u64,
}

/// Where a search stands in a partition.
#[derive(Debug, Default)]
pub enum Stand {
    #[default]
    Beginning,
    /// In the list of an index, or of the whole partition, at the anchor of this number.
    Listed { anchor: u64, partition: u32 },
    /// In a partition, behind this one of the tuples that have a priority.
    Urgent(Urgency, u32),
    /// These are left in a partition, with their numbers: others can have their slots by now.
    Picked(std::vec::IntoIter<(u32, u64)>, u32),
}

/// As a partition sorts its tuples by priority.
pub type Urgency = (std::cmp::Reverse<i64>, u64, u32);

/// A slot behind which a search stands.
#[derive(Debug, Clone, Copy)]
pub struct Anchor {
    pub number: u64,
    pub partition: u32,
    /// An index's mask, or [`WHOLE`].
    pub list: u32,
    /// None ([`super::slab::NIL`]): it stands at the beginning.
    pub slot: u32,
    /// The newest come first.
    pub backward: bool,
}

impl Scan {
    /// A new step.
    pub fn refresh(&mut self) {
        self.left = step();
    }

    /// Goes to the next partition.
    pub fn leave(&mut self, partition: u32) {
        (self.partition, self.stand) = (partition + 1, Stand::Beginning);
    }
}

/// What a search costs.
#[derive(Debug)]
pub struct Cost<'a> {
    /// What this step may still cost.
    pub left: &'a mut u64,
    /// Tuples looked at in vain.
    pub looked_at: &'a mut u64,
    /// Searches so far.
    pub clock: u64,
}

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looked<T> {
    Done(T),
    /// The step is over, the search is not.
    Tired,
}

/// What a page has room for.
#[derive(Debug)]
pub struct Room {
    pub tuples: u32,
    bytes: u64,
}

impl Room {
    /// For so many tuples, at least one, and so many bytes; 0: as many as a page has where nothing is said.
    pub fn new(tuples: u32, bytes: u64) -> Room {
        Room { tuples: tuples.max(1), bytes: if bytes == 0 { PAGE } else { bytes } }
    }

    pub fn has_more_after(&mut self, tuple: &[u8]) -> bool {
        self.tuples -= 1;
        self.bytes = self.bytes.saturating_sub(tuple.len() as u64 + PAGE_TUPLE);
        !self.is_full()
    }

    pub fn is_full(&self) -> bool {
        self.tuples == 0 || self.bytes == 0
    }
}

/// Bytes of a page that asks for no limit.
const PAGE: u64 = 1 << 24;
/// What a tuple in a page counts beside its bytes.
const PAGE_TUPLE: u64 = 64;
