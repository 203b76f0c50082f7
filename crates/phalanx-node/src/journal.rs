//! The journal: facts in the order in which they happened. The progress bar, the closing table and the benchmarks read it. No
//! other part of the program counts by itself.

mod programs;

pub use programs::{Kept, Moment, RunTotals};

use phalanx_core::event::Fact;
use phalanx_core::ids::InterpreterId;
use phalanx_core::level::{Level, Levels};
use phalanx_net::sync::lock;
use programs::Programs;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The totals of the facts. Times are in seconds.
#[derive(Debug, Default, Clone)]
pub struct Summary {
    /// Number of tasks whose outcome was delivered.
    pub tasks: u64,
    /// Time from the first firing to the last delivery.
    pub wall: f64,
    /// Number of interpreters that were lost.
    pub lost: u64,
    /// Number of interpreters that were recruited in place of lost ones.
    pub replaced: u64,
    /// Number of tasks that were in flight at an interpreter when it was lost.
    pub refired: u64,
    /// Number of tasks that were also fired at a second interpreter, because the first one took too long.
    pub doubled: u64,
    /// The totals of each interpreter.
    pub interpreters: BTreeMap<InterpreterId, InterpreterSummary>,
    /// How the most recently checked computation keeps its contract on time.
    pub contract: Option<ContractSummary>,
    first_fired: Option<f64>,
    /// Each interpreter's delegation: its scope and its end. The manager may send one before the interpreter is ready.
    delegated: BTreeMap<InterpreterId, (String, u64)>,
}

/// A contract on time: tasks per second, or seconds from the first task to the last result.
#[derive(Debug, Clone)]
pub struct ContractSummary {
    /// What the contract asks for.
    pub asked: f64,
    /// What is reached.
    pub reached: f64,
    /// Whether the contract is met.
    pub met: bool,
    /// Why the contract is not met.
    pub why: Option<String>,
}

/// The totals of one interpreter.
#[derive(Debug, Clone)]
pub struct InterpreterSummary {
    /// The name of the interpreter.
    pub name: String,
    /// The machine that it runs on.
    pub machine: String,
    /// The number of its process.
    pub pid: u32,
    /// The level of its link for unmarked data.
    pub level: Level,
    /// What it does, or how it ended: one word.
    pub state: &'static str,
    /// Number of tasks that it has answered.
    pub tasks: u64,
    /// Bytes of tokens sent to the interpreter.
    pub bytes_in: u64,
    /// Bytes of tokens received from the interpreter.
    pub bytes_out: u64,
    /// Bytes of tokens that stayed at the interpreter between two instructions.
    pub bytes_stayed: u64,
    /// Seconds in which it computed.
    pub busy: f64,
    /// Seconds spent in cryptography at the interpreter's end of the link.
    pub protection_there: f64,
    /// Seconds spent in cryptography at the manager's end.
    pub protection_here: f64,
    /// For each level: bytes of frames in both directions, and seconds in cryptography at the manager's end.
    pub spent: [(u64, f64); Level::ALL.len()],
    /// The link's levels for unmarked data, marked data and marked code.
    pub levels: Levels,
    /// For people: what decided each of these levels.
    pub why: [String; 3],
    /// Whether the user's explicit words made a level weaker than the default.
    pub weaker: bool,
    /// Why the interpreter was lost; `None`: it was not.
    pub cause: Option<String>,
    /// The interpreter's delegation: its scope, and its end in seconds since 1970. `None`: it has none.
    pub delegated: Option<(String, u64)>,
}

/// Records facts. Keeps their totals, and writes the facts to a file if there is one.
#[derive(Debug)]
pub struct Journal {
    began: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    summary: Summary,
    programs: Programs,
    file: Option<BufWriter<File>>,
    /// The error after which the file was given up. The computation goes on without it.
    file_error: Option<io::Error>,
}

#[derive(Serialize)]
struct Line<'a> {
    at: f64,
    #[serde(flatten)]
    fact: &'a Fact,
}

impl Journal {
    /// A journal whose times begin now. With `file`, every fact is written there as a line of JSON.
    pub fn new(began: Instant, file: Option<&Path>) -> io::Result<Journal> {
        let file = file.map(File::create).transpose()?.map(BufWriter::new);
        Ok(Journal {
            began,
            state: Mutex::new(State {
                summary: Summary::default(),
                programs: Programs::default(),
                file,
                file_error: None,
            }),
        })
    }

    /// Records a fact that has just happened.
    pub fn record(&self, fact: &Fact) {
        let at = self.began.elapsed().as_secs_f64();
        let mut state = lock(&self.state);
        state.add(at, fact);
        if let Some(Err(error)) = state.file.as_mut().map(|file| write_line(file, at, fact)) {
            state.file = None;
            state.file_error = Some(error);
        }
    }

    /// Records the bytes and the time that an interpreter's link has taken so far. It counts in the totals now, but is written
    /// to the file only at the end.
    pub fn spent_so_far(&self, fact: &Fact) {
        let at = self.began.elapsed().as_secs_f64();
        lock(&self.state).summary.add(at, fact);
    }

    /// The totals of all facts so far.
    pub fn summary(&self) -> Summary {
        lock(&self.state).summary.clone()
    }

