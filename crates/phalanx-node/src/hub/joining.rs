//! A peer that joins, or a member that comes back after its certificate has ended.

use super::serving::LEVELS;
use super::{Hub, HubError, signing};
use crate::control::{await_end, tell, tell_with};
use crate::dial::check_version;
use crate::door::{Peer, refused};
use phalanx_core::hub::{Refusal, Who};
use phalanx_core::wire::hub::{FromHub, ToHub, addresses_of};
use phalanx_core::wire::{MAX_CONTROL_BODY, decode};
use phalanx_net::frames::Frame;
use phalanx_net::identity::IdentityError;
use phalanx_net::link::{Link, Reader};
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Time for the peer to send its request, once its handshake is done.
const PATIENCE: Duration = Duration::from_secs(2);
/// A member whose certificate has ended can come back within this time, in seconds: 30 days. Later the member needs a new token.
const AWAY: u64 = 30 * 24 * 3600;

impl Hub {
    /// Serves a peer that joins.
    pub fn serve_joining(&self, mut peer: Peer) -> io::Result<()> {
        let from = peer.from.ok_or_else(|| refused("hubs are reached over the network"))?;
        let shaken = peer.shake_to_join(&self.member.newest(), LEVELS)?;
        let _entered = self.joining.enter(&network(from))?;
        peer.proved();
        let (shown, ended) = (shaken.peer_certificate().to_vec(), self.member.ended_member(shaken.shown()));
        let has_lost_issuer = self.member.has_lost_issuer(shaken.shown());
        let (link, mut reader) = Link::new(peer.socket, Some(shaken), MAX_CONTROL_BODY)?;
        let asked = hear(&mut reader)?;
        let admitted = if self.leads() { Ok(()) } else { Err(HubError::Elsewhere) };
        let admitted = admitted.and_then(|()| self.admit(asked, &shown, ended.map(drop), has_lost_issuer));
        let admitted = self.confirm().and(admitted); // what another hub has decided meanwhile may be newer
        match admitted {
            Ok(None) => {
                tell(&link, &FromHub::Member);
                await_end(reader);
                Ok(())
            }
            Ok(Some((Who { role, name }, pem))) => {
                self.log.info(format!("the {role} {name} joins from {from}"));
                let (grid, hubs) = (self.grid.clone(), addresses_of(&self.hubs()));
                tell_with(&link, &FromHub::Welcome { grid, hubs }, pem.into_bytes());
                await_end(reader);
                Ok(())
            }
            Err(error) => {
                tell(&link, &error.answer(self));
                await_end(reader);
                match error {
                    HubError::Elsewhere => Ok(()),
                    error => Err(refused(error.to_string())),
                }
            }
        }
    }

    /// Answers a joining peer. `shown` is the request or the certificate of the peer. `ended` is an error unless `shown` is the
    /// certificate of a member or a former member. Returns `None` when a member has only asked whether it still is one.
    fn admit(
        &self,
        asked: ToHub,
        shown: &[u8],
        ended: Result<(), IdentityError>,
        has_lost_issuer: bool,
    ) -> Result<Option<(Who, String)>, HubError> {
        let (ToHub::Join { phalanx, .. }
        | ToHub::JoinAsOwner { phalanx, .. }
        | ToHub::Return { phalanx }
        | ToHub::Why { phalanx }) = &asked
        else {
            return Err(HubError::Other("this is a joining link".to_owned()));
        };
        check_version(&"the machine that joins", phalanx).map_err(HubError::Other)?;
        match asked {
            ToHub::Join { secret, .. } => return self.join(secret, shown).map(Some),
            ToHub::JoinAsOwner { secret, .. } => return self.join_as_owner(secret, shown).map(Some),
            _ => {}
        }
        if !has_lost_issuer {
            ended?;
        }
        let until = signing::ends(&self.issuer, shown)?;
        if until + AWAY < signing::now() {
            return Err(HubError::Refused(Refusal::Away));
        }
        match asked {
            _ if has_lost_issuer => self.replace(shown).map(Some),
            ToHub::Return { .. } => self.renew(shown).map(Some),
            _ => self.known(shown).map(|_| None),
        }
    }
}

/// The network that a peer comes from: one host has 2^64 addresses of version 6.
fn network(from: IpAddr) -> String {
    match from.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("{:x}", u128::from(address) >> 64),
    }
}

/// The first message of the peer.
fn hear(reader: &mut Reader) -> io::Result<ToHub> {
    let (until, mut heard) = (Instant::now() + PATIENCE, None);
    while heard.is_none() && Instant::now() < until {
        let on_frame = &mut |frame: Frame| {
            heard.get_or_insert_with(|| decode::<ToHub>(&frame.header));
        };
        reader.poll(PATIENCE, on_frame).map_err(io::Error::other)?;
    }
    match heard {
        Some(Ok(message)) => Ok(message),
        Some(Err(error)) => Err(io::Error::other(error)),
        None => Err(io::ErrorKind::TimedOut.into()),
    }
}
