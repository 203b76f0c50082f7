//! A program as macro data flow: instructions, and where each one's tokens go (paper 000, section 2).
//!
//! Farms and pipelines are a *chain*: every instruction takes one token and gives one. Other skeletons are a graph.
//! There an instruction can also *split* a token into parts, take all parts of a token or one token from each of
//! several others, and choose between two ways. All parts made by one splitting skeleton are numbered consecutively, as
//! the tasks of the stream are. Such a numbering is called a *fan*. The stream itself is fan 0.

use thiserror::Error;

/// Limit on the instructions that are fired after another one at the same interpreter.
pub const MOST_FOLLOW: usize = 16;

/// The input of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// One token.
    Token,
    /// All tokens of a group of this fan, in order. This joins the parts of a split token.
    Parts {
        /// The fan whose groups are joined.
        fan: u16,
    },
    /// One token from each of `count` others.
    Inputs {
        /// The number of inputs.
        count: u16,
    },
}

/// Where a token goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// It is a result.
    Result,
    /// It is input number `slot` of this instruction.
    Instruction {
        /// The number of the instruction.
        instruction: u16,
        /// The number of the input.
        slot: u16,
    },
}

/// An instruction of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// The fan in which its tokens are numbered.
    pub fan: u16,
    /// Its input.
    pub takes: Takes,
    /// The targets of its output.
    pub on: Vec<Target>,
    /// The targets of tokens that leave early. Empty: no token does.
    pub past: Vec<Target>,
    /// If it splits: the fan in which its outputs, any number per token, are numbered.
    pub splits: Option<u16>,
}

impl Instruction {
    /// Whether each answer must also say which way a token goes, or into how many parts.
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
    /// For each fan, the fan around it and the instruction that joins its groups.
    fans: Vec<(u16, u16)>,
}

/// An error in a graph: it would lose tokens, or wait for tokens that never come.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("no graph of instructions: {0}")]
pub struct GraphError(&'static str);

impl Graph {
    /// A chain of `instructions` instructions (at least one): the output of each fires the next one.
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

    /// A graph whose tasks are sent to `entry`.
    pub fn new(entry: Vec<Target>, instructions: Vec<Instruction>) -> Result<Graph, GraphError> {
        let fans = fans(&instructions)?;
        let graph = Graph { instructions, entry, is_chain: false, fans };
        graph.check()?;
        Ok(graph)
    }

    /// The number of instructions.
    pub fn len(&self) -> usize {
        self.instructions.len()
    }

    /// Always false, because a graph has at least one instruction.
    pub fn is_empty(&self) -> bool {
        self.instructions.is_empty()
    }

    /// Whether the graph is a chain.
    pub fn is_chain(&self) -> bool {
        self.is_chain
    }

    /// In a chain, the instruction after this one; `None`: the output is a result.
    pub fn next(&self, instruction: u16) -> Option<u16> {
        (usize::from(instruction) + 1 < self.len()).then_some(instruction + 1)
    }

    /// The instruction that can be fired on the output of this one, where it stays: it takes the only token that this one
    /// gives, and is the only one to take it.
    pub fn follower(&self, number: u16) -> Option<u16> {
        let giver = self.instruction(number);
        let [Target::Instruction { instruction, .. }] = giver.on[..] else { return None };
        let takes_it = self.instruction(instruction).takes == Takes::Token;
        (takes_it && !giver.branches()).then_some(instruction)
    }

    /// The targets of the tasks.
    pub fn entry(&self) -> &[Target] {
        &self.entry
    }

    /// An instruction by its number.
    pub fn instruction(&self, number: u16) -> &Instruction {
        &self.instructions[usize::from(number)]
    }

    /// All instructions, by number.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// The number of fans, including the stream.
    pub fn fans(&self) -> usize {
        self.fans.len()
    }

    /// The fan around this one: the tokens that were split into this fan are numbered there.
    pub fn around(&self, fan: u16) -> u16 {
        self.fans[usize::from(fan)].0
    }

    /// The instruction that joins the groups of this fan.
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

/// The number of inputs that tokens can be addressed to.
fn inputs(instruction: &Instruction) -> usize {
    if let Takes::Inputs { count } = instruction.takes { usize::from(count) } else { 1 }
}

/// For each fan, the fan around it and its join. Every fan has exactly one join, in a fan with a smaller number.
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
