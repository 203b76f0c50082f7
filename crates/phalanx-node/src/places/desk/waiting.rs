//! The requests that wait for a place.
//!
//! Every manager's link looks at them many times a second, under one lock. So a look costs the number of users, and not the number
//! of requests: these are kept by user, in the order in which they came.

use super::Request;
use std::collections::{BTreeMap, HashMap};

/// The place of a request in the order of all.
type Turn = u64;

#[derive(Debug, Default)]
pub struct Waiting {
    users: BTreeMap<String, Queue>,
    /// The turns of each link's requests, by their numbers.
    links: HashMap<u64, HashMap<u32, Turn>>,
    next: Turn,
}

/// The requests of one user. There is at least one.
#[derive(Debug, Default)]
struct Queue {
    requests: BTreeMap<Turn, Request>,
    /// How many of them [wait](Request::waits).
    patient: u32,
}

impl Waiting {
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    pub fn contains(&self, session: u64, number: u32) -> bool {
        self.links.get(&session).is_some_and(|turns| turns.contains_key(&number))
    }

    /// Adds a request behind all others.
    pub fn push(&mut self, request: Request) {
        let turn = self.next;
        self.next += 1;
        self.links.entry(request.session).or_default().insert(request.number, turn);
        let queue = self.users.entry(request.holder.user.clone()).or_default();
        queue.patient += u32::from(request.waits);
        queue.requests.insert(turn, request);
    }

    /// The users, each with the number of requests for which other users are asked.
    pub fn patient(&self) -> impl Iterator<Item = (&str, u32)> {
        self.users.iter().map(|(user, queue)| (user.as_str(), queue.patient)).filter(|(_, count)| *count > 0)
    }

    /// The requests of a user, in their order.
    pub fn of(&self, user: &str) -> impl Iterator<Item = &Request> {
        self.users.get(user).into_iter().flat_map(|queue| queue.requests.values())
    }

    /// The oldest request of a link.
    pub fn oldest(&self, session: u64) -> Option<&Request> {
        let turn = self.links.get(&session)?.values().min()?;
        self.users.values().find_map(|queue| queue.requests.get(turn))
    }

    /// The users.
    pub fn users(&self) -> impl Iterator<Item = &str> {
        self.users.keys().map(String::as_str)
    }

    /// Removes a request.
    pub fn remove(&mut self, session: u64, number: u32) -> Option<Request> {
        let turns = self.links.get_mut(&session)?;
        let turn = turns.remove(&number)?;
        if turns.is_empty() {
            self.links.remove(&session);
        }
        let (user, queue) = self.users.iter_mut().find(|(_, queue)| queue.requests.contains_key(&turn))?;
        let request = queue.requests.remove(&turn)?;
        queue.patient -= u32::from(request.waits);
        if queue.requests.is_empty() {
            let user = user.clone();
            self.users.remove(&user);
        }
        Some(request)
    }

    /// The numbers of a link's requests.
    pub fn numbers(&self, session: u64) -> Vec<u32> {
        self.links.get(&session).into_iter().flat_map(|turns| turns.keys().copied()).collect()
    }

    /// Removes all requests of a link. Whether there was one.
    pub fn leave(&mut self, session: u64) -> bool {
        let numbers = self.numbers(session);
        numbers.iter().for_each(|number| drop(self.remove(session, *number)));
        !numbers.is_empty()
    }

    /// The place of a user's first request that `fits` in the order of all, and that request.
    pub fn first(&self, user: &str, fits: impl Fn(&Request) -> bool) -> Option<(Turn, &Request)> {
        self.users.get(user)?.requests.iter().map(|(turn, request)| (*turn, request)).find(|(_, it)| fits(it))
    }
}
