//! Tracks which tuples a client of a durable space has taken, and whether the space knows that they arrived. The link or the
//! server can fail after a tuple arrives and before its acknowledgement does. The client then reconnects and reports which
//! tuples it received.

use super::connect::Connect;
use super::ending::{Saying, is_ending};
use super::{Client, ClientError, SpaceAddress};
use phalanx_core::error::SpaceError;
use phalanx_core::space::RequestId;
use phalanx_core::wire::space::{FromSpace, ToSpace};
use phalanx_net::identity::random_number;
use phalanx_net::sync::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Backoff between attempts to reconnect: the first pause, and the longest.
const RETRY: Duration = Duration::from_millis(100);
const LONGEST_RETRY: Duration = Duration::from_millis(500);
/// Patience for each of several members to be reached and to answer. It is short because another member may answer instead.
const OF_SEVERAL: Duration = Duration::from_secs(2);
/// How long the client tries to reconnect. A space waits much less, but only counts from when it is served again.
const LONGEST: Duration = Duration::from_secs(3600);
/// Time for the caller who was handed a tuple to keep it or give it back.
const UNDECIDED: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taking {
    Asked,
    /// The tuple is here, and the caller has neither kept it nor given it back yet.
    Arrived,
    GivenBack,
}

/// The take requests of one connection whose tuple may have left the space without the space knowing that it arrived.
pub(super) struct Takes {
    client: u128,
    state: Mutex<State>,
    /// Whether a thread is reporting the arrivals to the space while no tuple here is undecided.
    is_saying: Mutex<bool>,
    said: Condvar,
}

#[derive(Default)]
struct State {
    open: BTreeMap<RequestId, Taking>,
    /// The number of a request. Once the space has done it, or a later one, the space knows which tuples have arrived.
    unconfirmed: Option<RequestId>,
}

impl Takes {
    pub fn new() -> Takes {
        let (state, is_saying, said) = (Mutex::default(), Mutex::default(), Condvar::new());
        Takes { client: random_number(), state, is_saying, said }
    }

    /// The number by which the space recognises this client when it reconnects.
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
            // The space has ended. Its log may already say that this tuple was taken.
            (FromSpace::Failed { error: SpaceError::Uncertain(_) | SpaceError::NotKept(_), .. }, _) => {}
            _ => drop(state.open.remove(&request)),
        }
        if is_done(message) && state.unconfirmed.is_some_and(|at| at <= request) {
            state.unconfirmed = None;
            state.open.retain(|_, taking| *taking != Taking::GivenBack);
        }
    }

    /// Notes that an acknowledgement (`kept`) or a give-back was queued. `next` is the number of the next request.
    pub fn on_settled(&self, request: RequestId, kept: bool, next: RequestId) {
        let mut state = lock(&self.state);
        match kept {
            true => drop(state.open.remove(&request)),
            false => drop(state.open.insert(request, Taking::GivenBack)),
        }
        state.unconfirmed = Some(next);
    }

    /// Whether the space may not know yet of a tuple that was acknowledged or given back here.
    pub fn is_unconfirmed(&self) -> bool {
        lock(&self.state).unconfirmed.is_some()
    }

    /// Called when the connection has ended. Reports the arrivals in a thread of its own, as soon as the space can be reached
    /// again.
    pub fn come_back(self: Arc<Self>, address: &SpaceAddress, connect: &Connect) {
        {
            let state = lock(&self.state);
            if state.unconfirmed.is_none() && state.open.is_empty() {
                return;
            }
            // The caller of `leave` must not wait for a future that nobody has read yet: [`Takes::decided`] waits for those.
            *lock(&self.is_saying) = state.open.values().all(|taking| *taking != Taking::Arrived);
        }
        let (address, connect) = elsewhere_first(address, connect);
        let (takes, at_work) = (self.clone(), Saying::begin());
        let saying = thread::Builder::new().name("phalanx-space".into()).spawn(move || {
            let open = takes.decided();
            let (end, mut pause) = (Instant::now() + LONGEST, RETRY);
            while Instant::now() < end && !said(&address, &connect, takes.client, &open) {
                thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_RETRY);
            }
            takes.end_saying();
            drop(at_work);
        });
        if saying.is_err() {
            self.end_saying(); // the same as if this process had died
        }
    }

    fn end_saying(&self) {
        *lock(&self.is_saying) = false;
        self.said.notify_all();
    }

    /// Waits until the arrivals of this ended connection are reported. `false`: they are not reported yet.
    pub fn wait_until_said(&self, patience: Duration) -> bool {
        let waited = self.said.wait_timeout_while(lock(&self.is_saying), patience, |is_saying| *is_saying);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// The requests whose tuple is not here, once every arrived tuple is either kept or given back.
    fn decided(&self) -> Vec<RequestId> {
        let end = Instant::now() + UNDECIDED;
        loop {
            // Once the process is ending, nobody reads the arrived tuples any more.
            let is_ending = is_ending();
            let state = lock(&self.state);
            let undecided = state.open.values().any(|taking| *taking == Taking::Arrived);
            if !undecided || is_ending || Instant::now() >= end {
                let lost = state.open.iter().filter(|(_, taking)| is_ending || **taking != Taking::Arrived);
                return lost.map(|(request, _)| *request).collect();
            }
            drop(state);
            thread::sleep(LOOK);
        }
    }
}

