//! Memory that the spaces of one server share, so that many spaces together take no more than the owner allows.
//!
//! A space takes its bytes from a [`Pool`] in pieces of [`PIECE`] bytes, so that most calls touch no shared counter. A user may
//! take up to [`PART`] times what is left for others. So one user alone may have three quarters of the pool, two users three
//! sevenths each, and the next user always finds room.

use crate::error::SpaceError;
use hashbrown::HashMap;
use std::hash::RandomState;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Bytes that a space takes and gives back at a time.
const PIECE: u64 = 64 << 10;
/// How many times the bytes that are left one user may have.
const PART: u64 = 3;

/// Bytes for the tuples of several spaces.
#[derive(Debug)]
pub struct Pool {
    most: u64,
    used: AtomicU64,
    users: Mutex<HashMap<String, Weak<Account>, RandomState>>,
}

/// The bytes that the spaces of one owner hold of a pool.
#[derive(Debug)]
pub struct Account {
    pool: Arc<Pool>,
    used: AtomicU64,
    /// Whether it is a user's. The server's owner is limited by the whole pool only.
    is_user: bool,
}

/// The bytes that one space holds of an account. Dropping this gives them back.
#[derive(Debug)]
pub(super) struct Charge {
    account: Arc<Account>,
    bytes: u64,
}

impl Pool {
    /// A pool of so many bytes.
    pub fn new(most: u64) -> Arc<Pool> {
        Arc::new(Pool { most, used: AtomicU64::new(0), users: Mutex::default() })
    }

    /// The account of a user; that of the server's owner for `None`.
    pub fn account(self: &Arc<Pool>, user: Option<&str>) -> Arc<Account> {
        let account = |is_user| Arc::new(Account { pool: self.clone(), used: AtomicU64::new(0), is_user });
        let Some(user) = user else { return account(false) };
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = users.get(user).and_then(Weak::upgrade) {
            return known;
        }
        users.retain(|_, account| account.strong_count() > 0);
        let new = account(true);
        users.insert(user.to_owned(), Arc::downgrade(&new));
        new
    }
}

impl Account {
    /// Takes the bytes unless there is too little left.
    fn take(&self, bytes: u64) -> Result<(), SpaceError> {
        let (own, total) = self.add(bytes);
        let left = self.pool.most.saturating_sub(total);
        let full = |what: &str, most| Err(SpaceError::Full { what: what.into(), most });
        let taken = match () {
            () if total > self.pool.most => full("bytes of all spaces of this server", self.pool.most),
            () if self.is_user && own > left.saturating_mul(PART) => {
                full("bytes of one user's spaces at this server", left.saturating_add(own) / (PART + 1) * PART)
            }
            () => Ok(()),
        };
        if taken.is_err() {
            self.give_back(bytes);
        }
        taken
    }

    /// Counts the bytes as taken. Returns what the owner has by then, and what all have.
    fn add(&self, bytes: u64) -> (u64, u64) {
        let own = self.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        (own, self.pool.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes))
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.pool.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Charge {
    /// Charges the account with bytes that are in the space already, even if it has too little left.
    pub fn of(account: Arc<Account>, bytes: u64) -> Charge {
        account.add(bytes);
        Charge { account, bytes }
    }

    /// Makes sure that the space may hold `bytes` in all.
    pub fn reach(&mut self, bytes: u64) -> Result<(), SpaceError> {
        let Some(missing) = bytes.checked_sub(self.bytes).filter(|missing| *missing > 0) else { return Ok(()) };
        let taken = self.account.take(missing.next_multiple_of(PIECE)).map(|()| missing.next_multiple_of(PIECE));
        self.bytes += taken.or_else(|_| self.account.take(missing).map(|()| missing))?;
        Ok(())
    }

    /// Gives back what the space does not need: it holds `bytes` in all.
    pub fn settle(&mut self, bytes: u64) {
        if let Some(missing) = bytes.checked_sub(self.bytes) {
            self.account.add(missing); // indexes and events grow without being asked for
            self.bytes = bytes;
        } else if self.bytes - bytes >= 2 * PIECE {
            let spare = self.bytes - bytes - PIECE;
            self.account.give_back(spare);
            self.bytes -= spare;
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MB: u64 = 1 << 20;

    fn charge(pool: &Arc<Pool>, user: &str) -> Charge {
        Charge::of(pool.account(Some(user)), 0)
    }

    #[test]
    fn a_user_leaves_room_for_the_next_one_in_all_spaces_together() {
        let pool = Pool::new(16 * MB);
        let (mut one, mut two, mut bob) = (charge(&pool, "ada"), charge(&pool, "ada"), charge(&pool, "bob"));
        one.reach(8 * MB).expect("there is room");
        two.reach(4 * MB).expect("three quarters in all");
        let full = two.reach(5 * MB).expect_err("more than three times what is left");
        assert_eq!(
            full.to_string(),
            "the space is full: its limit is 12582912 bytes of one user's spaces at this server"
        );
        bob.reach(3 * MB).expect("of the four that are left");
        drop(one);
        two.reach(5 * MB).expect("there is room again");
    }

    #[test]
    fn the_owner_may_have_all_and_nobody_more() {
        let pool = Pool::new(4 * MB);
        let mut own = Charge::of(pool.account(None), 0);
        own.reach(4 * MB).expect("all");
        let full = "the space is full: its limit is 4194304 bytes of all spaces of this server";
        assert_eq!(own.reach(4 * MB + 1).expect_err("more than all").to_string(), full);
        assert_eq!(charge(&pool, "ada").reach(1).expect_err("nothing is left").to_string(), full);
        own.settle(0);
        charge(&pool, "ada").reach(MB).expect("given back");
    }

    #[test]
    fn what_is_there_already_counts_even_if_it_is_too_much() {
        let pool = Pool::new(MB);
        let mut kept = Charge::of(pool.account(Some("ada")), 2 * MB);
        kept.reach(2 * MB).expect("it is there");
        kept.reach(2 * MB + 1).expect_err("and no more");
        drop(kept);
        assert_eq!(pool.used.load(Ordering::Relaxed), 0);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_a_space_has_what_it_was_granted(
            steps in prop::collection::vec((0..3_usize, 0..4 * MB, any::<bool>()), 1..60),
        ) {
            let pool = Pool::new(6 * MB);
            let mut charges = ["ada", "ada", "bob"].map(|user| charge(&pool, user));
            for (which, bytes, settles) in steps {
                let one = &mut charges[which];
                if settles {
                    one.settle(bytes.min(one.bytes));
                } else if one.reach(bytes).is_ok() {
                    prop_assert!(one.bytes >= bytes);
                }
                let used = pool.used.load(Ordering::Relaxed);
                prop_assert_eq!(used, charges.iter().map(|one| one.bytes).sum::<u64>());
                prop_assert!(used <= 6 * MB);
            }
            drop(charges);
            prop_assert_eq!(pool.used.load(Ordering::Relaxed), 0);
        }
    }
}
