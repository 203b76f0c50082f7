//! How frames get from one process to another: through shared memory on one machine, over sockets between machines.
//!
//! A frame is a [`Header`] and its payload. Frames of one process to another arrive in order; a long one goes in chunks.

mod bell;
mod channel;
mod memory;
mod segment;

pub use bell::Bell;
pub use channel::{Chunk, Receiver, Sender};
pub use memory::{CAN_READ_MEMORY, read_memory};
pub use segment::{Segment, segment_bytes};

/// What a frame is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// A message with its data.
    Eager = 1,
    /// A message whose data stays with the sender until a receive is found. Payload: the data's length and its address;
    /// `id`: the send.
    Offer = 2,
    /// A receive was found for what was offered. `id`: the send; payload: the receive.
    Wanted = 3,
    /// The data of what was offered. `id`: the receive.
    Data = 4,
    /// A synchronous send has been matched, or what was offered has been read. `id`: the send.
    Matched = 5,
    /// The sender wants its offer back. `id`: the send.
    Withdraw = 6,
    /// The answer. `id`: the send; payload: 1 if it got it back.
    Withdrawn = 7,
    /// A word to a service beside the messages, delivered whole. `context`: the service's.
    Aside = 8,
}

impl Kind {
    /// None for a number that no process of this version sends.
    pub fn of(number: u16) -> Option<Kind> {
        use Kind::*;
        [Eager, Offer, Wanted, Data, Matched, Withdraw, Withdrawn, Aside]
            .into_iter()
            .find(|kind| *kind as u16 == number)
    }
}

/// The send is synchronous: the receiver says when it is matched.
pub const SYNCHRONOUS: u16 = 1;

/// What stands before a frame's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Header {
    pub context: u64,
    /// Of the payload, in bytes.
    pub length: u64,
    pub id: u64,
    /// The sender's rank in the communicator.
    pub source: i32,
    pub tag: i32,
    pub kind: u16,
    pub flags: u16,
}
