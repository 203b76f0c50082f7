//! The completion records of one client (RIFL; see `space::once`).

use crate::error::SpaceError;
use crate::wire::space::Once;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Limit on how far a client's requests may be ahead of its oldest open one.
pub const MOST_OPEN: u64 = 256;

/// The completion records of one client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// The user who registered the client, if users are told apart. The client counts on this user's share.
    pub user: Option<String>,
    /// The client has heard the outcomes of all requests before this number, or will not ask for them.
    pub open_from: u64,
    /// Outcomes of the requests done since, by number.
    pub done: BTreeMap<u64, u64>,
}

impl Past {
    /// The outcome of a request that was done before. `None`: it was not done.
    pub fn outcome(&self, once: &Once) -> Result<Option<u64>, SpaceError> {
        if once.number < self.open_from {
            return Err(SpaceError::Uncertain("the client has said that it does not ask any more".into()));
        }
        if once.number - self.open_from.max(once.open_from.min(once.number)) >= MOST_OPEN {
            return Err(SpaceError::Full { what: "requests of one client that are open".into(), most: MOST_OPEN });
        }
        Ok(self.done.get(&once.number).copied())
    }

    /// Records the outcome of a request.
    pub fn remember(&mut self, once: &Once, outcome: u64) {
        self.open_from = self.open_from.max(once.open_from.min(once.number));
        self.done = self.done.split_off(&self.open_from);
        self.done.insert(once.number, outcome);
    }
}
