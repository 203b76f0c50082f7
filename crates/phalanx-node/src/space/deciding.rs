//! Asks the coordinators of prepared transactions how these have ended, where their owners have not said so.

use super::connect::Connect;
use super::hosted::Asks;
use super::{Client, ClientError, Place, SpaceAddress};
use phalanx_core::error::SpaceError;
use phalanx_core::ids::TransactionId;
use phalanx_core::level::Policy;
use phalanx_core::space::{Coordinator, Decision, InDoubt};
use phalanx_core::wire::space::{FromSpace, ToSpace};
use phalanx_net::identity::Member;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// For a coordinator to be reached, and to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Connections to coordinators; none: it cannot be reached.
type Reached = HashMap<Coordinator, Option<Client>>;

/// Asks as this member; without an identity, only servers of this user on this machine.
pub fn asks(member: Option<Member>, policy: Policy) -> Asks {
    let connect = Connect { policy, member, create: None, members: Vec::new(), patience: PATIENCE };
    Arc::new(move |doubts| {
        let mut reached = Reached::new();
        doubts.iter().map(|doubt| ask(&mut reached, doubt, &connect)).collect()
    })
}

fn ask(reached: &mut Reached, doubt: &InDoubt, connect: &Connect) -> Option<Decision> {
    let coordinator = &doubt.coordinator;
    let reach = |place: &String| {
        let address = SpaceAddress { place: place.parse().ok()?, name: coordinator.space.clone() };
        Client::reach(address, connect).ok()
    };
    let known = reached.remove(coordinator);
    let places = if known.is_some() { &[] } else { &coordinator.places[..] };
    let mut clients = known.flatten().into_iter().chain(places.iter().filter_map(reach));
    let decided = clients.find_map(|client| ask_one(&client, doubt).map(|decision| (client, decision)));
    drop(clients);
    let (client, decision) = decided.unzip();
    reached.insert(coordinator.clone(), client);
    decision
}

fn ask_one(client: &Client, doubt: &InDoubt) -> Option<Decision> {
    let InDoubt { transaction, coordinator, age } = doubt.clone();
    let space = coordinator.space;
    match client.ask_first(|request| ToSpace::Decide { request, space, transaction, age }) {
        Ok(FromSpace::Decided { decision, .. }) => Some(decision),
        // What it has committed is gone with it; of several members, another one may have it.
        Err(ClientError::Space(SpaceError::NoSpace(_))) if coordinator.places.len() == 1 => Some(Decision::Aborted),
        _ => None,
    }
}

impl Client {
    /// Where other spaces ask this one how a transaction has ended.
    pub fn coordinator(&self) -> Coordinator {
        let SpaceAddress { place, name } = self.address();
        let place = match place {
            Place::Path(path) => Place::Path(std::path::absolute(path).unwrap_or_else(|_| path.clone())),
            Place::Network(address) => Place::Network(address.clone()),
        };
        let places = if self.members().is_empty() { vec![place.to_string()] } else { self.members().to_vec() };
        Coordinator { places, space: name.clone() }
    }

    /// How a transaction has ended that is prepared elsewhere since `age`: asked over a connection of its own, so also when
    /// this one has ended. None: the space is not there.
    pub fn decision(&self, transaction: TransactionId, age: Duration) -> Option<Decision> {
        let doubt = InDoubt { transaction, coordinator: self.coordinator(), age };
        let connect = Connect { patience: PATIENCE, ..self.reached_by().clone() };
        ask(&mut Reached::new(), &doubt, &connect)
    }
}
