//! Transactions. Tuples that a transaction puts are invisible to others until it commits; tuples that it takes come
//! back if it aborts. A transaction over several spaces is prepared in each of them before it is committed.

use super::doubt::Doubt;
use super::store::{Held, Place, Store};
use super::taken::Taken;
use super::{Coordinator, Isolation, Once, Space, Tuple};
use crate::error::SpaceError;
use crate::ids::{SessionId, TransactionId};
use hashbrown::{HashMap, HashSet};
use std::collections::{BTreeSet, VecDeque};
use std::hash::RandomState;
use std::sync::Arc;
use std::time::Duration;

/// Outcomes of each kind (aborted, committed) that are remembered for clients that lost the answer and ask again.
pub const MOST_ENDED: usize = 10_000;

/// One session may have 1/`SHARES` of all transactions, so that others have room.
const SHARES: u64 = 8;

#[derive(Debug)]
pub struct Transaction {
    pub owner: SessionId,
    /// The user on whose share the transaction counts.
    pub user: Option<Arc<str>>,
    pub deadline: Duration,
    pub prepared: bool,
    /// Bytes of all tuples put so far, including those that the transaction has taken again.
    pub put_bytes: u64,
    /// The tuples that it put, in a store of their own so that they can be searched like all others.
    pub staged: Option<Box<Store>>,
    /// Tuples of others that it took.
    pub taken: Taken,
    /// Numbers of the tuples of others that it read, if its reads are repeatable.
    pub read: Option<HashSet<u64, RandomState>>,
    /// Waiting requests under this transaction.
    pub waiters: BTreeSet<u64>,
    /// The coordinator of a prepared transaction and when to ask it next.
    pub doubt: Option<Box<Doubt>>,
}

impl Transaction {
    /// The tuples that it put, oldest first.
    pub fn all_staged(&self) -> Vec<Held> {
        self.staged.as_ref().map(|staged| staged.all()).unwrap_or_default()
    }

    pub fn staged_len(&self) -> usize {
        self.staged.as_ref().map_or(0, |staged| staged.len() as usize)
    }

    fn has_put_key(&self, key: &[u8]) -> bool {
        self.staged.as_ref().is_some_and(|staged| staged.has_key(key))
    }

    /// Whether the transaction is aborted when this session ends.
    pub fn is_lost_with(&self, session: SessionId) -> bool {
        self.owner == session && !self.prepared
    }
}

/// The outcomes of the last transactions: whether each was committed.
#[derive(Debug, Default)]
pub struct Ended {
    committed: HashMap<TransactionId, bool, RandomState>,
    /// Two queues, each in the order of the ends: aborted transactions, and committed ones.
    order: [VecDeque<(Duration, TransactionId)>; 2],
    /// When the newest forgotten commit happened.
    forgotten: Option<Duration>,
}

impl Ended {
    pub fn remember(&mut self, now: Duration, id: TransactionId, committed: bool) {
        self.committed.insert(id, committed);
        let order = &mut self.order[usize::from(committed)];
        order.push_back((now, id));
        if let Some((ended, oldest)) = if order.len() > MOST_ENDED { order.pop_front() } else { None } {
            self.committed.remove(&oldest);
            if committed {
                self.forgotten = Some(ended);
            }
        }
    }

    /// Called after all outcomes in a log were replayed. If they fill the memory, older outcomes may have been
    /// forgotten.
    pub fn filled(&mut self, now: Duration) {
        if self.committed.len() >= MOST_ENDED {
            self.forgotten = Some(now);
        }
    }

    /// Whether a transaction was committed, if its outcome is remembered.
    pub fn committed(&self, id: TransactionId) -> Option<bool> {
        self.committed.get(&id).copied()
    }

    /// Whether every commit after `time` is still remembered.
    pub fn remembers_since(&self, time: Duration) -> bool {
        self.forgotten.is_none_or(|forgotten| forgotten < time)
    }
}

impl Space {
    /// Begins a transaction. It is aborted after `timeout`, or when its session ends. `timeout` is at most the space's
    /// `longest_transaction`.
    pub fn begin(
        &mut self,
        now: Duration,
        session: SessionId,
        transaction: TransactionId,
        timeout: Duration,
        isolation: Isolation,
    ) -> Result<(), SpaceError> {
        self.on_tick(now);
        if self.transactions.contains_key(&transaction) || self.ended.committed.contains_key(&transaction) {
            return Err(SpaceError::NumberTaken);
        }
        let longest = self.options.longest_transaction;
        if timeout > longest {
            let what = format!("transactions last at most {} s here, not {} s", longest.as_secs(), timeout.as_secs());
            return Err(SpaceError::Options(what));
        }
        let most = self.options.most_transactions;
        if self.transactions.len() as u64 >= most {
            return Err(SpaceError::Full { what: "transactions".into(), most });
        }
        // One session leaves room for others. Likewise one user, below.
        let share = most.div_ceil(SHARES);
        if self.session_transactions.get(&session).is_some_and(|count| *count >= share) {
            return Err(SpaceError::Full { what: "transactions of one session".into(), most: share });
        }
        let user = self.users.add_transaction(session)?;
        *self.session_transactions.entry(session).or_default() += 1;
        let deadline = now.saturating_add(timeout);
        self.transaction_deadlines.insert((deadline, transaction));
        let new = Transaction {
            owner: session,
            user,
            deadline,
            prepared: false,
            put_bytes: 0,
            staged: None,
            taken: Taken::default(),
            read: (isolation == Isolation::RepeatableRead).then(HashSet::default),
            waiters: BTreeSet::new(),
            doubt: None,
        };
        self.transactions.insert(transaction, new);
        Ok(())
    }

