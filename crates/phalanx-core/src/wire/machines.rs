//! The messages between a message passing program's launcher and the executors, with one link for each machine.
//!
//! The machine makes an offer. It gets its part of the program, and what the user delegates to it. Then it gets the
//! files, which go into a folder of their own. The ranks are started. Until all have ended, their messages and output are
//! sent back. If the link ends, so do the ranks.

use super::Given;
use super::ranks::{FromRank, ToRank};
use crate::level::LevelSet;
use core::fmt;
use core::net::IpAddr;
use core::time::Duration;
use serde::{Deserialize, Serialize};

/// Limit on a body, in bytes: a piece of a file, of standard input, or of output.
pub const MOST_PIECE: usize = 64 << 10;
/// Flow control: limit on the bytes of pieces that the other end has not acknowledged.
pub const WINDOW: usize = 1 << 20;
/// Limit on the name of a file, in bytes.
pub const MOST_NAME: usize = 4096;

/// The program that a process runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its index in the command line, from 0.
    pub app: u32,
    /// The program and its arguments, as bytes, because arguments need not be UTF-8.
    pub command: Vec<Vec<u8>>,
    /// Added to the environment of the process that starts it.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    /// The working directory; `None`: the same as for all on the machine.
    pub folder: Option<Vec<u8>>,
}

/// The part of a program, or of a spawned world, that runs on one machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The number of the world's first process. 0 unless the world was spawned.
    pub base: u32,
    /// The number of processes of the world.
    pub size: u32,
    /// The number of the first process on this machine.
    pub first: u32,
    /// A secret that only this program's processes know.
    pub secret: [u8; 32],
    /// For each program, the number of consecutive ranks that run it.
    pub programs: Vec<(u32, Program)>,
    /// A process that makes no progress for this long counts as lost, and is ended; `None`: no limit.
    pub patience: Option<Duration>,
}

impl Part {
    /// The number of its ranks. If the sum overflows, a number beyond the limit.
    pub fn count(&self) -> u32 {
        self.programs.iter().fold(0, |sum, (count, _)| sum.saturating_add(*count))
    }

    /// The ranks and their programs.
    pub fn ranks<'a>(&'a self) -> impl Iterator<Item = (u32, &'a Program)> {
        let each = |(count, program): &'a (u32, Program)| std::iter::repeat_n(program, *count as usize);
        (self.first..).zip(self.programs.iter().flat_map(each))
    }
}

/// An output stream of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Source {
    /// The rank.
    pub rank: u32,
    /// Which of its streams.
    pub kind: Kind,
}

/// Standard output or standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// With this exit status.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
    /// It was never started, with the reason.
    Unstarted(String),
    /// Unknown, because its machine is gone, with the reason.
    Unseen(String),
}

/// How the places of an executor are used, as far as one of its users may know. No other user is named.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// All places.
    pub capacity: u32,
    /// Places that the user's own programs hold.
    pub own: u32,
    /// Places that other users hold.
    pub others: u32,
    /// How many other users hold places.
    pub users: u32,
    /// How many users wait for places.
    pub waiting: u32,
    /// The user's number among those, from 1 on, in the order in which free places are given. 0: the user does not wait.
    pub turn: u32,
}

impl Usage {
    /// Who holds the places, for the user. `None`: they are all free.
    pub fn holders(&self) -> Option<String> {
        let own = (self.own > 0).then(|| format!("{} by your own programs", self.own));
        let users = if self.users == 1 { "another user".to_owned() } else { format!("{} other users", self.users) };
        let others = (self.others > 0).then(|| format!("{} by {users}", self.others));
        let all: Vec<String> = own.into_iter().chain(others).collect();
        (!all.is_empty()).then(|| all.join(" and "))
    }

