//! The messages between a client and a space: one link is one session with one space.
//!
//! Bodies: of `Out`, `Got` and `Whole`, tuples one behind the other; of `Event`, one tuple; of `Get`, `Count` and `Watch`, a template.
//! Requests are numbered by the client, each once while it is open; every one is answered once.

use crate::error::SpaceError;
use crate::ids::TransactionId;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The client's number of a request, and of a watch.
pub type RequestId = u64;

/// What a space is to be like. A space that is there keeps its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Sets of positions to index from the beginning, beside those that are found from the templates that come.
    pub indexes: Vec<Vec<u16>>,
    /// Sets of up to four positions of numbers, for templates that ask for boxes.
    pub boxes: Vec<Vec<u16>>,
    /// Whether indexes are built by themselves.
    pub automatic: bool,
    /// Order in which tuples are found when a template does not say.
    pub order: Order,
    /// Lease of tuples that are put without.
    pub lease: Option<Duration>,
    pub most_tuples: u64,
    /// Bytes of memory for tuples and their indexes, about.
    pub most_bytes: u64,
    /// Bytes of one tuple.
    pub most_tuple_bytes: u64,
    pub most_fields: u64,
    pub most_nesting: u32,
    pub most_waiters: u64,
    pub most_session_waiters: u64,
    pub most_transactions: u64,
    /// Longest that a transaction may last, and that one is kept prepared.
    pub longest_transaction: Duration,
    /// Events kept for watches that come back: at most so many, and so many bytes.
    pub log_events: u64,
    pub log_bytes: u64,
    /// Over networks that are not trusted, only private links reach it.
    pub secure: bool,
    /// Whether all that was answered is on the disk, and there again after the end of the process.
    pub durable: bool,
    /// The members that keep it together; none: its server alone does.
    pub replicas: Vec<Replica>,
    /// Who opens it is a member of this group, as the server's owner lists them; it is `secure` then. None: of no group.
    pub group: Option<String>,
    /// The user who made it, as its server knows; none: a process of the server's own user.
    pub maker: Option<String>,
}

/// A server that keeps a space together with others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Replica {
    /// In its certificate.
    pub name: String,
    /// `HOST:PORT`, where the others and the clients reach it.
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

/// What an `out` says of its tuples.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutOptions {
    /// Afterwards the tuples are gone.
    pub lease: Option<Duration>,
    /// An encoded field; a space holds one tuple of a key.
    pub key: Option<Vec<u8>>,
    /// An encoded field; many tuples may have it.
    pub label: Option<Vec<u8>>,
    /// 0 if it is not said.
    pub priority: Option<i64>,
    /// It happens once, however often it is sent. Not under a transaction.
    pub once: Option<Once>,
}

/// Under which number a request happens once: of a client that has said [`ToSpace::Register`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Once {
    pub client: u128,
    /// Counts the client's requests of this kind.
    pub number: u64,
    /// The outcomes of all before this one were heard, or are not asked for any more.
    pub open_from: u64,
}

/// What a transaction that commits can rely on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Isolation {
    /// It has read what was committed.
    #[default]
    ReadCommitted,
    /// Every tuple that it has read is still there, or it took it itself.
    RepeatableRead,
}

/// Which of several matching tuples is the first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// What is found fastest.
    #[default]
    Any,
    /// The oldest.
    Fifo,
    /// The newest.
    Lifo,
    /// The highest priority; of one priority, the oldest.
    Priority,
}

/// What is asked beside a template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Get {
    /// Whether what is found is withdrawn.
    pub take: bool,
    /// `None`: the space's.
    pub order: Option<Order>,
    /// Only the tuple with this key: an encoded field.
    pub key: Option<Vec<u8>>,
    /// Only tuples with this label: an encoded field.
    pub label: Option<Vec<u8>>,
    /// At most so many tuples; 0: one.
    pub limit: u32,
    /// A page ends when it has as many bytes; 0: 16 MiB.
    pub page_bytes: u64,
    /// Where the page before ended. What comes or goes between two pages may be in a later one, or not.
    pub after: Option<Cursor>,
    /// A transaction with repeatable reads does not rely on what is found: it only looks where it can take something.
    pub peeks: bool,
}

/// A place between two pages; to be given back as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    pub partition: u32,
    pub slot: u32,
    pub number: u64,
    pub priority: i64,
    /// Tuples with this number or a higher one were put after the first page, and are on none.
    pub end: u64,
}

/// How long to wait for a tuple that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wait {
    No,
    For(Duration),
    Forever,
}

