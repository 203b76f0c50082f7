//! Graphs of instructions, as Python compiles them (`phalanx/_compile.py`).

use phalanx_core::flow::{Graph, GraphError, Instruction, Takes, Target};

/// An instruction and the number of its input; `None`: the token is a result.
pub type PyTarget = Option<(u16, u16)>;
/// An instruction: its fan; the fan whose groups it joins; its number of inputs (0: one token); its targets; the targets of
/// tokens that leave early; the fan that it splits into.
pub type PyInstruction = (u16, Option<u16>, u16, Vec<PyTarget>, Vec<PyTarget>, Option<u16>);

pub fn to_graph(entry: Vec<PyTarget>, instructions: Vec<PyInstruction>) -> Result<Graph, GraphError> {
    Graph::new(to_targets(entry), instructions.into_iter().map(to_instruction).collect())
}

fn to_instruction((fan, parts, inputs, on, past, splits): PyInstruction) -> Instruction {
    let takes = match (parts, inputs) {
        (Some(fan), _) => Takes::Parts { fan },
        (None, 0) => Takes::Token,
        (None, count) => Takes::Inputs { count },
    };
    Instruction { fan, takes, on: to_targets(on), past: to_targets(past), splits }
}

fn to_targets(targets: Vec<PyTarget>) -> Vec<Target> {
    let to_target = |target: PyTarget| match target {
        Some((instruction, slot)) => Target::Instruction { instruction, slot },
        None => Target::Result,
    };
    targets.into_iter().map(to_target).collect()
}
