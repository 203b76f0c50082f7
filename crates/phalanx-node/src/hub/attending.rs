//! A further hub becomes one of the hubs that keep the store: it tells the hub that leads where it is.

use super::issuing::NEVER;
use super::serving::Linked;
use super::waiting::Waiting;
use super::{Hub, HubError, group, signing};
use crate::dial::check_version;
use crate::door::{Peer, refused};
use crate::log::Severity;
use crate::membership::{AskError, AtHub, why};
use crate::space::log::replicated;
use phalanx_core::hub::Good;
use phalanx_core::space::Replica;
use phalanx_core::wire::hub::{Attending, FromHub, HubAt, MOST_HUBS, ToHub, addresses_of, are_addresses};
use phalanx_core::wire::{VERSION, decode, encode_body};
use phalanx_net::address::Address;
use phalanx_net::identity::{Role, fingerprint};
use phalanx_net::sync::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Interval at which a hub looks whether the others know it.
const LOOK: Duration = Duration::from_millis(500);
/// How long the hub that leads may take to take this one in, which then learns the whole store.
const PATIENCE: Duration = Duration::from_secs(180);

/// The text for users about a former hub.
fn no_hub(reason: &str) -> String {
    format!("this is no hub of the grid any more: {reason}")
}

impl Hub {
    /// Serves another hub's link for the store that the hubs keep together.
    pub fn serve_hub(&self, peer: Peer) -> io::Result<()> {
        if self.is_closed() {
            return Err(refused("the hub ends"));
        }
        let group = self.group();
        let is_over = || self.is_closed() || !Arc::ptr_eq(&group, &self.group());
        replicated::serve_hub(peer, &self.member.newest(), &group.kept, is_over)
    }

    /// From now on, a thread tells the hub that leads where this one is, whenever that is not known there.
    pub(super) fn begin_to_attend(self: &Arc<Hub>) -> io::Result<()> {
        let weak = Arc::downgrade(self);
        let attend = move || {
            let mut waiting = Waiting::default();
            while let Some(hub) = weak.upgrade().filter(|hub| !hub.is_closed() && hub.expelled().is_none()) {
                hub.look_whether_attended(&mut waiting);
                drop(hub);
                thread::sleep(LOOK);
            }
        };
        thread::Builder::new().name("phalanx-attending".into()).spawn(attend).map(drop)
    }

    /// Tells the hub that leads, before this one listens, which members this machine has. Its executor could be taken for a stranger.
    pub(super) fn announce(&self) -> Result<(), HubError> {
        match self.attend_at(&self.others, &[]) {
            Ok(_) => Ok(()),
            Err(AskError::NoMember(reason)) => Err(HubError::Other(no_hub(&reason))),
            // The others hang up on a former hub without a reason.
            Err(error) => match why(&self.member, &self.others) {
                Some(AskError::NoMember(reason)) => Err(HubError::Other(no_hub(&reason))),
                _ => Err(HubError::Other(error.to_string())),
            },
        }
    }

    fn look_whether_attended(&self, waiting: &mut Waiting) {
        let addresses = self.addresses();
        if addresses.iter().any(|it| it.ends_with(":0")) {
            return; // it does not listen yet
        }
        if self.leads() {
            let mut attended = lock(&self.attended);
            if *attended != addresses && self.group().number >= crate::space::FIRST_JOINING {
                self.bring(&self.member.name, self.founders.iter().map(|(pem, _)| pem.clone()).collect());
            }
            *attended = addresses;
            return;
        }
        if !self.group().replicated.is_voter() || self.group().replicated.leader() == replicated::Leader::Unknown {
            lock(&self.attended).clear();
        }
        if *lock(&self.attended) == addresses {
            return;
        }
        let known: Vec<String> = addresses_of(&self.hubs()).into_iter().chain(self.others.clone()).collect();
        let others: Vec<String> = known.into_iter().filter(|it| !addresses.contains(it)).collect();
        match self.attend_at(&others, &addresses) {
            Ok(hubs) => {
                let names: Vec<String> = hubs.iter().map(|hub| hub.name.clone()).collect();
                let two = if names.len() == 2 { "; two are no safer than one, because both are needed" } else { "" };
                self.log.info(format!("this is one of {} hubs: {}{two}", names.len(), names.join(", ")));
                *lock(&self.attended) = addresses;
                waiting.end();
            }
            Err(AskError::NoMember(reason)) => self.end_as_expelled(reason),
            Err(error) => {
                if let Some(AskError::NoMember(reason)) = why(&self.member, &others) {
                    return self.end_as_expelled(reason);
                }
                waiting.log(&self.log, "this hub waits until one that leads the grid answers", &error);
            }
        }
    }

