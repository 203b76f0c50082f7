//! What of a program its user has marked (paper 000, section 4.4).

use crate::level::Mark;

/// Whether what an instruction takes, and what it gives, is to be protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MarkedData {
    pub takes: bool,
    pub gives: bool,
}

/// The marks of a program. Tokens are fired again, elsewhere and in parts, but always for their instruction: its marks
/// hold wherever they go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Marks {
    /// Its code.
    pub code: bool,
    /// One for each instruction; where there is none, nothing is marked.
    pub data: Vec<MarkedData>,
}

impl Marks {
    /// Those of an instruction's tokens.
    pub fn of(&self, instruction: u16) -> MarkedData {
        self.data.get(usize::from(instruction)).copied().unwrap_or_default()
    }

    /// That of the code.
    pub fn of_code(&self) -> Mark {
        if self.code { Mark::Code } else { Mark::None }
    }
}

/// That of tokens.
pub fn of_tokens(marked: bool) -> Mark {
    if marked { Mark::Data } else { Mark::None }
}