    /// The user's number in the queue, for the user. `None`: the user does not wait.
    pub fn queue(&self) -> Option<String> {
        (self.turn > 0).then(|| match self.waiting {
            0 | 1 => "no other user waits".to_owned(),
            all => format!("of {all} users who wait you are number {}", self.turn),
        })
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (taken, capacity) = (self.own.saturating_add(self.others), self.capacity);
        write!(f, "{taken} of {capacity} places are taken")?;
        self.holders().iter().try_for_each(|holders| write!(f, ", {holders}"))?;
        self.queue().iter().try_for_each(|queue| write!(f, "; {queue}"))
    }
}

/// From a launcher to a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum ToMachine {
    /// First message: a program of the user, identified by its own random token, asks for an offer. Places used by the
    /// interpreters of the program's manager count as its own. Until the program begins, places for `wants` ranks are kept
    /// for it as they become free, and other users are asked for them. The program may ask again.
    Ask { program: [u8; 16], wants: u32 },
    /// Reserve places for this part, which is number `machine` of the program's `machines`. A restarted program is
    /// recognized by `program`. It finds its folder unchanged if an earlier link of it is still there.
    Begin { part: Part, machine: u32, machines: Vec<IpAddr>, program: [u8; 16] },
    /// The user's delegation and names of machines, for the ranks here and for the processes that these ranks start. A later
    /// message replaces an earlier one.
    Delegation { given: Given },
    /// A file follows in pieces, up to the next file. Folders in its name are made.
    File { name: String, executable: bool },
    /// The next bytes of the file, in the body.
    Piece,
    /// All files are there: start the ranks.
    Start,
    /// Pass a message to these ranks.
    Tell { ranks: Vec<u32>, message: ToRank },
    /// Send every process a signal.
    Signal { number: i32 },
    /// The next bytes of rank 0's standard input, in the body. An empty body is its end.
    Input,
    /// This many bytes of output were written.
    Taken { bytes: u32 },
    /// Heartbeat of the launcher.
    Beat,
    /// Before `Start`: the ranks save files of their own, from which the program is restarted after a loss. It was restarted
    /// so often, and goes on from this step.
    Survive { restarts: u32, step: Option<u64> },
    /// Send the files of this step of all ranks here.
    Fetch { step: u64 },
    /// Files of older steps may be removed, except those that are being sent.
    Release { step: u64 },
    /// This many bytes of such files were written.
    Stored { bytes: u32 },
}

/// From a machine to a launcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum FromMachine {
    /// The number of ranks that this machine can have, how many places are free now for the asking program, and how many
    /// would be if other users gave back what they have above their shares (`fair`). `usage`: who holds the places. `closed`: why
    /// the machine takes no ranks now.
    Offer { capacity: u32, free: u32, fair: u32, usage: Usage, phalanx: String, closed: Option<String> },
    /// The places are reserved. For each machine, the levels that links with its ranks may have, for each mark. The
    /// certificate, in DER, is the one with which the ranks here can act for their user.
    Begun { levels: Vec<[LevelSet; 3]>, certificate: Vec<u8> },
    /// The request is refused, with the reason.
    Refused { reason: String },
    /// This many bytes of files, or of standard input, were written.
    Taken { bytes: u32 },
    /// The ranks are started.
    Started,
    /// A message of a rank to the launcher.
    Said { rank: u32, message: FromRank },
    /// A rank sent bytes that are not a message.
    Nonsense { rank: u32 },
    /// The next bytes of an output stream, in the body. An empty body is its end.
    Output { source: Source },
    /// A rank has ended.
    Ended { rank: u32, exit: Exit },
    /// All output was sent.
    Drained,
    /// Heartbeat of the machine.
    Beat,
    /// The machine is closed, and why. Its ranks are ended.
    Closed { why: String },
    /// A rank has completed its files of a step.
    Completed { rank: u32, step: u64 },
    /// One of these files follows in pieces, up to the next file: its name in the rank's folder, and its length.
    StepFile { rank: u32, step: u64, name: String, length: u64 },
    /// The next bytes of this file, in the body.
    StepPiece,
    /// All files of this step were sent; or the reason why not.
    Fetched { step: u64, outcome: Result<(), String> },
}
