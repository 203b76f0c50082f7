//! The events and commands of the flow engine, and the facts that it records.

use crate::ids::{InterpreterId, RunId, TaskId};
use crate::level::{Level, Levels};
use crate::needs::{Facts, Needs};
use crate::wire::{FromInterpreter, ToInterpreter, Tokens};
use bytes::Bytes;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// An event at a manager.
#[derive(Debug)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum Event {
    /// An interpreter is ready for work.
    Recruited { id: InterpreterId, name: String, machine: String, pid: u32, level: Level },
    /// A commanded recruit is not available now.
    RecruitFailed { reason: String },
    /// The same, because owners have closed machines for a while. They open again.
    Closed { reason: String },
    /// The facts of a recruited interpreter, and those of its machine. They differ in the graphics processors:
    /// only those that are the interpreter's own are its own.
    Has { id: InterpreterId, own: Arc<Facts>, machine: Arc<Facts> },
    /// No interpreter that has what is needed is available now.
    Lacking { needs: Arc<Needs>, reason: String, lack: Lack },
    /// An interpreter answered.
    Message { id: InterpreterId, message: FromInterpreter, body: Bytes },
    /// Bytes arrived from an interpreter, a whole message or not, so it lives.
    Heard { id: InterpreterId },
    /// The process of a possibly silent interpreter was seen to live. Repeated before each tick.
    Alive { id: InterpreterId },
    /// An interpreter's link ended.
    Lost { id: InterpreterId, cause: Cause },
    /// The executor of the interpreters in `among` lets this program keep so many of them, because another user waits.
    Share { among: Vec<InterpreterId>, keep: u32 },
    /// The machines offer so many interpreters now, and the user's contract wants as many as there are.
    Offered { interpreters: u32 },
    /// A little time has passed while an interpreter was idle.
    Look,
    /// Time has passed.
    Tick,
}

/// How long an interpreter with what is needed will be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// For ever: all machines are here, and none has it.
    Never,
    /// Machines that may have it are out of reach.
    Away,
    /// Machines have it, and others use it.
    Busy,
}

/// Why an interpreter was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum Cause {
    /// Its process ended, so the task that it was firing is suspect.
    Died { how: String },
    /// It ended together with its executor, so the cause is unknown. No task is blamed.
    Gone { how: String },
    /// Its executor took it for another user. No task is blamed.
    Taken,
    /// No bytes came from it for this many milliseconds: it is frozen, or its network is cut.
    Silent { milliseconds: u64 },
    /// The bytes that arrived are not what the other end sent: an attacker on the wire altered them.
    Attacked,
    /// It broke the protocol.
    Protocol { what: String },
    /// The owner of its machine has closed it. No task is blamed.
    Closed { why: String },
    /// The manager has ended it, because a task there was to be stopped. No other task is blamed.
    Stopped { why: String },
    /// It used more memory than the program allows each interpreter, and was ended. The task that it was firing is
    /// suspect.
    Exceeded { why: String },
}

impl Cause {
    /// Whether the task that it was firing is to blame, as far as is known.
    pub fn accuses(&self) -> bool {
        matches!(self, Cause::Died { .. } | Cause::Protocol { .. } | Cause::Exceeded { .. })
    }

    /// Whether its executor has ended it, for reasons that the task has no part in.
    pub fn is_taken(&self) -> bool {
        matches!(self, Cause::Taken | Cause::Closed { .. })
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cause::Died { how } => write!(f, "died: {how}"),
            Cause::Gone { how } => write!(f, "is gone: {how}"),
            Cause::Taken => write!(f, "was taken by its executor for another user"),
            Cause::Silent { milliseconds } => write!(f, "silent for {milliseconds} ms (frozen, or cut off)"),
            Cause::Attacked => write!(f, "was cut off: what arrived is not what the other end sent"),
            Cause::Protocol { what } => write!(f, "broke the protocol: {what}"),
            Cause::Stopped { why } | Cause::Exceeded { why } => write!(f, "was ended: {why}"),
            Cause::Closed { why } => write!(f, "was ended, because its machine is closed: {why}"),
        }
    }
}

/// A command to the driver.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum Command {
    /// Send a message. Messages must go out on the link in the order of the commands.
    Send { to: InterpreterId, message: ToInterpreter, body: Vec<Bytes> },
    /// Find one more interpreter. The answer is `Recruited` or `RecruitFailed`.
    Recruit,
    /// Find one that has what is needed. The answer is `Recruited` and then `Has`, or `Lacking`.
    RecruitFor { needs: Arc<Needs> },
    /// Close the link and end the process.
    Dismiss { id: InterpreterId },
    /// Deliver an outcome to the reader of the run.
    Deliver { run: RunId, outcome: Outcome },
    /// Write a fact into the journal.
    Record(Fact),
}

