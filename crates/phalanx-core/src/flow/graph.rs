//! A program as macro data flow: instructions, and where each one's tokens go (paper 000, section 2).
//!
//! Skeletons of farms and pipelines are a *chain*: every instruction takes one token and gives one. Others are a graph,
//! in which an instruction can also *split* a token into parts, take all parts of a token or one token from each of
//! several others, and choose between two ways. The parts of all tokens that one skeleton splits are numbered one after
//! the other, as the tasks of the stream are; such a numbering is a *fan*, and the stream itself is fan 0.

use thiserror::Error;

/// Instructions that follow another one at the same interpreter, of those that could.
pub const MOST_FOLLOW: usize = 16;

/// What an instruction is fired on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// One token.
    Token,
    /// All tokens of a group of this fan, in their order: what was split is joined.
    Parts { fan: u16 },
    /// One token from each of so many others.
    Inputs { count: u16 },
}

/// Where a token goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// It is a result.
    Result,
    /// It is a token of this instruction: its input number `slot`.
    Instruction { instruction: u16, slot: u16 },
}

/// An instruction of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// How the tokens are numbered that it is fired for.
    pub fan: u16,
    pub takes: Takes,
    /// Where what it gives goes.
    pub on: Vec<Target>,
    /// Where a token goes that leaves early; empty: none does.
    pub past: Vec<Target>,
    /// It gives any number of tokens, which are numbered in this fan.
    pub splits: Option<u16>,
}

impl Instruction {
    /// Whether its answers say for each token which way it goes, or into how many parts.
    pub fn branches(&self) -> bool {
        self.splits.is_some() || !self.past.is_empty()
    }
}

/// The instructions of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    instructions: Vec<Instruction>,
    entry: Vec<Target>,
    is_chain: bool,
    /// For each fan the one around it, and the instruction that joins its groups.
    fans: Vec<(u16, u16)>,
}

