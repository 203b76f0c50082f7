//! Logging: the engine reports its changes to a log as they happen, and a new engine is filled from such a log.

use super::change::{Change, MOST_PREPARED, Prepared, Record, Taker};
use super::store::{Extra, Held, Place};
use super::{RequestId, Space, Transaction};
use crate::error::SpaceError;
use crate::ids::{SessionId, TransactionId};
use bytes::Bytes;
use hashbrown::{HashMap, HashSet};
use std::collections::BTreeSet;
use std::hash::RandomState;
use std::sync::Arc;
use std::time::Duration;

/// How long a client may take to reconnect after its session ended, or after the space was restored. It then says which
/// of the tuples on their way to it arrived. After this time, all of them are put back.
pub const GRACE: Duration = Duration::from_secs(60);
/// The client number of takers inside the engine's own process. They do not reconnect after the process ends.
pub const HERE: u128 = 0;

/// The extra state of a space whose changes are logged.
#[derive(Debug)]
pub struct Kept {
    /// Milliseconds from the Unix epoch to the time zero of the space.
    epoch: u64,
    /// Limit in bytes on the changes of one call. A call, or a transaction, may put half of that, because the takes
    /// need room too.
    most_bytes: u64,
    changes: Vec<Change>,
    clients: HashMap<SessionId, u128, RandomState>,
    /// Clients that are gone, and did not acknowledge all the tuples they took.
    lost: HashMap<u128, Lost, RandomState>,
    last_lost: u64,
    /// Only while a log is replayed: the place of each tuple by number, and the names of users.
    places: Vec<(u64, Place)>,
    users: HashSet<Arc<str>, RandomState>,
}

/// Holds the unacknowledged tuples of a lost client, under a session number that no real session has.
#[derive(Debug, Clone, Copy)]
struct Lost {
    session: SessionId,
    until: Duration,
}

impl Kept {
    fn new(epoch: u64) -> Kept {
        let (clients, lost) = (HashMap::default(), HashMap::default());
        let (changes, places, users) = (Vec::new(), Vec::new(), HashSet::default());
        Kept { epoch, most_bytes: u64::MAX, changes, clients, lost, last_lost: 0, places, users }
    }

    /// How long before the time zero of the space a Unix time (in milliseconds) was.
    pub(super) fn age_at_zero(&self, time: u64) -> Duration {
        Duration::from_millis(self.epoch.saturating_sub(time))
    }

    pub(super) fn since_epoch(&self, time: Duration) -> u64 {
        self.epoch.saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    fn since_zero(&self, time: u64) -> Duration {
        Duration::from_millis(time.saturating_sub(self.epoch))
    }

    fn record(&self, held: &Held) -> Record {
        let mut record = Record::of(held.tuple.clone());
        if let Some(extra) = &held.extra {
            let bytes = |field: Option<&[u8]>| field.map(Bytes::copy_from_slice);
            (record.key, record.label) = (bytes(extra.key.as_deref()), bytes(extra.label.as_deref()));
            record.priority = extra.priority;
            record.expires = extra.deadline.map(|deadline| self.since_epoch(deadline));
            record.user = extra.user.as_deref().map(str::to_owned);
        }
        record
    }

    fn held(&mut self, number: u64, record: Record) -> Held {
        let Record { tuple, key, label, priority, expires, user, .. } = record;
        if key.is_none() && label.is_none() && priority == 0 && expires.is_none() {
            return Held { number, tuple, extra: None };
        }
        let deadline = expires.map(|time| self.since_zero(time));
        let user = user.map(|user| self.user(user));
        let extra = Extra {
            key: key.map(|bytes| bytes[..].into()),
            label: label.map(|bytes| bytes[..].into()),
            priority,
            deadline,
            user,
        };
        Held { number, tuple, extra: Some(Box::new(extra)) }
    }

    /// Interns a user's name, so that the tuples of one user share it.
    fn user(&mut self, name: String) -> Arc<str> {
        let name: Arc<str> = name.into();
        self.users.get_or_insert_with(&name, |name| name.clone()).clone()
    }
}

impl Space {
    /// Turns logging on: the caller collects the changes with [`Space::take_changes`] after every call. `epoch` is the
    /// time zero of the calls, in milliseconds since the Unix epoch. `most_bytes` is the approximate limit on the
    /// changes of one call.
    pub fn keep_changes(&mut self, epoch: u64, most_bytes: u64) {
        self.kept.get_or_insert_with(|| Box::new(Kept::new(epoch))).most_bytes = most_bytes;
    }