/// An outcome that a run delivers to its reader.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum Outcome {
    /// Results of the tasks from `first` on, one per token.
    Results { first: TaskId, tokens: Tokens },
    /// The task raised an exception. `error` is the pickled exception, as the interpreter `by` sent it.
    Raised { task: TaskId, error: Bytes, by: String },
    /// Firing the task killed these interpreters, one after the other. Of its token only the approximate size (`bytes`)
    /// is told, because unpickling it might kill the reader too.
    Culprit { task: TaskId, bytes: u64, killed: Vec<String> },
    /// Firing the task took longer than the timeout of its instruction, the last time at the interpreter `by`, which was
    /// ended. `attempts`: how often it was tried.
    TimedOut { task: TaskId, timeout: Duration, attempts: u32, by: String },
    /// The task was cancelled.
    Cancelled { task: TaskId },
    /// The contract on time is not met. `asked` and `reached` are tasks per second, or seconds.
    Unmet { asked: f64, reached: f64, why: String },
    /// Every result was delivered.
    Ended,
    /// No interpreter is left and none can be recruited. `losses` says what happened to them. If `recruited` is false,
    /// there never was one.
    Abandoned { losses: Vec<String>, recruited: bool },
}

impl Outcome {
    /// The number of tasks that this settles.
    pub fn tasks(&self) -> u32 {
        match self {
            Outcome::Results { tokens, .. } => tokens.count(),
            Outcome::Raised { .. } | Outcome::Culprit { .. } | Outcome::TimedOut { .. } | Outcome::Cancelled { .. } => {
                1
            }
            Outcome::Unmet { .. } | Outcome::Ended | Outcome::Abandoned { .. } => 0,
        }
    }
}

/// An entry of the journal. Byte counts are of bodies. `busy` and `protection` are in nanoseconds; the latter is the
/// time that the interpreter's end of the link has spent on cryptography so far.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum Fact {
    /// An interpreter is ready for work.
    Recruited { interpreter: InterpreterId, name: String, machine: String, pid: u32, level: Level },
    /// No interpreter could be found.
    RecruitFailed { reason: String },
    /// How an interpreter's link is protected, and what decided that. `weaker`: the user's explicit words lowered it
    /// below the default.
    Protected { interpreter: InterpreterId, levels: Levels, why: [String; 3], weaker: bool },
    /// An interpreter may use these services in the user's name, until a time in seconds since 1970.
    Delegated { interpreter: InterpreterId, scope: String, until: u64 },
    /// Work was sent to an interpreter.
    Fired { interpreter: InterpreterId, run: RunId, instruction: u16, tasks: u32, bytes: u64 },
    /// An interpreter answered work.
    Answered {
        interpreter: InterpreterId,
        run: RunId,
        instruction: u16,
        tasks: u32,
        bytes: u64,
        busy: u64,
        protection: u64,
    },
    /// Output of an instruction stayed at its interpreter, which fired the next instruction on it at once.
    Stayed { interpreter: InterpreterId, run: RunId, instruction: u16, bytes: u64, busy: u64 },
    /// A task raised an exception.
    Raised { interpreter: InterpreterId, run: RunId, task: TaskId },
    /// A task is fired again, for the `retry`th time, because its last attempt has failed.
    Retried { run: RunId, task: TaskId, retry: u32 },
    /// An interpreter returned tasks that it had not begun.
    Returned { interpreter: InterpreterId, tasks: u32 },
    /// Work that `of` has held for too long was also fired at `interpreter`.
    Doubled { interpreter: InterpreterId, of: InterpreterId, run: RunId, tasks: u32 },
    /// The later answer of a race was dropped.
    Dropped { interpreter: InterpreterId, run: RunId, tasks: u32, bytes: u64, busy: u64, protection: u64 },
    /// An interpreter was lost with so many tasks in flight.
    Lost { interpreter: InterpreterId, cause: String, tasks: u32 },
    /// The reader of the run got the outcomes of so many tasks.
    Delivered { run: RunId, tasks: u32 },
    /// The traffic of an interpreter's link, recorded when the link ends. One number per level, from clear to private.
    /// `protection` is the time spent at this end.
    Spent { interpreter: InterpreterId, bytes: [u64; Level::ALL.len()], protection: [u64; Level::ALL.len()] },
    /// The contract now wants another number of interpreters.
    Wanted { interpreters: u32 },
    /// An executor asked for so many interpreters, because another user waits for them.
    AskedBack { interpreters: u32 },
    /// The contract no longer needs the interpreter, or its executor asked for it. It was released with nothing in flight.
    Released { interpreter: InterpreterId },
    /// How a contract on time is met for a run: so far, and at the end as a whole. `asked` and `reached` are tasks per
    /// second, or seconds from the first task to the last result. While the run goes on, `reached` is an estimate.
    Contract { run: RunId, asked: f64, reached: f64, met: bool, why: Option<String> },
    /// The program ended and released the interpreter.
    Dismissed { interpreter: InterpreterId },
}