    /// Promises that a transaction can be committed. From then on it survives the end of its session. It stays until it
    /// is committed or aborted, or until `longest_transaction` has passed. The coordinator, another space, knows how it
    /// is to end: [`Space::in_doubt`] says when to ask it.
    pub fn prepare(
        &mut self,
        now: Duration,
        transaction: TransactionId,
        coordinator: Option<Coordinator>,
    ) -> Result<(), SpaceError> {
        self.on_tick(now);
        coordinator.as_ref().map_or(Ok(()), Coordinator::check)?;
        let own = self.transactions.get(&transaction).ok_or(SpaceError::NoTransaction)?;
        self.check_unchanged(own)?;
        self.check_preparable(own)?;
        let own = self.transactions.get_mut(&transaction).ok_or(SpaceError::NoTransaction)?;
        if !own.prepared {
            own.prepared = true;
            let deadline = now.saturating_add(self.options.longest_transaction);
            let before = std::mem::replace(&mut own.deadline, deadline);
            self.transaction_deadlines.remove(&(before, transaction));
            self.transaction_deadlines.insert((deadline, transaction));
            self.dismiss_waiters(transaction, SpaceError::Prepared);
            self.note_prepared(transaction);
            if let Some(coordinator) = coordinator {
                self.leave_to(now, transaction, coordinator);
            }
        }
        Ok(())
    }

    /// Makes the effects of a transaction visible. A second call does nothing. If a tuple that it read is gone, the
    /// transaction is aborted instead.
    pub fn commit(&mut self, now: Duration, transaction: TransactionId) -> Result<(), SpaceError> {
        self.on_tick(now);
        if self.ended.committed.get(&transaction) == Some(&true) {
            return Ok(());
        }
        let own = self.transactions.get(&transaction).ok_or(SpaceError::NoTransaction)?;
        if let Err(changed) = self.check_unchanged(own) {
            self.undo(now, transaction);
            return Err(changed);
        }
        let own = self.end(now, transaction, true).ok_or(SpaceError::NoTransaction)?;
        for held in own.taken.iter() {
            self.let_go(held);
            self.store.free_key(held);
        }
        for held in self.unstage(own.staged) {
            let event = self.note_event(&held.tuple);
            self.restore(now, held, Some(event));
        }
        Ok(())
    }

    /// Like [`Space::commit`], for a client that asks again because it did not hear the outcome. Also works after a
    /// failover to another engine.
    pub fn commit_once(
        &mut self,
        now: Duration,
        transaction: TransactionId,
        once: Option<&Once>,
    ) -> Result<(), SpaceError> {
        if self.done_before(once)?.is_none() {
            self.commit(now, transaction)?;
            self.note_done(once, 0);
        }
        Ok(())
    }

    /// Undoes a transaction. A second call does nothing.
    pub fn abort(&mut self, now: Duration, transaction: TransactionId) -> Result<(), SpaceError> {
        self.on_tick(now);
        match self.ended.committed.get(&transaction).copied() {
            Some(false) => Ok(()),
            Some(true) => Err(SpaceError::NoTransaction),
            None if self.undo(now, transaction) => Ok(()),
            None => Err(SpaceError::NoTransaction),
        }
    }

    /// Aborts a transaction. `false`: there is no such transaction.
    pub(super) fn undo(&mut self, now: Duration, transaction: TransactionId) -> bool {
        let Some(back) = self.dissolve(now, transaction) else { return false };
        self.bring_back(now, back);
        true
    }

    /// Aborts a transaction, but returns the tuples that it took instead of putting them back.
    pub(super) fn dissolve(&mut self, now: Duration, transaction: TransactionId) -> Option<Vec<Held>> {
        let own = self.end(now, transaction, false)?;
        for held in self.unstage(own.staged) {
            self.store.free_key(&held);
        }
        // A transaction may have put a tuple with the key of one that it took. The key now belongs to the taken tuple
        // again.
        for held in own.taken.iter() {
            if let Some(key) = held.key() {
                self.store.reserve_key(key);
            }
        }
        let mut taken = Vec::with_capacity(own.taken.len());
        taken.extend(own.taken);
        Some(taken)
    }

