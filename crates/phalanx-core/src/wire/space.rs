//! The messages between a client and a space. One link is one session with one space.
//!
//! Bodies: tuples, one after the other, in `Out`, `Got` and `Whole`; one tuple in `Event`; a template in `Get`, `Count`
//! and `Watch`. The client numbers its requests. A number is used once while its request is open, and every request
//! gets one answer.
//!
//! In all versions, `Open` and `Opened` are the first variants, `Open` begins with `request`, and `Opened` with `request` and
//! `phalanx`. So each end can tell another version from what it cannot read.

use crate::error::SpaceError;
use crate::ids::TransactionId;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The client's number of a request or a watch.
pub type RequestId = u64;

/// The options of a space. If the space exists already, it keeps its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Sets of positions to index from the start, in addition to those found from the templates that arrive.
    pub indexes: Vec<Vec<u16>>,
    /// Sets of up to four numeric positions, for templates that ask for boxes.
    pub boxes: Vec<Vec<u16>>,
    /// Whether indexes are built automatically.
    pub automatic: bool,
    /// The order in which tuples are found if a request does not give one.
    pub order: Order,
    /// The lease of tuples that are put without one.
    pub lease: Option<Duration>,
    /// Limit on the number of tuples.
    pub most_tuples: u64,
    /// Approximate bytes of memory for tuples and their indexes.
    pub most_bytes: u64,
    /// Limit on one tuple, in bytes.
    pub most_tuple_bytes: u64,
    /// Limit on the fields of one tuple.
    pub most_fields: u64,
    /// Limit on the depth of tuples and lists inside each other.
    pub most_nesting: u32,
    /// Limit on the waiting requests and watches of all sessions.
    pub most_waiters: u64,
    /// Limit on the waiting requests and watches of one session.
    pub most_session_waiters: u64,
    /// Limit on the transactions that are open.
    pub most_transactions: u64,
    /// Limit on the duration of a transaction, and on the time that it stays prepared.
    pub longest_transaction: Duration,
    /// Limit on the events kept for watches that reconnect.
    pub log_events: u64,
    /// Limit on the bytes of these events.
    pub log_bytes: u64,
    /// Over networks that are not trusted, the space is reached over private links only.
    pub secure: bool,
    /// Whether everything that was answered is on disk, so that it survives the end of the process.
    pub durable: bool,
    /// The members that keep the space together (replication); empty: only its server keeps it.
    pub replicas: Vec<Replica>,
    /// The group that users must belong to, as listed by the server's owner; the space is then `secure`. `None`: no
    /// group.
    pub group: Option<String>,
    /// The user who made the space, as the server knows; `None`: a process of the server's own user.
    pub maker: Option<String>,
}

/// A server that keeps a space together with others (a replica).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Replica {
    /// The name in its certificate.
    pub name: String,
    /// `HOST:PORT`, where the other members and the clients reach it.
    pub address: String,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            indexes: Vec::new(),
            boxes: Vec::new(),
            automatic: true,
            order: Order::Any,
            lease: None,
            most_tuples: 100_000_000,
            most_bytes: 1 << 34,
            most_tuple_bytes: 1 << 30,
            most_fields: 4096,
            most_nesting: 32,
            most_waiters: 100_000,
            most_session_waiters: 10_000,
            most_transactions: 10_000,
            longest_transaction: Duration::from_secs(600),
            log_events: 10_000,
            log_bytes: 1 << 24,
            secure: false,
            durable: false,
            replicas: Vec::new(),
            group: None,
            maker: None,
        }
    }
}

/// The options of an `out`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutOptions {
    /// When this time is over, the tuples are removed.
    pub lease: Option<Duration>,
    /// An encoded field. A space holds at most one tuple with each key.
    pub key: Option<Vec<u8>>,
    /// An encoded field. Many tuples may have the same label.
    pub label: Option<Vec<u8>>,
    /// The priority; 0 if not given.
    pub priority: Option<i64>,
    /// Makes the request happen once, however often it is sent. Not under a transaction.
    pub once: Option<Once>,
}

