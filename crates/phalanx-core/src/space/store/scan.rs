//! The state of a search that is cut into steps, so that other requests run in between.
//!
//! A search stands behind the tuple that it looked at last. If that tuple is taken before the search continues, the
//! search moves to its neighbour. So every tuple that is there the whole time is met exactly once.

use super::{Place, Rank};
use std::collections::BinaryHeap;

/// The work budget of one step, in units of [`super::super::Template::cost`]. It takes about a millisecond.
pub const STEP: u64 = 20_000;
/// The work budget of one step. Tests can change it.
#[cfg(not(test))]
pub fn step() -> u64 {
    STEP
}

#[cfg(test)]
thread_local! {
    /// The work budget of a step in this thread.
    pub static STEP_HERE: std::cell::Cell<u64> = const { std::cell::Cell::new(STEP) };
}

#[cfg(test)]
pub fn step() -> u64 {
    STEP_HERE.get()
}

/// Names the list of all tuples of a partition. Other lists are named by the mask of their index.
pub const WHOLE: u32 = u32::MAX;

/// How far a search has got.
#[derive(Debug, Default)]
pub struct Scan {
    /// The partition where it continues.
    pub partition: u32,
    /// Where in that partition.
    pub stand: Stand,
    /// The best match so far, if there is an order and there are several partitions.
    pub best: Option<(Rank, Place)>,
    /// Whether the tuples of a page are sorted, once that is decided.
    pub sorts: Option<bool>,
    /// The first tuples of a sorted page: rank, partition and slot.
    pub first: BinaryHeap<(Rank, u32, u32)>,
    /// Whether there are more tuples than these.
    pub more: bool,
    /// The work left in this step.
    pub left: u64,
}

/// Where a search stands in a partition.
#[derive(Debug, Default)]
pub enum Stand {
    #[default]
    Beginning,
    /// In the list of an index or of the whole partition, at the anchor with this number.
    Listed { anchor: u64, partition: u32 },
    /// In a partition, behind this one of the tuples that have a priority.
    Urgent(Urgency, u32),
    /// The slots left to look at in a partition, with their tuples' numbers. Other tuples may have the slots by now.
    Picked(std::vec::IntoIter<(u32, u64)>, u32),
}

/// The key by which a partition sorts tuples by priority.
pub type Urgency = (std::cmp::Reverse<i64>, u64, u32);

/// A slot behind which a search stands.
#[derive(Debug, Clone, Copy)]
pub struct Anchor {
    pub number: u64,
    pub partition: u32,
    /// An index's mask, or [`WHOLE`].
    pub list: u32,
    /// The slot, or [`super::slab::NIL`] at the beginning.
    pub slot: u32,
    /// Newest first.
    pub backward: bool,
}

impl Scan {
    /// Begins a new step.
    pub fn refresh(&mut self) {
        self.left = step();
    }

    /// Goes to the next partition.
    pub fn leave(&mut self, partition: u32) {
        (self.partition, self.stand) = (partition + 1, Stand::Beginning);
    }
}

/// The cost of a search.
#[derive(Debug)]
pub struct Cost<'a> {
    /// The work left in this step.
    pub left: &'a mut u64,
    /// Tuples looked at that did not match.
    pub looked_at: &'a mut u64,
    /// Searches so far.
    pub clock: u64,
}

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looked<T> {
    Done(T),
    /// The work of this step is used up, but the search is not finished.
    Tired,
}

/// The room left in a page.
#[derive(Debug)]
pub struct Room {
    pub tuples: u32,
    bytes: u64,
}

impl Room {
    /// A page for so many tuples (at least one) and so many bytes; 0 bytes: the default.
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

/// The default limit of a page, in bytes.
const PAGE: u64 = 1 << 24;
/// Bytes counted for a tuple in a page in addition to its own.
const PAGE_TUPLE: u64 = 64;
