//! What a message passing program's launcher and its processes say to each other, and how a process is told which rank it
//! has.
//!
//! ```text
//! | length, u32 little endian | message |      on the control socket, both ways
//! ```

use super::universe::{Answer, Question, Side};
use crate::error::WireError;
use crate::level::Levels;
use core::net::{IpAddr, SocketAddr};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::fmt;
use std::str::FromStr;

/// The environment variable in which a process finds its [`Seat`].
pub const RANK: &str = "PHALANX_RANK";
/// The same for the folder of a BSP program's checkpoints on this machine.
pub const CHECKPOINTS: &str = "PHALANX_CHECKPOINTS";
/// The same for the supersteps from one checkpoint to the next, where the user says how many.
pub const CHECKPOINT_EVERY: &str = "PHALANX_CHECKPOINT_EVERY";
/// The same for how many processes a program on executors could have at its start (MPI_UNIVERSE_SIZE).
pub const UNIVERSE: &str = "PHALANX_UNIVERSE";
/// The same for what the user calls a slow machine: a [`Limit`](crate::spmd::Limit).
pub const MOVE_SLOW: &str = "PHALANX_MOVE_SLOW";
/// Longest message of a process to its launcher, in bytes.
pub const MOST_FROM_RANK: usize = 1 << 19;
/// Longest message of a launcher, in bytes: a table of all ranks.
pub const MOST_TO_RANK: usize = 1 << 26;
/// Longest text that a process gives with an abort, in bytes; what is beyond is cut.
pub const MOST_TEXT: usize = 4096;
/// Longest certificate of a process, in bytes.
pub const MOST_CERTIFICATE: usize = 2048;
/// Most processes of a program, those that it starts itself among them: in all, not at a time.
pub const MOST_RANKS: u32 = 1 << 16;

/// From a process to its launcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromRank {
    /// It has begun to pass messages (MPI_Init). `listens`: where the ranks of other machines reach it; needed where the
    /// program has more than one machine.
    Joined { listens: Option<Listens> },
    /// It will pass no more messages, and may end (MPI_Finalize).
    Finalized,
    /// It ends the whole program (MPI_Abort).
    Abort { code: i32, text: String },
    /// A BSP program, started again, goes on from this superstep; from 0 before its first checkpoint.
    Saved { superstep: u32 },
    /// It asks something; the answer has the same number.
    Ask { number: u32, question: Question },
    /// It is to be connected with a process of another world.
    Meet { process: u32 },
    /// Where that process, which it is to meet, reaches it, as it was asked for.
    Listens { process: u32, listens: Listens },
    /// It has revoked a communicator with this context, of these processes (ULFM, MPIX_Comm_revoke).
    Revoke { context: u64, processes: Vec<u32> },
    /// The machine of this process of a BSP program is to be left at the next checkpoint.
    Leave { process: u32, why: Why },
}

/// Why a machine is to be left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// The process asks for it.
    Asked,
    /// So many of its steps in a row took so many tenths of the time that other machines needed.
    Slow { steps: u32, tenths: u32 },
}

/// Where a process is reached, and how it proves that it is itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listens {
    /// Without an address of its own (`0.0.0.0`), that of its machine counts.
    pub address: SocketAddr,
    /// In DER; its key never leaves the process.
    pub certificate: Vec<u8>,
}

/// From a launcher to one of its processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToRank {
    /// All have joined: where each rank is reached, in their order. Only of a program on more than one machine.
    Table { entries: Vec<Entry> },
    /// This rank will not be heard of again; the text names its machine and the cause.
    Lost { rank: u32, text: String },
    /// That rank ends the program with this code; this process is about to be ended.
    Abort { rank: u32, code: i32, text: String },
    /// The answer to what it asked.
    Answer { number: u32, answer: Answer },
    /// It was started by these: first message to a process of a world that was spawned.
    Born { parents: Side },
    /// A connection with that process comes with this message.
    Met { process: u32 },
    /// It is to be connected with that process, on an executor: where does it listen?
    Listen { process: u32 },
    /// Both listen: the entries of the two, of which the second calls the first.
    Connect { process: u32, entries: Vec<Entry> },
    /// That process, which it was to meet, has left the program as it should.
    Left { process: u32 },
    /// Another process has revoked the communicator with this context.
    Revoked { context: u64 },
    /// To process 0 of a BSP program: make a checkpoint at the next place for one.
    Save,
}