/// Identifies a request that happens once. The client must have sent [`ToSpace::Register`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Once {
    /// The random number under which the client registered.
    pub client: u128,
    /// The number among the client's requests of this kind.
    pub number: u64,
    /// The client has heard the outcomes of all requests before this number, or will not ask for them.
    pub open_from: u64,
}

/// The guarantee for the reads of a transaction that commits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Isolation {
    /// It has read committed tuples only.
    #[default]
    ReadCommitted,
    /// Every tuple that it has read is still there, or was taken by the transaction itself.
    RepeatableRead,
}

/// Which of several matching tuples comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// The one found fastest.
    #[default]
    Any,
    /// The oldest.
    Fifo,
    /// The newest.
    Lifo,
    /// The one with the highest priority; among equals, the oldest.
    Priority,
}

/// The options of a request, besides its template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Get {
    /// Whether to take the tuples that are found.
    pub take: bool,
    /// `None`: the order of the space.
    pub order: Option<Order>,
    /// Only the tuple with this key: an encoded field.
    pub key: Option<Vec<u8>>,
    /// Only tuples with this label: an encoded field.
    pub label: Option<Vec<u8>>,
    /// Limit on the tuples; 0 means 1.
    pub limit: u32,
    /// A page ends when it has this many bytes; 0 means 16 MiB.
    pub page_bytes: u64,
    /// The end of the previous page. A tuple that comes or goes between two pages may or may not be on a later one.
    pub after: Option<Cursor>,
    /// Under a transaction with repeatable reads: do not add the tuple to the read set, because the request only looks
    /// for something to take.
    pub peeks: bool,
}

/// A position between two pages. The client returns it unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The partition where the page ended.
    pub partition: u32,
    /// The slot in the partition.
    pub slot: u32,
    /// The number of the last tuple.
    pub number: u64,
    /// The priority of the last tuple.
    pub priority: i64,
    /// Tuples with this number or a higher one were put after the first page, and are on no page.
    pub end: u64,
}

/// How long to wait if no tuple matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wait {
    /// Answer at once.
    No,
    /// At most this long.
    For(Duration),
    /// Until a tuple matches or the request is cancelled.
    Forever,
}

