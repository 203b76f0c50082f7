//! A program as macro data flow: instructions, and where each one's result token goes.

/// The instructions of a program. A skeleton of farms and pipelines is a chain: the token an instruction
/// gives fires the next one, and the last one's token is a result (paper 000, section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Graph {
    instructions: u16,
}

impl Graph {
    /// A chain of `instructions` instructions, at least one.
    pub fn chain(instructions: u16) -> Graph {
        Graph { instructions: instructions.max(1) }
    }

    /// How many instructions.
    pub fn len(self) -> usize {
        usize::from(self.instructions)
    }

    /// Never: a graph has at least one instruction.
    pub fn is_empty(self) -> bool {
        false
    }

    /// Where the token that `instruction` gives goes; `None`: it is a result.
    pub fn target(self, instruction: u16) -> Option<u16> {
        (instruction + 1 < self.instructions).then_some(instruction + 1)
    }
}
