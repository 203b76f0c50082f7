//! How a machine or a user becomes a member, and how a member comes back after its certificate has ended.

use super::AskError;
use super::asking::{AtHub, LEVELS, PATIENCE, other, unreachable};
use super::seeking::leading;
use crate::dial::DIAL_PATIENCE;
use phalanx_core::hub::{OWNER, Token};
use phalanx_core::wire::hub::{FromHub, ToHub};
use phalanx_core::wire::{MAX_CONTROL_BODY, VERSION};
use phalanx_net::dial::{Expected, Target, dial};
use phalanx_net::identity::{IdentityError, Joining, Member, Role};
use phalanx_net::preamble::Preamble;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The identity of a new member, and its grid.
pub struct Joined {
    /// The text of the member's identity file.
    pub identity: Zeroizing<String>,
    /// The name of the grid, as the hub says.
    pub grid: String,
    /// The addresses of the hubs.
    pub hubs: Vec<String>,
}

/// Joins the grid of this token under this name. The private key is made here, and never leaves this machine. A token of the role
/// [`OWNER`] makes a user who is an owner.
///
/// # Errors
/// No hub answers, the hub belongs to another grid, or the hub refuses.
pub fn join(token: &Token, name: &str) -> Result<Joined, AskError> {
    let role = match token.role == OWNER {
        true => Role::User,
        false => token.role.parse().map_err(IdentityError::Damaged)?,
    };
    join_with(token, Joining::new(role, name, token.root)?)
}

/// Makes the user with this identity file an owner, by a token of the role [`OWNER`]. The user keeps the name and the key.
///
/// # Errors
/// As [`join`], or the text is no identity file.
pub fn become_owner(token: &Token, identity: &str) -> Result<Joined, AskError> {
    join_with(token, Joining::returning(identity)?)
}

fn join_with(token: &Token, joining: Joining) -> Result<Joined, AskError> {
    let (secret, phalanx) = (token.secret, VERSION.to_owned());
    let asked = match token.role == OWNER {
        true => ToHub::JoinAsOwner { secret, phalanx },
        false => ToHub::Join { secret, phalanx },
    };
    let joining = Arc::new(joining);
    let (grid, hubs, certificates) = ask(&joining, &token.hubs, asked)?.ok_or_else(other)?;
    Ok(Joined { identity: joining.identity(&certificates)?, grid, hubs })
}

/// Asks for a new certificate for a member whose certificate has ended. Returns the new certificate as PEM.
///
/// # Errors
/// No hub answers, or the hub refuses.
pub fn come_back(member: &Member, hubs: &[String]) -> Result<String, AskError> {
    let joining = Arc::new(Joining::of(member)?);
    let asked = ToHub::Return { phalanx: VERSION.to_owned() };
    let (_, _, certificates) = ask(&joining, hubs, asked)?.ok_or_else(other)?;
    Ok(certificates)
}

/// Asks why a hub has ended the link of this member. A hub hangs up on a revoked certificate without a reason. `None`: this end is
/// a member, or no hub can be asked.
pub fn why(member: &Member, hubs: &[String]) -> Option<AskError> {
    let joining = Arc::new(Joining::of(member).ok()?);
    match ask(&joining, hubs, ToHub::Why { phalanx: VERSION.to_owned() }) {
        // The hub that had made the certificate was expelled, and this one has made another.
        Ok(Some((_, _, certificates))) => {
            member.renewals().into_iter().for_each(|renewals| drop(renewals.take(certificates.as_bytes())));
            None
        }
        Err(error @ (AskError::NoMember(_) | AskError::Refused(_))) => Some(error),
        _ => None,
    }
}

/// Opens a link to the hub that leads. A member whose issuer was revoked, together with the hub that had made its certificate, gets a new
/// certificate first.
///
/// # Errors
/// As [`AtHub::open`], or the member was expelled.
pub fn open_again(member: &Member, hubs: &[String]) -> Result<AtHub, AskError> {
    match AtHub::open(member, hubs) {
        Err(AskError::Ended(error)) => match why(member, hubs) {
            Some(why) => Err(why),
            None => AtHub::open(member, hubs).map_err(|_| AskError::Ended(error)),
        },
        opened => opened,
    }
}

/// The hub's answer to a new member: the name of the grid, the addresses of its hubs, and the member's certificates as PEM.
type Welcome = (String, Vec<String>, String);

/// Asks as a peer that joins. Returns `None` if the hub says that this end is a member.
pub(super) fn ask(joining: &Arc<Joining>, hubs: &[String], asked: ToHub) -> Result<Option<Welcome>, AskError> {
    let joining = joining.clone();
    leading(hubs, move |address| {
        let call = || {
            let dialled = dial(&Target::Hub(address.clone()), DIAL_PATIENCE)?;
            let introduced = dialled.introduce(Preamble::Join, Expected::Hub(&joining), LEVELS, DIAL_PATIENCE)?;
            introduced.link(MAX_CONTROL_BODY)
        };
        let (link, reader) = call().map_err(|error| unreachable(address, &error))?;
        let mut at_hub = AtHub::joining(link, reader, address);
        match at_hub.ask_here(&asked, Vec::new(), PATIENCE)? {
            (FromHub::Welcome { grid, hubs }, body) => {
                let certificates = String::from_utf8(body).map_err(|_| other())?;
                Ok(Some((grid, hubs, certificates)))
            }
            (FromHub::Member, _) => Ok(None),
            _ => Err(other()),
        }
    })
}
