//! Dialling: turns a place that the user names into a link to the server there.

use super::Place;
use super::bounds::{MOST_BODY, SILENCE};
use super::error::ClientError;
use crate::unreachable::why_unreachable;
use phalanx_core::level::{Agreed, Conflict, LevelSet, Policy};
use phalanx_core::space::Options;
use phalanx_net::address::Address;
use phalanx_net::identity::{Member, Role};
use phalanx_net::link::{Link, Reader};
use phalanx_net::preamble::Preamble;
use phalanx_net::runtime::paths_to;
use phalanx_net::socket::{Socket, look_up};
use phalanx_net::tls::choose;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How a client reaches a space.
#[derive(Debug, Clone)]
pub struct Connect {
    /// The levels that the link may have.
    pub policy: Policy,
    /// The user's identity. `None`: only servers on this machine can be reached.
    pub member: Option<Member>,
    /// The options to create the space with if it does not exist. `None`: a missing space is an error.
    pub create: Option<Options>,
    /// The known addresses of the members that replicate the space. Empty: only the given address is tried.
    pub members: Vec<Place>,
    /// Timeout for reaching the server, and for each of its first answers.
    pub patience: Duration,
}

/// A link to a server.
pub struct Reached {
    pub link: Arc<Link>,
    pub reader: Reader,
    pub agreed: Agreed,
}

/// Reaches the server at `place`.
pub fn reach(place: &Place, connect: &Connect) -> Result<Reached, ClientError> {
    match place {
        Place::Path(path) => {
            let socket = Socket::dial_path(path).map_err(|error| unreachable(place, &error))?;
            local(socket, place, connect)
        }
        Place::Network(address) => {
            let target = look_up(address).map_err(|error| unreachable(place, &error))?;
            match dial_any(&paths_to(&target)) {
                Some(socket) => local(socket, place, connect),
                None => remote(address, target, place, connect),
            }
        }
    }
}

/// Dials a server of this machine that runs as this user.
fn dial_any(paths: &[impl AsRef<Path>]) -> Option<Socket> {
    let dial = |path: &Path| Socket::dial_path(path).ok().filter(|socket| socket.peer_is_same_user().unwrap_or(false));
    paths.iter().find_map(|path| dial(path.as_ref()))
}

fn local(mut socket: Socket, place: &Place, connect: &Connect) -> Result<Reached, ClientError> {
    let there = connect.policy.place(None, Role::Executor.name());
    let agreed = connect.policy.agree(&there, [LevelSet::EVERY; 3])?;
    if agreed.levels.need_handshake() {
        return shake_hands(socket, place, None, connect);
    }
    if !socket.peer_is_same_user().unwrap_or(false) {
        let why = "the server there is another user's, and clear links are for this user's own";
        return Err(ClientError::Unreachable(format!("{place}: {why}")));
    }
    let begin = || {
        Preamble::Space { shakes: false }.write(&mut socket.until(Instant::now() + connect.patience))?;
        Link::direct(socket, None, MOST_BODY)
    };
    let (link, reader) = begin().map_err(|error| unreachable(place, &error))?;
    Ok(Reached { link, reader, agreed })
}

fn remote(address: &Address, target: SocketAddr, place: &Place, connect: &Connect) -> Result<Reached, ClientError> {
    let dial = || Socket::dial_at(&target, connect.patience).or_else(|_| Socket::dial(address, connect.patience));
    let socket = dial().map_err(|error| unreachable(place, &error))?;
    // This check comes late on purpose. A server of this user that has just died needs no identity; the error must say that it
    // is dead.
    if connect.member.is_none() {
        let how = "make a grid with: phalanx grid create";
        return Err(ClientError::Identity(format!("no identity to prove to the server at {address} with; {how}")));
    }
    let target = socket.peer().map_err(|error| unreachable(place, &error))?;
    shake_hands(socket, place, Some(target), connect)
}

/// Both ends authenticate and agree on levels. `from`: the server's address; `None`: it is on this machine.
fn shake_hands(
    mut socket: Socket,
    place: &Place,
    target: Option<SocketAddr>,
    connect: &Connect,
) -> Result<Reached, ClientError> {
    let member = connect.member.as_ref();
    let member =
        member.ok_or_else(|| ClientError::Identity("this policy needs an identity on both ends".to_owned()))?;
    let connection = member.client_of(Role::Executor)?.connect()?;
    let mut decided = None;
    let decide = |theirs| {
        let there = connect.policy.place(target.map(|target| target.ip()), Role::Executor.name());
        let decision = decided.insert(connect.policy.agree(&there, theirs));
        decision.as_ref().map(|agreed| agreed.levels).map_err(Conflict::to_string)
    };
    let mut timed = socket.until(Instant::now() + connect.patience);
    let preamble = Preamble::Space { shakes: true };
    let said = preamble.write(&mut timed);
    let shaken = said.and_then(|()| choose(connection, decide, &preamble.bound(), &mut timed));
    match (shaken, decided) {
        (_, Some(Err(conflict))) => Err(conflict.into()),
        (Ok(shaken), Some(Ok(agreed))) => {
            let protected = agreed.levels.need_handshake();
            let begun = socket.end_when_silent(SILENCE);
            let begun = begun.and_then(|()| Link::direct(socket, Some(shaken).filter(|_| protected), MOST_BODY));
            let (link, reader) = begun.map_err(|error| unreachable(place, &error))?;
            Ok(Reached { link, reader, agreed })
        }
        (shaken, _) => {
            let error = shaken.err().unwrap_or_else(|| ErrorKind::InvalidData.into());
            Err(unreachable(place, &error))
        }
    }
}

fn unreachable(place: &Place, error: &io::Error) -> ClientError {
    let refused = io::Error::from(ErrorKind::ConnectionRefused);
    // There is no socket at this path. It is reported like a server that does not listen.
    let error = if error.kind() == ErrorKind::NotFound { &refused } else { error };
    let what = why_unreachable("server of spaces", "phalanx space serve", error);
    ClientError::Unreachable(format!("{place}: {what}"))
}
