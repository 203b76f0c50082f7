//! Dialling: turns a place that the user names into a link to the server there.

use super::Place;
use super::bounds::{MOST_BODY, SILENCE};
use super::error::ClientError;
use crate::delegated;
use crate::dial::why_unreachable;
use crate::dialler::{Awaited, Dialler, is_unexpected};
use phalanx_core::level::{Agreed, LevelSet, Policy};
use phalanx_core::space::Options;
use phalanx_net::address::Address;
use phalanx_net::dial::{Dialled, Expected, Failure, Introduced, Target, dial, look_up, member_at};
use phalanx_net::identity::{Acting, Role, Service};
use phalanx_net::link::{Link, Reader};
use phalanx_net::preamble::Preamble;
use phalanx_net::runtime::paths_to;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What to do without an identity.
const WITHOUT_IDENTITY: &str =
    "name a grid that you have joined, as in GRID/MACHINE/SPACE, or make one with: phalanx grid create";

/// How a client reaches a space.
#[derive(Debug, Clone)]
pub struct Connect {
    /// The levels that the link may have.
    pub policy: Policy,
    /// The user's identity, and whom it expects. `None`: only servers on this machine can be reached.
    pub dialler: Option<Dialler>,
    /// The options to create the space with if it does not exist. `None`: a missing space is an error.
    pub create: Option<Options>,
    /// The known addresses of the members that replicate the space. Empty: only the given address is tried.
    pub members: Vec<Place>,
    /// Timeout for reaching the server, and for each of its first answers.
    pub patience: Duration,
}

impl Connect {
    /// Whether this is a process of a user at an executor. It has the executor's account, and no rights of that account.
    fn is_a_users(&self) -> bool {
        self.dialler.as_ref().is_some_and(|dialler| dialler.member().acts().is_some()) || is_caged()
    }
}

/// Whether this process runs in an executor's cage.
#[cfg(target_os = "linux")]
fn is_caged() -> bool {
    delegated::machine().is_some() && crate::cage::is_bound()
}

#[cfg(not(target_os = "linux"))]
fn is_caged() -> bool {
    false
}

/// What to do about a missing identity, if this process runs for a user at an executor.
fn advice() -> Option<String> {
    delegated::machine().map(|machine| delegated::advice(&machine, Service::Spaces))
}

/// A link to a server.
pub struct Reached {
    /// The sending half of the link.
    pub link: Arc<Link>,
    /// The receiving half of the link.
    pub reader: Reader,
    /// The link's levels, and what decided them.
    pub agreed: Agreed,
    /// The name in the server's certificate. `None`: it showed none, because it is a process of this user.
    pub peer: Option<String>,
}

/// Reaches the server at `place`.
pub fn reach(place: &Place, connect: &Connect) -> Result<Reached, ClientError> {
    let away = |error: io::Error| unreachable(place, &error);
    match place {
        Place::Path(path) => {
            let dialled = dial(&path.as_path().into(), connect.patience).map_err(away)?;
            local(dialled, place, connect)
        }
        Place::Network(address) => {
            if member_at(address).is_some() {
                return remote(address, &address.into(), place, connect);
            }
            let target = look_up(address).map_err(away)?;
            let own = if connect.is_a_users() { None } else { dial_own(&paths_to(&target), connect.patience) };
            match own {
                Some(dialled) => local(dialled, place, connect),
                None => remote(address, &target.into(), place, connect),
            }
        }
    }
}

/// Dials a server of this machine that runs as this user.
fn dial_own(paths: &[PathBuf], patience: Duration) -> Option<Dialled> {
    let mut dialled = paths.iter().filter_map(|path| dial(&path.as_path().into(), patience).ok());
    dialled.find(|dialled| dialled.socket.peer_is_same_user().unwrap_or(false))
}

fn local(dialled: Dialled, place: &Place, connect: &Connect) -> Result<Reached, ClientError> {
    let there = connect.policy.place(None, Role::Executor.name());
    let agreed = connect.policy.agree(&there, [LevelSet::EVERY; 3])?;
    if agreed.levels.need_handshake() || connect.is_a_users() {
        return agree(dialled, place, connect);
    }
    if !dialled.socket.peer_is_same_user().unwrap_or(false) {
        let why = "the server there is another user's, and clear links are for this user's own";
        return Err(ClientError::Unreachable(format!("{place}: {why}")));
    }
    let introduced = dialled.introduce_in_clear(Preamble::Space { shakes: false }, connect.patience);
    let opened = introduced.and_then(|introduced| Link::direct(introduced.socket, None, MOST_BODY));
    let (link, reader) = opened.map_err(|error| unreachable(place, &error))?;
    Ok(Reached { link, reader, agreed, peer: None })
}