    /// The changes since the last call of this. Empty if the space is not logged.
    pub fn take_changes(&mut self) -> Vec<Change> {
        self.kept.as_mut().map(|kept| std::mem::take(&mut kept.changes)).unwrap_or_default()
    }

    /// Applies one change from the snapshot that a log kept. The space must be new, with only [`Space::keep_changes`]
    /// called. [`Space::filled`] must follow the last change. Changes that do not describe state are refused.
    pub fn fill(&mut self, change: Change) -> Result<(), SpaceError> {
        let misfit = |what: &str| Err(SpaceError::NotKept(format!("what was kept does not fit together: {what}")));
        match change {
            Change::Opened { .. } => Ok(()),
            Change::Numbered { next } => {
                self.next_number = self.next_number.max(next);
                Ok(())
            }
            Change::Put { number, record } => self.fill_tuple(number, record),
            Change::Prepared { transaction, prepared } => self.fill_prepared(transaction, prepared),
            Change::Card { card } => {
                self.card = card;
                Ok(())
            }
            Change::LeftTo { transaction, coordinator, since } => {
                self.fill_coordinator(transaction, coordinator, since)
            }
            Change::Identity { identity } => {
                self.identity = identity;
                Ok(())
            }
            Change::Client { client, past } => {
                self.clients.add(client, past, None);
                Ok(())
            }
            Change::HasEnded { transaction, committed } => {
                self.ended.remember(Duration::ZERO, transaction, committed);
                Ok(())
            }
            Change::Gone { .. }
            | Change::Taken { .. }
            | Change::Back { .. }
            | Change::Expires { .. }
            | Change::Ended { .. }
            | Change::Forgotten { .. }
            | Change::Done { .. } => misfit("it is no state"),
        }
    }

    fn fill_tuple(&mut self, number: u64, record: Record) -> Result<(), SpaceError> {
        let Some(kept) = &mut self.kept else { return Ok(()) };
        self.next_number = self.next_number.max(number.saturating_add(1));
        let taker = record.taker;
        let held = kept.held(number, record);
        if held.key().is_some_and(|key| self.store.has_key(key)) {
            return Err(SpaceError::NotKept("two tuples with one key were kept".into()));
        }
        let Some(taker) = taker else {
            let place = self.keep(held);
            self.kept.iter_mut().for_each(|kept| kept.places.push((number, place)));
            return Ok(());
        };
        kept.last_lost += 1;
        let next = SessionId(u64::MAX - kept.last_lost);
        let lost = kept.lost.entry(taker.client).or_insert(Lost { session: next, until: Duration::MAX });
        let session = lost.session;
        held.key().into_iter().for_each(|key| self.store.reserve_key(key));
        self.hold(&held);
        self.unacknowledged.entry((session, taker.request)).or_default().push(held);
        Ok(())
    }

