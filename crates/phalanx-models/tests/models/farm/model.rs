//! What can happen in a grid of one manager, and what must hold in every state of it.

use super::grid::Visit;
use super::interpreter::Seat;
use phalanx_models::Model;
use std::fmt::{self, Write};

/// A run in which nothing but time has passed for so many ticks hangs.
const HANGS: u32 = 30;

/// How often each fault may happen.
#[derive(Debug, Clone)]
pub struct Faults {
    /// An interpreter's process ends.
    pub deaths: u32,
    /// An interpreter is cut off from the manager. It may come back.
    pub cuts: u32,
    /// The token that was begun raises an exception.
    pub raises: u32,
    /// An interpreter returns what it has not begun.
    pub returns: u32,
    /// Time passes although somebody could do something.
    pub waits: u32,
    /// An interpreter says what it has said again, or in another order.
    pub lies: u32,
}

impl Faults {
    pub const NONE: Faults = Faults { deaths: 0, cuts: 0, raises: 0, returns: 0, waits: 0, lies: 0 };
}

/// A run of a chain of instructions.
pub struct Farm {
    pub interpreters: u32,
    pub instructions: u16,
    pub tasks: u8,
    /// Tokens that the engine fires together, once it has measured one.
    pub batch: u64,
    pub ordered: bool,
    pub faults: Faults,
}

/// The next event.
#[derive(Debug, Clone, Copy)]
pub enum Act {
    /// An interpreter that the engine wants is there.
    Recruit,
    /// A tick passes.
    Wait,
    /// Something happens at the interpreter of this number.
    At(u32, Deed),
}

/// An event at an interpreter.
#[derive(Debug, Clone, Copy)]
pub enum Deed {
    /// It reads from its link.
    Take,
    /// It answers one token.
    Answer,
    /// It answers all tokens of a firing in one message.
    AnswerAll,
    /// The manager reads from the link.
    Hear,
    /// The manager sees that the link has ended. Messages that it has not read are lost.
    End,
    /// Its process ends.
    Die,
    /// It is cut off.
    Cut,
    /// It is not cut off any more.
    Heal,
    /// Its token raises an exception.
    Raise,
    /// It returns what it has not begun.
    Return,
    /// What it said first will be heard twice.
    Repeat,
    /// What it said first will be heard second.
    Reorder,
}

impl Model for Farm {
    type State = Visit;
    type Action = Act;

    fn first(&self) -> Visit {
        Visit::first(self)
    }

    fn actions(&self, visit: &Visit) -> Vec<Act> {
        let grid = &visit.grid;
        let mut acts = grid.acts();
        if !grid.ended {
            let waits = acts.is_empty() || grid.left.waits > 0;
            acts.extend(grid.each(|seat| grid.faults(seat)));
            acts.extend(waits.then_some(Act::Wait));
        }
        acts
    }

    fn next(&self, visit: &Visit, act: &Act) -> Visit {
        let mut next = Visit { grid: visit.grid.clone(), notes: Vec::new() };
        if !matches!(act, Act::Wait) {
            next.grid.idle = 0;
        }
        match *act {
            Act::Recruit => next.recruit(self),
            Act::Wait => next.wait(),
            Act::At(id, Deed::Hear) => next.hear(id),
            Act::At(id, Deed::End) => next.end(id),
            Act::At(id, deed) => next.grid.act(id, deed),
        }
        next.obey(self);
        next
    }

    fn write(&self, visit: &Visit, text: &mut dyn Write) -> fmt::Result {
        write!(text, "{:?}", visit.grid)
    }

    fn check(&self, visit: &Visit, end: bool) -> Result<(), String> {
        let grid = &visit.grid;
        match &grid.broken {
            Some(broken) => Err(broken.clone()),
            None if grid.idle > HANGS => Err(format!("the run hangs after {:?}", grid.delivered)),
            None if end && !grid.ended => Err(format!("the run has not ended after {:?}", grid.delivered)),
            None => Ok(()),
        }
    }

    fn notes(&self, visit: &Visit) -> Vec<&'static str> {
        visit.notes.clone()
    }
}

/// The events of an interpreter and its link without failures.
pub fn deeds(seat: &Seat) -> Vec<Deed> {
    let open = !seat.cut || seat.down;
    let possible = [
        (Deed::Hear, !seat.outbox.is_empty() && open),
        (Deed::End, seat.down),
        (Deed::Take, !seat.inbox.is_empty() && open),
        (Deed::Answer, seat.is_computing()),
        (Deed::AnswerAll, seat.has_unbegun()),
    ];
    possible.into_iter().filter_map(|(deed, possible)| possible.then_some(deed)).collect()
}
