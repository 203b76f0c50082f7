//! The marks of what an interpreter sends, which decide the levels of its answers.

use phalanx_core::ids::ProgramId;
use phalanx_core::level::{Levels, Mark};
use phalanx_core::wire::Follow;
use std::collections::HashMap;

/// The marks of the staged programs and of the current firing.
pub struct Marks {
    /// The mark of each staged program's code.
    code: HashMap<ProgramId, Mark>,
    gives: Mark,
    /// For each instruction that may follow, the mark of what it gives.
    follow: Vec<Mark>,
    /// The mark of an exception. It is the strongest of all, because an exception shows what the function took, what it would
    /// have given, and lines of its code.
    fails: Mark,
}

impl Default for Marks {
    fn default() -> Marks {
        Marks { code: HashMap::new(), gives: Mark::None, follow: Vec::new(), fails: Mark::None }
    }
}

impl Marks {
    /// A program was staged whose code has this mark.
    pub fn stage(&mut self, program: ProgramId, mark: Mark) {
        self.code.insert(program, mark);
    }

    /// A program is not fired again.
    pub fn forget(&mut self, program: ProgramId) {
        self.code.remove(&program);
    }

    /// A firing begins. Returns the mark of an exception in it.
    pub fn begin(&mut self, program: ProgramId, takes: Mark, gives: Mark, follow: &[Follow], levels: Levels) -> Mark {
        let code = self.code.get(&program).copied().unwrap_or(Mark::None);
        self.follow = follow.iter().map(|it| it.gives).collect();
        let all = [takes, gives, code].into_iter().chain(self.follow.iter().copied());
        (self.gives, self.fails) = (gives, all.max_by_key(|mark| levels.of(*mark)).unwrap_or(gives));
        self.fails
    }

    /// The mark of the answer after `stayed` tokens have stayed.
    pub fn given(&self, stayed: usize) -> Mark {
        if stayed == 0 { self.gives } else { self.follow.get(stayed - 1).copied().unwrap_or(self.fails) }
    }

    /// The mark of an exception in the current firing.
    pub fn fails(&self) -> Mark {
        self.fails
    }
}