    fn fill_prepared(&mut self, id: TransactionId, prepared: Prepared) -> Result<(), SpaceError> {
        let Some(kept) = &mut self.kept else { return Ok(()) };
        let deadline = kept.since_zero(prepared.until);
        let staged: Vec<Held> = prepared.puts.into_iter().map(|(number, record)| kept.held(number, record)).collect();
        let mut places = std::mem::take(&mut kept.places);
        places.sort_unstable_by_key(|(number, _)| *number);
        let mut taken = Vec::with_capacity(prepared.takes.len());
        for number in prepared.takes {
            let found = places.binary_search_by_key(&number, |(number, _)| *number);
            let Ok(at) = found else {
                return Err(SpaceError::NotKept(format!("a transaction took the tuple {number}, which is not there")));
            };
            taken.push(self.withdraw(places.remove(at).1));
        }
        self.kept.iter_mut().for_each(|kept| kept.places = std::mem::take(&mut places));
        for held in &staged {
            self.next_number = self.next_number.max(held.number.saturating_add(1));
            held.key().into_iter().for_each(|key| self.store.reserve_key(key));
        }
        taken.iter().for_each(|held| self.hold(held));
        self.transaction_deadlines.insert((deadline, id));
        let owner = SessionId(u64::MAX);
        let (taken, waiters) = (taken.into_iter().collect(), BTreeSet::new());
        let (user, prepared, put_bytes, doubt) = (None, true, 0, None);
        let transaction =
            Transaction { owner, user, deadline, prepared, put_bytes, staged: None, taken, read: None, waiters, doubt };
        self.transactions.insert(id, transaction);
        for held in staged {
            self.put_under(id, held);
        }
        Ok(())
    }

    pub(super) fn hold(&mut self, held: &Held) {
        self.held.0 += 1;
        self.held.1 += held.bytes();
    }

    /// Ends a replay. Tuples on their way to takers of the old process ([`HERE`]) are put back, because these do not
    /// reconnect. The numbers of new events continue after all old ones.
    pub fn filled(&mut self, now: Duration) {
        let Some(kept) = &mut self.kept else { return };
        (kept.places, kept.users) = (Vec::new(), HashSet::default());
        kept.lost.values_mut().for_each(|lost| lost.until = now + GRACE);
        self.log.continue_after(self.next_number);
        self.ended.filled(now);
        self.find_lost(now, HERE, |_| false);
        self.on_tick(now);
    }

    /// Says which client a session belongs to. `client` is a secret random number that lets the client reconnect after
    /// this process has ended.
    pub fn introduce(&mut self, session: SessionId, client: u128) {
        if let Some(kept) = &mut self.kept {
            kept.clients.insert(session, client);
        }
    }

    /// A client has reconnected with the session `by`. Its other sessions end. Of its unacknowledged requests, it
    /// received the answers of those for which `got` holds. The tuples of all others are put back.
    pub fn client_is_back(&mut self, now: Duration, by: SessionId, client: u128, got: impl Fn(RequestId) -> bool) {
        let Some(kept) = &mut self.kept else { return };
        let others = kept.clients.iter().filter(|(session, whose)| **whose == client && **session != by);
        let others: Vec<SessionId> = others.map(|(session, _)| *session).collect();
        others.into_iter().for_each(|session| self.end_session(now, session));
        self.find_lost(now, client, got);
    }

    fn find_lost(&mut self, now: Duration, client: u128, got: impl Fn(RequestId) -> bool) {
        let Some(Lost { session, .. }) = self.kept.as_mut().and_then(|kept| kept.lost.remove(&client)) else { return };
        let all = (session, 0)..=(session, RequestId::MAX);
        let requests: Vec<RequestId> = self.unacknowledged.range(all).map(|((_, request), _)| *request).collect();
        for request in requests.into_iter().filter(|request| got(*request)) {
            self.acknowledge(session, request);
        }
        self.end_session(now, session);
    }

    /// When the first lost client's time to reconnect is over.
    pub(super) fn lost_until(&self) -> Option<Duration> {
        self.kept.as_ref()?.lost.values().map(|lost| lost.until).min()
    }

    pub(super) fn give_up_lost(&mut self, now: Duration) {
        let over = self.kept.iter().flat_map(|kept| kept.lost.iter().filter(|(_, lost)| lost.until <= now));
        let over: Vec<u128> = over.map(|(client, _)| *client).collect();
        over.into_iter().for_each(|client| self.find_lost(now, client, |_| false));
    }

