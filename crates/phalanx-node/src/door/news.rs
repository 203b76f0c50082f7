//! Members that bring news of the grid, and take some: lists of revoked certificates, and renewed certificates.

use super::{Peer, check_whole};
use crate::learned::log_learned;
use crate::quota::Quota;
use phalanx_core::wire::MAX_CONTROL_BODY;
use phalanx_net::identity::Member;
use phalanx_net::link::Link;
use phalanx_net::news::{Exchange, LEVELS, talk};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Most links for news at a time. Each lasts for milliseconds, or for ten seconds at most.
const MOST: usize = 32;
/// Most of one member. A machine may have several programs.
const SHARE: usize = 4;

pub(super) fn quota() -> Arc<Quota> {
    Quota::new("links for news", MOST, SHARE)
}

/// Serves any member of the grid, even one that may use no other service here, because the authority has signed all news. A process
/// that acts for a user is refused: its user's program brings the news.
pub(super) fn serve(mut peer: Peer, member: &Member) -> io::Result<()> {
    let (shaken, role, name, only) = peer.shake(member, LEVELS.exactly())?;
    check_whole(&name, only)?;
    let door = peer.door.clone();
    let _entered = door.news.enter(&format!("{role} {name}"))?;
    peer.proved();
    let (_link, reader) = Link::new(peer.socket, Some(shaken), MAX_CONTROL_BODY)?;
    let is_closed = || door.closed.load(Ordering::Acquire);
    let exchange = Exchange::of_server(member.news());
    talk(reader, exchange, is_closed, |learned| log_learned(&door.log, &learned, &name))
}
