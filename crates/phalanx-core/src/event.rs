//! What goes into the flow engine, what comes out of it, and the facts it leaves behind.

use crate::ids::{InterpreterId, RunId, TaskId};
use crate::level::{Level, Levels};
use crate::wire::{FromInterpreter, ToInterpreter, Tokens};
use bytes::Bytes;
use serde::Serialize;

/// Something that happened at a manager.
#[derive(Debug)]
pub enum Event {
    /// An interpreter is ready to be fed.
    Recruited { id: InterpreterId, name: String, machine: String, pid: u32, level: Level },
    /// One of the recruits that were commanded cannot be had now.
    RecruitFailed { reason: String },
    /// An interpreter answered.
    Message { id: InterpreterId, message: FromInterpreter, body: Bytes },
    /// Bytes arrived from an interpreter, whole message or not: it lives.
    Heard { id: InterpreterId },
    /// The process of an interpreter that may be silent was seen to live; told again before each tick.
    Alive { id: InterpreterId },
    /// An interpreter's link ended.
    Lost { id: InterpreterId, cause: Cause },
    /// Little time passed, while an interpreter had nothing to do.
    Look,
    /// Time passed.
    Tick,
}

/// Why an interpreter was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// Its process ended, so what it was firing is under suspicion.
    Died { how: String },
    /// It ended with the executor that had started it, which says no more how: that is not the fault of a task.
    Gone { how: String },
    /// Nothing was heard from it for this many milliseconds: frozen, or its cable is cut.
    Silent { milliseconds: u64 },
    /// What arrived is not what the other end sent: somebody on the wire altered it.
    Attacked,
    /// It broke the protocol.
    Protocol { what: String },
}

impl Cause {
    /// Whether what it was firing is to blame, as far as is known.
    pub fn accuses(&self) -> bool {
        matches!(self, Cause::Died { .. } | Cause::Protocol { .. })
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cause::Died { how } => write!(f, "died: {how}"),
            Cause::Gone { how } => write!(f, "is gone: {how}"),
            Cause::Silent { milliseconds } => write!(f, "silent for {milliseconds} ms (frozen, or cut off)"),
            Cause::Attacked => write!(f, "was cut off: what arrived is not what the other end sent"),
            Cause::Protocol { what } => write!(f, "broke the protocol: {what}"),
        }
    }
}

/// What the driver is to do.
#[derive(Debug)]
pub enum Command {
    /// Send a message; the commands' order is the order on the link.
    Send { to: InterpreterId, message: ToInterpreter, body: Vec<Bytes> },
    /// Find one more interpreter; answered by `Recruited` or `RecruitFailed`.
    Recruit,
    /// Close the link and end the process.
    Dismiss { id: InterpreterId },
    /// Hand an outcome to whoever reads the run.
    Deliver { run: RunId, outcome: Outcome },
    /// Write a fact into the journal.
    Record(Fact),
}

/// What a run gives to its reader.
#[derive(Debug)]
pub enum Outcome {
    /// Results of the tasks `first ..`, one a token.
    Results { first: TaskId, tokens: Tokens },
    /// The task raised; `error` is the pickled exception as the interpreter `by` sent it.
    Raised { task: TaskId, error: Bytes, by: String },
    /// Firing the task ended these interpreters, one after the other. Of the token only its `bytes` are told, about,
    /// since unpickling it may end the reader too.
    Culprit { task: TaskId, bytes: u64, killed: Vec<String> },
    /// The contract on time is not met. `asked` and `reached` are tasks a second, or seconds.
    Unmet { asked: f64, reached: f64, why: String },
    /// Every result was delivered.
    Ended,
    /// No interpreter is left and none can be recruited; `losses` says what happened to them. Without `recruited`
    /// there never was one.
    Abandoned { losses: Vec<String>, recruited: bool },
}

impl Outcome {
    /// How many tasks this settles.
    pub fn tasks(&self) -> u32 {
        match self {
            Outcome::Results { tokens, .. } => tokens.count(),
            Outcome::Raised { .. } | Outcome::Culprit { .. } => 1,
            Outcome::Unmet { .. } | Outcome::Ended | Outcome::Abandoned { .. } => 0,
        }
    }
}

/// A line of the journal. Bytes count bodies; `busy` and `protection` are nanoseconds, the latter what the
/// interpreter's end of the link has spent in cryptography so far.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum Fact {
    Recruited {
        interpreter: InterpreterId,
        name: String,
        machine: String,
        pid: u32,
        level: Level,
    },
    RecruitFailed {
        reason: String,
    },
    /// How an interpreter's link is protected, and what decided that. A `weaker` one has less than without the user's
    /// explicit words.
    Protected {
        interpreter: InterpreterId,
        levels: Levels,
        why: [String; 3],
        weaker: bool,
    },
    Fired {
        interpreter: InterpreterId,
        run: RunId,
        instruction: u16,
        tasks: u32,
        bytes: u64,
    },
    Answered {
        interpreter: InterpreterId,
        run: RunId,
        instruction: u16,
        tasks: u32,
        bytes: u64,
        busy: u64,
        protection: u64,
    },
    /// Tokens that an instruction gave stayed where they were made, and the next one was fired on each at once.
    Stayed {
        interpreter: InterpreterId,
        run: RunId,
        instruction: u16,
        bytes: u64,
        busy: u64,
    },
    Raised {
        interpreter: InterpreterId,
        run: RunId,
        task: TaskId,
    },
    Returned {
        interpreter: InterpreterId,
        tasks: u32,
    },
    /// What `of` holds for too long was fired at `interpreter` too.
    Doubled {
        interpreter: InterpreterId,
        of: InterpreterId,
        run: RunId,
        tasks: u32,
    },
    /// An answer came second, and was dropped.
    Dropped {
        interpreter: InterpreterId,
        run: RunId,
        tasks: u32,
        bytes: u64,
        busy: u64,
        protection: u64,
    },
    Lost {
        interpreter: InterpreterId,
        cause: String,
        tasks: u32,
    },
    Delivered {
        run: RunId,
        tasks: u32,
    },
    /// What went over an interpreter's link, told when the link ends; one number for each level, from nothing to
    /// everything. `protection` is what this end has spent.
    Spent {
        interpreter: InterpreterId,
        bytes: [u64; Level::ALL.len()],
        protection: [u64; Level::ALL.len()],
    },
    /// The contract asks for another number of interpreters now.
    Wanted {
        interpreters: u32,
    },
    /// The contract needs the interpreter no more: it was let go, with nothing in flight.
    Released {
        interpreter: InterpreterId,
    },
    /// How a contract on time is kept for a run: so far, then as a whole. `asked` and `reached` are tasks a second, or
    /// seconds from the first task to the last result, which are expected while it goes on.
    Contract {
        run: RunId,
        asked: f64,
        reached: f64,
        met: bool,
        why: Option<String>,
    },
    /// The program ended and let the interpreter go.
    Dismissed {
        interpreter: InterpreterId,
    },
}
