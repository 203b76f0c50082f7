//! The tuple space engine: Linda's `out`, `in_`, `rd`, `inp`, `rdp` over a multiset of tuples (paper 002).
//!
//! The engine is called by one thread at a time. Effects on other clients (a tuple for a waiting request, an event for
//! a watch) are read from [`Space::next_command`].

pub mod change;

mod card;
mod doubt;
mod kept;
mod log;
mod number;
mod offers;
mod once;
mod past;
mod pool;
mod query;
mod reader;
mod reads;
mod register;
mod search;
mod sessions;
mod signature;
mod store;
mod taken;
mod template;
#[cfg(test)]
mod tests;
mod transaction;
mod users;
mod value;
mod watch;
mod whole;

pub use crate::wire::space::{Beside, Coordinator, Decision, Spot};
pub use crate::wire::space::{
    Cursor, Get, Info, Isolation, Joining, Keeper, Keepers, Once, Options, Order, OutOptions,
};
pub use crate::wire::space::{PartitionInfo, Replica, RequestId, Seat};
pub use doubt::InDoubt;
pub use kept::{GRACE, HERE};
pub use once::MOST_CLIENTS;
pub use past::{MOST_OPEN, Past};
pub use pool::{Account, Pool};
pub use query::{Comparison, Operation, Query, Step};
pub use reader::{Limits, MOST_CLASSES, MOST_DIMENSIONS, MOST_NAME, Reader, mask, tag, unzigzag, zigzag};
pub use search::{Goal, Outcome, Question};
pub use template::{Pattern, Template, Type};
pub use users::Shares;
pub use value::{
    Tuple, Value, put_array, put_big, put_bool, put_bytes, put_float, put_int, put_names, put_number, put_record,
    put_sealed, put_str, put_string,
};
pub use whole::{MOST_WHOLE, Whole};

use crate::error::SpaceError;
use crate::ids::{SessionId, TransactionId};
use bytes::Bytes;
use change::Change;
use hashbrown::HashMap;
use kept::Kept;
use log::Log;
use offers::Offer;
use once::Clients;
use pool::Charge;
use reads::Reads;
use register::{Interest, Kind, Register};
use search::Search;
use signature::POSITIONS;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::RandomState;
use std::sync::Arc;
use std::time::Duration;
use store::{Extra, Held, MOST_SIDES, Place, Store};
pub use transaction::MOST_ENDED;
use transaction::{Ended, Transaction};
use users::Users;

/// What the driver has to do.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum Command {
    /// A waiting request gets its tuple, or an error.
    Answer { session: SessionId, request: RequestId, answer: Result<Tuple, SpaceError> },
    /// A tuple that matches a watch was put.
    Notify { session: SessionId, watch: RequestId, sequence: u64, tuple: Tuple },
}

/// A page of matching tuples.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// The tuples, in their order.
    pub tuples: Vec<Tuple>,
    /// Where the next page begins. `None`: this was the last page.
    pub next: Option<Cursor>,
}

/// The session that asks, and the number of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Asker {
    /// The session.
    pub session: SessionId,
    /// The session's number for the request.
    pub request: RequestId,
    /// Whether a taken tuple counts as on its way until [`Space::acknowledge`]. Without effect under a transaction.
    pub acknowledges: bool,
}

/// The first event of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watching {
    /// The number of the last event before the watch began.
    pub last: u64,
    /// The number of events after `since`, matching or not, that have been forgotten.
    pub missed: u64,
}

/// Limit on tuple numbers. It leaves room for a mark bit beside the number.
const MOST_NUMBER: u64 = 1 << 62;
/// Approximate overhead of a stored tuple, in bytes. Used to check for room before the tuple is stored.
const TUPLE_BYTES: u64 = 64;
/// Limit on the declared indexes, and likewise on the declared boxes.
const MOST_DECLARED: usize = 8;
/// Upper bound for the option `most_nesting`, because every level uses some of the stack.
const MOST_NESTING: u32 = 256;
/// A mark in the partition of a cursor: the cursor is in the tuples that the transaction itself has put.
const STAGED: u32 = 1 << 31;

