//! What one user may have of a space's requests and transactions, in however many sessions: others have room too.

use crate::error::SpaceError;
use crate::ids::SessionId;
use hashbrown::HashMap;
use std::hash::RandomState;
use std::sync::Arc;

/// Who is behind sessions, and what each has.
#[derive(Debug, Default)]
pub struct Users {
    sessions: HashMap<SessionId, User, RandomState>,
    waiters: Counts,
    pub transactions: Counts,
}

/// How many of each one user may have in a space, at least 1: requests that wait, transactions, and clients whose requests
/// happen once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    pub waiters: u64,
    pub transactions: u64,
    pub clients: u64,
}

#[derive(Debug)]
struct User {
    name: Arc<str>,
    most: Shares,
}

/// How many each has.
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

    /// One less.
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

    /// One more request of a session waits.
    pub fn add_waiter(&mut self, session: SessionId) -> Result<(), SpaceError> {
        let Some(user) = self.sessions.get(&session) else { return Ok(()) };
        self.waiters.add_one(&user.name, "waiters of one user", user.most.waiters)
    }

    /// One of them does not any more.
    pub fn drop_waiter(&mut self, session: SessionId) {
        self.sessions.get(&session).into_iter().for_each(|user| self.waiters.drop_one(&user.name));
    }

    /// A session's user, and how many clients of theirs are remembered.
    pub fn share_of_clients(&self, session: SessionId) -> Option<(&Arc<str>, u64)> {
        self.sessions.get(&session).map(|user| (&user.name, user.most.clients))
    }

    /// One more transaction of a session's user, whose it is also when the session has ended.
    pub fn add_transaction(&mut self, session: SessionId) -> Result<Option<Arc<str>>, SpaceError> {
        let Some(user) = self.sessions.get(&session) else { return Ok(None) };
        self.transactions.add_one(&user.name, "transactions of one user", user.most.transactions)?;
        Ok(Some(user.name.clone()))
    }
}
