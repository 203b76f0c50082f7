//! A staged program, and what is known of how long its instructions take.

use super::graph::{Graph, MOST_FOLLOW};
use super::marks::Marks;
use super::pace::Pace;
use bytes::Bytes;
use std::time::Duration;

#[derive(Debug)]
pub struct Program {
    pub graph: Graph,
    pub code: Bytes,
    pub marks: Marks,
    /// One for each instruction.
    pub paces: Vec<Pace>,
    /// For each fan, how many parts a token is split into: a moving average.
    pub parts: Vec<f64>,
}

impl Program {
    /// What a task needs on its way to its result.
    pub fn whole(&self) -> Pace {
        let tokens = |number: usize| self.tokens(self.graph.instruction(number as u16).fan);
        Pace::whole(self.paces.iter().enumerate().map(|(number, pace)| (pace, tokens(number))))
    }

    /// How many tokens to fire together.
    pub fn batch(&self, instruction: u16) -> u32 {
        self.path(instruction).batch()
    }

    /// How long `tokens` tokens take, with what follows where they stay; unknown before the first answer.
    pub fn estimate(&self, instruction: u16, tokens: u32) -> Option<Duration> {
        self.path(instruction).estimate(tokens)
    }

    /// An instruction, and what follows it at the same interpreter.
    fn path(&self, instruction: u16) -> Pace {
        let pace = |number: u16| &self.paces[usize::from(number)];
        let next = |number: &u16| self.graph.follower(*number).filter(|_| pace(*number).gives_heavy());
        let path = std::iter::successors(Some(instruction), next).take(MOST_FOLLOW + 1);
        Pace::path(path.map(pace))
    }

    /// How many tokens of a task are numbered in a fan.
    pub fn tokens(&self, mut fan: u16) -> f64 {
        let mut tokens = 1.0;
        while fan != 0 {
            tokens *= self.parts[usize::from(fan)].max(1.0);
            fan = self.graph.around(fan);
        }
        tokens
    }
}
