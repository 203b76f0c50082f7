//! A staged program, and what is known of how long its instructions take.

use super::graph::Graph;
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

    /// How long `tokens` tokens take, with what follows where they stay; unknown before the first answer.
    pub fn estimate(&self, mut instruction: u16, tokens: u32) -> Option<Duration> {
        let mut whole = self.paces[usize::from(instruction)].estimate(tokens)?;
        for next in self.graph.follow(instruction) {
            if !self.paces[usize::from(instruction)].gives_heavy() {
                break;
            }
            whole += self.paces[usize::from(next)].estimate(tokens).unwrap_or_default();
            instruction = next;
        }
        Some(whole)
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
