//! Requests with exactly-once semantics. A client that did not hear an outcome repeats the request, perhaps to the next
//! leader (RIFL: Lee et al., "Implementing Linearizability at Large Scale and Low Latency", SOSP 2015, sections 3 and
//! 4).
//!
//! A client registers under a random number and numbers its requests. The space remembers each outcome until the client
//! says that it has heard it. A forgotten client gets an error and its request is not executed. So a repeated request
//! never happens twice, however late it comes.

use super::Space;
use super::change::Change;
use super::past::Past;
use crate::error::SpaceError;
use crate::ids::SessionId;
use crate::wire::space::Once;
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::hash::RandomState;

/// Limit on remembered clients. The client that registered first is forgotten first; if it is alive, it registers
/// again.
pub const MOST_CLIENTS: usize = 4096;

/// The registered clients.
#[derive(Debug, Default)]
pub struct Clients {
    past: HashMap<u128, Past, RandomState>,
    order: VecDeque<u128>,
}

impl Clients {
    /// Adds a client and returns the one that had to make room: the user's oldest if the user has more than
    /// `most_of_user`, otherwise the oldest of all if there are too many.
    pub fn add(&mut self, client: u128, past: Past, most_of_user: Option<u64>) -> Option<u128> {
        let user = past.user.clone();
        if self.past.insert(client, past).is_none() {
            self.order.push_back(client);
        }
        let is_users = |client: &u128| self.past.get(client).is_some_and(|past| past.user == user);
        let count = || self.order.iter().filter(|client| is_users(client)).count() as u64;
        let at = match most_of_user.is_some_and(|most| count() > most) {
            true => self.order.iter().position(is_users),
            false => (self.order.len() > MOST_CLIENTS).then_some(0),
        };
        let oldest = at.and_then(|at| self.order.remove(at));
        oldest.inspect(|oldest| drop(self.past.remove(oldest)))
    }
}

impl Space {
    /// Registers a client, on the share of the session's user. A second call does nothing.
    pub fn remember_client(&mut self, session: SessionId, client: u128) {
        if self.clients.past.contains_key(&client) {
            return;
        }
        let (user, most) = self.users.share_of_clients(session).unzip();
        let past = Past { user: user.map(|user| user.to_string()), ..Past::default() };
        self.note(|_| Change::Client { client, past: past.clone() });
        if let Some(client) = self.clients.add(client, past, most) {
            self.note(|_| Change::Forgotten { client });
        }
    }

    /// The outcome of a request that was done before. `None`: it has still to be done. An error: the client is unknown,
    /// or its outcome is no longer kept.
    pub(super) fn done_before(&self, once: Option<&Once>) -> Result<Option<u64>, SpaceError> {
        let Some(once) = once else { return Ok(None) };
        self.clients.past.get(&once.client).ok_or(SpaceError::UnknownClient)?.outcome(once)
    }

    /// Records that a request was done now.
    pub(super) fn note_done(&mut self, once: Option<&Once>, outcome: u64) {
        let Some((once, past)) = once.and_then(|once| Some((*once, self.clients.past.get_mut(&once.client)?))) else {
            return;
        };
        past.remember(&once, outcome);
        self.note(|_| Change::Done { once, outcome });
    }
}
