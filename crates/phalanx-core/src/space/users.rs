//! Each user's share of the waiting requests and transactions, over all of its sessions. The shares leave room for
//! other users.

use crate::error::SpaceError;
use crate::ids::SessionId;
use hashbrown::HashMap;
use std::hash::RandomState;
use std::sync::Arc;

/// The users behind the sessions, and the number of waiting requests and transactions of each.
#[derive(Debug, Default)]
pub struct Users {
    sessions: HashMap<SessionId, User, RandomState>,
    waiters: Counts,
    pub transactions: Counts,
}

/// Limits for one user in a space, each at least 1: waiting requests, open transactions, and registered clients (see
/// `space::once`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// Limit on the waiting requests and watches of one user.
    pub waiters: u64,
    /// Limit on the open transactions of one user.
    pub transactions: u64,
    /// Limit on the registered clients of one user.
    pub clients: u64,
}

#[derive(Debug)]
struct User {
    name: Arc<str>,
    most: Shares,
}

/// A count for each user.
#[derive(Debug, Default)]
pub struct Counts(HashMap<Arc<str>, u64, RandomState>);

impl Counts {
    fn add_one(&mut self, name: &Arc<str>, what: &str, most: u64) -> Result<(), SpaceError> {
        let count = self.0.entry(name.clone()).or_default();
        if *count >= most {
            return Err(SpaceError::Full { what: what.into(), most });
        }
        *count += 1;
        Ok(())
    }

    /// Subtracts one.
    pub fn drop_one(&mut self, name: &Arc<str>) {
        let left = self.0.get_mut(name).map(|count| {
            *count -= 1;
            *count
        });
        if left == Some(0) {
            self.0.remove(name);
        }
    }
}

impl Users {
    pub fn add(&mut self, session: SessionId, name: Arc<str>, most: Shares) {
        self.sessions.insert(session, User { name, most });
    }

    pub fn remove(&mut self, session: SessionId) {
        self.sessions.remove(&session);
    }

    /// One more request of the session's user waits.
    pub fn add_waiter(&mut self, session: SessionId) -> Result<(), SpaceError> {
        let Some(user) = self.sessions.get(&session) else { return Ok(()) };
        self.waiters.add_one(&user.name, "waiters of one user", user.most.waiters)
    }

    /// One request fewer of the session's user waits.
    pub fn drop_waiter(&mut self, session: SessionId) {
        self.sessions.get(&session).into_iter().for_each(|user| self.waiters.drop_one(&user.name));
    }

    /// The user of a session and the limit on its registered clients.
    pub fn share_of_clients(&self, session: SessionId) -> Option<(&Arc<str>, u64)> {
        self.sessions.get(&session).map(|user| (&user.name, user.most.clients))
    }

    /// One more transaction of the session's user. It counts for this user even after the session has ended.
    pub fn add_transaction(&mut self, session: SessionId) -> Result<Option<Arc<str>>, SpaceError> {
        let Some(user) = self.sessions.get(&session) else { return Ok(None) };
        self.transactions.add_one(&user.name, "transactions of one user", user.most.transactions)?;
        Ok(Some(user.name.clone()))
    }
}