/// A multiset of tuples, the requests that wait for tuples, and transactions. Times are measured from any fixed moment,
/// the same in all calls. A call that fails changes nothing.
pub struct Space {
    options: Options,
    store: Store,
    takers: Register,
    readers: Register,
    watches: Register,
    /// Waiting requests and watches, by session and request.
    asked: BTreeMap<(SessionId, RequestId), (Kind, u64)>,
    session_waiters: HashMap<SessionId, u64, RandomState>,
    waiter_deadlines: BTreeSet<(Duration, u64)>,
    leases: BTreeSet<(Duration, u64)>,
    leased: HashMap<u64, Place, RandomState>,
    transactions: HashMap<TransactionId, Transaction, RandomState>,
    reads_of: Reads,
    session_transactions: HashMap<SessionId, u64, RandomState>,
    users: Users,
    transaction_deadlines: BTreeSet<(Duration, TransactionId)>,
    /// When to ask the coordinator of each prepared transaction how it ended.
    doubts: BTreeSet<(Duration, TransactionId)>,
    ended: Ended,
    clients: Clients,
    /// Taken tuples that their takers have not acknowledged.
    unacknowledged: BTreeMap<(SessionId, RequestId), Vec<Held>>,
    /// The number and the bytes of the tuples held back: by transactions, or on their way to takers.
    held: (u64, u64),
    waiter_bytes: u64,
    /// Unfinished searches, by session and request.
    searches: HashMap<(SessionId, RequestId), Search, RandomState>,
    /// Tuples that have not been offered to all waiting requests yet.
    offers: VecDeque<Offer>,
    /// How much work on these offers is left in this call.
    work: u64,
    log: Log,
    /// The card of a member of a spread space, the number of times it was replaced, and that number when each session
    /// adopted it.
    card: Bytes,
    cards: u64,
    going_by: HashMap<SessionId, u64, RandomState>,
    /// A random number. 0: not drawn yet.
    identity: u128,
    next_number: u64,
    next_interest: u64,
    commands: VecDeque<Command>,
    outs: u64,
    reads: u64,
    takes: u64,
    expired: u64,
    /// Set in a space whose changes are logged.
    kept: Option<Box<Kept>>,
    /// Set in a space that shares its memory with others.
    charge: Option<Charge>,
}

impl Space {
    /// An empty space.
    pub fn new(options: Options) -> Result<Space, SpaceError> {
        check_options(&options)?;
        Ok(Space {
            store: Store::new(&options),
            takers: Register::default(),
            readers: Register::default(),
            watches: Register::default(),
            asked: BTreeMap::new(),
            session_waiters: HashMap::default(),
            waiter_deadlines: BTreeSet::new(),
            leases: BTreeSet::new(),
            leased: HashMap::default(),
            transactions: HashMap::default(),
            reads_of: Reads::default(),
            session_transactions: HashMap::default(),
            users: Users::default(),
            transaction_deadlines: BTreeSet::new(),
            doubts: BTreeSet::new(),
            ended: Ended::default(),
            clients: Clients::default(),
            unacknowledged: BTreeMap::new(),
            held: (0, 0),
            waiter_bytes: 0,
            searches: HashMap::default(),
            offers: VecDeque::new(),
            work: 0,
            log: Log::new(options.log_events, options.log_bytes),
            card: Bytes::new(),
            cards: 0,
            identity: 0,
            going_by: HashMap::default(),
            next_number: 1,
            next_interest: 0,
            commands: VecDeque::new(),
            outs: 0,
            reads: 0,
            takes: 0,
            expired: 0,
            kept: None,
            charge: None,
            // The data of a group must not be readable on the network.
            options: Options { secure: options.secure || options.group.is_some(), ..options },
        })
    }

    /// The random number of the space, or 0 if it has none yet. A new space at the same address has another number.
    pub fn identity(&self) -> u128 {
        self.identity
    }

    /// Gives the space this random identity, if it has none.
    pub fn identify(&mut self, identity: u128) {
        if self.identity == 0 {
            self.identity = identity;
            self.note(|_| Change::Identity { identity });
        }
    }

    /// The options that the space was made with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The limits on tuples and templates here: for [`Tuple::check`] and [`Template::decode`].
    pub fn limits(&self) -> Limits {
        Limits {
            fields: self.options.most_fields,
            nesting: self.options.most_nesting,
            bytes: self.options.most_tuple_bytes,
        }
    }

    /// The next command. After every call that changes something, the driver asks until there is none.
    pub fn next_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// Puts tuples, all or none. Returns the number of the first one; the others have the numbers that follow.
    pub fn out(
        &mut self,
        now: Duration,
        tuples: &[Tuple],
        options: &OutOptions,
        transaction: Option<TransactionId>,
    ) -> Result<u64, SpaceError> {
        self.out_by(None, now, tuples, options, transaction)
    }

