//! What a message passing program's launcher and the executors say to each other, on one link for each machine.
//!
//! A machine offers; it is given its part of the program and then its files, which are in a folder of their own; the ranks
//! are started; and until all have ended, what they say and write comes back. The end of the link ends them.

use super::ranks::{FromRank, ToRank};
use crate::level::LevelSet;
use core::net::IpAddr;
use core::time::Duration;
use serde::{Deserialize, Serialize};

/// Longest body: a piece of a file, of standard input, or of output, in bytes.
pub const MOST_PIECE: usize = 64 << 10;
/// Bytes of pieces on the way that the other end has not yet said it took.
pub const WINDOW: usize = 1 << 20;
/// Longest name of a file, in bytes.
pub const MOST_NAME: usize = 4096;

/// What a process is to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Which of the programs in the command line it is, from 0.
    pub app: u32,
    /// The program and its arguments, as bytes: the system's words need not be UTF-8.
    pub command: Vec<Vec<u8>>,
    /// Beside those of the process that starts it.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    /// Where it runs; none: where all of the machine do.
    pub folder: Option<Vec<u8>>,
}

/// The part of a program, or of a world that it has spawned, that one machine has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The number of the world's first process; 0 but for worlds that were spawned.
    pub base: u32,
    /// Processes of the world, and the number of the first one here.
    pub size: u32,
    pub first: u32,
    pub secret: [u8; 32],
    /// For each program how many of the following ranks run it.
    pub programs: Vec<(u32, Program)>,
    /// A process that stands still for so long is lost, and is ended; none: it may.
    pub patience: Option<Duration>,
}

impl Part {
    /// How many ranks it has; more than there can be where the sum makes no sense.
    pub fn count(&self) -> u32 {
        self.programs.iter().fold(0, |sum, (count, _)| sum.saturating_add(*count))
    }

    /// The ranks with what they run.
    pub fn ranks<'a>(&'a self) -> impl Iterator<Item = (u32, &'a Program)> {
        let each = |(count, program): &'a (u32, Program)| std::iter::repeat_n(program, *count as usize);
        (self.first..).zip(self.programs.iter().flat_map(each))
    }
}

/// Which stream of which rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Source {
    pub rank: u32,
    pub kind: Kind,
}

/// Standard output or error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    Output,
    Error,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// With this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// It never began, and why.
    Unstarted(String),
    /// Nobody has seen it: its machine is gone, and why.
    Unseen(String),
}

/// From a launcher to a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToMachine {
    /// First message: a program of the user, which gave itself this token, asks what it can have. The places that its
    /// manager's interpreters use are its own.
    Ask { program: [u8; 16] },
    /// Keep places for this part, that of the number `machine` of the program's `machines`. A program that is started again
    /// is known by `program`, and finds its folder as it was where an earlier link of it still is.
    Begin { part: Part, machine: u32, machines: Vec<IpAddr>, program: [u8; 16] },
    /// A file follows in pieces, up to the next one; folders in its name are made.
    File { name: String, executable: bool },
    /// The next bytes of the file; they are the body.
    Piece,
    /// All files are there: start the ranks.
    Start,
    /// Give these ranks a message.
    Tell { ranks: Vec<u32>, message: ToRank },
    /// Send every process a signal.
    Signal { number: i32 },
    /// The next bytes of rank 0's standard input, the body; an empty one: its end.
    Input,
    /// So many bytes of output were written.
    Taken { bytes: u32 },
    /// The launcher lives.
    Beat,
}

/// From a machine to a launcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromMachine {
    /// How many ranks this machine can have, and how many of these places are free now for the program that asked.
    Offer { capacity: u32, free: u32, phalanx: String },
    /// The places are kept. For each of the machines, what links with ranks there may have, for each mark.
    Begun { levels: Vec<[LevelSet; 3]> },
    /// It does not do what was asked, and why.
    Refused { reason: String },
    /// So many bytes of files, or of standard input, have been written.
    Taken { bytes: u32 },
    /// The ranks are started.
    Started,
    /// A rank said something to the launcher.
    Said { rank: u32, message: FromRank },
    /// What it said is no message.
    Nonsense { rank: u32 },
    /// The next bytes of a stream are the body; an empty one: its end.
    Output { source: Source },
    /// A rank has ended.
    Ended { rank: u32, exit: Exit },
    /// All output was sent.
    Drained,
    /// The machine lives.
    Beat,
}
