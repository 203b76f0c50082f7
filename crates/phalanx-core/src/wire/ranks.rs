//! The messages between a message passing program's launcher and its processes, and how a process learns its rank.
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

/// The environment variable with a process's [`Seat`].
pub const RANK: &str = "PHALANX_RANK";
/// The environment variable with the folder of a BSP program's checkpoints on this machine.
pub const CHECKPOINTS: &str = "PHALANX_CHECKPOINTS";
/// The environment variable with the number of supersteps between checkpoints, if the user gave one.
pub const CHECKPOINT_EVERY: &str = "PHALANX_CHECKPOINT_EVERY";
/// The environment variable with the folder in which a rank of a program that survives losses saves its files.
pub const SURVIVE: &str = "PHALANX_SURVIVE";
/// The environment variable with the number of restarts of such a program before this start.
pub const RESTARTED: &str = "PHALANX_RESTARTED";
/// The environment variable with the step of the checkpoint from which such a program goes on. Not set at its beginning.
pub const STEP: &str = "PHALANX_STEP";
/// The folder with the files that ranks have saved on a machine, within that of the program: a folder `rank-3` for each rank.
pub const SURVIVE_FOLDER: &str = ".phalanx-survive";
/// The environment variable with the number of processes that a program on executors could have at its start
/// (MPI_UNIVERSE_SIZE).
pub const UNIVERSE: &str = "PHALANX_UNIVERSE";
/// The environment variable with the user's definition of a slow machine: a [`Limit`](crate::spmd::Limit).
pub const MOVE_SLOW: &str = "PHALANX_MOVE_SLOW";
/// Limit on a message from a process to its launcher, in bytes.
pub const MOST_FROM_RANK: usize = 1 << 19;
/// Limit on a message from a launcher, in bytes. The longest is a table of all ranks.
pub const MOST_TO_RANK: usize = 1 << 26;
/// Limit on the text of an abort, in bytes. A longer text is cut.
pub const MOST_TEXT: usize = 4096;
/// Limit on a process's certificate, in bytes.
pub const MOST_CERTIFICATE: usize = 2048;
/// Limit on the processes that a program ever has, including those that it spawns.
pub const MOST_RANKS: u32 = 1 << 16;

/// From a process to its launcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum FromRank {
    /// The process has begun to pass messages (MPI_Init). `listens`: where ranks of other machines reach it. Required
    /// if the program runs on several machines.
    Joined { listens: Option<Listens> },
    /// The process will pass no more messages, and may end (MPI_Finalize).
    Finalized,
    /// The process ends the whole program (MPI_Abort).
    Abort { code: i32, text: String },
    /// A checkpoint was made: if the BSP program is restarted, it continues from this superstep. Before the first
    /// checkpoint it is 0.
    Saved { superstep: u32 },
    /// A question. Its answer has the same number.
    Ask { number: u32, question: Question },
    /// Connect this process with a process of another world.
    Meet { process: u32 },
    /// The answer to `Listen`: where that other process can reach this one.
    Listens { process: u32, listens: Listens },
    /// The process has revoked the communicator with this context and these processes (ULFM, MPIX_Comm_revoke).
    Revoke { context: u64, processes: Vec<u32> },
    /// The machine of this process of a BSP program should be left at the next checkpoint.
    Leave { process: u32, why: Why },
    /// The connection with that process has ended, and the launcher has not said in time that the process is lost.
    Cut { process: u32 },
}

/// Why a machine is to be left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum Why {
    /// The process asks for it.
    Asked,
    /// In this many steps in a row, the machine took this many tenths of the time of others.
    Slow { steps: u32, tenths: u32 },
}

/// Where a process is reached, and how it authenticates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listens {
    /// If the IP is unspecified (`0.0.0.0`), the IP of its machine is used.
    pub address: SocketAddr,
    /// In DER. Its key never leaves the process.
    pub certificate: Vec<u8>,
}

/// From a launcher to one of its processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum ToRank {
    /// All ranks have joined. Where each of them is reached, in order. Only for programs on more than one machine.
    Table { entries: Vec<Entry> },
    /// This rank is lost for good. The text names its machine and the cause.
    Lost { rank: u32, text: String },
    /// That rank ends the program with this code. The receiving process will be ended soon.
    Abort { rank: u32, code: i32, text: String },
    /// The answer to a question.
    Answer { number: u32, answer: Answer },
    /// First message to a process of a spawned world: its parents.
    Born { parents: Side },
    /// This message carries a connection with that process.
    Met { process: u32 },
    /// Asks where this process listens for that process, which is on an executor.
    Listen { process: u32 },
    /// Both processes listen. The entries are of both; the second process connects to the first.
    Connect { process: u32, entries: Vec<Entry> },
    /// The process that it was to meet has left the program regularly.
    Left { process: u32 },
    /// Another process has revoked the communicator with this context.
    Revoked { context: u64 },
    /// To process 0 of a BSP program: make a checkpoint at the next possible place.
    Save,
}

/// One rank, as ranks of another machine reach it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The number of its machine in this program. Ranks of one machine share it.
    pub machine: u32,
    /// Where the rank is reached.
    pub listens: Listens,
    /// The levels of links between the reader's machine and this one.
    pub levels: Levels,
}

/// A message with its length in front, for a control socket.
pub fn frame(message: &impl Serialize) -> Vec<u8> {
    let mut bytes = postcard::to_extend(message, vec![0; 4]).expect("messages of this crate serialize into memory");
    let length = (bytes.len() - 4) as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// Extracts messages from bytes as they arrive.
#[derive(Debug)]
pub struct Messages {
    most: usize,
    bytes: Vec<u8>,
}

impl Messages {
    /// For messages of at most `most` bytes.
    pub fn new(most: usize) -> Messages {
        Messages { most, bytes: Vec::new() }
    }

    /// Adds bytes that have arrived.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next message, if it is complete. After an error, no later bytes can be understood.
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

/// What a process is told at its start: its rank, and the resources that it shares with the other ranks of its machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    /// Its rank in its world.
    pub rank: u32,
    /// The number of processes of its world.
    pub size: u32,
    /// The number of the world's first process in the universe. 0 unless the world was spawned.
    pub base: u32,
    /// The index of its program in the command line, from 0 (MPI_APPNUM).
    pub app: u32,
    /// File descriptor of the control socket.
    pub control: i32,
    /// File descriptor of the memory shared by the machine's ranks.
    pub segment: i32,
    /// Length of this memory, in bytes.
    pub bytes: u64,
    /// File descriptors of the doorbells of ranks `first`, `first + 1`, …
    pub bells: Vec<i32>,
    /// The first rank of this machine, which has the ranks `first .. first + local`.
    pub first: u32,
    /// The number of ranks on this machine.
    pub local: u32,
    /// A secret that only this program's processes know.
    pub secret: [u8; 32],
    /// Where ranks of other machines reach this one; `None` if there are none.
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

    /// Parses the output of [`Seat`]'s `Display`. Unknown pairs are ignored.
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
