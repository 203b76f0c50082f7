//! What is to happen in a simulated computation: streams, faults, and how the machines and their network are.

use super::integers::Form;
use crate::flow::{Goal, Graph, KILLS, RunOptions};
use std::time::Duration;

/// Between two ticks of the driver.
pub const TICK: Duration = Duration::from_millis(150);
/// Between two looks of the driver at interpreters that have nothing to do.
pub const LOOK: Duration = Duration::from_millis(20);

pub const fn microseconds(n: u64) -> Duration {
    Duration::from_micros(n)
}

pub const fn milliseconds(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Everything that happens, before it happens.
#[derive(Debug, Clone)]
pub struct Plan {
    pub interpreters: u32,
    pub silence: Duration,
    pub patience: Duration,
    pub goal: Option<Goal>,
    pub streams: Vec<Stream>,
    pub faults: Vec<Fault>,
    /// How recruiting goes, one after the other; what is beyond goes well.
    pub recruits: Vec<Recruiting>,
    /// Times that a message takes to an interpreter or back, by the interpreter's number, again and again.
    pub delays: Vec<Duration>,
    /// How many times the grain an interpreter takes, by its number, again and again.
    pub slowness: Vec<u32>,
    /// The user reads an outcome so long after it was delivered.
    pub reading: Duration,
    /// From when until when the manager's machine is suspended.
    pub sleep: Option<(Duration, Duration)>,
    /// What an interpreter has said and is still under way is lost when a task ends it.
    pub crashes_lose_answers: bool,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            interpreters: 2,
            silence: milliseconds(1600),
            patience: Duration::ZERO,
            goal: None,
            streams: vec![Stream::default()],
            faults: Vec::new(),
            recruits: Vec::new(),
            delays: vec![microseconds(50)],
            slowness: vec![1],
            reading: Duration::ZERO,
            sleep: None,
            crashes_lose_answers: false,
        }
    }
}

impl Plan {
    /// How many losses a task can get to see that does nothing: all faults, and those of a culprit until it is alone.
    pub fn losses_of_one_task(&self) -> usize {
        let culprits = self.streams.iter().any(|stream| !stream.killing.is_empty());
        self.faults.len() + if culprits { KILLS - 1 } else { 0 }
    }
}

/// A program of its own, a run of it, and what its functions do.
#[derive(Debug, Clone)]
pub struct Stream {
    /// The program, where it is no chain; its tokens are separate.
    pub graph: Option<Graph>,
    pub instructions: u16,
    pub tasks: u64,
    pub form: Form,
    pub options: RunOptions,
    /// What a task takes in one instruction; eight consecutive tasks are alike.
    pub grains: Vec<Duration>,
    /// What an interpreter needs to make the code ready.
    pub staging: Duration,
    /// Tasks whose last instruction raises; in a graph, the one whose number is that of the task, modulo their number.
    pub raising: Vec<u64>,
    /// Tasks whose first instruction ends the interpreter.
    pub killing: Vec<u64>,
    /// Of so many tasks, one has heavy tokens, which stay; 0: none has.
    pub heavy: u64,
    /// Results that an interpreter says at once.
    pub piece: usize,
    /// After so many tasks of a firing, an interpreter gives back the others, whatever the time.
    pub patience: usize,
    /// The user stops reading after so many tasks.
    pub close_after: Option<u64>,
}

impl Default for Stream {
    fn default() -> Stream {
        Stream {
            graph: None,
            instructions: 1,
            tasks: 60,
            form: Form::Packed,
            options: RunOptions {
                ordered: true,
                ahead: milliseconds(250),
                spare: 4,
                stragglers: true,
                contract: true,
                size: None,
            },
            grains: vec![microseconds(100)],
            staging: Duration::ZERO,
            raising: Vec::new(),
            killing: Vec::new(),
            heavy: 0,
            piece: usize::MAX,
            patience: usize::MAX,
            close_after: None,
        }
    }
}

/// What a task does to the interpreter that fires it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Gives,
    Raises,
    Kills,
}

impl Stream {
    /// What firing an instruction on a task takes.
    pub fn grain(&self, task: u64, instruction: u16) -> Duration {
        self.grains[(task as usize / 8 + usize::from(instruction)) % self.grains.len()]
    }

    /// Whether a task's tokens stay where they are made, as far as they may.
    pub fn is_heavy(&self, task: u64) -> bool {
        self.heavy > 0 && task % self.heavy == 0
    }

    /// What firing an instruction on a task leads to.
    pub fn fate(&self, task: u64, instruction: u16) -> Fate {
        if instruction == 0 && self.killing.contains(&task) {
            return Fate::Kills;
        }
        let raises = match self.graph {
            Some(_) => task % u64::from(self.instructions) == u64::from(instruction),
            None => instruction + 1 == self.instructions,
        };
        if raises && self.raising.contains(&task) { Fate::Raises } else { Fate::Gives }
    }
}

/// Something goes wrong with an interpreter, just before its message number `step` arrives there or leaves there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// In the order of recruiting, from 1.
    pub interpreter: u32,
    pub step: usize,
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Its process ends; what it has said still arrives.
    Dies,
    /// Its process ends; what it has said and is under way is lost.
    DiesAnswersLost,
    /// It does nothing any more, and its link stays.
    Freezes,
    /// Nothing arrives from it until it was replaced; then everything does.
    ComesLate,
    /// It says what it must not say.
    Says(Garbage),
}

/// Answers that break the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Garbage {
    ReadyAgain,
    UnknownFiring,
    TooManyResults,
    LengthsThatDoNotAddUp,
    NoResults,
    UnknownFailure,
    UnknownReturn,
    ReturnOfNothing,
    ReturnOfWhatIsAnswered,
    ReturnOfMoreThanThereIs,
    MoreStayedThanFollow,
    WaysThatDoNotAddUp,
    PackedPartsAhead,
}

/// Every way in which one interpreter can fail.
pub const KINDS: [Kind; 17] = [
    Kind::Dies,
    Kind::DiesAnswersLost,
    Kind::Freezes,
    Kind::ComesLate,
    Kind::Says(Garbage::ReadyAgain),
    Kind::Says(Garbage::UnknownFiring),
    Kind::Says(Garbage::TooManyResults),
    Kind::Says(Garbage::LengthsThatDoNotAddUp),
    Kind::Says(Garbage::NoResults),
    Kind::Says(Garbage::UnknownFailure),
    Kind::Says(Garbage::UnknownReturn),
    Kind::Says(Garbage::ReturnOfNothing),
    Kind::Says(Garbage::ReturnOfWhatIsAnswered),
    Kind::Says(Garbage::ReturnOfMoreThanThereIs),
    Kind::Says(Garbage::MoreStayedThanFollow),
    Kind::Says(Garbage::WaysThatDoNotAddUp),
    Kind::Says(Garbage::PackedPartsAhead),
];

/// How one recruiting goes: after some time, one way or the other.
#[derive(Debug, Clone, Copy)]
pub struct Recruiting {
    pub takes: Duration,
    pub fails: bool,
}

impl Default for Recruiting {
    fn default() -> Recruiting {
        Recruiting { takes: milliseconds(10), fails: false }
    }
}