    /// Puts taken tuples back, oldest first.
    pub(super) fn bring_back(&mut self, now: Duration, mut back: Vec<Held>) {
        back.sort_unstable_by_key(|held| held.number);
        for held in back {
            self.let_go(&held);
            self.restore(now, held, None);
        }
    }

    fn end(&mut self, now: Duration, id: TransactionId, committed: bool) -> Option<Transaction> {
        if !self.transactions.contains_key(&id) {
            return None;
        }
        self.dismiss_waiters(id, SpaceError::NoTransaction);
        let mut own = self.transactions.remove(&id)?;
        self.transaction_deadlines.remove(&(own.deadline, id));
        if let Some(count) = self.session_transactions.get_mut(&own.owner) {
            *count -= 1;
            if *count == 0 {
                self.session_transactions.remove(&own.owner);
            }
        }
        own.user.iter().for_each(|user| self.users.transactions.drop_one(user));
        if let Some(read) = own.read.take() {
            self.reads_of.forget(&own.user, read);
        }
        if let Some(doubt) = &own.doubt {
            self.doubts.remove(&(doubt.ask, id));
        }
        self.ended.remember(now, id, committed);
        self.note_ended(id, &own, committed);
        Some(own)
    }

    fn dismiss_waiters(&mut self, id: TransactionId, error: SpaceError) {
        let waiters = self.transactions.get_mut(&id).map(|own| std::mem::take(&mut own.waiters));
        for number in waiters.unwrap_or_default() {
            let interest = self.takers.get(number).or_else(|| self.readers.get(number));
            if let Some(asker) = interest.map(|interest| interest.asker) {
                self.disappoint(asker.session, asker.request, error.clone());
            }
        }
    }

    /// Refuses an operation under a transaction that is unknown or already prepared.
    pub(super) fn open_transaction(&self, transaction: Option<TransactionId>) -> Result<(), SpaceError> {
        match transaction.map(|id| self.transactions.get(&id)) {
            None => Ok(()),
            Some(None) => Err(SpaceError::NoTransaction),
            Some(Some(own)) if own.prepared => Err(SpaceError::Prepared),
            Some(Some(_)) => Ok(()),
        }
    }

    /// Puts a tuple under a transaction. Others see it after the commit.
    pub(super) fn put_under(&mut self, id: TransactionId, held: Held) -> Option<Place> {
        let (options, own) = (&self.options, self.transactions.get_mut(&id)?);
        own.put_bytes += held.bytes();
        let staged = own.staged.get_or_insert_with(|| Box::new(Store::new(options)));
        let before = staged.bytes();
        let place = staged.insert(held);
        self.held = (self.held.0 + 1, self.held.1 + staged.bytes() - before);
        Some(place)
    }

    /// The tuples that an ended transaction had put, oldest first.
    fn unstage(&mut self, staged: Option<Box<Store>>) -> Vec<Held> {
        let Some(staged) = staged else { return Vec::new() };
        self.held = (self.held.0 - staged.len(), self.held.1.saturating_sub(staged.bytes()));
        staged.all()
    }

    /// Gives a tuple that the transaction itself put. If it is taken, it vanishes as if it had never been put.
    pub(super) fn give_staged(&mut self, id: TransactionId, place: Place, take: bool) -> Option<Tuple> {
        let own = self.transactions.get_mut(&id)?;
        let staged = own.staged.as_mut()?;
        if !take {
            self.reads += 1;
            return Some(staged.tuple(place));
        }
        let before = staged.bytes();
        let held = staged.remove(place);
        staged.free_key(&held);
        let after = if staged.len() == 0 { 0 } else { staged.bytes() };
        self.held = (self.held.0 - 1, (self.held.1 + after).saturating_sub(before));
        if after == 0 {
            own.staged = None;
        }
        self.takes += 1;
        self.free_staged_key(id, &held);
        Some(held.tuple)
    }

    /// Whether a transaction took the tuple with this key and has not put another one with it.
    pub(super) fn replaces(&self, transaction: Option<TransactionId>, key: &[u8]) -> bool {
        let own = transaction.and_then(|id| self.transactions.get(&id));
        own.is_some_and(|own| own.taken.has_key(key) && !own.has_put_key(key))
    }

    /// Frees the key of a tuple that a transaction put, unless a tuple that it took earlier has the same key.
    pub(super) fn free_staged_key(&mut self, id: TransactionId, held: &Held) {
        self.store.free_key(held);
        if let Some(key) = held.key().filter(|key| self.replaces(Some(id), key)) {
            self.store.reserve_key(key);
        }
    }
}
