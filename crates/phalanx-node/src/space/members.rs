//! Changes the members of a replicated space. The client tells the new members; the leading member does the rest.

use super::leader::reach_all;
use super::replica::FIRST_JOINING;
use super::{Client, ClientError, Place};
use phalanx_core::error::SpaceError;
use phalanx_core::space::{Info, Joining, Keepers, Options, Replica, Seat};
use phalanx_core::wire::space::{FromSpace, ToSpace};
use phalanx_net::identity::random_number;
use std::time::Duration;

/// Timeout for all steps of a change, at the leading member.
const PATIENCE: Duration = Duration::from_secs(400);

impl Client {
    /// Adds the servers at the places `add` as members of the space, and removes those at the addresses `remove`. The
    /// connection must be to the member that leads.
    pub fn change_members(&self, add: &[Place], remove: &[String]) -> Result<(), ClientError> {
        let (options, keepers) = self.keepers()?;
        let mut add_all = Vec::new();
        let reached = reach_all(add, self.address(), self.reached_by()).into_iter().collect::<Result<Vec<_>, _>>()?;
        for ((client, name), place) in reached.into_iter().zip(add) {
            let replica = Replica { name, address: place.to_string() };
            add_all.push((client, Joining { number: draw(), replica }));
        }
        let stay = keepers.members.iter().filter(|member| !remove.contains(&member.address));
        let new = add_all.iter().map(|(_, joining)| joining.replica.clone());
        let replicas: Vec<Replica> = stay.map(|member| member.replica()).chain(new).collect();
        for (client, joining) in &add_all {
            let options = Options { replicas: replicas.clone(), ..options.clone() };
            let seat = Box::new(Seat { number: joining.number, group: keepers.group.clone(), options });
            let name = self.address().name.clone();
            client.ask_first(|request| ToSpace::Join { request, name, seat })?;
        }
        let add = add_all.into_iter().map(|(_, joining)| joining).collect();
        let message = |request| ToSpace::Members { request, add, remove: remove.to_vec() };
        let request = self.ask(message, Vec::new())?;
        let late = || ClientError::Unreachable(format!("{} does not say what became of its members", self.address()));
        self.wait(request, PATIENCE).ok_or_else(late)?.map(drop)
    }

    fn keepers(&self) -> Result<(Options, Keepers), ClientError> {
        let alone = || SpaceError::Options("its server alone keeps it: it has no members".into());
        match self.ask_first(|request| ToSpace::Info { request })? {
            FromSpace::Info { info, .. } => {
                let Info { options, keepers, .. } = *info;
                Ok((options, keepers.ok_or_else(alone)?))
            }
            _ => Err(self.ended("it does not speak this protocol")),
        }
    }
}

fn draw() -> u64 {
    let token = random_number();
    (token as u64) | FIRST_JOINING
}