/// One rank, as another machine's ranks reach it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The machine's number in this program; ranks of one machine have the same.
    pub machine: u32,
    pub listens: Listens,
    /// How links between the reader's machine and this one are protected.
    pub levels: Levels,
}

/// A message with its length before it, for a control socket.
pub fn frame(message: &impl Serialize) -> Vec<u8> {
    let mut bytes = postcard::to_extend(message, vec![0; 4]).expect("messages of this crate serialize into memory");
    let length = (bytes.len() - 4) as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// Takes messages out of bytes as they come.
#[derive(Debug)]
pub struct Messages {
    most: usize,
    bytes: Vec<u8>,
}

impl Messages {
    /// For messages of at most so many bytes.
    pub fn new(most: usize) -> Messages {
        Messages { most, bytes: Vec::new() }
    }

    /// Takes the next bytes that came.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next message, once it is whole. After an error nothing that comes can be understood any more.
    pub fn take<M: DeserializeOwned>(&mut self) -> Result<Option<M>, WireError> {
        let Some(head) = self.bytes.first_chunk() else { return Ok(None) };
        let length = u32::from_le_bytes(*head) as usize;
        if length > self.most {
            return Err(WireError::BodyTooLong { is: length as u64, most: self.most as u64 });
        }
        let Some(body) = self.bytes.get(4..4 + length) else { return Ok(None) };
        let message = super::decode(body)?;
        self.bytes.drain(..4 + length);
        Ok(Some(message))
    }
}

/// What a process of a program is told at its start: who it is, and what it shares with the others of its machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    pub rank: u32,
    pub size: u32,
    /// The number of the world's first process in the universe; 0 but for worlds that were spawned.
    pub base: u32,
    /// Which of the programs in the command line this is, from 0 (MPI_APPNUM).
    pub app: u32,
    /// File descriptor of the control socket.
    pub control: i32,
    /// File descriptor of the memory that the machine's ranks share, and its length in bytes.
    pub segment: i32,
    pub bytes: u64,
    /// File descriptors of the doorbells of ranks `first`, `first + 1`, …
    pub bells: Vec<i32>,
    /// This machine has the ranks `first .. first + local`.
    pub first: u32,
    pub local: u32,
    /// Known to this program's processes only.
    pub secret: [u8; 32],
    /// Where those of other machines reach this one; none where nobody has to.
    pub address: Option<IpAddr>,
}

impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seat { rank, size, base, app, control, segment, bytes, first, local, .. } = self;
        write!(
            f,
            "rank={rank} size={size} base={base} app={app} control={control} segment={segment} bytes={bytes} bells="
        )?;
        for (index, bell) in self.bells.iter().enumerate() {
            write!(f, "{}{bell}", if index == 0 { "" } else { "," })?;
        }
        write!(f, " first={first} local={local} secret=")?;
        self.secret.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        self.address.iter().try_for_each(|address| write!(f, " address={address}"))
    }
}

impl FromStr for Seat {
    type Err = String;

