//! Security levels (paper 003), and the policy that decides the level of a link (paper 000, section 4.4).

mod policy;

pub use policy::{Agreed, Bound, Conflict, Network, Place, Policy, Reach, Rule, Usual, Verdict};

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How a link is protected, from no to full protection. Ordered: a higher level protects more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// No protection.
    Clear,
    /// Both ends have authenticated in a handshake. What follows is not protected: an attacker on the wire can read and
    /// change all of it, and send code in the ends' names.
    Authenticated,
    /// An attacker cannot alter, drop, repeat or reorder anything unnoticed, but can read everything.
    Safe,
    /// An attacker cannot read anything either.
    Private,
}

impl Level {
    /// All levels, from weakest to strongest.
    pub const ALL: [Level; 4] = [Level::Clear, Level::Authenticated, Level::Safe, Level::Private];

    /// The name that users read and type.
    pub fn name(self) -> &'static str {
        match self {
            Level::Clear => "clear",
            Level::Authenticated => "authenticated",
            Level::Safe => "safe",
            Level::Private => "private",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(word: &str) -> Result<Level, String> {
        let found = Level::ALL.into_iter().find(|level| level.name() == word);
        found.ok_or_else(|| format!("{word:?} is no level: write clear, authenticated, safe or private"))
    }
}

/// What the user has marked: nothing, the input and output of a function, or the function itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// Nothing.
    None,
    /// The input and output of a function.
    Data,
    /// The function itself.
    Code,
}

impl Mark {
    /// All marks, in the order of arrays with one entry per mark.
    pub const ALL: [Mark; 3] = [Mark::None, Mark::Data, Mark::Code];

    /// The name that users read and type.
    pub fn name(self) -> &'static str {
        match self {
            Mark::None => "none",
            Mark::Data => "data",
            Mark::Code => "code",
        }
    }
}

/// The levels of one link, for unmarked frames and for each mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Levels {
    /// The level of unmarked frames.
    pub base: Level,
    /// The level of marked data.
    pub data: Level,
    /// The level of marked code.
    pub code: Level,
}

impl Levels {
    /// The same level for everything.
    pub const fn all(level: Level) -> Levels {
        Levels { base: level, data: level, code: level }
    }

    /// The level of frames with this mark. Never weaker than the level of unmarked frames.
    pub fn of(self, mark: Mark) -> Level {
        match mark {
            Mark::None => self.base,
            Mark::Data => self.data.max(self.base),
            Mark::Code => self.code.max(self.base),
        }
    }

    /// For each mark, the set with only its level: the offer of an end that accepts nothing else.
    pub fn exactly(self) -> [LevelSet; 3] {
        Mark::ALL.map(|mark| LevelSet::only(self.of(mark)))
    }

    /// Whether the ends must do a handshake.
    pub fn need_handshake(self) -> bool {
        Mark::ALL.into_iter().any(|mark| self.of(mark) > Level::Clear)
    }
}

/// A set of levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelSet(u8);

impl LevelSet {
    /// All four levels.
    pub const EVERY: LevelSet = LevelSet(0b1111);

    /// The given level and no other.
    pub fn only(level: Level) -> LevelSet {
        LevelSet(1 << level as u8)
    }

    /// The given level and all stronger ones.
    pub fn from(level: Level) -> LevelSet {
        Level::ALL.into_iter().filter(|other| *other < level).fold(LevelSet::EVERY, LevelSet::without)
    }

    /// The set without this level.
    #[must_use]
    pub fn without(self, level: Level) -> LevelSet {
        LevelSet(self.0 & !(1 << level as u8))
    }

    /// The levels that are in both sets.
    #[must_use]
    pub fn both(self, other: LevelSet) -> LevelSet {
        LevelSet(self.0 & other.0)
    }

    /// Whether the level is in the set.
    pub fn contains(self, level: Level) -> bool {
        self.0 & (1 << level as u8) != 0
    }

    /// The levels in the set, from weakest to strongest.
    pub fn levels(self) -> impl DoubleEndedIterator<Item = Level> {
        Level::ALL.into_iter().filter(move |level| self.contains(*level))
    }
}

impl fmt::Display for LevelSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.levels().map(Level::name).collect();
        f.write_str(if names.is_empty() { "none" } else { "" })?;
        f.write_str(&names.join(", "))
    }
}

#[cfg(test)]
mod tests;
