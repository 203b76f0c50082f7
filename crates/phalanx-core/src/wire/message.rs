//! The messages of each conversation. A message's bulk (code, tokens, an error) is the frame's body.

use super::Shape;
use super::machines::Kind;
use crate::ids::{FiringId, ProgramId};
use crate::level::{LevelSet, Levels, Mark};
use serde::{Deserialize, Serialize};

/// Instead of a number of tokens: one, and it leaves by the other way.
pub const PAST: u32 = u32::MAX;

/// From a manager to one of its interpreters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToInterpreter {
    /// The code of a program, once; the body is the pickled tuple of its instructions' functions.
    Stage { program: ProgramId, mark: Mark },
    /// The program will not be fired again.
    Forget { program: ProgramId },
    /// Tokens of the firing that comes next, before its own: so many that one frame should not hold them all.
    Ahead { firing: FiringId, shape: Shape, takes: Mark },
    /// Fire one instruction of a program on each of the tokens `first .. first + count` of the body; or, where there
    /// are `groups`, on groups of so many tokens, which add up to `count` and what came ahead.
    /// After `slice` nanoseconds the interpreter gives back what it has not begun. `takes` and `gives` are the marks of the
    /// tokens and of the answers. A heavy token that an instruction gives may stay: then the next of those that follow is
    /// fired on it at once.
    Fire {
        firing: FiringId,
        program: ProgramId,
        instruction: u16,
        shape: Shape,
        first: u32,
        count: u32,
        slice: u64,
        groups: Vec<u32>,
        takes: Mark,
        gives: Mark,
        follow: Vec<Follow>,
    },
    /// The tokens of the firing that were not begun are to be given back at once, also from behind a token that takes long.
    GiveUp { firing: FiringId },
    /// So many bytes of what the interpreter printed were shown.
    Shown { bytes: u32 },
    /// The manager lives.
    Beat,
}

/// An instruction that takes the token which the one before it gives, and the mark of what it gives itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Follow {
    pub instruction: u16,
    pub gives: Mark,
}

/// Tokens of an answer that one instruction gave and that stayed at the interpreter: their bytes, and the nanoseconds that
/// it took to make them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stayed {
    pub bytes: u64,
    pub busy: u64,
}

impl ToInterpreter {
    /// What of the message is marked, which decides the level it travels at.
    pub fn mark(&self) -> Mark {
        match self {
            ToInterpreter::Stage { mark, .. } => *mark,
            ToInterpreter::Ahead { takes, .. } | ToInterpreter::Fire { takes, .. } => *takes,
            ToInterpreter::Forget { .. }
            | ToInterpreter::GiveUp { .. }
            | ToInterpreter::Shown { .. }
            | ToInterpreter::Beat => Mark::None,
        }
    }
}

/// From an interpreter to its manager. The answers to a firing come in the order of its tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FromInterpreter {
    /// First message: the interpreter can be fed.
    Ready { pid: u32 },
    /// Parts of the firing's next token, before those that its answer holds.
    Ahead { firing: FiringId, shape: Shape },
    /// Results of the firing's next tokens; the body holds them. `busy`: nanoseconds since the last answer
    /// that this firing took, with unpickling and pickling; `protection`: nanoseconds that the interpreter has
    /// spent in cryptography so far. An instruction that branches says for each of its tokens how many it gives, or
    /// [`PAST`], in `ways`. Where tokens `stayed`, all of them were fired as many instructions further: `stayed` has an
    /// entry for each instruction before the one that answers.
    Fired { firing: FiringId, shape: Shape, ways: Vec<u32>, stayed: Vec<Stayed>, busy: u64, protection: u64 },
    /// The firing's next token raised; the body is the pickled exception.
    Failed { firing: FiringId, busy: u64 },
    /// What arrived is not what the manager sent; the interpreter ends.
    Attacked,
    /// Of the firing's tokens, the first `kept` were begun, and are or will be answered. The others are given back, so that
    /// other interpreters can take them. A firing that waits behind others is given back whole, before these are answered.
    Returned { firing: FiringId, kept: u32 },
    /// The next bytes of what was printed are the body, at most [`super::PRINTED`].
    Printed { kind: Kind },
    /// The interpreter lives.
    Beat,
}

/// From a user's manager to an executor, on its control link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToExecutor {
    /// Start an interpreter that talks to this user over a data link of these levels; `request` is the user's number for
    /// it. `program`: the token of the user's program, whose models share their places.
    Recruit { request: u32, levels: Levels, program: [u8; 16] },
    /// End an interpreter at once.
    Release { request: u32 },
    /// The user lives.
    Beat,
}

/// From an executor to a user's manager, on the control link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FromExecutor {
    /// First message: how many interpreters this machine can have. `python` is like `3.11`: code travels between equal
    /// versions only. `levels`: what a data link may have, for each mark.
    Offer { capacity: u32, python: String, phalanx: String, levels: [LevelSet; 3] },
    /// The interpreter is started. Its data link: connect again, show `token`, expect the certificate in the body.
    Recruited { request: u32, token: [u8; 16] },
    /// It cannot be had, and why.
    Refused { request: u32, reason: String },
    /// How an interpreter ended: by itself, or when it was let go.
    Ended { request: u32, how: String },
    /// The executor lives; and which interpreters are stopped, as by a debugger or the machine's owner.
    Beat { stopped: Vec<u32> },
}