    /// The totals of each of the latest runs, and the latest losses and recoveries.
    pub fn kept(&self) -> Kept {
        let state = lock(&self.state);
        state.programs.kept(&state.summary)
    }

    /// Writes what is buffered for the file. Returns an error if the file is incomplete.
    pub fn flush(&self) -> io::Result<()> {
        let mut state = lock(&self.state);
        match (state.file.as_mut().map(Write::flush), state.file_error.take()) {
            (_, Some(error)) => Err(error),
            (outcome, None) => outcome.unwrap_or(Ok(())),
        }
    }
}

impl State {
    fn add(&mut self, at: f64, fact: &Fact) {
        self.summary.add(at, fact);
        self.programs.add(at, fact, &self.summary);
    }
}

fn write_line(file: &mut BufWriter<File>, at: f64, fact: &Fact) -> io::Result<()> {
    serde_json::to_writer(&mut *file, &Line { at, fact })?;
    file.write_all(b"\n")
}

impl Summary {
    fn add(&mut self, at: f64, fact: &Fact) {
        match fact {
            Fact::Recruited { interpreter, name, machine, pid, level } => {
                self.replaced += u64::from(self.lost > self.replaced);
                let summary = InterpreterSummary {
                    name: name.clone(),
                    machine: machine.clone(),
                    pid: *pid,
                    level: *level,
                    state: "working",
                    tasks: 0,
                    bytes_in: 0,
                    bytes_out: 0,
                    bytes_stayed: 0,
                    busy: 0.0,
                    protection_there: 0.0,
                    protection_here: 0.0,
                    spent: Default::default(),
                    levels: Levels::all(*level),
                    why: Default::default(),
                    weaker: false,
                    cause: None,
                    delegated: self.delegated.get(interpreter).cloned(),
                };
                self.interpreters.insert(*interpreter, summary);
            }
            Fact::Protected { interpreter, levels, why, weaker } => {
                self.of(*interpreter, |it| (it.levels, it.why, it.weaker) = (*levels, why.clone(), *weaker));
            }
            Fact::Spent { interpreter, bytes, protection } => self.of(*interpreter, |it| {
                for (index, spent) in it.spent.iter_mut().enumerate() {
                    *spent = (bytes[index], Duration::from_nanos(protection[index]).as_secs_f64());
                }
                it.protection_here = it.spent.iter().map(|(_, seconds)| seconds).sum();
            }),
            Fact::Fired { interpreter, bytes, .. } => {
                self.first_fired.get_or_insert(at);
                self.of(*interpreter, |it| it.bytes_in += bytes);
            }
            Fact::Answered { interpreter, tasks, bytes, busy, protection, .. } => self.of(*interpreter, |it| {
                it.tasks += u64::from(*tasks);
                it.bytes_out += bytes;
                it.busy += Duration::from_nanos(*busy).as_secs_f64();
                it.protection_there = Duration::from_nanos(*protection).as_secs_f64();
            }),
            Fact::Stayed { interpreter, bytes, busy, .. } => self.of(*interpreter, |it| {
                it.bytes_stayed += bytes;
                it.busy += Duration::from_nanos(*busy).as_secs_f64();
            }),
            Fact::Doubled { tasks, .. } => self.doubled += u64::from(*tasks),
            Fact::Dropped { interpreter, bytes, busy, protection, .. } => self.of(*interpreter, |it| {
                it.bytes_out += bytes;
                it.busy += Duration::from_nanos(*busy).as_secs_f64();
                it.protection_there = Duration::from_nanos(*protection).as_secs_f64();
            }),
            Fact::Raised { interpreter, .. } => self.of(*interpreter, |it| it.tasks += 1),
            Fact::Lost { interpreter, cause, tasks } => {
                self.lost += 1;
                self.refired += u64::from(*tasks);
                self.of(*interpreter, |it| (it.state, it.cause) = ("lost", Some(cause.clone())));
            }
            Fact::Delivered { tasks, .. } => {
                self.tasks += u64::from(*tasks);
                self.wall = at - self.first_fired.unwrap_or(at);
            }
            Fact::Dismissed { interpreter } => self.of(*interpreter, |it| it.state = "dismissed"),
            Fact::Released { interpreter } => self.of(*interpreter, |it| it.state = "released"),
            Fact::Contract { asked, reached, met, why, .. } => {
                let (asked, reached, met, why) = (*asked, *reached, *met, why.clone());
                self.contract = Some(ContractSummary { asked, reached, met, why });
            }
            Fact::Wanted { .. }
            | Fact::RecruitFailed { .. }
            | Fact::Returned { .. }
            | Fact::Retried { .. }
            | Fact::AskedBack { .. } => {}
            Fact::Delegated { interpreter, scope, until } => {
                let delegated = (scope.clone(), *until);
                self.of(*interpreter, |it| it.delegated = Some(delegated.clone()));
                self.delegated.insert(*interpreter, delegated);
            }
        }
    }

    fn of(&mut self, id: InterpreterId, change: impl FnOnce(&mut InterpreterSummary)) {
        self.interpreters.get_mut(&id).map(change);
    }
}