fn remote(address: &Address, target: &Target, place: &Place, connect: &Connect) -> Result<Reached, ClientError> {
    let dialled = dial(target, connect.patience).or_else(|_| dial(&address.into(), connect.patience));
    let dialled = dialled.map_err(|error| unreachable(place, &error))?;
    // This check comes late on purpose. A server of this user that has just died needs no identity; the error must say that it
    // is dead.
    if connect.dialler.is_none() {
        let how = advice().unwrap_or_else(|| WITHOUT_IDENTITY.to_owned());
        return Err(ClientError::Identity(format!("no identity to prove to the server at {address} with; {how}")));
    }
    agree(dialled, place, connect)
}

/// Both ends authenticate and agree on levels.
fn agree(dialled: Dialled, place: &Place, connect: &Connect) -> Result<Reached, ClientError> {
    let dialler = connect.dialler.as_ref();
    let why = || advice().unwrap_or_else(|| "this policy needs an identity on both ends".to_owned());
    let dialler = dialler.ok_or_else(|| ClientError::Identity(why()))?;
    let (client, awaited) = (dialler.member().newest().client_of(Role::Executor)?, awaited(dialler, place));
    let expected = match dialled.is_own_process() && !awaited.is_named() {
        true => Expected::OwnProcess(&client),
        false => Expected::Judged(&client, &awaited),
    };
    let there = connect.policy.place(dialled.address.map(|address| address.ip()), Role::Executor.name());
    let decide = |theirs| connect.policy.agree(&there, theirs).map(|agreed| (agreed.levels, agreed));
    let preamble = Preamble::Space { shakes: true };
    match dialled.agree(preamble, expected, decide, connect.patience) {
        Ok((introduced, agreed)) => {
            check_allowed(dialler, &introduced, place)?;
            open(introduced, agreed).map_err(|error| unreachable(place, &error))
        }
        Err(Failure::Disagreed(conflict)) => Err(conflict.into()),
        Err(Failure::Failed(error)) => Err(unreachable(place, &error)),
    }
}

/// Checks that a process that acts for a user may use the spaces of the server that answered. The server checks it as well, but
/// tells only its owner.
fn check_allowed(dialler: &Dialler, server: &Introduced, place: &Place) -> Result<(), ClientError> {
    let Some(acting) = dialler.member().acts() else { return Ok(()) };
    let name = server.name()?;
    match acting.delegation.scope.allows(Service::Spaces, &name) {
        true => Ok(()),
        false => {
            let (Acting { user, executor, .. }, how) = (acting, delegated::advice(&acting.executor, Service::Spaces));
            let what = format!("{user} delegated the spaces of other servers to {executor}, not those of {name}");
            Err(ClientError::Identity(format!("{place}: {what}; {how}")))
        }
    }
}

fn awaited<'a>(dialler: &'a Dialler, place: &Place) -> Awaited<'a> {
    match place {
        Place::Network(address) => dialler.at(address),
        Place::Path(path) => dialler.at_path(path),
    }
}

fn open(introduced: Introduced, agreed: Agreed) -> io::Result<Reached> {
    let peer = Some(introduced.name().map_err(io::Error::other)?);
    let Introduced { socket, shaken, .. } = introduced;
    socket.end_when_silent(SILENCE)?;
    let (link, reader) = Link::direct(socket, shaken, MOST_BODY)?;
    Ok(Reached { link, reader, agreed, peer })
}

fn unreachable(place: &Place, error: &io::Error) -> ClientError {
    if is_unexpected(error) {
        return ClientError::Unexpected(format!("{place}: {error}"));
    }
    let refused = io::Error::from(ErrorKind::ConnectionRefused);
    // There is no socket at this path. It is reported like a server that does not listen.
    let error = if error.kind() == ErrorKind::NotFound { &refused } else { error };
    let what = why_unreachable("server of spaces", "phalanx space serve", error);
    ClientError::Unreachable(format!("{place}: {what}"))
}
