//! Sends and receives that are under way.

use crate::error::Class;
use phalanx_net::copy::copy;
use std::num::NonZeroU32;
use std::sync::Arc;

/// Who sent what was received, and how much of it (MPI 5.0, 3.2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// The sender's rank in the communicator.
    pub source: i32,
    /// The tag that the sender gave.
    pub tag: i32,
    /// Bytes of data.
    pub bytes: u64,
    /// Whether the request was cancelled.
    pub cancelled: bool,
    /// Why the request failed, if it did.
    pub error: Option<Class>,
}

/// Of what was neither sent nor received: MPI_ANY_SOURCE, MPI_ANY_TAG, nothing.
pub const EMPTY: Status = Status { source: -1, tag: -2, bytes: 0, cancelled: false, error: None };

/// Of a receive from anybody that goes on while somebody who was lost is not acknowledged.
pub(super) const INTERRUPTED: Status = Status { error: Some(Class::ProcFailedPending), ..EMPTY };

/// The data of a message that is sent. The engine does not look at borrowed memory after the send is done.
#[derive(Debug)]
pub enum Outgoing {
    /// Memory of the program, by address and length.
    Borrowed(*const u8, usize),
    /// Bytes that the engine keeps.
    Owned(Vec<u8>),
}

// SAFETY: borrowed memory is lent until the send is done, to whichever thread works on it.
unsafe impl Send for Outgoing {}

impl Outgoing {
    /// How many bytes.
    #[inline]
    pub fn length(&self) -> usize {
        match self {
            Outgoing::Borrowed(_, length) => *length,
            Outgoing::Owned(bytes) => bytes.len(),
        }
    }

    /// The data.
    ///
    /// # Safety
    /// Borrowed memory must still be lent.
    pub unsafe fn bytes(&self) -> &[u8] {
        match self {
            Outgoing::Borrowed(_, 0) => &[], // may be NULL
            // SAFETY: the caller promises it.
            Outgoing::Borrowed(start, length) => unsafe { std::slice::from_raw_parts(*start, *length) },
            Outgoing::Owned(bytes) => bytes,
        }
    }

    /// The address of the first byte.
    #[inline]
    pub fn start(&self) -> *const u8 {
        match self {
            Outgoing::Borrowed(start, _) => *start,
            Outgoing::Owned(bytes) => bytes.as_ptr(),
        }
    }
}

/// Takes data that does not go into one run of memory.
pub trait Scatter: Send + Sync {
    /// Most bytes that are taken.
    fn capacity(&self) -> usize;
    /// Bytes of the data from `position` on. They come in order, within the capacity.
    fn put(&self, position: usize, bytes: &[u8]);
}

/// Where the data of a message that is received goes.
pub enum Target {
    /// One run of memory, by address and length.
    Plain(*mut u8, usize),
    /// Several runs of memory.
    Scattered(Arc<dyn Scatter>),
}

// SAFETY: the memory is lent until the receive is done, to whichever thread works on it.
unsafe impl Send for Target {}

impl Target {
    /// The most bytes that fit.
    pub fn capacity(&self) -> usize {
        match self {
            Target::Plain(_, length) => *length,
            Target::Scattered(scatter) => scatter.capacity(),
        }
    }

    /// Puts bytes at a position, as far as there is room for them.
    ///
    /// # Safety
    /// `bytes` may be read for `length` bytes; the memory of the receive may be written.
    #[inline]
    pub unsafe fn put(&self, position: usize, bytes: *const u8, length: usize) {
        let length = length.min(self.capacity().saturating_sub(position));
        match self {
            // SAFETY: within the capacity; the caller promises the rest.
            Target::Plain(start, _) if length > 0 => unsafe {
                copy(bytes, start.add(position), length);
            },
            Target::Plain(..) => {}
            // SAFETY: the caller promises that the bytes may be read.
            Target::Scattered(scatter) => scatter.put(position, unsafe { std::slice::from_raw_parts(bytes, length) }),
        }
    }
}

/// A send or a receive, from its start until whoever waits for it has seen that it is done.
pub(super) enum Request {
    Send(Sending),
    Receive(Receiving),
}

pub(super) struct Sending {
    pub to: u32,
    pub context: u64,
    /// What was offered and not yet asked for.
    pub data: Option<Outgoing>,
    /// Things to come before it is done: its data to go out, its receive to be found.
    pub left: u8,
    /// One of them is the receiver's word that it has it, which has not come.
    pub awaits_match: bool,
    /// One of them is the receiver's word that it does not look for the data any more: so no other send gets its number before.
    pub asked_back: bool,
    pub cancelled: bool,
    pub error: Option<Class>,
    /// Nobody waits for it.
    pub detached: bool,
    pub exposed: Exposed,
}

/// The communicator's handle, where the program's own handle stands for the request itself ([`super::Engine::expose`]).
pub(super) type Exposed = Option<NonZeroU32>;

pub(super) struct Receiving {
    pub context: u64,
    pub any_source: bool,
    pub target: Target,
    pub status: Status,
    /// Who its message is from, with how many bytes; none has been found yet.
    pub from: Option<(u32, u64)>,
    pub done: bool,
    pub detached: bool,
    pub exposed: Exposed,
}

impl Receiving {
    /// Whether data of this length is to come from this process.
    pub fn awaits(&self, from: u32, length: u64) -> bool {
        !self.done && self.from == Some((from, length))
    }
}

/// A message that no receive has asked for yet.
pub(super) struct Message {
    pub from: u32,
    pub context: u64,
    /// Its receive fails.
    pub failed: bool,
    pub length: u64,
    pub content: Content,
    /// The synchronous send that waits for it to be matched, at the sender.
    pub matched: Option<usize>,
    /// The receive that got it while its data was still coming.
    pub taken: Option<usize>,
}

pub(super) enum Content {
    /// What has come so far; it is complete when that is all.
    Here(Vec<u8>),
    /// The data is with the sender, under this number and at this address of its memory.
    There { send: u64, address: u64 },
}

impl Content {
    /// Whether not all of a message of this length has come.
    pub fn is_cut(&self, length: u64) -> bool {
        match self {
            Content::Here(bytes) => (bytes.len() as u64) < length,
            Content::There { .. } => true,
        }
    }
}
