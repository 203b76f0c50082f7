//! The options of a program's instructions: how long a firing of a token may take, how often it is tried again, and
//! which work is fired first.

use std::time::Duration;

/// The options of one instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// How long the instruction may run on one token. `None`: as long as it takes.
    pub timeout: Option<Duration>,
    /// How often a token is fired again after an exception, after a timeout, or after it was the culprit.
    pub retries: u32,
    /// Fireable work of a higher priority is fired first.
    pub priority: i32,
    /// The needs that an interpreter must meet, by the number that [`Engine::need`](super::Engine::need) has given. 0: none.
    pub needs: u16,
}

impl Options {
    /// Whether an answer or a failure must be about this instruction alone, and about no other one on the same token.
    pub fn stands_alone(&self) -> bool {
        self.timeout.is_some() || self.retries > 0 || self.needs > 0
    }

    /// The timeout in nanoseconds, as the wire has it; 0: none.
    pub fn timeout_on_wire(&self) -> u64 {
        self.timeout.map_or(0, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX).max(1))
    }
}
