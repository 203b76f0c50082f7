//! One interpreter's place in the simulated grid, and the events there and at the manager.

use super::remote::{Act, Remote};
use crate::event::Cause;
use crate::ids::InterpreterId;
use crate::needs::{Facts, Needs};
use crate::wire::{FromInterpreter, ToInterpreter};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// An event on the agenda.
#[derive(Debug)]
pub enum Happening {
    /// At the manager.
    Tick,
    Look,
    Hear(InterpreterId, FromInterpreter, Bytes),
    LinkEnds(InterpreterId, Cause),
    Recruited(InterpreterId),
    RecruitFails(InterpreterId),
    Lacks(Arc<Needs>),
    Read(usize, u64),
    /// At an interpreter.
    Arrive(InterpreterId, ToInterpreter, Bytes),
    Act(InterpreterId, Act),
}

impl Happening {
    /// Whether it happens at an interpreter.
    pub fn is_remote(&self) -> bool {
        matches!(self, Happening::Arrive(..) | Happening::Act(..))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Up,
    Down,
    Frozen,
    /// It works, but its messages do not arrive.
    Unheard,
}

/// An interpreter's place: its process, and both directions of its link.
pub struct Seat {
    pub remote: Remote,
    pub state: State,
    /// The number of messages that arrived or left.
    pub steps: usize,
    /// Whether it had a fault that was not caused by user code.
    pub faulty: bool,
    /// Whether it has asked to be ended.
    pub stops: bool,
    /// The network delay of a message, in either direction.
    pub delay: Duration,
    /// When its last message arrives at the manager.
    pub arrived: Duration,
    /// When the manager heard from it last.
    pub heard: Duration,
    /// Whether its messages are lost.
    pub cut: bool,
    /// The facts that the engine is told of it.
    pub facts: Arc<Facts>,
    /// The messages held back while it is unheard.
    pub held: Vec<(FromInterpreter, Bytes)>,
}

impl Seat {
    /// A seat whose interpreter is ready now.
    pub fn new(remote: Remote, delay: Duration, now: Duration) -> Seat {
        Seat {
            remote,
            state: State::Up,
            steps: 0,
            faulty: false,
            stops: false,
            delay,
            arrived: now,
            heard: now,
            cut: false,
            facts: Arc::default(),
            held: Vec::new(),
        }
    }
}
