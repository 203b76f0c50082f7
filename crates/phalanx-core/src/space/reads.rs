//! What transactions with repeatable reads have read: it must still be there when they promise or commit.
//!
//! Nothing is locked. A transaction that takes what another one has read goes on, and the other one is refused at its end
//! (backward validation; Kung and Robinson, 1981). So no two transactions ever wait for each other.

use super::Space;
use super::transaction::Transaction;
use crate::error::SpaceError;
use crate::ids::TransactionId;
use hashbrown::{HashMap, HashSet};
use std::hash::RandomState;

/// Tuples that one transaction can read, and all together: each takes some 50 bytes here until the transactions end.
const MOST_READ: usize = 1 << 16;
const MOST_READ_BY_ALL: usize = 1 << 20;

/// Tuples that open transactions have read, by number.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// How many transactions have read a tuple.
    readers: HashMap<u64, u32, RandomState>,
    /// Those of them that all may not see now: they were taken, or their lease has ended.
    absent: HashSet<u64, RandomState>,
    /// The sum over the transactions.
    count: usize,
}

impl Reads {
    /// A tuple is not to be seen by all any more.
    pub fn on_withdrawn(&mut self, number: u64) {
        if !self.readers.is_empty() && self.readers.contains_key(&number) {
            self.absent.insert(number);
        }
    }

    /// A tuple is to be seen by all.
    pub fn on_kept(&mut self, number: u64) {
        if !self.absent.is_empty() {
            self.absent.remove(&number);
        }
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.readers.is_empty() && self.absent.is_empty() && self.count == 0
    }

    fn add(&mut self, number: u64) {
        *self.readers.entry(number).or_default() += 1;
        self.count += 1;
    }

    /// A transaction has ended that had read these tuples.
    pub fn forget(&mut self, numbers: HashSet<u64, RandomState>) {
        self.count -= numbers.len();
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
    /// A transaction has read a tuple that others may take; `is_stored`: it is where all can see it.
    pub(super) fn note_read(&mut self, transaction: Option<TransactionId>, number: u64, is_stored: bool) {
        let own = transaction.and_then(|id| self.transactions.get_mut(&id));
        let Some(read) = own.and_then(|own| own.read.as_mut()) else { return };
        if read.insert(number) {
            self.reads_of.add(number);
        }
        if !is_stored {
            self.reads_of.on_withdrawn(number);
        }
    }

    /// Whether a transaction may read more. A page that is begun may go beyond the limit.
    pub(super) fn check_reads(&self, transaction: Option<TransactionId>) -> Result<(), SpaceError> {
        let own = transaction.and_then(|id| self.transactions.get(&id));
        let Some(read) = own.and_then(|own| own.read.as_ref()) else { return Ok(()) };
        let full = |what: &str, most: usize| Err(SpaceError::Full { what: what.into(), most: most as u64 });
        if read.len() >= MOST_READ {
            return full("tuples read in one transaction with repeatable reads", MOST_READ);
        }
        match self.reads_of.count >= MOST_READ_BY_ALL {
            true => full("tuples read in transactions with repeatable reads", MOST_READ_BY_ALL),
            false => Ok(()),
        }
    }

    /// Fails where something that a transaction has read is not there any more, and was not taken by the transaction itself.
    pub(super) fn check_unchanged(&self, own: &Transaction) -> Result<(), SpaceError> {
        let is_gone = |number: &u64| self.reads_of.absent.contains(number) && !own.taken.has(*number);
        match !own.prepared && own.read.iter().flatten().any(is_gone) {
            true => Err(SpaceError::ReadChanged),
            false => Ok(()),
        }
    }
}
