//! One interpreter's place in the simulated grid, and what can happen there and at the manager.

use super::remote::{Act, Remote};
use crate::event::Cause;
use crate::ids::InterpreterId;
use crate::wire::{FromInterpreter, ToInterpreter};
use bytes::Bytes;
use std::time::Duration;

/// Something on the agenda.
#[derive(Debug)]
pub enum Happening {
    /// At the manager.
    Tick,
    Look,
    Hear(InterpreterId, FromInterpreter, Bytes),
    LinkEnds(InterpreterId, Cause),
    Recruited(InterpreterId),
    RecruitFails(InterpreterId),
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
    /// Works, but nothing is heard.
    Unheard,
}

/// An interpreter's place: its process, and both directions of its link.
pub struct Seat {
    pub remote: Remote,
    pub state: State,
    /// Messages that arrived or left there.
    pub steps: usize,
    /// Something other than the user's code went wrong with it.
    pub faulty: bool,
    /// What a message takes, either way.
    pub delay: Duration,
    /// When what it said last arrives at the manager.
    pub arrived: Duration,
    /// When the manager heard from it last.
    pub heard: Duration,
    /// What it said is lost.
    pub cut: bool,
    /// What it said while it was unheard.
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
            delay,
            arrived: now,
            heard: now,
            cut: false,
            held: Vec::new(),
        }
    }
}