    /// Like [`Space::out`], on behalf of a user. [`Space::renew_if`] later passes this user to its check.
    pub fn out_by(
        &mut self,
        user: Option<&Arc<str>>,
        now: Duration,
        tuples: &[Tuple],
        options: &OutOptions,
        transaction: Option<TransactionId>,
    ) -> Result<u64, SpaceError> {
        self.on_tick(now);
        self.open_transaction(transaction)?;
        if let Some(first) = self.done_before(options.once.as_ref())? {
            return Ok(first);
        }
        let mut extra = self.extra(now, options, tuples.len(), transaction)?;
        self.check_room(tuples, extra.as_deref(), transaction)?;
        extra.iter_mut().for_each(|extra| extra.user = user.cloned());
        if let Some(key) = &options.key {
            self.store.reserve_key(key);
        }
        let first = self.next_number;
        self.next_number += tuples.len() as u64;
        self.outs += tuples.len() as u64;
        for (number, tuple) in (first..).zip(tuples) {
            let held = Held { number, tuple: tuple.clone(), extra: extra.clone() };
            match transaction {
                Some(_) => self.offer(held, None, transaction),
                None => self.arrive(held),
            }
        }
        self.note_done(options.once.as_ref(), first);
        Ok(first)
    }

    fn check_room(
        &mut self,
        tuples: &[Tuple],
        beside: Option<&Extra>,
        transaction: Option<TransactionId>,
    ) -> Result<(), SpaceError> {
        let full = |what: &str, most| Err(SpaceError::Full { what: what.into(), most });
        let options = &self.options;
        if self.store.len() + self.held.0 + tuples.len() as u64 > options.most_tuples {
            return full("tuples", options.most_tuples);
        }
        let length = |tuple: &Tuple| tuple.bytes().len() as u64;
        if let Some(is) = tuples.iter().map(length).find(|length| *length > options.most_tuple_bytes) {
            let most = options.most_tuple_bytes;
            return Err(crate::error::EncodingError::TooMany { what: "bytes".into(), is, most }.into());
        }
        let beside = beside.map_or(0, Extra::bytes);
        let bytes: u64 = tuples.iter().map(|tuple| length(tuple) + TUPLE_BYTES + beside).sum();
        // Old events are dropped to make room, so they do not count.
        if self.bytes() - self.log.bytes() + bytes > options.most_bytes {
            return full("bytes", options.most_bytes);
        }
        self.check_group(bytes, transaction)?;
        match self.next_number + tuples.len() as u64 > MOST_NUMBER {
            true => full("tuples in its life", MOST_NUMBER),
            false => self.reserve(bytes),
        }
    }

    /// Takes the memory of this space from an account from now on, also what it holds already.
    pub fn charge_to(&mut self, account: Arc<Account>) {
        self.charge = Some(Charge::of(account, self.bytes()));
    }

    /// Whether the memory of this space is taken from an account.
    pub fn is_charged(&self) -> bool {
        self.charge.is_some()
    }

    /// Gives memory that is not needed any more back to the account. The driver calls it after each call.
    pub fn settle(&mut self) {
        let bytes = self.bytes();
        if let Some(charge) = &mut self.charge {
            charge.settle(bytes);
        }
    }

    /// Takes so many bytes more from the account.
    fn reserve(&mut self, more: u64) -> Result<(), SpaceError> {
        let bytes = self.bytes() + more;
        self.charge.as_mut().map_or(Ok(()), |charge| charge.reach(bytes))
    }

    fn bytes(&self) -> u64 {
        self.store.bytes() + self.held.1 + self.waiter_bytes + self.log.bytes()
    }

    fn extra(
        &self,
        now: Duration,
        options: &OutOptions,
        tuples: usize,
        transaction: Option<TransactionId>,
    ) -> Result<Option<Box<Extra>>, SpaceError> {
        let lease = options.lease.or(self.options.lease);
        if lease.is_none() && options.key.is_none() && options.label.is_none() && options.priority.unwrap_or(0) == 0 {
            return Ok(None);
        }
        if let Some(key) = &options.key {
            if tuples != 1 {
                return Err(SpaceError::Options("a key belongs to exactly one tuple".into()));
            }
            self.check_field(key)?;
            if self.store.has_key(key) && !self.replaces(transaction, key) {
                return Err(SpaceError::KeyTaken);
            }
        }
        options.label.as_ref().map_or(Ok(()), |label| self.check_field(label))?;
        Ok(Some(Box::new(Extra {
            key: options.key.as_ref().map(|key| key[..].into()),
            label: options.label.as_ref().map(|label| label[..].into()),
            priority: options.priority.unwrap_or(0),
            deadline: lease.and_then(|lease| now.checked_add(lease)),
            user: None,
        })))
    }

    fn check_field(&self, field: &[u8]) -> Result<(), SpaceError> {
        let mut reader = Reader::new(field);
        reader.check(0, &self.limits())?;
        Ok(reader.end()?)
    }

