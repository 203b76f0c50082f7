//! The tuple space engine: Linda's `out`, `in_`, `rd`, `inp`, `rdp` over a multiset of tuples (paper 002).
//!
//! One thread at a time calls it; what happens to others (a tuple for who waits, an event for who watches) comes out of
//! [`Space::next_command`].

pub mod change;

mod number;
mod query;
mod reader;
mod template;
mod value;

pub use crate::wire::space::{Cursor, Get, Info, Options, Order, OutOptions, PartitionInfo, RequestId};
pub use query::{Comparison, Operation, Query, Step};
pub use reader::{MOST_CLASSES, MOST_DIMENSIONS, MOST_NAME, Reader, tag, unzigzag, zigzag};
pub use template::{Pattern, Template, Type, mask};
pub use value::{
    Limits, Tuple, Value, put_array, put_big, put_bool, put_bytes, put_float, put_int, put_names, put_number,
    put_record, put_str, put_string,
};

use crate::error::SpaceError;
use crate::ids::{SessionId, TransactionId};
use std::sync::Arc;
use std::time::Duration;

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

/// A multiset of tuples, who waits for some, and transactions over them. Times are since any fixed moment, the same in
/// all calls. A call that fails changes nothing.
pub struct Space {
    options: Options,
}

impl Space {
    /// An empty space.
    pub fn new(options: Options) -> Result<Space, SpaceError> {
        Ok(Space { options })
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
        None
    }

    /// Puts tuples, all or none. The number of the first one; those of the others follow.
    pub fn out(
        &mut self,
        _now: Duration,
        _tuples: Vec<Tuple>,
        _options: &OutOptions,
        _transaction: Option<TransactionId>,
    ) -> Result<u64, SpaceError> {
        unimplemented!()
    }

    /// What matches now, up to the limit of `get`.
    pub fn get(
        &mut self,
        _now: Duration,
        _asker: Asker,
        _template: &Template,
        _get: &Get,
        _transaction: Option<TransactionId>,
    ) -> Result<Page, SpaceError> {
        unimplemented!()
    }

    /// One tuple that matches: at once, or, with `None`, by a [`Command::Answer`] before the deadline, or
    /// [`SpaceError::TimedOut`] after it (see [`Space::on_tick`]). Takers get what comes in the order in which they came.
    pub fn wait(
        &mut self,
        _now: Duration,
        _asker: Asker,
        _template: Arc<Template>,
        _get: &Get,
        _deadline: Option<Duration>,
        _transaction: Option<TransactionId>,
    ) -> Result<Option<Tuple>, SpaceError> {
        unimplemented!()
    }

    /// Ends the waiting of a request, which is not answered any more; `false`: it does not wait (it was answered).
    pub fn cancel(&mut self, _session: SessionId, _request: RequestId) -> bool {
        unimplemented!()
    }

    /// What a request took has arrived.
    pub fn acknowledge(&mut self, _session: SessionId, _request: RequestId) {}

    /// The session is gone: so are its waiters and watches; what it took and did not acknowledge comes back; its
    /// transactions are aborted, unless they are prepared.
    pub fn end_session(&mut self, _now: Duration, _session: SessionId) {}

    /// Ends what is over by now: leases, deadlines, transactions. Calls that find tuples do so themselves.
    pub fn on_tick(&mut self, _now: Duration) {}

    /// When the next [`Space::on_tick`] has something to do.
    pub fn next_deadline(&self) -> Option<Duration> {
        None
    }

    /// How many tuples match.
    pub fn count(
        &mut self,
        _now: Duration,
        _template: &Template,
        _get: &Get,
        _transaction: Option<TransactionId>,
    ) -> Result<u64, SpaceError> {
        unimplemented!()
    }

    /// A leased tuple stays for so long from now; `None`: for ever.
    pub fn renew(&mut self, _now: Duration, _number: u64, _lease: Option<Duration>) -> Result<(), SpaceError> {
        unimplemented!()
    }

    /// Begins a transaction, which is aborted after `timeout`, or with its session, if it was not ended before.
    pub fn begin(
        &mut self,
        _now: Duration,
        _session: SessionId,
        _transaction: TransactionId,
        _timeout: Duration,
    ) -> Result<(), SpaceError> {
        unimplemented!()
    }

    /// Promises that a transaction can be committed. It then stays, even when its session ends, until it is committed,
    /// aborted, or the space's longest time for transactions is over.
    pub fn prepare(&mut self, _now: Duration, _transaction: TransactionId) -> Result<(), SpaceError> {
        unimplemented!()
    }

    /// Makes what a transaction did visible.
    pub fn commit(&mut self, _now: Duration, _transaction: TransactionId) -> Result<(), SpaceError> {
        unimplemented!()
    }

    /// Undoes what a transaction did.
    pub fn abort(&mut self, _now: Duration, _transaction: TransactionId) -> Result<(), SpaceError> {
        unimplemented!()
    }

    /// Events for matching tuples that are put from now on, and those still known after the event `since`, at once.
    pub fn watch(
        &mut self,
        _session: SessionId,
        _watch: RequestId,
        _template: Arc<Template>,
        _since: Option<u64>,
    ) -> Result<Watching, SpaceError> {
        unimplemented!()
    }

    /// Ends a watch; `false`: there was none.
    pub fn unwatch(&mut self, _session: SessionId, _watch: RequestId) -> bool {
        unimplemented!()
    }

    /// The space, counted.
    pub fn info(&self) -> Info {
        unimplemented!()
    }
}
