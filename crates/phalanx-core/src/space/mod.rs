//! The tuple space engine: Linda's `out`, `in_`, `rd`, `inp`, `rdp` over a multiset of tuples (paper 002).
//!
//! One thread at a time calls it; what happens to others (a tuple for who waits, an event for who watches) comes out of
//! [`Space::next_command`].

pub mod change;

mod card;
mod doubt;
mod kept;
mod log;
mod number;
mod offers;
mod once;
mod past;
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
pub enum Command {
    /// A waiting request has its tuple, or will not get one.
    Answer { session: SessionId, request: RequestId, answer: Result<Tuple, SpaceError> },
    /// A watched tuple was put.
    Notify { session: SessionId, watch: RequestId, sequence: u64, tuple: Tuple },
}

/// Matching tuples.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    pub tuples: Vec<Tuple>,
    /// There may be more behind this place.
    pub next: Option<Cursor>,
}

/// Who asks: the conversation, and the number of the request in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Asker {
    pub session: SessionId,
    pub request: RequestId,
    /// Whether what is taken stays on its way until [`Space::acknowledge`]. Not under a transaction.
    pub acknowledges: bool,
}

/// Where a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watching {
    /// The last event before.
    pub last: u64,
    /// So many events, matching or not, have been forgotten since the one that was asked for.
    pub missed: u64,
}

/// Numbers of tuples stay below, so that they fit beside a mark.
const MOST_NUMBER: u64 = 1 << 62;
/// What a stored tuple takes beside its own bytes, about: asked for before it is stored.
const TUPLE_BYTES: u64 = 64;
/// Indexes, and boxes, that can be declared.
const MOST_DECLARED: usize = 8;
/// What `most_nesting` can be: every level takes some of the stack.
const MOST_NESTING: u32 = 256;
/// In a cursor's partition: it is of the tuples that a transaction has put.
const STAGED: u32 = 1 << 31;

/// A multiset of tuples, who waits for some, and transactions over them. Times are since any fixed moment, the same in
/// all calls. A call that fails changes nothing.
pub struct Space {
    options: Options,
    store: Store,
    takers: Register,
    readers: Register,
    watches: Register,
    /// Who waits or watches, by session and request.
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
    /// When which coordinator is asked how a prepared transaction has ended.
    doubts: BTreeSet<(Duration, TransactionId)>,
    ended: Ended,
    clients: Clients,
    /// What takers have not acknowledged.
    unacknowledged: BTreeMap<(SessionId, RequestId), Vec<Held>>,
    /// Tuples in transactions and on their way, and their bytes.
    held: (u64, u64),
    waiter_bytes: u64,
    /// Questions that were put off, by session and request.
    searches: HashMap<(SessionId, RequestId), Search, RandomState>,
    /// Tuples of which not all who wait were asked whether they want them.
    offers: VecDeque<Offer>,
    /// For how much of that there is time in this call.
    work: u64,
    log: Log,
    /// The card of a member of a spread space; how often it was replaced; and how often it had been when a session took it up.
    card: Bytes,
    cards: u64,
    going_by: HashMap<SessionId, u64, RandomState>,
    /// A number drawn by chance; 0: not yet.
    identity: u128,
    next_number: u64,
    next_interest: u64,
    commands: VecDeque<Command>,
    outs: u64,
    reads: u64,
    takes: u64,
    expired: u64,
    /// Of a space whose changes are kept.
    kept: Option<Box<Kept>>,
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
            // What is a group's is read by nobody on the way.
            options: Options { secure: options.secure || options.group.is_some(), ..options },
        })
    }

    /// The space's number: a space that is made anew at the same address has another one. 0: it has none yet.
    pub fn identity(&self) -> u128 {
        self.identity
    }

    /// Gives it an identity, drawn by chance, if it has none.
    pub fn identify(&mut self, identity: u128) {
        if self.identity == 0 {
            self.identity = identity;
            self.note(|_| Change::Identity { identity });
        }
    }

    /// What it was made with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What a tuple, or a template, may be here: for [`Tuple::check`] and [`Template::decode`].
    pub fn limits(&self) -> Limits {
        Limits {
            fields: self.options.most_fields,
            nesting: self.options.most_nesting,
            bytes: self.options.most_tuple_bytes,
        }
    }

    /// The next thing to do; to be asked until there is none after every call that changes something.
    pub fn next_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// Puts tuples, all or none. The number of the first one; those of the others follow.
    pub fn out(
        &mut self,
        now: Duration,
        tuples: &[Tuple],
        options: &OutOptions,
        transaction: Option<TransactionId>,
    ) -> Result<u64, SpaceError> {
        self.out_by(None, now, tuples, options, transaction)
    }

    /// The same by a user, which [`Space::renew_if`] tells.
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
        &self,
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
        // Events make room.
        if self.bytes() - self.log.bytes() + bytes > options.most_bytes {
            return full("bytes", options.most_bytes);
        }
        self.check_group(bytes, transaction)?;
        match self.next_number + tuples.len() as u64 > MOST_NUMBER {
            true => full("tuples in its life", MOST_NUMBER),
            false => Ok(()),
        }
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

    /// A new tuple that all may see.
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

    /// A tuple that was taken is there again, at its old place in the order; or one that a transaction put, with an event.
    fn restore(&mut self, now: Duration, held: Held, event: Option<u64>) {
        if held.extra.as_ref().and_then(|extra| extra.deadline).is_some_and(|deadline| deadline <= now) {
            self.expired += 1;
            self.note_gone(&held);
            return self.store.free_key(&held);
        }
        self.offer(held, event, None);
    }

    /// A leased tuple stays for so long from now; `None`: for ever.
    pub fn renew(&mut self, now: Duration, number: u64, lease: Option<Duration>) -> Result<(), SpaceError> {
        self.renew_if(now, number, lease, |_, _| true)
    }

    /// The same if it is allowed, where the user who put the tuple, if that is known, and the tuple decide: numbers can be
    /// guessed, and a lease that ends takes a tuple away.
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

    /// The space, counted.
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
