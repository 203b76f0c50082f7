//! Requests that happen once, however often they are sent: a client that did not hear an outcome asks the next leader again
//! (RIFL: Lee et al., "Implementing Linearizability at Large Scale and Low Latency", SOSP 2015, sections 3 and 4).
//!
//! A client registers under a number chosen by chance, and numbers its requests. What was done is remembered with its
//! outcome until the client says that it has heard it. Who was forgotten meanwhile is told so, and nothing is done: so a
//! request that is repeated never happens twice, however late it comes.

use super::Space;
use super::change::Change;
use super::past::Past;
use crate::error::SpaceError;
use crate::ids::SessionId;
use crate::wire::space::Once;
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::hash::RandomState;

/// Clients that are remembered. The one that registered first is forgotten first; if it lives it registers again.
pub const MOST_CLIENTS: usize = 4096;

/// Clients that have registered.
#[derive(Debug, Default)]
pub struct Clients {
    past: HashMap<u128, Past, RandomState>,
    order: VecDeque<u128>,
}

impl Clients {
    /// The one that is too many then is returned: the oldest of this user, of whom there may be so many, or of all.
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
    /// Requests of this client are remembered from now on, of the share of the session's user. Once more, it does nothing.
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

    /// The outcome of a request that was done before; none: it is to be done. An error: that is not known here any more.
    pub(super) fn done_before(&self, once: Option<&Once>) -> Result<Option<u64>, SpaceError> {
        let Some(once) = once else { return Ok(None) };
        self.clients.past.get(&once.client).ok_or(SpaceError::UnknownClient)?.outcome(once)
    }

    /// It was done, now.
    pub(super) fn note_done(&mut self, once: Option<&Once>, outcome: u64) {
        let Some((once, past)) = once.and_then(|once| Some((*once, self.clients.past.get_mut(&once.client)?))) else {
            return;
        };
        past.remember(&once, outcome);
        self.note(|_| Change::Done { once, outcome });
    }
}
