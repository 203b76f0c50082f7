//! How frames get from one process to another: through shared memory on one machine, over sockets between machines.
//!
//! A frame is a [`Header`] and its payload. Frames of one process to another arrive in order; a long one goes in chunks.

mod bell;
mod channel;
mod connection;
mod cut;
mod link;
mod links;
mod memory;
mod order;
mod parting;
mod readable;
mod segment;
mod watched;

pub use bell::{Bell, Sleepers, Woken};
pub use channel::{INLINE, Receiver, Sender};
pub use link::{Arrived, Link, Place};
pub use links::Listening;
pub use memory::{CAN_READ_MEMORY, read_memory};
pub use order::{agree, order_all, order_own};
pub use parting::part;
pub use readable::Readable;
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
    /// The answer: it is not looked for any more, or asked for already. `id`: the send.
    Withdrawn = 7,
    /// A word to a service beside the messages, delivered whole. `context`: the service's.
    Aside = 8,
    /// The sender has left the program (MPI_Finalize): the connection's end is no loss.
    Farewell = 9,
    /// So many bytes of messages with their data were taken out of the receiver's memory. Payload: their number.
    Credit = 10,
}

impl Kind {
    /// None for a number that no process of this version sends.
    pub fn of(number: u16) -> Option<Kind> {
        use Kind::*;
        [Eager, Offer, Wanted, Data, Matched, Withdraw, Withdrawn, Aside, Farewell, Credit]
            .into_iter()
            .find(|kind| *kind as u16 == number)
    }
}

/// The send is synchronous: the receiver says when it is matched.
pub const SYNCHRONOUS: u16 = 1;
/// The receive fails.
pub const FAILED: u16 = 2;

/// What stands before a frame's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Header {
    /// Messages of different contexts never match.
    pub context: u64,
    /// Of the payload, in bytes.
    pub length: u64,
    /// The number of the send or the receive that the frame is about.
    pub id: u64,
    /// The sender's rank in the communicator.
    pub source: i32,
    /// The tag that the sender gave.
    pub tag: i32,
    /// The number of the frame's [`Kind`].
    pub kind: u16,
    /// [`SYNCHRONOUS`] and [`FAILED`].
    pub flags: u16,
}

/// Bytes of a header between machines.
pub const HEADER: usize = 36;

impl Header {
    /// As it goes to another machine: the fields in their order, little endian.
    pub fn bytes(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0..8].copy_from_slice(&self.context.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.id.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.source.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.tag.to_le_bytes());
        bytes[32..34].copy_from_slice(&self.kind.to_le_bytes());
        bytes[34..36].copy_from_slice(&self.flags.to_le_bytes());
        bytes
    }

    /// The reverse. Nothing that it says is checked yet.
    pub fn of(bytes: &[u8; HEADER]) -> Header {
        fn part<const N: usize>(bytes: &[u8; HEADER], at: usize) -> [u8; N] {
            std::array::from_fn(|index| bytes[at + index])
        }
        Header {
            context: u64::from_le_bytes(part(bytes, 0)),
            length: u64::from_le_bytes(part(bytes, 8)),
            id: u64::from_le_bytes(part(bytes, 16)),
            source: i32::from_le_bytes(part(bytes, 24)),
            tag: i32::from_le_bytes(part(bytes, 28)),
            kind: u16::from_le_bytes(part(bytes, 32)),
            flags: u16::from_le_bytes(part(bytes, 34)),
        }
    }
}
