//! What is remembered of a client whose requests happen once (RIFL's completion records; see `space::once`).

use crate::error::SpaceError;
use crate::wire::space::Once;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How far a client's requests may be ahead of its oldest one that is open.
pub const MOST_OPEN: u64 = 256;

/// What is remembered of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// Who registered it, where users are told apart: of their share it is.
    pub user: Option<String>,
    /// The outcomes of all requests before this one were heard, or are not asked for any more.
    pub open_from: u64,
    /// What was done since, by its number, and the outcome.
    pub done: BTreeMap<u64, u64>,
}

impl Past {
    /// The outcome of a request that was done before; none: it was not.
    pub fn outcome(&self, once: &Once) -> Result<Option<u64>, SpaceError> {
        if once.number < self.open_from {
            return Err(SpaceError::Uncertain("the client has said that it does not ask any more".into()));
        }
        if once.number - self.open_from.max(once.open_from.min(once.number)) >= MOST_OPEN {
            return Err(SpaceError::Full { what: "requests of one client that are open".into(), most: MOST_OPEN });
        }
        Ok(self.done.get(&once.number).copied())
    }

    /// It was done.
    pub fn remember(&mut self, once: &Once, outcome: u64) {
        self.open_from = self.open_from.max(once.open_from.min(once.number));
        self.done = self.done.split_off(&self.open_from);
        self.done.insert(once.number, outcome);
    }
}