/// From a client to a space.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum ToSpace {
    /// First message. `create`: the space may be made. Answer: `Opened`.
    Open { request: RequestId, name: String, create: Option<Options> },
    /// Answer: `Done` with the number of the first tuple. The others have the numbers that follow.
    Out { request: RequestId, tuples: u32, options: OutOptions, transaction: Option<TransactionId> },
    /// Answer: `Got`. After waiting, it has one tuple. Tuples taken outside of a transaction come back if the session
    /// ends before the `Ack`.
    Get { request: RequestId, get: Get, wait: Wait, transaction: Option<TransactionId> },
    /// Cancels a waiting request. It is still answered, with `Got` or `Failed`.
    Cancel { request: RequestId },
    /// The client has received the answer to a taking request. No answer.
    Ack { request: RequestId },
    /// The client has received the answer to a taking request but does not want it. Its tuples go back into the space.
    /// No answer.
    GiveBack { request: RequestId },
    /// Answer: `Counted`.
    Count { request: RequestId, transaction: Option<TransactionId> },
    /// Renews a lease: the tuple with this number stays for `lease` from now; `None`: for ever. Answer: `Done`.
    Renew { request: RequestId, number: u64, lease: Option<Duration> },
    /// Answer: `Done`.
    /// Begins a transaction, which the space aborts after `timeout`. Answer: `Done`.
    Begin { request: RequestId, transaction: TransactionId, timeout: Duration, isolation: Isolation },
    /// Promise that the transaction can be committed, even after this session's end. In that case the coordinator says
    /// how it ends. Answer: `Done`.
    Prepare { request: RequestId, transaction: TransactionId, coordinator: Option<Coordinator> },
    /// Commits a transaction. Answer: `Done`.
    Commit { request: RequestId, transaction: TransactionId, once: Option<Once> },
    /// Aborts a transaction. Answer: `Done`.
    Abort { request: RequestId, transaction: TransactionId },
    /// Watch: events for matching tuples that are put from now on, or that came after the event `since`. Answer:
    /// `Watching`.
    Watch { request: RequestId, since: Option<u64> },
    /// Answer: `Done`.
    Unwatch { request: RequestId, watch: RequestId },
    /// Answer: `Info`.
    Info { request: RequestId },
    /// Asks for the name in the server's certificate. Allowed before `Open`. Answer: `Name`.
    Name { request: RequestId },
    /// Heartbeat of the client.
    Beat,
    /// To a durable space: the random number under which the client reconnects. No answer.
    Known { client: u128 },
    /// To a durable space that was restored: this client received the answers of all its requests except the `open`
    /// ones, whose tuples are put back. Answer: `Done`.
    Back { request: RequestId, client: u128, open: Vec<RequestId> },
    /// Registers the client for requests that happen once. Answer: `Done`.
    Register { request: RequestId, client: u128 },
    /// To a server, before `Open`: become a member of a space that others keep. Answer: `Done`.
    Join { request: RequestId, name: String, seat: Box<Seat> },
    /// To the leading member: add and remove members, by their addresses. Answer: `Done`, when the new members have all
    /// data.
    Members { request: RequestId, add: Vec<Joining>, remove: Vec<String> },
    /// From now on, the session uses `card`, which says who the members of a spread space are and how tuples are
    /// placed. The space must have this card, or `replaces`, which is then replaced. Answer: `Card`, with the space's
    /// card if it is another one.
    GoBy { request: RequestId, card: Vec<u8>, replaces: Option<Vec<u8>> },
    /// To a server, before `Open`, from another server whose space prepared the transaction `age` ago: how did it end
    /// here? Answer: `Decided`.
    Decide { request: RequestId, space: String, identity: u128, transaction: TransactionId, age: Duration },
    /// A page of all tuples, whatever they look like, behind the page that ended with `after`. Answer: `Whole`.
    Browse { request: RequestId, after: Option<Spot> },
    /// Take the tuples that are still at these spots, under a transaction. Answer: `Whole`.
    Withdraw { request: RequestId, spots: Vec<Spot>, transaction: TransactionId },
}

/// The place of a tuple, and its number. The client returns it unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spot {
    /// The partition of the tuple.
    pub partition: u32,
    /// The slot in the partition.
    pub slot: u32,
    /// The number of the tuple.
    pub number: u64,
}

/// The attributes of a tuple.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beside {
    /// Where the tuple is.
    pub spot: Spot,
    /// The time that is left of its lease.
    pub lease: Option<Duration>,
    /// An encoded field.
    pub key: Option<Vec<u8>>,
    /// An encoded field.
    pub label: Option<Vec<u8>>,
    /// The priority.
    pub priority: i64,
}

/// The space that decides on a transaction over several spaces. The others ask it when the transaction's owner is gone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Coordinator {
    /// The addresses of its server, or of several members that keep it together.
    pub places: Vec<String>,
    /// The space's name there.
    pub space: String,
    /// Identifies the space itself, not only its name.
    pub identity: u128,
    /// Whether the space is kept on disk.
    pub durable: bool,
}

/// How a transaction ended at its coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// Not yet.
    Open,
    /// It was committed.
    Committed,
    /// Aborted, or unknown to the coordinator. In both cases it will never be committed.
    Aborted,
    /// It ended so long ago that the coordinator no longer remembers whether it was committed.
    Forgotten,
}

/// A member's place among the members of a space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// The member's own number, which no other member ever had.
    pub number: u64,
    /// The members' name for the space.
    pub group: String,
    /// The options of the space, with the members at the time of writing.
    pub options: Options,
}

/// A new member and its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joining {
    /// The number of the new member. No other member ever had it.
    pub number: u64,
    /// Its name and address.
    pub replica: Replica,
}