/// From a client to a space.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToSpace {
    /// First message; `create` if the space may be made. Answer: `Opened`.
    Open {
        request: RequestId,
        name: String,
        create: Option<Options>,
    },
    /// Answer: `Done` with the number of the first tuple; the others follow it.
    Out {
        request: RequestId,
        tuples: u32,
        options: OutOptions,
        transaction: Option<TransactionId>,
    },
    /// Answer: `Got`, after waiting with one tuple. What is taken outside of a transaction comes back if the session ends
    /// before its `Ack`.
    Get {
        request: RequestId,
        get: Get,
        wait: Wait,
        transaction: Option<TransactionId>,
    },
    /// A waiting request is not wanted any more. It is still answered: with `Got`, or with `Failed`.
    Cancel {
        request: RequestId,
    },
    /// The answer to a taking request was received. No answer.
    Ack {
        request: RequestId,
    },
    /// The answer to a taking request was received and is not wanted: its tuples are back in the space. No answer.
    GiveBack {
        request: RequestId,
    },
    /// Answer: `Counted`.
    Count {
        request: RequestId,
        transaction: Option<TransactionId>,
    },
    /// The tuple of this number stays for `lease` from now; `None`: for ever. Answer: `Done`.
    Renew {
        request: RequestId,
        number: u64,
        lease: Option<Duration>,
    },
    /// Answer: `Done`.
    Begin {
        request: RequestId,
        transaction: TransactionId,
        timeout: Duration,
        isolation: Isolation,
    },
    /// Promise that it can be committed, also after this session's end; then the coordinator says how it is to end. Answer:
    /// `Done`.
    Prepare {
        request: RequestId,
        transaction: TransactionId,
        coordinator: Option<Coordinator>,
    },
    Commit {
        request: RequestId,
        transaction: TransactionId,
        once: Option<Once>,
    },
    Abort {
        request: RequestId,
        transaction: TransactionId,
    },
    /// Events for tuples that match and are put from now on, or that were after the event `since`. Answer: `Watching`.
    Watch {
        request: RequestId,
        since: Option<u64>,
    },
    /// Answer: `Done`.
    Unwatch {
        request: RequestId,
        watch: RequestId,
    },
    /// Answer: `Info`.
    Info {
        request: RequestId,
    },
    /// Who is there: the name in the server's certificate. Also before `Open`. Answer: `Name`.
    Name {
        request: RequestId,
    },
    /// The client lives.
    Beat,
    /// To a durable space: the number, chosen by chance, under which the client comes back. No answer.
    Known {
        client: u128,
    },
    /// To a durable space that was filled again: this client got the answers of all its requests but the `open` ones, whose
    /// tuples are there again. Answer: `Done`.
    Back {
        request: RequestId,
        client: u128,
        open: Vec<RequestId>,
    },
    /// What this client asks to happen once is to be remembered. Answer: `Done`.
    Register {
        request: RequestId,
        client: u128,
    },
    /// To a server, before `Open`: it is to be a member of a space that others keep. Answer: `Done`.
    Join {
        request: RequestId,
        name: String,
        seat: Box<Seat>,
    },
    /// To the member that leads: others are to keep the space, and these, by their addresses, not any more. Answer: `Done`,
    /// when the new ones have all that there is.
    Members {
        request: RequestId,
        add: Vec<Joining>,
        remove: Vec<String>,
    },
    /// The members of a spread space, and how tuples are placed, are as `card` says: from here on where that is so, or was
    /// `replaces` until now. Answer: `Card`, the one that the space has, if it is another one.
    GoBy {
        request: RequestId,
        card: Vec<u8>,
        replaces: Option<Vec<u8>>,
    },
    /// To a server, before `Open`, from one whose space has prepared a transaction since `age`: how did it end in this one?
    /// Answer: `Decided`.
    Decide {
        request: RequestId,
        space: String,
        identity: u128,
        transaction: TransactionId,
        age: Duration,
    },
    /// A page of all tuples, whatever they look like, behind that one that ended with `after`. Answer: `Whole`.
    Browse {
        request: RequestId,
        after: Option<Spot>,
    },
    /// Those tuples are taken, under a transaction, that are still at these spots. Answer: `Whole`.
    Withdraw {
        request: RequestId,
        spots: Vec<Spot>,
        transaction: TransactionId,
    },
}

/// Where a tuple was, and its number; to be given back as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spot {
    pub partition: u32,
    pub slot: u32,
    pub number: u64,
}

/// What a tuple has beside its fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beside {
    pub spot: Spot,
    /// What is left of it.
    pub lease: Option<Duration>,
    /// Encoded fields.
    pub key: Option<Vec<u8>>,
    pub label: Option<Vec<u8>>,
    pub priority: i64,
}

