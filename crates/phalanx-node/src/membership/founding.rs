//! How a machine becomes a further hub of a grid. All keys are made here, and never leave this machine.

use super::asking::{AtHub, PATIENCE, other};
use super::seeking::hub_address;
use super::{AskError, joining};
use phalanx_core::hub::Token;
use phalanx_core::wire::VERSION;
use phalanx_core::wire::hub::{FromHub, ToHub};
use phalanx_net::identity::{Joining, Member, NewIssuer, Role};
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

/// What a new hub of a grid needs.
pub struct NewHub {
    /// Its issuer, as the text of an authority's file.
    pub issuer: Zeroizing<String>,
    /// The hub's identity file.
    pub hub: Zeroizing<String>,
    /// The name of the grid, as the hub that leads says.
    pub grid: String,
    /// The addresses of the other hubs.
    pub hubs: Vec<String>,
}

/// Joins the grid of this token as a hub of this name. The hub that leads makes it a member. Then a hub whose issuer may make others
/// signs the issuer of this one, which signs the hub's own certificate, for as long as `lasts`.
///
/// # Errors
/// No hub answers, the hub belongs to another grid, or a hub refuses.
pub fn join_as_hub(token: &Token, name: &str, lasts: Duration) -> Result<NewHub, AskError> {
    if token.role != Role::Hub.name() {
        let why = format!("the token is for the role {}; ask for another one: phalanx invite --role hub", token.role);
        return Err(AskError::Refused(why));
    }
    let joining = Arc::new(Joining::new(Role::Hub, name, token.root)?);
    let asked = ToHub::Join { secret: token.secret, phalanx: VERSION.to_owned() };
    let (grid, hubs, certificates) = joining::ask(&joining, &token.hubs, asked)?.ok_or_else(other)?;
    let member = Member::parse(&joining.identity(&certificates)?, Role::Hub)?;
    let new = NewIssuer::ask(name)?;
    let issued = issued(&member, &hubs, new.request())?;
    let issuer = new.signed(&issued)?;
    let own = issuer.sign_hub(joining.request(), Some(lasts))?;
    Ok(NewHub { issuer: issuer.to_pem(None)?, hub: joining.identity(&own)?, grid, hubs })
}

/// Asks one hub after the other for an issuer, because not every one may make it.
fn issued(member: &Member, hubs: &[String], request: &[u8]) -> Result<String, AskError> {
    let mut whys = Vec::new();
    for hub in hubs {
        let asked = hub_address(hub).and_then(|address| {
            let mut at_hub = AtHub::open_at(member, &address)?;
            at_hub.ask_here(&ToHub::Issue, request.to_vec(), PATIENCE)
        });
        match asked {
            Ok((FromHub::Issued, pem)) => return String::from_utf8(pem).map_err(|_| other()),
            Ok(_) => whys.push(format!("{hub}: {}", other())),
            Err(AskError::Identity(error)) => return Err(AskError::Identity(error)),
            Err(error) => whys.push(error.to_string()),
        }
    }
    Err(AskError::Refused(format!("no hub makes an issuer for this one: {}", whys.join("; "))))
}
