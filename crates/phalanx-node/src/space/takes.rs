//! What a client of a durable space has taken, and whether the space knows that it arrived. A link, or the server, can end
//! between a tuple's arrival and the word of it; then the client comes back and says which ones it got.

use super::connect::Connect;
use super::{Client, ClientError, SpaceAddress};
use phalanx_core::error::SpaceError;
use phalanx_core::space::RequestId;
use phalanx_core::wire::space::{FromSpace, ToSpace};
use phalanx_net::identity::random_token;
use phalanx_net::sync::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How often it is tried to come back.
const RETRY: Duration = Duration::from_millis(500);
/// How long. A space waits for much less, but only from when it is served again.
const LONGEST: Duration = Duration::from_secs(3600);
/// For who was handed a tuple to keep it or give it back.
const UNDECIDED: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taking {
    Asked,
    /// Here, and neither kept nor given back yet.
    Arrived,
    GivenBack,
}

/// The taking requests of one connection that the space may have something on its way for.
pub(super) struct Takes {
    client: u128,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: BTreeMap<RequestId, Taking>,
    /// What was said of tuples that arrived is known to the space when it answers this request, or a later one.
    unconfirmed: Option<RequestId>,
}

impl Takes {
    pub fn new() -> Takes {
        Takes { client: u128::from_le_bytes(random_token()), state: Mutex::default() }
    }

    /// How the space is to know this client.
    pub fn client(&self) -> u128 {
        self.client
    }

    pub fn on_ask(&self, request: RequestId, message: &ToSpace) {
        if matches!(message, ToSpace::Get { get, transaction: None, .. } if get.take) {
            lock(&self.state).open.insert(request, Taking::Asked);
        }
    }

    pub fn on_answer(&self, request: RequestId, message: &FromSpace) {
        let mut state = lock(&self.state);
        match (message, state.open.get_mut(&request)) {
            (FromSpace::Got { tuples: 1.., .. }, Some(taking)) => *taking = Taking::Arrived,
            // The space has ended, and what it keeps may say that this was taken.
            (FromSpace::Failed { error: SpaceError::Uncertain(_) | SpaceError::NotKept(_), .. }, _) => {}
            _ => drop(state.open.remove(&request)),
        }
        if state.unconfirmed.is_some_and(|at| at <= request) {
            state.unconfirmed = None;
            state.open.retain(|_, taking| *taking != Taking::GivenBack);
        }
    }

    /// It was said that what came was kept, or is given back; the next request's number is `next`.
    pub fn on_settled(&self, request: RequestId, kept: bool, next: RequestId) {
        let mut state = lock(&self.state);
        match kept {
            true => drop(state.open.remove(&request)),
            false => drop(state.open.insert(request, Taking::GivenBack)),
        }
        state.unconfirmed = Some(next);
    }

    /// Whether something was said of what arrived that the space may not know.
    pub fn is_unconfirmed(&self) -> bool {
        lock(&self.state).unconfirmed.is_some()
    }

    /// The connection has ended: says in a thread of its own what arrived, as soon as the space is there again.
    pub fn come_back(self: Arc<Self>, address: &SpaceAddress, connect: &Connect) {
        {
            let state = lock(&self.state);
            if state.unconfirmed.is_none() && state.open.is_empty() {
                return;
            }
        }
        let (address, connect) = (address.clone(), Connect { create: None, ..connect.clone() });
        // Without a thread it is as if this process had ended, too.
        let _ = thread::Builder::new().name("phalanx-space".into()).spawn(move || {
            let open = self.decided();
            let end = Instant::now() + LONGEST;
            while Instant::now() < end && !said(&address, &connect, self.client, &open) {
                thread::sleep(RETRY);
            }
        });
    }

    /// The requests of which nothing is here, once that is clear for each.
    fn decided(&self) -> Vec<RequestId> {
        let end = Instant::now() + UNDECIDED;
        loop {
            let state = lock(&self.state);
            let undecided = state.open.values().any(|taking| *taking == Taking::Arrived);
            if !undecided || Instant::now() >= end {
                let lost = state.open.iter().filter(|(_, taking)| **taking != Taking::Arrived);
                return lost.map(|(request, _)| *request).collect();
            }
            drop(state);
            thread::sleep(LOOK);
        }
    }
}

/// Says it to the space; false: it is not there.
fn said(address: &SpaceAddress, connect: &Connect, client: u128, open: &[RequestId]) -> bool {
    let there = match Client::connect(address.clone(), connect) {
        Err(ClientError::Space(SpaceError::NoSpace(_) | SpaceError::Forbidden(_))) => return true,
        Err(_) => return false,
        Ok(there) => there,
    };
    let message = |request| ToSpace::Back { request, client, open: open.to_vec() };
    let asked = there.ask(message, Vec::new());
    let answered = asked.is_ok_and(|request| matches!(there.wait(request, connect.patience), Some(Ok(_))));
    there.close();
    answered
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::space::Get;
    use phalanx_core::wire::space::Wait;

    fn take(takes: &Takes, request: RequestId) {
        let get = Get { take: true, ..Get::default() };
        takes.on_ask(request, &ToSpace::Get { request, get, wait: Wait::No, transaction: None });
    }

    #[test]
    fn what_the_space_may_have_taken_when_it_ended_did_not_arrive() {
        let takes = Takes::new();
        let failed = |request, error| takes.on_answer(request, &FromSpace::Failed { request, error });
        (1..=4).for_each(|request| take(&takes, request));
        takes.on_answer(1, &FromSpace::Got { request: 1, tuples: 1, next: None });
        takes.on_settled(1, true, 5);
        failed(2, SpaceError::TimedOut);
        failed(3, SpaceError::Uncertain("it does not lead any more".into()));
        failed(4, SpaceError::NotKept("the disk is full".into()));
        assert_eq!(takes.decided(), [3, 4]);
    }
}
