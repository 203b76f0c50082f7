//! The attributes of tuples: key, label, priority, deadline, user.

use super::slab::Slab;
use hashbrown::HashMap;
use std::hash::RandomState;
use std::sync::Arc;
use std::time::Duration;

/// Attributes that only some tuples have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extra {
    pub key: Option<Box<[u8]>>,
    /// Shared by all tuples that were put in the same call.
    pub label: Option<Arc<[u8]>>,
    pub priority: i64,
    pub deadline: Option<Duration>,
    /// The user who put the tuple, if users are told apart.
    pub user: Option<Arc<str>>,
}

impl Extra {
    pub fn bytes(&self) -> u64 {
        let key = self.key.as_ref().map_or(0, |key| 2 * key.len() + 64);
        (key + self.label.as_ref().map_or(0, |label| label.len()) + 160) as u64
    }
}

pub type Extras = HashMap<u32, Box<Extra>, RandomState>;

/// The tuples, as an index sees them.
#[derive(Debug, Clone, Copy)]
pub struct Entries<'a> {
    pub slab: &'a Slab,
    pub extras: &'a Extras,
}

impl<'a> Entries<'a> {
    pub fn extra(&self, slot: u32) -> Option<&'a Extra> {
        if !self.slab.entry(slot).has_extra {
            return None;
        }
        self.extras.get(&slot).map(|extra| &**extra)
    }

    pub fn label(&self, slot: u32) -> Option<&'a [u8]> {
        self.extra(slot)?.label.as_deref()
    }

    pub fn priority(&self, slot: u32) -> i64 {
        self.extra(slot).map_or(0, |extra| extra.priority)
    }
}
