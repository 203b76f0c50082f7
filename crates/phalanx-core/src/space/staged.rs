//! Tuples outside of the store, by number: what a transaction put, or what it took.

use super::store::{Held, Rank, Wanted, rank};
use crate::wire::space::Order;
use hashbrown::HashSet;
use std::collections::BTreeMap;
use std::hash::RandomState;

#[derive(Debug, Default)]
pub struct Staged {
    tuples: BTreeMap<u64, Held>,
    keys: HashSet<Box<[u8]>, RandomState>,
}

impl Staged {
    pub fn len(&self) -> usize {
        self.tuples.len()
    }

    pub fn push(&mut self, held: Held) {
        self.keys.extend(held.key().map(Box::from));
        self.tuples.insert(held.number, held);
    }

    pub fn remove(&mut self, number: u64) -> Option<Held> {
        let held = self.tuples.remove(&number)?;
        held.key().map(|key| self.keys.remove(key));
        Some(held)
    }

    pub fn get(&self, number: u64) -> Option<&Held> {
        self.tuples.get(&number)
    }

    pub fn has_key(&self, key: &[u8]) -> bool {
        self.keys.contains(key)
    }

    /// The oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Held> {
        self.tuples.values()
    }

    /// Those above a number, the oldest first.
    pub fn behind(&self, number: u64) -> impl Iterator<Item = &Held> {
        self.tuples.range(number.saturating_add(1)..).map(|(_, held)| held)
    }

    /// The first one that is wanted, and its place in the order.
    pub fn first(&self, wanted: &Wanted) -> Option<(u64, Rank)> {
        let fits = |held: &&Held| wanted.accepts(held.tuple.bytes(), held.extra.as_deref());
        let ranked = |held: &Held| (held.number, rank(wanted.order, held.priority(), held.number));
        match wanted.order {
            Order::Any | Order::Fifo => self.iter().find(fits).map(ranked),
            Order::Lifo => self.iter().rev().find(fits).map(ranked),
            Order::Priority => self.iter().filter(fits).map(ranked).min_by_key(|(_, rank)| *rank),
        }
    }
}

impl FromIterator<Held> for Staged {
    fn from_iter<T: IntoIterator<Item = Held>>(all: T) -> Staged {
        let mut staged = Staged::default();
        all.into_iter().for_each(|held| staged.push(held));
        staged
    }
}

impl IntoIterator for Staged {
    type Item = Held;
    type IntoIter = std::collections::btree_map::IntoValues<u64, Held>;

    fn into_iter(self) -> Self::IntoIter {
        self.tuples.into_values()
    }
}
