//! The issuer of a further hub. A hub's issuer signs it if its certificate allows that: the first hub's does, those below it do not. The
//! hub that signs need not lead.

use super::serving::Linked;
use super::store::change_in;
use super::{Hub, HubError};
use crate::membership::AtHub;
use phalanx_core::hub::{Asking, Change, Good, Refusal, Who};
use phalanx_core::wire::hub::{FromHub, ToHub, addresses_of};
use phalanx_net::identity::{Role, fingerprint, first_certificate, key_of, role_and_name};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// How long a hub that does not lead waits until it has heard of the new hub.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);
/// The end of an issuer's certificate: the end of the year 9999, later than that of any.
pub(super) const NEVER: u64 = 253_402_300_799;
/// Longest fingerprint of a certificate, in bytes, with colons.
const LONGEST_FINGERPRINT: usize = 128;

impl Hub {
    /// Signs the issuer of a hub that has just joined. A hub gets one issuer for its key, and that again if it asks again: expelling it
    /// revokes this issuer.
    pub(super) fn issue(&self, linked: &Linked, request: &[u8]) -> Result<String, HubError> {
        let (asking, request) = (linked.asking(), request.to_vec().into());
        if linked.role != Role::Hub || role_and_name(&request)?.1 != asking.who.name {
            return Err(HubError::Other("only hubs have issuers, of their own names".to_owned()));
        }
        if !self.issuer.makes_issuers()? {
            let why = "this hub's issuer can make no other; the grid's first hub can: start it";
            return Err(HubError::Other(why.to_owned()));
        }
        self.check_hub(asking)?;
        let file = self.issued.join(format!("{}.pem", asking.key));
        match fs::read_to_string(&file) {
            Ok(issued) if key_of(&first_certificate(&issued)?)? == key_of(&request)? => {
                self.record(asking, &issued)?;
                return Ok(issued);
            }
            Ok(_) => return Err(HubError::Other(format!("the hub {} has an issuer already", asking.who.name))),
            Err(_) => {}
        }
        let issued = self.issuer.sign_issuer(&request)?;
        fs::create_dir_all(&self.issued)?;
        let new = file.with_extension("new");
        fs::write(&new, &issued)?;
        fs::File::open(&new)?.sync_all()?;
        fs::rename(new, file)?;
        self.record(asking, &issued)?;
        self.log.info(format!("the hub {} has an issuer of its own", asking.who.name));
        Ok(issued)
    }

    /// Records the issuer of a hub before the hub gets it, so that whoever expels the hub revokes the issuer too.
    fn record(&self, asking: &Asking, issued: &str) -> Result<(), HubError> {
        let fingerprint = fingerprint(&first_certificate(issued)?);
        if self.leads() {
            return self.change(|engine, _| Ok(engine.issued(asking, Good { fingerprint, until: NEVER })?));
        }
        let own = self.addresses();
        let others: Vec<String> = addresses_of(&self.hubs()).into_iter().filter(|it| !own.contains(it)).collect();
        let recorded = ToHub::HasIssued { hub: asking.who.name.clone(), key: asking.key.clone(), fingerprint };
        match AtHub::open(&self.member, &others).and_then(|mut leading| leading.ask(&recorded)) {
            Ok((FromHub::Issued, _)) => Ok(()),
            Ok(_) => Err(HubError::Other("the hub that leads answers something else".to_owned())),
            Err(error) => Err(HubError::Other(format!("the hub that leads does not record the issuer: {error}"))),
        }
    }

    /// Records an issuer that another hub has made. Only the first one makes any.
    pub(super) fn has_issued(
        &self,
        linked: &Linked,
        hub: &str,
        key: String,
        fingerprint: String,
    ) -> Result<(), HubError> {
        let is_first = linked.role == Role::Hub && self.engine().is_first_hub(&linked.who().name);
        if !is_first || fingerprint.len() > LONGEST_FINGERPRINT {
            return Err(HubError::Other("only the grid's first hub makes issuers".to_owned()));
        }
        let asking = Asking { who: Who::new(Role::Hub.name(), hub), key };
        self.change(|engine, _| Ok(engine.issued(&asking, Good { fingerprint, until: NEVER })?))
    }

    /// Checks that a hub is a member of the grid, by the engine or by what this hub has stored of it.
    fn check_hub(&self, asking: &Asking) -> Result<(), HubError> {
        let until = Instant::now() + PATIENCE;
        loop {
            if self.leads() {
                let checked = self.engine().check_member(asking);
                self.confirm()?;
                return Ok(checked?);
            }
            let mut is_in = false;
            let read = self.group().replicated.read(|stored| {
                if let Some(Change::Member(who, member)) = change_in(&stored) {
                    is_in |= who == asking.who && member.key == asking.key && member.state.is_in();
                }
                Ok(())
            });
            read.map_err(|error| HubError::Other(error.to_string()))?;
            if is_in {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(Refusal::NoMember(asking.who.name.clone()).into());
            }
            thread::sleep(PAUSE);
        }
    }
}
