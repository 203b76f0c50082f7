//! The engine as a page sees it that shows what programs do. To look at it changes nothing.

use super::Engine;
use crate::ids::{InterpreterId, RunId};
use serde::Serialize;
use std::time::Duration;

/// A snapshot of a manager's work. Times are in seconds.
#[derive(Debug, Clone, Serialize)]
pub struct View {
    /// The number of interpreters that the contract wants.
    pub wanted: u32,
    /// The number of interpreters that are being recruited.
    pub recruiting: u32,
    /// The open runs.
    pub runs: Vec<RunView>,
    /// The interpreters that are ready.
    pub interpreters: Vec<InterpreterView>,
}

/// A run that is open.
#[derive(Debug, Clone, Serialize)]
pub struct RunView {
    /// Its number.
    pub run: RunId,
    /// Tasks taken from the stream so far.
    pub fed: u64,
    /// Tasks with an outcome.
    pub settled: u64,
    /// The number of tasks in the stream, if it is known.
    pub size: Option<u64>,
    /// Whether every task has an outcome, or the run was given up.
    pub ended: bool,
    /// Compute time of a task, as a moving average; `None` before the first answer.
    pub task: Option<f64>,
    /// The number of tasks that are fired together at the first instruction.
    pub batch: u32,
}

/// The firings that an interpreter has in flight.
#[derive(Debug, Clone, Serialize)]
pub struct InterpreterView {
    /// The interpreter.
    pub interpreter: InterpreterId,
    /// Firings in flight: the window.
    pub firings: usize,
    /// Their tasks.
    pub tasks: u32,
    /// Time for a message there and back.
    pub round_trip: f64,
    /// Time since the first of these firings is its business; 0 if there is none.
    pub busy_for: f64,
    /// Whether it is released as soon as nothing is in flight.
    pub leaving: bool,
}

impl Engine {
    /// A snapshot of the manager's work at this moment.
    pub fn view(&self, now: Duration) -> View {
        let runs = self.runs.iter().map(|(id, run)| {
            let program = self.programs.get(&run.program);
            RunView {
                run: *id,
                fed: run.fed(),
                settled: run.settled(),
                size: run.size(),
                ended: run.has_ended(),
                task: program.and_then(|program| program.whole().estimate(1)).map(|time| time.as_secs_f64()),
                batch: program.map_or(1, |program| program.batch(0)),
            }
        });
        let interpreters = self.interpreters.iter().map(|(id, interpreter)| InterpreterView {
            interpreter: *id,
            firings: interpreter.in_flight.len(),
            tasks: interpreter.tasks(),
            round_trip: interpreter.round_trip().as_secs_f64(),
            busy_for: interpreter.waited(now).as_secs_f64(),
            leaving: interpreter.leaving,
        });
        let (wanted, recruiting) = (self.wanted(), self.recruiting);
        View { wanted, recruiting, runs: runs.collect(), interpreters: interpreters.collect() }
    }
}