    fn end_as_expelled(&self, reason: String) {
        self.log.warning(no_hub(&reason));
        *lock(&self.expelled) = Some(reason);
        self.close();
    }

    fn attend_at(&self, others: &[String], addresses: &[String]) -> Result<Vec<HubAt>, AskError> {
        let issuer = self.issuer.certificate()?.to_vec();
        let members = self.founders.iter().map(|(pem, _)| pem.clone()).collect();
        let body = encode_body(&Attending { issuer, members });
        let (number, phalanx) = (self.group().number, VERSION.to_owned());
        let asked = ToHub::Attend { number, addresses: addresses.to_vec(), phalanx };
        match AtHub::open(&self.member, others)?.ask_with(&asked, body, PATIENCE)?.0 {
            FromHub::Attended { hubs } => Ok(hubs),
            _ => Err(io::Error::other("it answers something else").into()),
        }
    }

    /// Takes another hub into the group. Returns all hubs.
    pub(super) fn attend(
        &self,
        linked: &Linked,
        number: u64,
        addresses: Vec<String>,
        phalanx: &str,
        body: &[u8],
    ) -> Result<Vec<HubAt>, HubError> {
        let name = linked.who().name.clone();
        check_version(&name, phalanx).map_err(HubError::Other)?;
        let is_address = |it: &String| it.parse::<Address>().is_ok_and(|it| it.port > 0 && !it.host.contains(','));
        if linked.role != Role::Hub || !are_addresses(&addresses) || !addresses.iter().all(is_address) {
            return Err(HubError::Other("only hubs attend, and they tell where they are".to_owned()));
        }
        let Attending { issuer, members } =
            decode(body).map_err(|_| HubError::Other("a hub that attends tells its issuer".to_owned()))?;
        // A hub is expelled by revoking its issuer. So it must be the one that has signed the hub's own certificate.
        if linked.issuer.as_ref() != Some(&issuer) {
            return Err(HubError::Other(format!("the hub {name} shows the certificate of another issuer")));
        }
        let good = Good { fingerprint: fingerprint(&issuer.into()), until: NEVER };
        if !self.engine().has_issuer(&name, &good)? {
            return Err(HubError::Other(format!("the hub {name} shows an issuer that was not made for it")));
        }
        self.bring(&name, members);
        if addresses.is_empty() {
            return Ok(self.hubs()); // it does not listen yet
        }
        self.take_in(number, Replica { name: name.clone(), address: group::joined(&addresses) })?;
        self.tell_hubs();
        Ok(self.hubs())
    }

    fn take_in(&self, number: u64, hub: Replica) -> Result<(), HubError> {
        let _alone = lock(&self.grouping);
        let group = self.group();
        let replicated = &group.replicated;
        let members = replicated.members();
        let before: BTreeSet<u64> = members
            .iter()
            .filter(|(other, it)| **other != number && it.name.eq_ignore_ascii_case(&hub.name))
            .map(|(other, _)| *other)
            .collect();
        let told =
            |error: crate::space::log::LogError| HubError::Other(format!("the hub is not taken in yet: {error}"));
        match members.get(&number) {
            Some(known) if *known == hub && replicated.votes(number) => Ok(()),
            // The hub that led before was lost between two steps.
            Some(known) if *known == hub => {
                replicated.change_hubs(&BTreeMap::from([(number, hub)]), &before).map_err(told)
            }
            Some(known) if known.name.eq_ignore_ascii_case(&hub.name) => {
                replicated.set_address(number, hub).map_err(told)
            }
            Some(_) => Err(HubError::Other("another hub has this number".to_owned())),
            None if members.len() - before.len() >= MOST_HUBS => {
                Err(HubError::Other(format!("a grid has at most {MOST_HUBS} hubs")))
            }
            None => {
                self.log.info(format!("the hub {} learns what is stored", hub.name));
                replicated.change_hubs(&BTreeMap::from([(number, hub)]), &before).map_err(told)
            }
        }
    }

    /// Takes in the members of a hub's own machine.
    fn bring(&self, hub: &str, members: Vec<String>) {
        for pem in members {
            let brought = signing::founder(&self.issuer, &pem).map_err(HubError::from).and_then(|(asking, good)| {
                if asking.who.role == Role::Hub.name() {
                    return Ok(());
                }
                self.change(|engine, now| Ok(engine.bring(now, hub, asking, good)?))
            });
            if let Err(error) = brought {
                let what = format!("a member of the machine of {hub} is not taken in");
                self.log.limited(Severity::Warning, &what, format!("{what}: {error}"));
            }
        }
    }
}
