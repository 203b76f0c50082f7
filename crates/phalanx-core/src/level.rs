//! Security levels (paper 003) and the one place that decides which a link gets.

use serde::{Deserialize, Serialize};

/// How a link is protected, from nothing to everything. Ordered: a higher level protects more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// No protection.
    Clear,
    /// Mutual TLS 1.3, encrypted and authenticated.
    Private,
}

impl Level {
    /// The word users read and type.
    pub fn name(self) -> &'static str {
        match self {
            Level::Clear => "clear",
            Level::Private => "private",
        }
    }
}

/// Where a link goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Another process of this machine, over a socket that never leaves the kernel.
    SameMachine,
    /// Anywhere else.
    Network,
}

/// What the user asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// Every link that leaves the machine is private.
    #[default]
    Links,
    /// Every link is private.
    All,
}

/// The level of a link: the only place where this is decided.
pub fn decide(policy: Policy, reach: Reach) -> Level {
    match (policy, reach) {
        (Policy::Links, Reach::SameMachine) => Level::Clear,
        (Policy::Links, Reach::Network) | (Policy::All, _) => Level::Private,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_machine_is_clear_and_only_by_default() {
        assert_eq!(decide(Policy::Links, Reach::SameMachine), Level::Clear);
        assert_eq!(decide(Policy::Links, Reach::Network), Level::Private);
        assert_eq!(decide(Policy::All, Reach::SameMachine), Level::Private);
        assert_eq!(decide(Policy::All, Reach::Network), Level::Private);
    }

    #[test]
    fn levels_are_ordered_by_what_they_protect() {
        assert!(Level::Clear < Level::Private);
    }
}
