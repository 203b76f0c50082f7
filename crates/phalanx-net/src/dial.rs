//! The way out: a connection becomes a link to the member that was meant, at levels that both ends agreed on.
//!
//! Every link to another process that listens begins here: [`dial`] connects by whatever transport leads to the target,
//! and this end then introduces itself: it sends the preamble, does the handshake, and checks which peer answers. The
//! levels are known beforehand ([`Dialled::introduce`]), decided from what the server offers ([`Dialled::agree`]), or
//! clear for everything ([`Dialled::introduce_in_clear`]). Whoever dials says which peer it expects ([`Expected`]): there is
//! no word for "any member".
//!
//! If the two ends of a new link have not the same news of their grid, a [courier](sent) leaves in the background.

mod prolonging;
mod sent;

pub use crate::transport::{
    Dialled, Guide, RELAYED, Target, Transport, Watcher, called, dial, dial_by, guide, host_of, look_up, member_at,
    watch,
};
pub use sent::finish;

use crate::connection::Connection;
use crate::identity::{Client, IdentityError, Joining, KeyedCertificate, is_same_member, role_and_name};
use crate::link::{Link, Reader};
use crate::preamble::Preamble;
use crate::socket::{Socket, Timed};
use crate::tls::{Shaken, choose, choose_ahead};
use phalanx_core::level::{LevelSet, Levels};
use prolonging::Prolonging;
use sent::Sent;
use std::convert::Infallible;
use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Which peer must answer, and the identity that this end shows to it.
#[derive(Debug, Clone, Copy)]
pub enum Expected<'a> {
    /// The member of this name.
    Named(&'a Client, &'a str),
    /// The member that a judge accepts by its name.
    Judged(&'a Client, &'a dyn Judge),
    /// A process of this user on this machine, whatever its certificate says. The system confirms the user.
    OwnProcess(&'a Client),
    /// The member with this certificate, which answered before, or with a renewed one.
    Same(&'a Client, &'a [u8]),
    /// The process that holds the key of this certificate, which was announced over another link.
    Holder(&'a KeyedCertificate, &'a [u8]),
    /// A hub of the grid that this end is about to join. For [`Preamble::Join`].
    Hub(&'a Joining),
}

/// Decides whether the member that answers is the one that is meant.
pub trait Judge: Debug {
    /// Judges by the name in the member's certificate. `at` is the address by which policies judge the server, as in
    /// [`Dialled`].
    ///
    /// # Errors
    /// Another member is expected. The error is what the caller of the member gets.
    fn judge(&self, name: &str, at: Option<SocketAddr>) -> io::Result<()>;
}

/// Why no link was agreed on.
#[derive(Debug)]
pub enum Failure<E> {
    /// This end cannot accept what the server offers.
    Disagreed(E),
    /// The connection, the handshake or the peer's identity is at fault.
    Failed(io::Error),
}

impl<E> From<io::Error> for Failure<E> {
    fn from(error: io::Error) -> Failure<E> {
        Failure::Failed(error)
    }
}

/// A connection that is ready for a link.
#[derive(Debug)]
pub struct Introduced {
    /// The connection.
    pub socket: Socket,
    /// `None`: there was no handshake.
    pub shaken: Option<Shaken>,
    /// As in [`Dialled`].
    pub address: Option<SocketAddr>,
    /// As in [`Dialled`].
    pub again: Target,
}

impl Dialled {
    /// Introduces this end at levels that both ends know. The server may still refuse: its refusal arrives in place of
    /// the first frame.
    pub fn introduce(
        self,
        preamble: Preamble,
        expected: Expected<'_>,
        levels: Levels,
        patience: Duration,
    ) -> io::Result<Introduced> {
        let ahead = |connection, said: &[u8], timed: &mut Timed<'_>| choose_ahead(connection, levels, said, timed);
        self.shake_hands(preamble, expected, patience, ahead)
    }

    /// Like [`Dialled::introduce`], and waits until the server has proved itself and offers levels. For connections that
    /// no [`Reader`] reads, which would hear the offer later.
    pub fn introduce_and_wait(
        self,
        preamble: Preamble,
        expected: Expected<'_>,
        levels: Levels,
        patience: Duration,
    ) -> io::Result<Introduced> {
        let known = |_| Ok::<_, Infallible>((levels, ()));
        match self.agree(preamble, expected, known, patience) {
            Ok((introduced, ())) => Ok(introduced),
            Err(Failure::Failed(error)) => Err(error),
            Err(Failure::Disagreed(never)) => match never {},
        }
    }

    /// Introduces this end, and lets `decide` choose the levels, for each mark, from those that the server offers. It
    /// returns the levels and whatever else the caller wants to keep of its decision.
    ///
    /// # Errors
    /// [`Failure::Disagreed`] with the error of `decide`. A server that refuses is an error of kind `ConnectionAborted`.
    pub fn agree<T, E>(
        self,
        preamble: Preamble,
        expected: Expected<'_>,
        decide: impl FnOnce([LevelSet; 3]) -> Result<(Levels, T), E>,
        patience: Duration,
    ) -> Result<(Introduced, T), Failure<E>> {
        let mut decided = None;
        let choice = |offered| match decide(offered) {
            Ok((levels, kept)) => {
                decided = Some(Ok(kept));
                Ok(levels)
            }
            Err(error) => {
                decided = Some(Err(error));
                Err("no level is left")
            }
        };
        let choosing = |connection, said: &[u8], timed: &mut Timed<'_>| choose(connection, choice, said, timed);
        let introduced = self.shake_hands(preamble, expected, patience, choosing);
        match (introduced, decided) {
            (_, Some(Err(error))) => Err(Failure::Disagreed(error)),
            (Ok(introduced), Some(Ok(kept))) => Ok((introduced, kept)),
            (introduced, _) => Err(introduced.err().unwrap_or_else(|| io::ErrorKind::InvalidData.into()).into()),
        }
    }

    /// Tells a hub where the connection leads. What is sent next is for the member there: it is introduced to that member by one of the
    /// other methods.
    pub fn through(mut self, token: [u8; 16], patience: Duration) -> io::Result<Socket> {
        Preamble::Relay { token }.write(&mut self.socket.until(Instant::now() + patience))?;
        self.socket.set_patience(None)?;
        Ok(self.socket)
    }

    /// Introduces this end without a handshake. Nothing on the connection is protected.
    pub fn introduce_in_clear(mut self, preamble: Preamble, patience: Duration) -> io::Result<Introduced> {
        preamble.write(&mut self.socket.until(Instant::now() + patience))?;
        Ok(self.introduced(None))
    }

    fn shake_hands(
        mut self,
        preamble: Preamble,
        expected: Expected<'_>,
        patience: Duration,
        handshake: impl FnOnce(Connection, &[u8], &mut Timed<'_>) -> io::Result<Shaken>,
    ) -> io::Result<Introduced> {
        let connection = expected.connection().map_err(io::Error::other)?;
        let mut timed = self.socket.until(Instant::now() + patience);
        preamble.write(&mut timed)?;
        let mut shaken = handshake(connection, &preamble.bound(), &mut timed)?;
        if let Some(client) = expected.client() {
            shaken.heed(&client.news().revocations)?;
        }
        expected.check(&shaken, &self)?;
        let client = expected.client().filter(|_| !preamble.carries_news());
        let courier = client.and_then(|client| Sent::new(client, &self.again, shaken.peer_certificate()));
        courier.into_iter().for_each(|courier| shaken.send(courier));
        if let Some(client) = expected.client() {
            let (certificate, levels) = (shaken.peer_certificate().to_vec(), shaken.levels);
            let prolonging = Prolonging::new(client, &self.again, preamble, &certificate, levels);
            prolonging.into_iter().for_each(|it| shaken.prolong(it, &client.news().revocations));
        }
        Ok(self.introduced(Some(shaken)))
    }

    /// Whether the system confirms that the peer is a process of this user on this machine.
    pub fn is_own_process(&self) -> bool {
        self.address.is_none() && self.socket.peer_is_same_user().unwrap_or(false)
    }

    fn introduced(self, shaken: Option<Shaken>) -> Introduced {
        let Dialled { socket, address, again } = self;
        Introduced { socket, shaken, address, again }
    }
}

impl Introduced {
    /// The link over this connection. A frame with a body of more than `most_body` bytes ends it.
    pub fn link(self, most_body: u64) -> io::Result<(Arc<Link>, Reader)> {
        Link::new(self.socket, self.shaken, most_body)
    }

    /// The name in the certificate of the member that answered.
    pub fn name(&self) -> Result<String, IdentityError> {
        let shaken = self.shaken.as_ref().ok_or(IdentityError::Missing("name"))?;
        role_and_name(shaken.peer_certificate()).map(|(_, name)| name)
    }

    /// The certificate of the peer that answered, in DER. Empty if there was no handshake.
    pub fn certificate(&self) -> Vec<u8> {
        self.shaken.as_ref().map_or_else(Vec::new, |shaken| shaken.peer_certificate().to_vec())
    }

    /// An address, for callers that reach servers over the network only.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.address.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Expected<'_> {
    fn connection(self) -> Result<Connection, IdentityError> {
        match self {
            Expected::Named(client, _) | Expected::Judged(client, _) => client.connect(),
            Expected::OwnProcess(client) | Expected::Same(client, _) => client.connect(),
            Expected::Holder(own, certificate) => own.client_of(certificate),
            Expected::Hub(joining) => joining.connect(),
        }
    }

    /// The identity that this end shows to a member of its grid.
    fn client(&self) -> Option<&Client> {
        match self {
            Expected::Named(client, _) | Expected::Judged(client, _) => Some(client),
            Expected::OwnProcess(client) | Expected::Same(client, _) => Some(client),
            Expected::Holder(..) | Expected::Hub(_) => None,
        }
    }

    /// Checks what the handshake itself does not: it has checked the peer's role, and its grid or its one certificate.
    fn check(self, shaken: &Shaken, dialled: &Dialled) -> io::Result<()> {
        let refused = |why| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        let certificate = || role_and_name(shaken.peer_certificate()).map_err(io::Error::other);
        match self {
            Expected::Holder(..) | Expected::Hub(_) => Ok(()),
            Expected::Same(_, certificate) if is_same_member(shaken.peer_certificate(), certificate) => Ok(()),
            Expected::Same(client, _) => refused(format!("another {} answers now", client.role().name())),
            Expected::OwnProcess(_) if dialled.is_own_process() => Ok(()),
            Expected::OwnProcess(_) => refused("a process of another user answers".to_owned()),
            Expected::Judged(_, judge) => judge.judge(&certificate()?.1, dialled.address),
            Expected::Named(_, expected) => {
                let (role, name) = certificate()?;
                match name.eq_ignore_ascii_case(expected) {
                    true => Ok(()),
                    false => refused(format!("the {role} {name} answers in place of {expected}")),
                }
            }
        }
    }
}