/// Where to look for the space. The member that was just lost may be silent, so it is tried after the other members.
fn elsewhere_first(address: &SpaceAddress, connect: &Connect) -> (SpaceAddress, Connect) {
    let mut members = connect.members.clone();
    members.sort_by_key(|place| *place == address.place);
    let place = members.first().unwrap_or(&address.place).clone();
    let patience = if members.is_empty() { connect.patience } else { connect.patience.min(OF_SEVERAL) };
    (SpaceAddress { place, name: address.name.clone() }, Connect { create: None, members, patience, ..connect.clone() })
}

/// Whether the answer proves that this request, and everything sent before it, was done. Refusals and names prove nothing,
/// because a member gives them even when it cannot reach the other members any more.
fn is_done(message: &FromSpace) -> bool {
    match message {
        FromSpace::Done { .. } | FromSpace::Got { .. } | FromSpace::Counted { .. } => true,
        FromSpace::Watching { .. } | FromSpace::Event { .. } | FromSpace::Info { .. } | FromSpace::Whole { .. } => true,
        FromSpace::Opened { .. } | FromSpace::Name { .. } | FromSpace::Decided { .. } => false,
        FromSpace::Card { .. } => false,
        FromSpace::Failed { .. } | FromSpace::Beat => false,
    }
}

/// Reports to the space which requests are still open. `false`: the space could not be reached.
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
    use crate::space::Place;
    use phalanx_core::space::Get;
    use phalanx_core::wire::space::Wait;

    fn take(takes: &Takes, request: RequestId) {
        let get = Get { take: true, ..Get::default() };
        takes.on_ask(request, &ToSpace::Get { request, get, wait: Wait::No, transaction: None });
    }

    #[test]
    fn a_member_that_was_lost_is_asked_last() {
        let places = ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"].map(|place| place.parse::<Place>().unwrap());
        let at = |place: &Place| SpaceAddress { place: place.clone(), name: "todo".into() };
        let (policy, dialler, patience) = (Default::default(), None, Duration::ZERO);
        let connect = Connect { policy, dialler, create: None, members: places.to_vec(), patience };
        let (address, reach) = elsewhere_first(&at(&places[0]), &connect);
        assert_eq!(
            (&address.place, reach.members),
            (&places[1], vec![places[1].clone(), places[2].clone(), places[0].clone()])
        );
        let alone = Connect { members: Vec::new(), ..connect };
        assert_eq!(elsewhere_first(&at(&places[0]), &alone).0.place, places[0]);
    }

    #[test]
    fn what_was_kept_is_known_to_the_space_when_it_does_something_else_and_not_when_it_refuses() {
        let takes = Takes::new();
        take(&takes, 1);
        takes.on_answer(1, &FromSpace::Got { request: 1, tuples: 1, next: None });
        takes.on_settled(1, true, 2);
        let refused = [
            SpaceError::Uncertain("it does not lead any more".into()),
            SpaceError::Elsewhere { leader: None },
            SpaceError::Full { what: "bytes".into(), most: 1 },
        ];
        for error in refused {
            takes.on_answer(2, &FromSpace::Failed { request: 2, error });
        }
        takes.on_answer(3, &FromSpace::Name { request: 3, name: "lab2".into() });
        takes.on_answer(0, &FromSpace::Beat);
        assert!(takes.is_unconfirmed());
        takes.on_answer(4, &FromSpace::Got { request: 4, tuples: 0, next: None });
        assert!(!takes.is_unconfirmed());
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
