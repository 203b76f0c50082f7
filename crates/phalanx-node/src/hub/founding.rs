//! How a hub begins, and where its files are.
//!
//! ```text
//! grids/GRID/         of every member: identity files, the list of revoked certificates, renewed ones
//! grids/GRID/hub/     issuer.pem: the issuer's key     hub.pem: the hub as a member     state/: the store
//!                     joined: where the other hubs were, if the grid had a hub before
//! ```

use super::{HubError, LASTS, Settings};
use phalanx_net::identity::{Authority, IdentityError, Member, Role, first_certificate, role_and_name};
use std::io;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The files that the grid's root makes for a new hub.
pub struct Founded {
    /// The issuer, as the text of an authority's file.
    pub issuer: Zeroizing<String>,
    /// The hub's identity file.
    pub hub: Zeroizing<String>,
}

impl Founded {
    /// Makes an issuer for the hub of this name, and the hub's identity.
    ///
    /// # Errors
    /// `hub` is not a valid name, or the root can make no issuer.
    pub fn by(root: &Authority, hub: &str) -> Result<Founded, IdentityError> {
        let issuer = root.issuer(hub)?;
        let hub = issuer.issue_for(Role::Hub, hub, Some(LASTS))?;
        Ok(Founded { issuer: issuer.to_pem(None)?, hub })
    }
}

/// The folder of a grid.
#[derive(Debug, Clone)]
pub struct Place(PathBuf);

impl Place {
    /// The folder of a grid on this machine.
    pub fn new(grid: impl Into<PathBuf>) -> Place {
        Place(grid.into())
    }

    /// Reads the settings of the hub in this folder. `owners` are the names of users who may invite and expel.
    ///
    /// # Errors
    /// A file is missing or damaged.
    pub fn settings(&self, grid: &str, owners: &[String], addresses: Vec<String>) -> Result<Settings, HubError> {
        let (hub, own) = (self.0.join("hub"), |name: &str| self.0.join(name));
        let issuer = Authority::parse(&read(&hub.join("issuer.pem"))?, None)?;
        let (identity, revoked) = (hub.join("hub.pem"), vec![own("revoked.txt")]);
        let text = read(&identity)?;
        let member = Member::parse_ended(&text, Role::Hub)?.heeding(revoked);
        let member = member.renewing(Some(identity), vec![own("renewed.pem")])?;
        let mut founders = vec![(certificates(&text), false)];
        for (name, role) in [("user.pem", Role::User), ("executor.pem", Role::Executor)] {
            let Ok(text) = read(&own(name)) else { continue };
            let (_, member) = role_and_name(&first_certificate(&text)?)?;
            founders.push((certificates(&text), role == Role::User && owners.contains(&member)));
        }
        // The hubs that there were when this one joined.
        let joined = std::fs::read_to_string(hub.join("joined")).ok();
        let others = joined.iter().flat_map(|it| it.lines()).map(str::to_owned).collect();
        let (folder, joins) = (hub.join("state"), joined.is_some());
        let (grid, least_cage) = (grid.to_owned(), None);
        Ok(Settings { grid, folder, issuer, member, founders, others, joins, addresses, least_cage })
    }
}

fn read(path: &Path) -> io::Result<Zeroizing<String>> {
    let text = std::fs::read_to_string(path);
    text.map(Zeroizing::new).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// The certificates in the text of an identity file, without the key.
fn certificates(text: &str) -> String {
    let end = "-----END CERTIFICATE-----";
    text.rfind(end).map_or_else(String::new, |at| text[..at + end.len()].to_owned() + "\n")
}