    /// A new tuple arrives that all may see.
    fn arrive(&mut self, held: Held) {
        self.note_put(&held);
        let event = self.note_event(&held.tuple);
        self.offer(held, Some(event), None);
    }

    fn keep(&mut self, held: Held) -> Place {
        let number = held.number;
        let deadline = held.extra.as_ref().and_then(|extra| extra.deadline);
        let place = self.store.insert(held);
        self.reads_of.on_kept(number);
        if let Some(deadline) = deadline {
            self.leases.insert((deadline, number));
            self.leased.insert(number, place);
        }
        place
    }

    fn withdraw(&mut self, place: Place) -> Held {
        let held = self.store.remove(place);
        self.reads_of.on_withdrawn(held.number);
        if let Some(deadline) = held.extra.as_ref().and_then(|extra| extra.deadline) {
            self.leases.remove(&(deadline, held.number));
            self.leased.remove(&held.number);
        }
        held
    }

    /// Puts a tuple back at its old place in the order, without an event. Or makes a committed transaction's tuple
    /// visible, with an event.
    fn restore(&mut self, now: Duration, held: Held, event: Option<u64>) {
        if held.extra.as_ref().and_then(|extra| extra.deadline).is_some_and(|deadline| deadline <= now) {
            self.expired += 1;
            self.note_gone(&held);
            return self.store.free_key(&held);
        }
        self.offer(held, event, None);
    }

    /// Renews a lease: the tuple now stays for `lease` from now; `None`: for ever.
    pub fn renew(&mut self, now: Duration, number: u64, lease: Option<Duration>) -> Result<(), SpaceError> {
        self.renew_if(now, number, lease, |_, _| true)
    }

    /// Like [`Space::renew`], if `allows` agrees. It is given the tuple and the user who put it, if known. The check is
    /// needed because tuple numbers can be guessed, and a lease that expires removes a tuple.
    pub fn renew_if(
        &mut self,
        now: Duration,
        number: u64,
        lease: Option<Duration>,
        allows: impl FnOnce(Option<&str>, &Tuple) -> bool,
    ) -> Result<(), SpaceError> {
        self.on_tick(now);
        let place = *self.leased.get(&number).ok_or(SpaceError::NoLease)?;
        let deadline = lease.and_then(|lease| now.checked_add(lease));
        let tuple = self.store.tuple(place);
        let extra = self.store.extra_mut(place).ok_or(SpaceError::NoLease)?;
        if !allows(extra.user.as_deref(), &tuple) {
            return Err(SpaceError::NoLease);
        }
        if let Some(before) = std::mem::replace(&mut extra.deadline, deadline) {
            self.leases.remove(&(before, number));
        }
        match deadline {
            Some(deadline) => drop(self.leases.insert((deadline, number))),
            None => drop(self.leased.remove(&number)),
        }
        self.note_expires(number, deadline);
        Ok(())
    }

    /// Statistics of the space.
    pub fn info(&self) -> Info {
        Info {
            options: self.options.clone(),
            tuples: self.store.len(),
            bytes: self.bytes(),
            encoded_bytes: self.store.encoded_bytes(),
            takers: self.takers.len(),
            readers: self.readers.len(),
            watches: self.watches.len(),
            transactions: self.transactions.len() as u64,
            unacknowledged: self.unacknowledged.values().map(|held| held.len() as u64).sum(),
            events: self.log.last(),
            partitions: self.store.describe(),
            outs: self.outs,
            reads: self.reads,
            takes: self.takes,
            expired: self.expired,
            looked_at: self.store.looked_at(),
            keepers: None,
        }
    }
}

fn check_options(options: &Options) -> Result<(), SpaceError> {
    let wrong = |what: &str| Err(SpaceError::Options(what.into()));
    let sets = || options.indexes.iter().chain(&options.boxes);
    if options.indexes.len() > MOST_DECLARED || options.boxes.len() > MOST_DECLARED {
        return wrong("more than 8 indexes, or boxes");
    }
    if sets().any(|set| set.is_empty() || set.iter().any(|position| usize::from(*position) >= POSITIONS)) {
        return wrong("an index is of one or several of the first 16 fields");
    }
    if options.boxes.iter().any(|set| set.len() > MOST_SIDES) {
        return wrong("a box is of at most four fields");
    }
    if options.most_tuples > 1 << 31 {
        return wrong("a space has at most 2^31 tuples");
    }
    match options.most_nesting > MOST_NESTING {
        true => wrong("tuples are at most 256 times inside of each other"),
        false => Ok(()),
    }
}
