//! The messages of each conversation. Bulk data (code, tokens, an error) is in the frame's body.

use super::hub::Status;
use super::machines::{Kind, Usage};
use super::{News, Shape};
use crate::cage::Report as CageReport;
use crate::ids::{FiringId, ProgramId};
use crate::level::{LevelSet, Levels, Mark};
use crate::needs::Facts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// In place of a number of tokens: the token leaves by the other way (see `Instruction::past`).
pub const PAST: u32 = u32::MAX;

/// From a manager to one of its interpreters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum ToInterpreter {
    /// The code of a program, sent once. The body is the pickled tuple of its instructions' functions.
    Stage { program: ProgramId, mark: Mark },
    /// The program will not be fired again and can be dropped.
    Forget { program: ProgramId },
    /// Tokens of the firing that comes next, sent ahead of it because one frame should not hold so many.
    Ahead { firing: FiringId, shape: Shape, takes: Mark },
    /// Fire one instruction of a program on each of the tokens `first .. first + count` of the body. If there are
    /// `groups`, fire it on groups of these sizes, which add up to `count` and the tokens that came ahead. After
    /// `slice` nanoseconds the interpreter returns the tokens that it has not begun. `takes` and `gives` are the marks
    /// of the tokens and of the answers. After `timeout` nanoseconds on one token, the interpreter asks to be ended; 0:
    /// never. A heavy output may stay at the interpreter: then the next instruction of
    /// `follow` is fired on it at once.
    Fire {
        firing: FiringId,
        program: ProgramId,
        instruction: u16,
        shape: Shape,
        first: u32,
        count: u32,
        slice: u64,
        timeout: u64,
        groups: Vec<u32>,
        takes: Mark,
        gives: Mark,
        follow: Vec<Follow>,
    },
    /// Return the tokens of the firing that have not begun, at once, even from behind a token that takes long.
    GiveUp { firing: FiringId },
    /// Token number `token` of the firing is not wanted any more; `u32::MAX`: none of them is. If it is being fired, the
    /// interpreter asks to be ended ([`FromInterpreter::Stop`]). Tokens of the firing that have not begun are returned.
    Cancel { firing: FiringId, token: u32 },
    /// This many bytes of the interpreter's printed output were shown.
    Shown { bytes: u32 },
    /// Heartbeat of the manager.
    Beat,
    /// The user's delegation and names of machines for this interpreter: a [`Given`] in the body. A later message replaces an
    /// earlier one.
    Delegation,
}

/// The delegation and the names of machines that a user's program sends to its processes at executors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// The text of the delegation. `None`: nothing is delegated.
    pub delegation: Option<String>,
    /// The address of each machine of the user's grid, by name.
    pub machines: BTreeMap<String, String>,
    /// The name in the certificate of the machine at each address, where the user's list of machines tells it.
    pub certificates: BTreeMap<String, String>,
}

/// An instruction that is fired on the output of the one before it, and the mark of its own output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Follow {
    /// The number of the instruction in the program.
    pub instruction: u16,
    /// The mark of its output.
    pub gives: Mark,
}

/// Output of one instruction that stayed at the interpreter: its bytes, and the nanoseconds that it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stayed {
    /// The length of the output.
    pub bytes: u64,
    /// Nanoseconds that the instruction took.
    pub busy: u64,
}

impl ToInterpreter {
    /// The mark of the message, which decides its level.
    pub fn mark(&self) -> Mark {
        match self {
            ToInterpreter::Stage { mark, .. } => *mark,
            ToInterpreter::Ahead { takes, .. } | ToInterpreter::Fire { takes, .. } => *takes,
            ToInterpreter::Forget { .. }
            | ToInterpreter::GiveUp { .. }
            | ToInterpreter::Cancel { .. }
            | ToInterpreter::Shown { .. }
            | ToInterpreter::Beat
            | ToInterpreter::Delegation => Mark::None,
        }
    }
}

