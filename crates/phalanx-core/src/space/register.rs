//! Waiting requests, indexed by their templates, so that a thousand waiters do not make an `out` slow.

use super::signature::hash_tuple;
use super::store::{Held, Looked, Wanted};
use super::template::Template;
use super::{Asker, Order};
use crate::ids::TransactionId;
use hashbrown::HashMap;
use std::collections::BTreeSet;
use std::hash::RandomState;
use std::sync::Arc;
use std::time::Duration;

/// Limit on the sets of actual positions that are told apart, for each number of fields. Further templates share one
/// list.
const MOST_SHAPES: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Taker,
    Reader,
    Watch,
}

/// What a waiting request, or a watch, waits for.
#[derive(Debug, Clone)]
pub struct Interest {
    pub asker: Asker,
    pub template: Arc<Template>,
    pub key: Option<Vec<u8>>,
    pub label: Option<Vec<u8>>,
    /// The interest also covers the tuples that this transaction has put.
    pub transaction: Option<TransactionId>,
    pub deadline: Option<Duration>,
    /// The read is not added to the transaction's read set.
    pub peeks: bool,
}

impl Interest {
    /// Approximate bytes of memory.
    pub fn bytes(&self) -> u64 {
        let length = |field: &Option<Vec<u8>>| field.as_ref().map_or(0, |field| field.len() as u64);
        512 + self.template.size() + length(&self.key) + length(&self.label)
    }

    fn accepts(&self, held: &Held, by: Option<TransactionId>) -> bool {
        let (key, label) = (self.key.as_deref(), self.label.as_deref());
        let wanted = Wanted { template: &self.template, key, label, order: Order::Any };
        (by.is_none() || by == self.transaction) && wanted.accepts(held.tuple.bytes(), held.extra.as_deref())
    }

    fn arity(&self) -> u64 {
        self.template.patterns().len() as u64
    }
}

/// The interests with actuals at the same positions, grouped by the hash of their actuals, oldest first.
#[derive(Debug)]
struct Shape {
    mask: u32,
    lists: HashMap<u64, BTreeSet<u64>, RandomState>,
}

#[derive(Debug, Default)]
pub struct Register {
    interests: HashMap<u64, Interest, RandomState>,
    /// By the number of fields.
    shapes: HashMap<u64, Vec<Shape>, RandomState>,
    state: RandomState,
}

impl Register {
    pub fn len(&self) -> u64 {
        self.interests.len() as u64
    }

    pub fn is_empty(&self) -> bool {
        self.interests.is_empty()
    }

    pub fn get(&self, number: u64) -> Option<&Interest> {
        self.interests.get(&number)
    }

    /// Registers an interest. Its number must be above all earlier ones.
    pub fn insert(&mut self, number: u64, interest: Interest) {
        let shapes = self.shapes.entry(interest.arity()).or_default();
        let mask = interest.template.actuals();
        let mask = if shapes.len() < MOST_SHAPES || shapes.iter().any(|shape| shape.mask == mask) { mask } else { 0 };
        let hash = interest.template.hash(&self.state, mask, None);
        let shape = match shapes.iter().position(|shape| shape.mask == mask) {
            Some(place) => &mut shapes[place],
            None => {
                shapes.push(Shape { mask, lists: HashMap::with_hasher(self.state.clone()) });
                shapes.last_mut().expect("one was pushed")
            }
        };
        shape.lists.entry(hash).or_default().insert(number);
        self.interests.insert(number, interest);
    }

    pub fn remove(&mut self, number: u64) -> Option<Interest> {
        let interest = self.interests.remove(&number)?;
        let shapes = self.shapes.get_mut(&interest.arity())?;
        // An interest that arrived when there were too many shapes is in the list of mask 0.
        for mask in [interest.template.actuals(), 0] {
            let hash = interest.template.hash(&self.state, mask, None);
            let Some(place) = shapes.iter().position(|shape| shape.mask == mask) else { continue };
            let lists = &mut shapes[place].lists;
            let Some(list) = lists.get_mut(&hash).filter(|list| list.contains(&number)) else { continue };
            list.remove(&number);
            if list.is_empty() {
                lists.remove(&hash);
            }
            if lists.is_empty() {
                shapes.swap_remove(place);
            }
            break;
        }
        if shapes.is_empty() {
            self.shapes.remove(&interest.arity());
        }
        Some(interest)
    }

    /// Finds the next interest in `*from..end` that accepts the tuple. If `by` is set, only interests of that
    /// transaction may see it. `Tired`: `work` is used up, and `from` is the next interest to ask.
    pub fn next(
        &self,
        held: &Held,
        by: Option<TransactionId>,
        from: &mut u64,
        end: u64,
        work: &mut u64,
    ) -> Looked<Option<u64>> {
        if self.is_empty() || *from >= end {
            return Looked::Done(None);
        }
        let mut lists: Vec<_> = self.lists(held).map(|list| list.range(*from..end).copied().peekable()).collect();
        loop {
            let first = lists.iter_mut().filter_map(|list| list.peek().copied().map(|number| (number, list)));
            let Some((number, list)) = first.min_by_key(|(number, _)| *number) else { return Looked::Done(None) };
            list.next();
            *from = number;
            let Some(interest) = self.interests.get(&number) else { continue };
            if *work == 0 {
                return Looked::Tired;
            }
            *work = work.saturating_sub(interest.template.cost(held.tuple.bytes()));
            *from = number + 1;
            if interest.accepts(held, by) {
                return Looked::Done(Some(number));
            }
        }
    }

    fn lists<'a>(&'a self, held: &'a Held) -> impl Iterator<Item = &'a BTreeSet<u64>> {
        let tuple: &[u8] = held.tuple.bytes();
        let arity = super::Reader::new(tuple).varint().unwrap_or(0);
        let shapes = self.shapes.get(&arity).into_iter().flatten();
        shapes.filter_map(move |shape| shape.lists.get(&hash_tuple(&self.state, shape.mask, tuple, None)))
    }
}
