//! The user's side of one run: feeds tasks when there is room, reads outcomes, and knows the expected ones.

use super::graphs;
use super::integers;
use super::plan::{Fate, Stream};
use super::remote::code_of;
use crate::event::Outcome;
use crate::flow::{Engine, Graph, KILLS, LOSSES};
use crate::ids::{ProgramId, RunId, TaskId};
use std::time::Duration;

/// The outcome of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Got {
    Result(u64),
    Raised,
    /// With the interpreters that it killed.
    Culprit(Vec<String>),
    /// After so many attempts.
    TimedOut(u32),
    Cancelled,
}

pub struct Reader {
    pub stream: Stream,
    program: ProgramId,
    pub run: RunId,
    pub fed: u64,
    finished: bool,
    pub got: Vec<(TaskId, Got)>,
    pub ended: bool,
    /// The losses named in the error.
    pub abandoned: Option<Vec<String>>,
    /// The reports of a missed contract: asked, reached, why.
    pub unmet: Vec<(f64, f64, String)>,
    /// Whether there had been interpreters when the run was abandoned.
    pub recruited: bool,
    pub closed: bool,
    /// Whether so many interpreters are lost that an innocent task may be accused.
    pub unlucky: bool,
    /// Whether the user cancels tasks.
    pub cancels: bool,
}

impl Reader {
    /// Stages the stream's program and opens a run of it.
    pub fn open(engine: &mut Engine, index: usize, stream: &Stream) -> Reader {
        let graph = stream.graph.clone().unwrap_or_else(|| Graph::chain(stream.instructions));
        let program = engine.stage(graph, code_of(index));
        engine.set_options(program, stream.settings.clone());
        let run = engine.open(Duration::ZERO, program, stream.options);
        Reader {
            stream: stream.clone(),
            program,
            run,
            fed: 0,
            finished: false,
            got: Vec::new(),
            ended: false,
            abandoned: None,
            unmet: Vec::new(),
            recruited: false,
            closed: false,
            unlucky: false,
            cancels: false,
        }
    }

    /// Whether no further outcome is expected.
    pub fn is_done(&self) -> bool {
        self.ended || self.closed || self.abandoned.is_some()
    }

    /// Takes one step, if there is one: closes, feeds, or ends the stream.
    pub fn go_on(&mut self, engine: &mut Engine, now: Duration) -> bool {
        if self.closed {
            return false;
        }
        if self.stream.close_after.is_some_and(|tasks| self.got.len() as u64 >= tasks) {
            match self.stream.stops {
                true => engine.stop(now, self.run),
                false => engine.close(self.run),
            }
            engine.forget(self.program);
            self.closed = true;
            return true;
        }
        let count = u64::from(engine.room(self.run)).min(self.stream.tasks - self.fed);
        if count > 0 {
            let numbers: Vec<u64> = (self.fed..self.fed + count).map(integers::of_task).collect();
            self.fed += count;
            let fed = engine.feed(now, self.run, integers::tokens(self.stream.form, &numbers));
            fed.expect("a chain takes any tokens, a graph separate ones");
            return true;
        }
        let finishes = self.fed == self.stream.tasks && !self.finished;
        if finishes {
            self.finished = true;
            engine.finish(self.run);
        }
        finishes
    }

    /// Takes an outcome. Panics if it follows the last one.
    pub fn take(&mut self, outcome: Outcome) {
        assert!(!self.is_done(), "after the end comes {outcome:?}");
        match outcome {
            Outcome::Results { first, tokens } => {
                let results = integers::numbers(&tokens).into_iter().map(Got::Result);
                self.got.extend((first..).zip(results));
            }
            Outcome::Raised { task, error, .. } => {
                assert_eq!(error.as_ref(), task.to_le_bytes(), "another task's error");
                self.got.push((task, Got::Raised));
            }
            Outcome::Culprit { task, bytes, killed } => {
                assert!(bytes > 0, "a token of nothing");
                self.got.push((task, Got::Culprit(killed)));
            }
            Outcome::TimedOut { task, attempts, timeout, .. } => {
                assert!(self.stream.settings.iter().any(|it| it.timeout == Some(timeout)), "another timeout");
                self.got.push((task, Got::TimedOut(attempts)));
            }
            Outcome::Cancelled { task } => self.got.push((task, Got::Cancelled)),
            Outcome::Unmet { asked, reached, why } => self.unmet.push((asked, reached, why)),
            Outcome::Ended => self.ended = true,
            Outcome::Abandoned { losses, recruited } => {
                (self.abandoned, self.recruited) = (Some(losses), recruited);
            }
        }
    }

