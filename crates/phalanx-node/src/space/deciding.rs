//! Asks the coordinators of prepared transactions for their outcome, when the owners of these transactions have not reported
//! it.

use super::connect::Connect;
use super::hosted::Asks;
use super::{Client, Place, SpaceAddress};
use crate::dialler::Dialler;
use phalanx_core::ids::TransactionId;
use phalanx_core::level::Policy;
use phalanx_core::space::{Coordinator, Decision, InDoubt};
use phalanx_core::wire::space::{FromSpace, ToSpace};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Timeout for reaching a coordinator, and for its answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks under this member's identity. Without one, only servers of this user on this machine can be asked.
pub fn asks(dialler: Option<Dialler>, policy: Policy) -> Asks {
    let connect = Connect { policy, dialler, create: None, members: Vec::new(), patience: PATIENCE };
    Arc::new(move |coordinator, doubts| ask(coordinator, doubts, &connect))
}

/// Asks about several transactions over one connection, at the first place that answers. When `PATIENCE` has passed, no further
/// place is tried, and the transactions stay in doubt.
fn ask(coordinator: &Coordinator, doubts: &[InDoubt], connect: &Connect) -> Vec<Option<Decision>> {
    let began = Instant::now();
    let mut decisions = vec![None; doubts.len()];
    for place in &coordinator.places {
        if decisions.iter().all(Option::is_some) || began.elapsed() >= PATIENCE {
            break;
        }
        let Ok(place) = place.parse() else { continue };
        let address = SpaceAddress { place, name: coordinator.space.clone() };
        let Ok(client) = Client::reach(address, connect) else { continue };
        let open = doubts.iter().zip(&mut decisions).filter(|(_, decision)| decision.is_none());
        for (doubt, decision) in open {
            *decision = ask_one(&client, doubt, began.elapsed());
            if decision.is_none() {
                break;
            }
        }
    }
    decisions
}

/// `None`: there is no such space, or it is not the one that knows the outcome.
fn ask_one(client: &Client, doubt: &InDoubt, late: Duration) -> Option<Decision> {
    let (transaction, age) = (doubt.transaction, doubt.age.saturating_add(late));
    let Coordinator { space, identity, .. } = doubt.coordinator.clone();
    match client.ask_first(|request| ToSpace::Decide { request, space, identity, transaction, age }) {
        Ok(FromSpace::Decided { decision, .. }) => Some(decision),
        _ => None,
    }
}

impl Client {
    /// The coordinator value by which other spaces ask this one for the outcome of a transaction.
    pub fn coordinator(&self) -> Coordinator {
        let SpaceAddress { place, name } = self.address();
        let place = match place {
            Place::Path(path) => Place::Path(std::path::absolute(path).unwrap_or_else(|_| path.clone())),
            Place::Network(address) => Place::Network(address.clone()),
        };
        let places = if self.members().is_empty() { vec![place.to_string()] } else { self.members().to_vec() };
        Coordinator { places, space: name.clone(), identity: self.identity(), durable: self.is_durable() }
    }

    /// The outcome of a transaction that has been prepared elsewhere for `age`. It is asked over a new connection, so that this
    /// also works when this one has ended. `None`: the space is not there.
    pub fn decision(&self, transaction: TransactionId, age: Duration) -> Option<Decision> {
        let coordinator = self.coordinator();
        let doubt = InDoubt { transaction, coordinator: coordinator.clone(), age };
        let connect = Connect { patience: PATIENCE, ..self.reached_by().clone() };
        ask(&coordinator, &[doubt], &connect).pop().flatten()
    }
}