    /// Reads what [`Seat`]'s `Display` wrote; pairs that it does not know are passed over.
    fn from_str(text: &str) -> Result<Seat, String> {
        let seat = Seat {
            rank: number(text, "rank")?,
            size: number(text, "size")?,
            base: number(text, "base")?,
            app: number(text, "app")?,
            control: number(text, "control")?,
            segment: number(text, "segment")?,
            bytes: number(text, "bytes")?,
            bells: value(text, "bells")?.split(',').map(|bell| read(bell, "bells")).collect::<Result<_, _>>()?,
            first: number(text, "first")?,
            local: number(text, "local")?,
            secret: secret(value(text, "secret")?).ok_or("the secret is not 64 digits")?,
            address: value(text, "address").ok().map(|word| read(word, "address")).transpose()?,
        };
        let Seat { rank, size, base, first, local, .. } = seat;
        let fits = base.checked_add(size).is_some_and(|end| end <= MOST_RANKS);
        let last = first.checked_add(local).filter(|last| *last <= size && fits);
        let consistent = last.is_some_and(|last| (first..last).contains(&rank)) && seat.bells.len() == local as usize;
        consistent.then_some(seat).ok_or_else(|| format!("{RANK} contradicts itself"))
    }
}

fn value<'a>(text: &'a str, key: &str) -> Result<&'a str, String> {
    let mut pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| *name == key).map(|(_, value)| value).ok_or_else(|| format!("{RANK} does not say {key}"))
}

fn number<T: FromStr>(text: &str, key: &str) -> Result<T, String> {
    value(text, key).and_then(|word| read(word, key))
}

fn read<T: FromStr>(word: &str, key: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("{RANK} says {key}={word}"))
}

fn secret(digits: &str) -> Option<[u8; 32]> {
    let bytes = digits.as_bytes();
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let mut secret = [0; 32];
    if bytes.len() != 2 * secret.len() {
        return None;
    }
    for (byte, pair) in secret.iter_mut().zip(bytes.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat() -> Seat {
        let bells = vec![7, 8, 9, 10];
        let secret = core::array::from_fn(|index| index as u8 * 8);
        let (first, local, address) = (4, 4, "10.0.0.2".parse().ok());
        let (rank, size, base, app, bytes) = (5, 8, 16, 1, 1 << 40);
        Seat { rank, size, base, app, control: 5, segment: 6, bytes, bells, first, local, secret, address }
    }

    #[test]
    fn a_seat_is_read_as_it_was_written() {
        assert_eq!(seat().to_string().parse(), Ok(seat()));
        assert_eq!(format!("later=word {}", seat()).parse(), Ok(seat()));
    }

    #[test]
    fn a_seat_that_makes_no_sense_is_refused() {
        let text = seat().to_string();
        for (from, to) in [
            ("rank=5", "rank=3"),
            ("size=8", "size=7"),
            ("size=8", "size=4000000000"),
            ("first=4", "first=4294967295"),
            ("base=16", "base=65530"),
            ("base=16", "base=4294967295"),
            ("bells=7,", "bells="),
            ("bells=7,", "bells=x,"),
            ("secret=00", "secret="),
            ("secret=00", "secret=0g"),
            (" control=5", ""),
            ("address=10", "address=x"),
        ] {
            assert!(text.replace(from, to).parse::<Seat>().is_err(), "{from} -> {to}");
        }
    }

    #[test]
    fn messages_come_out_whole_however_they_came_in() {
        let sent = [FromRank::Joined { listens: None }, FromRank::Abort { code: 3, text: "no".into() }];
        let bytes: Vec<u8> = sent.iter().flat_map(frame).collect();
        let (mut messages, mut got) = (Messages::new(MOST_FROM_RANK), Vec::new());
        for byte in bytes {
            messages.feed(&[byte]);
            got.extend(messages.take::<FromRank>().expect("is a message"));
        }
        assert_eq!(got, sent);
    }

    #[test]
    fn lengths_and_messages_that_nobody_sends_are_refused() {
        for bytes in [vec![255; 4], vec![1, 0, 0, 0, 77], vec![2, 0, 0, 0, 1, 1]] {
            let mut messages = Messages::new(MOST_FROM_RANK);
            messages.feed(&bytes);
            assert!(messages.take::<FromRank>().is_err(), "{bytes:?}");
        }
    }
}