/// The space that decides on a transaction over several, and is asked by the others when its owner is gone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Coordinator {
    /// Where its server is; several where members keep it together.
    pub places: Vec<String>,
    /// The space's name there.
    pub space: String,
    /// By which that very space is known.
    pub identity: u128,
    /// Whether it is kept on a disk.
    pub durable: bool,
}

/// How a transaction ended at its coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// Not yet.
    Open,
    Committed,
    /// Or it was never there: it is not committed any more.
    Aborted,
    /// It may have been committed so long ago that the coordinator does not know it any more.
    Forgotten,
}

/// A member's place among those that keep a space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// Its own; no other member ever had it.
    pub number: u64,
    /// What the members call their space among each other.
    pub group: String,
    /// What the space is like, with its members when this was written.
    pub options: Options,
}

/// Who is to be a member, under which number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joining {
    pub number: u64,
    pub replica: Replica,
}

/// From a space to a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FromSpace {
    /// `created`: it was not there before. `secure`: its tuples and templates travel as marked data does. `durable`: the
    /// client is to say how it is [`ToSpace::Known`]. `most_body`: bytes of a message's body beyond which the space hangs
    /// up. `members`: the addresses of those that keep the space together. `identity`: no other space has it.
    Opened {
        request: RequestId,
        created: bool,
        secure: bool,
        durable: bool,
        most_body: u64,
        members: Vec<String>,
        identity: u128,
    },
    /// Empty: the server has no certificate.
    Name {
        request: RequestId,
        name: String,
    },
    Done {
        request: RequestId,
        number: u64,
    },
    /// `next`: there may be more.
    Got {
        request: RequestId,
        tuples: u32,
        next: Option<Cursor>,
    },
    Counted {
        request: RequestId,
        count: u64,
    },
    /// `last`: the event before the next one. `missed`: so many events, matching or not, were forgotten since `since`.
    Watching {
        request: RequestId,
        last: u64,
        missed: u64,
    },
    /// A matching tuple was put.
    Event {
        watch: RequestId,
        sequence: u64,
    },
    Info {
        request: RequestId,
        info: Box<Info>,
    },
    Failed {
        request: RequestId,
        error: SpaceError,
    },
    /// The space lives.
    Beat,
    Decided {
        request: RequestId,
        decision: Decision,
    },
    /// `None`: the session goes by the card that it has named.
    Card {
        request: RequestId,
        other: Option<Vec<u8>>,
    },
    /// The tuples are the body, one behind the other. `next`: there may be more.
    Whole {
        request: RequestId,
        tuples: Vec<Beside>,
        next: Option<Spot>,
    },
}

/// A space, counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Info {
    pub options: Options,
    pub tuples: u64,
    /// Bytes of memory for tuples and indexes, about.
    pub bytes: u64,
    /// Bytes of the encoded tuples.
    pub encoded_bytes: u64,
    /// Waiting takers and readers.
    pub takers: u64,
    pub readers: u64,
    pub watches: u64,
    pub transactions: u64,
    /// Tuples on their way to takers that have not acknowledged them.
    pub unacknowledged: u64,
    /// Events so far.
    pub events: u64,
    pub partitions: Vec<PartitionInfo>,
    /// Since the beginning: tuples put; read; taken; expired; tuples looked at in vain while searching.
    pub outs: u64,
    pub reads: u64,
    pub takes: u64,
    pub expired: u64,
    pub looked_at: u64,
    /// Of a space that several members keep.
    pub keepers: Option<Keepers>,
}

/// The members that keep a space together, as the one that leads knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keepers {
    /// What they call their space among each other.
    pub group: String,
    /// Counts elections.
    pub term: u64,
    /// Entries of their log so far.
    pub entries: u64,
    pub members: Vec<Keeper>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keeper {
    /// In its certificate.
    pub name: String,
    pub address: String,
    pub leads: bool,
    /// Entries that it does not have, as far as is known; none: it was not heard since this one leads.
    pub behind: Option<u64>,
}

impl Keeper {
    /// Who it is, without what is known of it now.
    pub fn replica(&self) -> Replica {
        Replica { name: self.name.clone(), address: self.address.clone() }
    }
}

/// The tuples of one signature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartitionInfo {
    /// Kinds of the fields, like `Str, Int`; empty for what fits nowhere else.
    pub signature: String,
    pub tuples: u64,
    /// The positions that each index covers.
    pub indexes: Vec<Vec<u16>>,
}
