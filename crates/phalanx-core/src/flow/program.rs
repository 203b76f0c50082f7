//! A staged program, and the measured times of its instructions.

use super::graph::{Graph, MOST_FOLLOW};
use super::marks::Marks;
use super::options::Options;
use super::pace::Pace;
use super::repository::Work;
use crate::ids::{RunId, TaskId};
use crate::wire::Tokens;
use bytes::Bytes;
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Program {
    pub graph: Graph,
    pub code: Bytes,
    pub marks: Marks,
    /// One entry per instruction. A missing entry means the default.
    pub options: Vec<Options>,
    /// One entry per instruction.
    pub paces: Vec<Pace>,
    /// For each fan, the number of parts that a token is split into, as a moving average.
    pub parts: Vec<f64>,
}

impl Program {
    /// The options of an instruction.
    pub fn options(&self, instruction: u16) -> Options {
        self.options.get(usize::from(instruction)).copied().unwrap_or_default()
    }

    /// Work for all of `tokens`, for the tasks from `task` on.
    pub fn work(&self, run: RunId, instruction: u16, task: TaskId, tokens: Tokens) -> Work {
        let Options { priority, needs, .. } = self.options(instruction);
        Work { priority, needs, ..Work::new(run, instruction, task, tokens) }
    }

    /// Work for all `tokens` together, for the task `number`.
    pub fn group(&self, run: RunId, instruction: u16, number: u64, tokens: Tokens) -> Work {
        let Options { priority, needs, .. } = self.options(instruction);
        Work { priority, needs, ..Work::group(run, instruction, number, tokens) }
    }

    /// The time and bytes that a task needs on its way to its result.
    pub fn whole(&self) -> Pace {
        let tokens = |number: usize| self.tokens(self.graph.instruction(number as u16).fan);
        Pace::whole(self.paces.iter().enumerate().map(|(number, pace)| (pace, tokens(number))))
    }

    /// How many tokens to fire together.
    pub fn batch(&self, instruction: u16) -> u32 {
        self.path(instruction).batch()
    }

    /// Estimated time for `tokens` tokens, including the instructions that follow at the same interpreter; `None`
    /// before the first answer.
    pub fn estimate(&self, instruction: u16, tokens: u32) -> Option<Duration> {
        self.path(instruction).estimate(tokens)
    }

    /// The instructions that may be fired one after the other on the output of this one, where it stays.
    pub fn follow(&self, instruction: u16) -> Vec<u16> {
        let next = |number: &u16| self.follower(*number);
        std::iter::successors(next(&instruction), next).take(MOST_FOLLOW).collect()
    }

    /// The first of these. An instruction with a timeout, retries or needs neither follows another one nor is
    /// followed, so that it is clear which one is late or has failed, and where each may be fired.
    fn follower(&self, number: u16) -> Option<u16> {
        let apart = |number: &u16| self.options(*number).stands_alone();
        self.graph.follower(number).filter(|next| !apart(&number) && !apart(next))
    }

    /// An instruction together with those that follow it at the same interpreter.
    fn path(&self, instruction: u16) -> Pace {
        let pace = |number: u16| &self.paces[usize::from(number)];
        let next = |number: &u16| self.follower(*number).filter(|_| pace(*number).gives_heavy());
        let path = std::iter::successors(Some(instruction), next).take(MOST_FOLLOW + 1);
        Pace::path(path.map(pace))
    }

    /// The number of tokens per task in a fan.
    pub fn tokens(&self, mut fan: u16) -> f64 {
        let mut tokens = 1.0;
        while fan != 0 {
            tokens *= self.parts[usize::from(fan)].max(1.0);
            fan = self.graph.around(fan);
        }
        tokens
    }
}
