//! Transactions: what they put is seen by nobody else, and what they took comes back, unless they are committed. A space is
//! one participant of a transaction over several, which are prepared before they are committed.

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

/// Transactions whose end is remembered, so that who lost the answer can ask again.
pub const MOST_ENDED: usize = 10_000;

/// How many sessions must come together to have all transactions.
const SHARES: u64 = 8;

#[derive(Debug)]
pub struct Transaction {
    pub owner: SessionId,
    /// Whose share of transactions it is of.
    pub user: Option<Arc<str>>,
    pub deadline: Duration,
    pub prepared: bool,
    /// Bytes of all that it has put so far, also of what it has taken again.
    pub put_bytes: u64,
    /// What it put, to be searched as what all may see is.
    pub staged: Option<Box<Store>>,
    /// What it took of what was there before.
    pub taken: Taken,
    /// Numbers of the tuples that it read and others put, where reads are repeatable.
    pub read: Option<HashSet<u64, RandomState>>,
    /// Who waits under it.
    pub waiters: BTreeSet<u64>,
    /// Whether, and when, a coordinator is asked how the prepared transaction ends.
    pub doubt: Option<Box<Doubt>>,
}

impl Transaction {
    /// What it put, the oldest first.
    pub fn all_staged(&self) -> Vec<Held> {
        self.staged.as_ref().map(|staged| staged.all()).unwrap_or_default()
    }

    pub fn staged_len(&self) -> usize {
        self.staged.as_ref().map_or(0, |staged| staged.len() as usize)
    }

    fn has_put_key(&self, key: &[u8]) -> bool {
        self.staged.as_ref().is_some_and(|staged| staged.has_key(key))
    }

    /// Whether it ends with a session.
    pub fn is_lost_with(&self, session: SessionId) -> bool {
        self.owner == session && !self.prepared
    }
}

/// How the last transactions ended: whether they were committed.
#[derive(Debug, Default)]
pub struct Ended {
    committed: HashMap<TransactionId, bool, RandomState>,
    /// In the order of their ends: first those that were aborted, then those that were committed.
    order: [VecDeque<(Duration, TransactionId)>; 2],
    /// When the newest of the forgotten commits happened.
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

    /// All ends that a log kept were told. Where there are as many as are kept at most, older ones may have been forgotten.
    pub fn filled(&mut self, now: Duration) {
        if self.committed.len() >= MOST_ENDED {
            self.forgotten = Some(now);
        }
    }

    /// Whether it was committed, as far as is remembered.
    pub fn committed(&self, id: TransactionId) -> Option<bool> {
        self.committed.get(&id).copied()
    }

    /// Whether all are remembered that have ended since then.
    pub fn remembers_since(&self, time: Duration) -> bool {
        self.forgotten.is_none_or(|forgotten| forgotten < time)
    }
}

impl Space {
    /// Begins a transaction, which is aborted after `timeout`, at most the space's longest time for transactions, or with its session, if it
    /// was not ended before.
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
        // One session leaves room for others, and so does one user.
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

    /// Promises that a transaction can be committed. It then stays, even when its session ends, until it is committed,
    /// aborted, or the space's longest time for transactions is over. The coordinator, another space, knows how it is to
    /// end: [`Space::in_doubt`] says when to ask it.
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

    /// Makes what a transaction did visible. Once more, it does nothing. Where what it has read is gone, it ends without
    /// having done anything.
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

    /// The same for a client that asks again where it did not hear the outcome, also after another engine has taken over.
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

    /// Undoes what a transaction did. Once more, it does nothing.
    pub fn abort(&mut self, now: Duration, transaction: TransactionId) -> Result<(), SpaceError> {
        self.on_tick(now);
        match self.ended.committed.get(&transaction).copied() {
            Some(false) => Ok(()),
            Some(true) => Err(SpaceError::NoTransaction),
            None if self.undo(now, transaction) => Ok(()),
            None => Err(SpaceError::NoTransaction),
        }
    }

    /// Aborts; `false`: there is no such transaction.
    pub(super) fn undo(&mut self, now: Duration, transaction: TransactionId) -> bool {
        let Some(back) = self.dissolve(now, transaction) else { return false };
        self.bring_back(now, back);
        true
    }

    /// Aborts, except that what was taken is not yet back.
    pub(super) fn dissolve(&mut self, now: Duration, transaction: TransactionId) -> Option<Vec<Held>> {
        let own = self.end(now, transaction, false)?;
        for held in self.unstage(own.staged) {
            self.store.free_key(&held);
        }
        // Who put a tuple in the place of the one it took leaves that one its key.
        for held in own.taken.iter() {
            if let Some(key) = held.key() {
                self.store.reserve_key(key);
            }
        }
        let mut taken = Vec::with_capacity(own.taken.len());
        taken.extend(own.taken);
        Some(taken)
    }

    /// What was taken comes back, the oldest first.
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

    /// Operations are possible under a transaction that is there and not prepared.
    pub(super) fn open_transaction(&self, transaction: Option<TransactionId>) -> Result<(), SpaceError> {
        match transaction.map(|id| self.transactions.get(&id)) {
            None => Ok(()),
            Some(None) => Err(SpaceError::NoTransaction),
            Some(Some(own)) if own.prepared => Err(SpaceError::Prepared),
            Some(Some(_)) => Ok(()),
        }
    }

    /// A transaction has put a tuple: others see it after the commit.
    pub(super) fn put_under(&mut self, id: TransactionId, held: Held) -> Option<Place> {
        let (options, own) = (&self.options, self.transactions.get_mut(&id)?);
        own.put_bytes += held.bytes();
        let staged = own.staged.get_or_insert_with(|| Box::new(Store::new(options)));
        let before = staged.bytes();
        let place = staged.insert(held);
        self.held = (self.held.0 + 1, self.held.1 + staged.bytes() - before);
        Some(place)
    }

    /// What a transaction put that has ended, the oldest first.
    fn unstage(&mut self, staged: Option<Box<Store>>) -> Vec<Held> {
        let Some(staged) = staged else { return Vec::new() };
        self.held = (self.held.0 - staged.len(), self.held.1.saturating_sub(staged.bytes()));
        staged.all()
    }

    /// Gives what the transaction itself put; taken, it never was there.
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

    /// Whether a transaction took the tuple of a key, and has not put another one.
    pub(super) fn replaces(&self, transaction: Option<TransactionId>, key: &[u8]) -> bool {
        let own = transaction.and_then(|id| self.transactions.get(&id));
        own.is_some_and(|own| own.taken.has_key(key) && !own.has_put_key(key))
    }

    /// The key of what a transaction put is free, unless what it took before had the same.
    pub(super) fn free_staged_key(&mut self, id: TransactionId, held: &Held) {
        self.store.free_key(held);
        if let Some(key) = held.key().filter(|key| self.replaces(Some(id), key)) {
            self.store.reserve_key(key);
        }
    }
}
