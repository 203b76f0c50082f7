//! The read sets of transactions with repeatable reads. A tuple that was read must still be there at prepare or commit.
//!
//! Nothing is locked. A transaction may take a tuple that another one has read; the reading transaction is then refused
//! at its end (backward validation; Kung and Robinson, 1981). So no two transactions ever wait for each other.

use super::Space;
use super::transaction::Transaction;
use crate::error::SpaceError;
use crate::ids::TransactionId;
use hashbrown::{HashMap, HashSet};
use std::hash::RandomState;
use std::sync::Arc;

/// Limits on the tuples read by one transaction, by all transactions of one user, and by all transactions together.
/// Each tuple read takes about 50 bytes here until its transactions end.
const MOST_READ: usize = 1 << 16;
const MOST_READ_BY_ONE: usize = 1 << 18;
const MOST_READ_BY_ALL: usize = 1 << 20;

/// The user of a transaction. `None` stands for all clients that the server does not know as users.
type User = Option<Arc<str>>;

/// The tuples that open transactions have read, by number.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// For each tuple, the number of transactions that have read it.
    readers: HashMap<u64, u32, RandomState>,
    /// Tuples among them that are not visible now, because they were taken or their lease expired.
    absent: HashSet<u64, RandomState>,
    /// Number of tuples read, summed over the transactions of each user; `count` is the sum over all users.
    of_user: HashMap<User, usize, RandomState>,
    count: usize,
}

impl Reads {
    /// A tuple is no longer visible to all.
    pub fn on_withdrawn(&mut self, number: u64) {
        if !self.readers.is_empty() && self.readers.contains_key(&number) {
            self.absent.insert(number);
        }
    }

    /// A tuple is visible to all.
    pub fn on_kept(&mut self, number: u64) {
        if !self.absent.is_empty() {
            self.absent.remove(&number);
        }
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.readers.is_empty() && self.absent.is_empty() && self.count == 0
    }

    fn add(&mut self, user: &User, number: u64) {
        *self.readers.entry(number).or_default() += 1;
        self.count += 1;
        match self.of_user.get_mut(user) {
            Some(count) => *count += 1,
            None => drop(self.of_user.insert(user.clone(), 1)),
        }
    }

    /// A transaction that had read these tuples has ended.
    pub fn forget(&mut self, user: &User, numbers: HashSet<u64, RandomState>) {
        self.count -= numbers.len();
        if self.count == 0 {
            *self = Reads::default(); // also frees the memory after many reads
            return;
        }
        if let Some(count) = self.of_user.get_mut(user) {
            *count -= numbers.len();
            if *count == 0 {
                self.of_user.remove(user);
            }
        }
        for number in numbers {
            let Some(readers) = self.readers.get_mut(&number) else { continue };
            *readers -= 1;
            if *readers == 0 {
                self.readers.remove(&number);
                self.absent.remove(&number);
            }
        }
    }
}

impl Space {
    /// Records that a transaction has read a tuple that others may take. `is_stored`: the tuple is in the store,
    /// visible to all.
    pub(super) fn note_read(&mut self, transaction: Option<TransactionId>, number: u64, is_stored: bool) {
        let Some(own) = transaction.and_then(|id| self.transactions.get_mut(&id)) else { return };
        let Some(read) = &mut own.read else { return };
        if read.insert(number) {
            self.reads_of.add(&own.user, number);
        }
        if !is_stored {
            self.reads_of.on_withdrawn(number);
        }
    }

    /// Whether a transaction has repeatable reads.
    pub(super) fn keeps_reads(&self, transaction: Option<TransactionId>) -> bool {
        transaction.and_then(|id| self.transactions.get(&id)).is_some_and(|own| own.read.is_some())
    }

    /// Whether a transaction may read more. A page, or one step of a count, may exceed the limit once it has begun.
    pub(super) fn check_reads(&self, transaction: Option<TransactionId>) -> Result<(), SpaceError> {
        let Some(own) = transaction.and_then(|id| self.transactions.get(&id)) else { return Ok(()) };
        let Some(read) = &own.read else { return Ok(()) };
        let of_user = self.reads_of.of_user.get(&own.user).copied().unwrap_or_default();
        let shares = [
            (read.len(), "tuples read in one transaction with repeatable reads", MOST_READ),
            (of_user, "tuples read in one user's transactions with repeatable reads", MOST_READ_BY_ONE),
            (self.reads_of.count, "tuples read in transactions with repeatable reads", MOST_READ_BY_ALL),
        ];
        match shares.into_iter().find(|(count, _, most)| count >= most) {
            Some((_, what, most)) => Err(SpaceError::Full { what: what.into(), most: most as u64 }),
            None => Ok(()),
        }
    }

    /// Fails if a tuple that the transaction has read is gone and the transaction did not take it itself.
    pub(super) fn check_unchanged(&self, own: &Transaction) -> Result<(), SpaceError> {
        let Some(read) = own.read.as_ref().filter(|_| !own.prepared) else { return Ok(()) };
        let absent = &self.reads_of.absent;
        let (fewer, more) = if read.len() < absent.len() { (read, absent) } else { (absent, read) };
        match fewer.iter().any(|number| more.contains(number) && !own.taken.has(*number)) {
            true => Err(SpaceError::ReadChanged),
            false => Ok(()),
        }
    }
}