/// From an interpreter to its manager. The answers to a firing are in the order of its tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum FromInterpreter {
    /// First message: the interpreter is ready for work.
    Ready { pid: u32 },
    /// Parts of the output of the firing's next token, ahead of those in its answer.
    Ahead { firing: FiringId, shape: Shape },
    /// Results of the firing's next tokens, in the body. `busy`: nanoseconds that this firing took since its last
    /// answer, including unpickling and pickling. `protection`: nanoseconds that the interpreter has spent on
    /// cryptography so far. A branching instruction gives in `ways`, for each of its tokens, the number of outputs, or
    /// [`PAST`]. If tokens `stayed`, further instructions were fired on all of them: `stayed` has an entry for each
    /// instruction before the one that answers.
    Fired { firing: FiringId, shape: Shape, ways: Vec<u32>, stayed: Vec<Stayed>, busy: u64, protection: u64 },
    /// The firing's next token raised an exception, which is pickled in the body.
    Failed { firing: FiringId, busy: u64 },
    /// The bytes that arrived are not what the manager sent. The interpreter ends.
    Attacked,
    /// The first `kept` tokens of the firing were begun, and are or will be answered. The others are returned, so that
    /// other interpreters can take them. A firing that waits behind others is returned as a whole, before those are
    /// answered.
    Returned { firing: FiringId, kept: u32 },
    /// Token number `token` of the firing is being fired, and only the end of the interpreter ends that: it has run for
    /// longer than its timeout, or it was cancelled.
    Stop { firing: FiringId, token: u32 },
    /// The next bytes of printed output, in the body, at most [`super::PRINTED`].
    Printed { kind: Kind },
    /// Heartbeat of the interpreter.
    Beat,
}

/// From a user's manager to an executor, on its control link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum ToExecutor {
    /// Start an interpreter that talks to this user over a data link of these levels. `request` is the user's number
    /// for it. `program`: the token of the user's program. All models of a program share its places. `waits`: if no place
    /// is free, other users are asked to give places back. `memory`: the bytes that the interpreter may use at most, with
    /// what it starts; `None`: what the machine gives. `gpus`: how many graphics processors are its own; 0: it shares them.
    Recruit { request: u32, levels: Levels, program: [u8; 16], waits: bool, memory: Option<u64>, gpus: u32 },
    /// End an interpreter at once.
    Release { request: u32 },
    /// The user's next message about revoked and renewed certificates.
    News(News),
    /// Heartbeat of the user.
    Beat,
    /// Tell what runs here.
    Status,
    /// Say whether users' processes find these programs.
    Find { programs: Vec<String> },
}

/// From an executor to a user's manager, on the control link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum FromExecutor {
    /// First message: the number of interpreters that this machine offers. `python` is a version like `3.11`: code
    /// travels between equal versions only. `levels`: the levels that a data link may have, for each mark. `cage`: how
    /// far this machine keeps its users apart. `facts`: what it has, as needs ask for it.
    Offer { capacity: u32, python: String, phalanx: String, levels: [LevelSet; 3], cage: CageReport, facts: Facts },
    /// First message too: the user is not served, with the reason.
    Away { reason: String },
    /// The interpreter is started. To open its data link, connect again, show `token`, and expect the certificate in
    /// the body.
    Recruited { request: u32, token: [u8; 16] },
    /// The interpreter is refused, with the reason.
    Refused { request: u32, reason: String },
    /// How an interpreter ended, by itself or because it was released.
    Ended { request: u32, how: String },
    /// The executor's next message about revoked and renewed certificates.
    News(News),
    /// Heartbeat of the executor. Also lists the interpreters that are stopped, for example by a debugger or by the
    /// machine's owner.
    Beat { stopped: Vec<u32> },
    /// Keep so many interpreters on this machine and give back the others, because another user waits; `None`: keep all
    /// again. After so many milliseconds the executor takes them. A later message replaces an earlier one.
    Share { keep: Option<u32>, patience: u32 },
    /// The executor has taken this interpreter for another user.
    Taken { request: u32 },
    /// Requests of the user wait here, because the places are taken as `usage` says; `None`: none waits any more. A later message
    /// replaces an earlier one.
    Waits { usage: Option<Usage> },
    /// The machine is closed for everybody, and why: its interpreters are taken, and requests are refused. `None`: it is open again.
    Closed { why: Option<String> },
    /// What runs here. Other users than the one that asks are called [`super::hub::OTHER_USERS`].
    Status(Box<Status>),
    /// An interpreter was ended, because it used more memory than its request allows, and why in words.
    Exceeded { request: u32, why: String },
    /// Whether users' processes find a program here.
    Found { program: String, is_found: bool },
}
