//! The plan of a simulated computation: streams, faults, and the properties of machines and network.

use super::integers::Form;
use crate::flow::{Goal, Graph, KILLS, Options, RunOptions};
use std::time::Duration;

/// The labels that instructions can need, by the number of the need.
pub const LABELS: [&str; 3] = ["", "red", "blue"];

/// Time between two ticks of the driver.
pub const TICK: Duration = Duration::from_millis(150);
/// Time between two looks of the driver at idle interpreters.
pub const LOOK: Duration = Duration::from_millis(20);

/// The time of a task that hangs.
pub const FOREVER: Duration = Duration::from_secs(100_000);

pub const fn microseconds(n: u64) -> Duration {
    Duration::from_micros(n)
}

pub const fn milliseconds(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The complete plan of a computation.
#[derive(Debug, Clone)]
pub struct Plan {
    pub interpreters: u32,
    pub silence: Duration,
    pub patience: Duration,
    pub goal: Option<Goal>,
    pub streams: Vec<Stream>,
    pub faults: Vec<Fault>,
    /// The outcomes of recruiting, in order. Further recruits succeed.
    pub recruits: Vec<Recruiting>,
    /// Network delays of a message, in either direction. Indexed by the interpreter's number, cyclically.
    pub delays: Vec<Duration>,
    /// Slowness of an interpreter: its time as a multiple of the grain. Indexed by its number, cyclically.
    pub slowness: Vec<u32>,
    /// How long after its delivery the user reads an outcome.
    pub reading: Duration,
    /// The period in which the manager's machine is suspended.
    pub sleep: Option<(Duration, Duration)>,
    /// Whether messages in flight from an interpreter are lost when a task kills it.
    pub crashes_lose_answers: bool,
    /// The labels of an interpreter that is recruited without needs. Indexed by its number, cyclically.
    pub labels: Vec<&'static str>,
    /// Until then, recruits fail because owners have closed their machines.
    pub closed_until: Duration,
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
            labels: vec![""],
            closed_until: Duration::ZERO,
        }
    }
}

impl Plan {
    /// The most losses that an innocent task can experience: all faults, and those of a culprit until it is alone.
    pub fn losses_of_one_task(&self) -> usize {
        let culprits = self.streams.iter().any(|stream| !stream.killing.is_empty());
        self.faults.len() + if culprits { KILLS - 1 } else { 0 }
    }
}

/// A program of its own, a run of it, and the behaviour of its functions.
#[derive(Debug, Clone)]
pub struct Stream {
    /// The program, if it is not a chain. Its tokens are separate.
    pub graph: Option<Graph>,
    pub instructions: u16,
    pub tasks: u64,
    pub form: Form,
    pub options: RunOptions,
    /// The time of a task in one instruction. Eight consecutive tasks are alike.
    pub grains: Vec<Duration>,
    /// The time that an interpreter needs to load the code.
    pub staging: Duration,
    /// Tasks whose last instruction raises; in a graph, the instruction with the task's number, modulo the number of
    /// instructions.
    pub raising: Vec<u64>,
    /// Tasks whose first instruction kills the interpreter.
    pub killing: Vec<u64>,
    /// One of so many tasks has heavy tokens, which stay; 0: none has.
    pub heavy: u64,
    /// The number of results in one answer.
    pub piece: usize,
    /// After so many tasks of a firing, an interpreter returns the others, whatever the time.
    pub patience: usize,
    /// The user stops reading after so many tasks.
    pub close_after: Option<u64>,
    /// Whether closing also ends the interpreters that still fire its tasks.
    pub stops: bool,
    /// The options of its instructions.
    pub settings: Vec<Options>,
    /// Tasks whose first instruction never ends.
    pub hanging: Vec<u64>,
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
            stops: false,
            settings: Vec::new(),
            hanging: Vec::new(),
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
    /// The time of an instruction on a task.
    pub fn grain(&self, task: u64, instruction: u16) -> Duration {
        if instruction == 0 && self.hanging.contains(&task) {
            return FOREVER;
        }
        self.grains[(task as usize / 8 + usize::from(instruction)) % self.grains.len()]
    }

    /// How often a token is fired again: the same for all instructions.
    pub fn retries(&self) -> u32 {
        self.settings.first().map_or(0, |it| it.retries)
    }

    /// Whether a task's tokens stay at their interpreter, where that is possible.
    pub fn is_heavy(&self, task: u64) -> bool {
        self.heavy > 0 && task % self.heavy == 0
    }

    /// The outcome of an instruction on a task.
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

/// A fault at an interpreter, just before its message number `step` arrives or leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The interpreter's number in the order of recruiting, from 1.
    pub interpreter: u32,
    pub step: usize,
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Its process ends. Messages in flight still arrive.
    Dies,
    /// Its process ends. Messages in flight are lost.
    DiesAnswersLost,
    /// It freezes, and its link stays open.
    Freezes,
    /// Its messages are delayed until it has been replaced, and then arrive.
    ComesLate,
    /// It breaks the protocol.
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

/// All ways in which one interpreter can fail.
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

/// The outcome of one attempt to recruit, and the time that it takes.
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
