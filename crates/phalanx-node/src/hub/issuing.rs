//! The issuer of a further hub. A hub's issuer signs it if its certificate allows that: the first hub's does, those below it do not. The
//! hub that signs need not lead.

use super::serving::Linked;
use super::store::change_in;
use super::{Hub, HubError};
use phalanx_core::hub::{Asking, Change, Refusal};
use phalanx_net::identity::{Role, key_of, role_and_name};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// How long a hub that does not lead waits until it has heard of the new hub.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);

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
            Ok(issued) if key_of(&phalanx_net::identity::first_certificate(&issued)?)? == key_of(&request)? => {
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
        self.log.info(format!("the hub {} has an issuer of its own", asking.who.name));
        Ok(issued)
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
            let read = self.group.replicated.read(|stored| {
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