/// From a space to a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum FromSpace {
    /// `created`: the space did not exist before. `secure`: tuples and templates travel at the level of marked data.
    /// `durable`: the client must send [`ToSpace::Known`]. `most_body`: a longer body of a message makes the space end
    /// the link. `members`: those that keep the space together. `identity`: a number that no
    /// other space has. `phalanx`: the version of the server.
    Opened {
        request: RequestId,
        phalanx: String,
        created: bool,
        secure: bool,
        durable: bool,
        most_body: u64,
        members: Vec<Replica>,
        identity: u128,
    },
    /// Empty if the server has no certificate.
    Name { request: RequestId, name: String },
    /// The request is done. `number` is 0 where a request has no number to answer with.
    Done { request: RequestId, number: u64 },
    /// `next`: there may be more tuples.
    Got { request: RequestId, tuples: u32, next: Option<Cursor> },
    /// The number of matching tuples.
    Counted { request: RequestId, count: u64 },
    /// `last`: the number of the event before the next one. `missed`: the number of events after `since`, matching or
    /// not, that were forgotten.
    Watching { request: RequestId, last: u64, missed: u64 },
    /// A tuple that matches was put.
    Event { watch: RequestId, sequence: u64 },
    /// The space's statistics.
    Info { request: RequestId, info: Box<Info> },
    /// The request is refused, and nothing was done unless the error says otherwise.
    Failed { request: RequestId, error: SpaceError },
    /// Heartbeat of the space.
    Beat,
    /// How the transaction ended here.
    Decided { request: RequestId, decision: Decision },
    /// `None`: the session now uses the card that it named.
    Card { request: RequestId, other: Option<Vec<u8>> },
    /// The tuples are in the body, one after the other. `next`: there may be more.
    Whole { request: RequestId, tuples: Vec<Beside>, next: Option<Spot> },
}

/// Statistics of a space.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Info {
    /// The options of the space.
    pub options: Options,
    /// The number of tuples.
    pub tuples: u64,
    /// Approximate bytes of memory for tuples and indexes.
    pub bytes: u64,
    /// Bytes of the encoded tuples.
    pub encoded_bytes: u64,
    /// Waiting takers.
    pub takers: u64,
    /// Waiting readers.
    pub readers: u64,
    /// Watches.
    pub watches: u64,
    /// Open transactions.
    pub transactions: u64,
    /// Taken tuples that their takers have not acknowledged.
    pub unacknowledged: u64,
    /// Number of events so far.
    pub events: u64,
    /// One entry per signature.
    pub partitions: Vec<PartitionInfo>,
    /// Tuples put since the start. The four numbers that follow are such totals too.
    pub outs: u64,
    /// Tuples that requests have read.
    pub reads: u64,
    /// Tuples that requests have taken.
    pub takes: u64,
    /// Tuples whose lease ended.
    pub expired: u64,
    /// Tuples that a search looked at without a match.
    pub looked_at: u64,
    /// Only for a space that several members keep.
    pub keepers: Option<Keepers>,
}

/// The members that keep a space together, as the leading member knows them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keepers {
    /// The members' name for the space.
    pub group: String,
    /// The number of elections so far.
    pub term: u64,
    /// The number of entries in their log.
    pub entries: u64,
    /// One entry per member.
    pub members: Vec<Keeper>,
}

/// One member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keeper {
    /// The name in its certificate.
    pub name: String,
    /// `HOST:PORT`, where the clients reach it.
    pub address: String,
    /// Whether it leads.
    pub leads: bool,
    /// The number of log entries that it lacks, as far as known; `None`: it was not heard since the present leader took
    /// over.
    pub behind: Option<u64>,
}

impl Keeper {
    /// The member without its current state.
    pub fn replica(&self) -> Replica {
        Replica { name: self.name.clone(), address: self.address.clone() }
    }
}

/// The tuples of one signature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartitionInfo {
    /// The kinds of the fields, like `Str, Int`. Empty for the partition of all further signatures.
    pub signature: String,
    /// The number of tuples with this signature.
    pub tuples: u64,
    /// The positions that each index covers.
    pub indexes: Vec<Vec<u16>>,
}
