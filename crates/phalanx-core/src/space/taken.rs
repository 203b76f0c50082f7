//! The tuples that a transaction took, by number. They come back if it aborts.

use super::store::Held;
use hashbrown::HashSet;
use std::collections::BTreeMap;
use std::hash::RandomState;

#[derive(Debug, Default)]
pub struct Taken {
    tuples: BTreeMap<u64, Held>,
    keys: HashSet<Box<[u8]>, RandomState>,
}

impl Taken {
    pub fn len(&self) -> usize {
        self.tuples.len()
    }

    /// Whether the transaction took the tuple with this number.
    pub fn has(&self, number: u64) -> bool {
        self.tuples.contains_key(&number)
    }

    pub fn push(&mut self, held: Held) {
        self.keys.extend(held.key().map(Box::from));
        self.tuples.insert(held.number, held);
    }

    pub fn has_key(&self, key: &[u8]) -> bool {
        self.keys.contains(key)
    }

    /// The tuples, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Held> {
        self.tuples.values()
    }
}

impl FromIterator<Held> for Taken {
    fn from_iter<T: IntoIterator<Item = Held>>(all: T) -> Taken {
        let mut taken = Taken::default();
        all.into_iter().for_each(|held| taken.push(held));
        taken
    }
}

impl IntoIterator for Taken {
    type Item = Held;
    type IntoIter = std::collections::btree_map::IntoValues<u64, Held>;

    fn into_iter(self) -> Self::IntoIter {
        self.tuples.into_values()
    }
}