/// A graph that would lose tokens, or wait for some that never come.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("no graph of instructions: {0}")]
pub struct GraphError(&'static str);

impl Graph {
    /// A chain of `instructions` instructions, at least one: the token each gives fires the next one.
    pub fn chain(instructions: u16) -> Graph {
        let instructions = instructions.max(1);
        let to = |instruction| match instruction < instructions {
            true => Target::Instruction { instruction, slot: 0 },
            false => Target::Result,
        };
        let link = |instruction| Instruction {
            fan: 0,
            takes: Takes::Token,
            on: vec![to(instruction + 1)],
            past: Vec::new(),
            splits: None,
        };
        Graph {
            instructions: (0..instructions).map(link).collect(),
            entry: vec![to(0)],
            is_chain: true,
            fans: vec![(0, 0)],
        }
    }

    /// A graph whose tasks go to `entry`.
    pub fn new(entry: Vec<Target>, instructions: Vec<Instruction>) -> Result<Graph, GraphError> {
        let fans = fans(&instructions)?;
        let graph = Graph { instructions, entry, is_chain: false, fans };
        graph.check()?;
        Ok(graph)
    }

    /// How many instructions.
    pub fn len(&self) -> usize {
        self.instructions.len()
    }

    /// Never: a graph has at least one instruction.
    pub fn is_empty(&self) -> bool {
        self.instructions.is_empty()
    }

    /// Whether every token is just the next instruction's token.
    pub fn is_chain(&self) -> bool {
        self.is_chain
    }

    /// Where the token goes that an instruction of a chain gives; `None`: it is a result.
    pub fn next(&self, instruction: u16) -> Option<u16> {
        (usize::from(instruction) + 1 < self.len()).then_some(instruction + 1)
    }

    /// The instructions that can be fired one after the other on what this one gives, where that stays: each takes the
    /// only token that the one before it gives, and is the only one that does.
    pub fn follow(&self, instruction: u16) -> Vec<u16> {
        let next = |number: &u16| self.follower(*number);
        std::iter::successors(next(&instruction), next).take(MOST_FOLLOW).collect()
    }

    /// The first of them.
    pub fn follower(&self, number: u16) -> Option<u16> {
        let giver = self.instruction(number);
        let [Target::Instruction { instruction, .. }] = giver.on[..] else { return None };
        let takes_it = self.instruction(instruction).takes == Takes::Token;
        (takes_it && !giver.branches()).then_some(instruction)
    }

    /// Where the tasks go.
    pub fn entry(&self) -> &[Target] {
        &self.entry
    }

    /// An instruction by its number.
    pub fn instruction(&self, number: u16) -> &Instruction {
        &self.instructions[usize::from(number)]
    }

    /// All of them, in the order of their numbers.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// How many fans, with the stream.
    pub fn fans(&self) -> usize {
        self.fans.len()
    }

    /// The fan in which what was split into this fan is numbered.
    pub fn around(&self, fan: u16) -> u16 {
        self.fans[usize::from(fan)].0
    }

    /// The instruction that takes all parts of a group of this fan.
    pub fn join(&self, fan: u16) -> u16 {
        self.fans[usize::from(fan)].1
    }

    fn check(&self) -> Result<(), GraphError> {
        let mut fed: Vec<Vec<u32>> = self.instructions.iter().map(|it| vec![0; inputs(it)]).collect();
        self.check_targets(&self.entry, 0, &mut fed)?;
        for instruction in &self.instructions {
            self.check_targets(&instruction.on, instruction.splits.unwrap_or(instruction.fan), &mut fed)?;
            if instruction.on.is_empty() {
                return Err(GraphError("a token goes nowhere"));
            }
            self.check_targets(&instruction.past, instruction.fan, &mut fed)?;
        }
        let takes = self.instructions.iter().map(|it| it.takes);
        let starved = fed.iter().zip(takes).any(|(fed, takes)| match takes {
            Takes::Inputs { .. } => fed.contains(&0),
            _ => false,
        });
        if starved { Err(GraphError("an input is fed by nothing")) } else { Ok(()) }
    }

    fn check_targets(&self, targets: &[Target], fan: u16, fed: &mut [Vec<u32>]) -> Result<(), GraphError> {
        for target in targets {
            let Target::Instruction { instruction, slot } = *target else {
                if fan == 0 {
                    continue;
                }
                return Err(GraphError("a part is a result"));
            };
            let Some(to) = self.instructions.get(usize::from(instruction)) else {
                return Err(GraphError("there is no such instruction"));
            };
            let wanted = if let Takes::Parts { fan } = to.takes { fan } else { to.fan };
            if wanted != fan {
                return Err(GraphError("a token goes into another fan"));
            }
            match fed[usize::from(instruction)].get_mut(usize::from(slot)) {
                Some(sources) => *sources += 1,
                None => return Err(GraphError("there is no such input")),
            }
        }
        Ok(())
    }
}

/// How many inputs tokens can be addressed to.
fn inputs(instruction: &Instruction) -> usize {
    if let Takes::Inputs { count } = instruction.takes { usize::from(count) } else { 1 }
}

/// For each fan the one around it, and its join: every fan has exactly one, in a fan of a smaller number.
fn fans(instructions: &[Instruction]) -> Result<Vec<(u16, u16)>, GraphError> {
    let named = |it: &Instruction| it.fan.max(it.splits.unwrap_or(0));
    let most = instructions.iter().map(named).max().ok_or(GraphError("there is no instruction"))?;
    let mut fans = vec![None; usize::from(most) + 1];
    fans[0] = Some((0, 0));
    for (number, it) in (0..=u16::MAX).zip(instructions) {
        let Takes::Parts { fan } = it.takes else { continue };
        match fans.get_mut(usize::from(fan)) {
            Some(entry @ None) if it.fan < fan => *entry = Some((it.fan, number)),
            _ => return Err(GraphError("a fan is joined twice, or was never split")),
        }
    }
    let splits = |it: &Instruction| {
        it.splits.is_some_and(|fan| fans[usize::from(fan)].is_none_or(|(around, _)| around != it.fan))
    };
    if instructions.len() > usize::from(u16::MAX) || instructions.iter().any(splits) {
        return Err(GraphError("a token is split into the wrong fan"));
    }
    fans.into_iter().collect::<Option<_>>().ok_or(GraphError("a fan is never joined"))
}