    /// Called when a session ends whose client may reconnect: its unacknowledged tuples stay on their way until
    /// [`GRACE`] is over.
    pub(super) fn lose(&mut self, now: Duration, session: SessionId) {
        let Some(kept) = &mut self.kept else { return };
        let Some(client) = kept.clients.remove(&session) else { return };
        let all = (session, 0)..=(session, RequestId::MAX);
        let requests: Vec<RequestId> = self.unacknowledged.range(all).map(|((_, request), _)| *request).collect();
        if requests.is_empty() {
            return;
        }
        // They move to a number that no session has or gets, so that ending the same session twice has no further
        // effect.
        kept.last_lost += 1;
        let new = SessionId(u64::MAX - kept.last_lost);
        let lost = kept.lost.entry(client).or_insert(Lost { session: new, until: now });
        lost.until = now + GRACE;
        let there = lost.session;
        for request in requests {
            let held = self.unacknowledged.remove(&(session, request)).unwrap_or_default();
            self.unacknowledged.entry((there, request)).or_default().extend(held);
        }
    }

    pub(super) fn note(&mut self, change: impl FnOnce(&Kept) -> Change) {
        if let Some(kept) = &mut self.kept {
            let change = change(kept);
            kept.changes.push(change);
        }
    }

    pub(super) fn note_put(&mut self, held: &Held) {
        self.note(|kept| Change::Put { number: held.number, record: kept.record(held) });
    }

    pub(super) fn note_gone(&mut self, held: &Held) {
        self.note(|_| Change::Gone { number: held.number });
    }

    pub(super) fn note_taken(&mut self, held: &Held, session: SessionId, request: RequestId) {
        self.note(|kept| {
            let client = kept.clients.get(&session).copied().unwrap_or(HERE);
            Change::Taken { number: held.number, taker: Taker { client, request } }
        });
    }

    pub(super) fn note_back(&mut self, held: &[Held]) {
        held.iter().for_each(|held| self.note(|_| Change::Back { number: held.number }));
    }

    pub(super) fn note_expires(&mut self, number: u64, deadline: Option<Duration>) {
        self.note(|kept| Change::Expires { number, expires: deadline.map(|deadline| kept.since_epoch(deadline)) });
    }

    /// Checks that so many more bytes, together with what the transaction has put, fit into one group of changes.
    pub(super) fn check_group(&self, bytes: u64, transaction: Option<TransactionId>) -> Result<(), SpaceError> {
        let Some(kept) = &self.kept else { return Ok(()) };
        let own = transaction.and_then(|id| self.transactions.get(&id));
        let staged: u64 = own.map_or(0, |own| own.put_bytes);
        let most = kept.most_bytes / 2;
        match bytes.saturating_add(staged) > most {
            true => Err(SpaceError::Full { what: "bytes put at once".into(), most }),
            false => Ok(()),
        }
    }

    /// Checks that a transaction is small enough to be logged as one change.
    pub(super) fn check_preparable(&self, own: &Transaction) -> Result<(), SpaceError> {
        let too_many = self.kept.is_some() && own.staged_len() + own.taken.len() > MOST_PREPARED;
        let full = || SpaceError::Full { what: "tuples in a prepared transaction".into(), most: MOST_PREPARED as u64 };
        if too_many { Err(full()) } else { Ok(()) }
    }

    pub(super) fn note_prepared(&mut self, id: TransactionId) {
        let (Some(kept), Some(own)) = (&mut self.kept, self.transactions.get(&id)) else { return };
        let puts = own.all_staged().iter().map(|held| (held.number, kept.record(held))).collect();
        let takes = own.taken.iter().map(|held| held.number).collect();
        let prepared = Prepared { until: kept.since_epoch(own.deadline), puts, takes };
        kept.changes.push(Change::Prepared { transaction: id, prepared });
    }

    pub(super) fn note_ended(&mut self, id: TransactionId, own: &Transaction, committed: bool) {
        if own.prepared {
            self.note(|_| Change::Ended { transaction: id, committed });
        } else if committed {
            own.taken.iter().for_each(|held| self.note_gone(held));
            if self.kept.is_some() {
                own.all_staged().iter().for_each(|held| self.note_put(held));
            }
            self.note(|_| Change::HasEnded { transaction: id, committed });
        }
    }
}
