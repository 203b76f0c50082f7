//! What the processes of a window say to each other.

use super::runs::Runs;
use crate::constants::MPI_NO_OP;
use crate::error::{Class, Error};
use serde::{Deserialize, Serialize};

/// Bytes that most words need without their data.
pub(super) const HEAD: usize = 64;

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Word {
    /// To the target: a piece of an operation. Its data follows.
    Access { operation: u64, position: u64, act: Act, displacement: i64, runs: Vec<Runs> },
    /// To the origin: the piece was carried out, or why not. What was there before follows where it was asked for.
    Done { operation: u64, position: u64, failure: Option<(i32, String)> },
    /// To the target: the sender wants the lock.
    Lock { exclusive: bool },
    /// To the origin: it has the lock.
    Granted,
    /// To the target: it does not need the lock any more.
    Unlock,
    /// To an origin: it may begin (MPI_Win_post).
    Post,
    /// To the target: the origin is done (MPI_Win_complete).
    Complete,
    /// To a rank that waits for a lock in shared memory: it may be free now.
    Look,
    /// To the target: a long put into one run of memory ([`super::long`]). The data follows after [`Word::Wanted`].
    Offer { operation: u64, displacement: i64, offset: i64, length: u64 },
    /// To the origin: the number under which the target awaits the data.
    Wanted { operation: u64, number: u64 },
    /// To the target: the data is before this word.
    Sent { operation: u64 },
    /// To the target: a long get of one run of memory, whose data the origin awaits under this number.
    Fetch { operation: u64, displacement: i64, offset: i64, length: u64, number: u64 },
}

/// What is done with the target's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Act {
    Get,
    Put,
    /// Handles of the operation and of the basic datatype, both predefined.
    Accumulate {
        op: u32,
        number: u32,
        fetch: bool,
    },
    /// The data is what is compared, then what is put in its place.
    CompareAndSwap,
}

impl Act {
    /// Whether nobody else may combine numbers there meanwhile.
    pub fn is_atomic(self) -> bool {
        matches!(self, Act::Accumulate { .. } | Act::CompareAndSwap)
    }

    /// Whether the answer has what was there before.
    pub fn fetches(self) -> bool {
        match self {
            Act::Get | Act::CompareAndSwap => true,
            Act::Put => false,
            Act::Accumulate { fetch, .. } => fetch,
        }
    }

    /// Bytes of data that come with a piece of `bytes` bytes; None when anything may.
    pub fn data(self, bytes: usize) -> Option<usize> {
        match self {
            Act::Get => Some(0),
            Act::Put => Some(bytes),
            Act::Accumulate { op, .. } if op == MPI_NO_OP => None,
            Act::Accumulate { .. } => Some(bytes),
            Act::CompareAndSwap => Some(2 * bytes),
        }
    }
}

impl Word {
    /// As bytes, in memory that is empty. Data may follow.
    pub fn within(&self, memory: Vec<u8>) -> Vec<u8> {
        postcard::to_extend(self, memory).expect("words serialize into memory")
    }

    /// The word, and the data behind it; None for what is no word.
    pub fn of(bytes: &[u8]) -> Option<(Word, &[u8])> {
        postcard::take_from_bytes(bytes).ok()
    }
}

/// An error as it travels.
pub(super) fn packed(error: &Error) -> (i32, String) {
    (error.class as i32, error.text.clone())
}

pub(super) fn unpacked((class, text): (i32, String)) -> Error {
    let class = Class::ALL.iter().find(|known| **known as i32 == class);
    Error::new(class.copied().unwrap_or(Class::Other), text)
}
