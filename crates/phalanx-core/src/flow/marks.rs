//! The parts of a program that its user has marked as secure (paper 000, section 4.4).

use crate::level::Mark;

/// Whether the inputs and the outputs of an instruction must be protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MarkedData {
    /// Whether the inputs must be protected.
    pub takes: bool,
    /// Whether the outputs must be protected.
    pub gives: bool,
}

/// The marks of a program. Tokens may be fired again, elsewhere or in parts. They are always fired for their
/// instruction, so its marks hold wherever they go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Marks {
    /// Whether the code is marked.
    pub code: bool,
    /// One entry per instruction. A missing entry means unmarked.
    pub data: Vec<MarkedData>,
}

impl Marks {
    /// The marks of an instruction's tokens.
    pub fn of(&self, instruction: u16) -> MarkedData {
        self.data.get(usize::from(instruction)).copied().unwrap_or_default()
    }

    /// The mark of the code.
    pub fn of_code(&self) -> Mark {
        if self.code { Mark::Code } else { Mark::None }
    }
}

/// The mark of tokens.
pub fn of_tokens(marked: bool) -> Mark {
    if marked { Mark::Data } else { Mark::None }
}