    /// Panics unless every task of the stream has its expected outcome, once, and in order if that was asked for.
    pub fn expect_everything(&self) {
        assert!(self.ended, "the run has not ended");
        assert_eq!(self.got.len() as u64, self.stream.tasks, "some tasks are lost, or came twice");
        self.expect_nothing_wrong();
    }

    /// Panics unless the outcomes so far are right, each once, and in order if that was asked for.
    pub fn expect_nothing_wrong(&self) {
        let mut tasks: Vec<TaskId> = self.got.iter().map(|(task, _)| *task).collect();
        if self.stream.options.ordered {
            let in_order = tasks.iter().copied().eq(0..tasks.len() as u64);
            assert!(in_order, "out of order: {tasks:?}");
        }
        tasks.sort_unstable();
        assert!(tasks.windows(2).all(|pair| pair[0] < pair[1]), "a task came twice: {tasks:?}");
        self.got.iter().for_each(|(task, got)| self.expect_right(*task, got));
    }

    fn expect_right(&self, task: TaskId, got: &Got) {
        if let Some(graph) = &self.stream.graph {
            return self.expect_right_of_graph(graph, task, got);
        }
        let (hangs, retries) = (self.stream.hanging.contains(&task), self.stream.retries());
        let fates = (0..self.stream.instructions).map(|instruction| self.stream.fate(task, instruction));
        let fate = fates.into_iter().find(|fate| *fate != Fate::Gives).unwrap_or(Fate::Gives);
        let right = match got {
            Got::TimedOut(attempts) => hangs && *attempts == retries + 1,
            Got::Cancelled => self.cancels,
            // Also a task that hangs, if its interpreters are lost before it is late.
            Got::Culprit(killed) => (fate == Fate::Kills || self.unlucky) && self.are_as_many_as_allowed(killed.len()),
            _ if hangs => false,
            Got::Result(number) => fate == Fate::Gives && *number == integers::result(task, self.stream.instructions),
            Got::Raised => fate == Fate::Raises,
        };
        assert!(right, "task {task} has come to {got:?}");
    }

    fn expect_right_of_graph(&self, graph: &Graph, task: TaskId, got: &Got) {
        let raises = |task, instruction| self.stream.fate(task, instruction) == Fate::Raises;
        let kills = self.stream.killing.contains(&task);
        let right = match got {
            Got::Result(number) => !kills && graphs::result(graph, task, &raises) == Some(*number),
            Got::Raised => graphs::result(graph, task, &raises).is_none(),
            Got::Culprit(killed) => (kills || self.unlucky) && self.are_as_many_as_allowed(killed.len()),
            Got::TimedOut(attempts) => self.stream.hanging.contains(&task) && *attempts == self.stream.retries() + 1,
            Got::Cancelled => false,
        };
        assert!(right, "task {task} has come to {got:?}");
    }

    /// Whether so many losses are between the least and the most that one task may cause.
    fn are_as_many_as_allowed(&self, losses: usize) -> bool {
        (KILLS..=LOSSES * (self.stream.retries() as usize + 1)).contains(&losses)
    }

    /// The tasks that were reported as culprits.
    pub fn culprits(&self) -> Vec<TaskId> {
        self.got.iter().filter(|(_, got)| matches!(got, Got::Culprit(_))).map(|(task, _)| *task).collect()
    }
}
