//! The first request on a user's control link decides what the transfer is.

use super::service::{LONGEST, Service};
use crate::control;
use crate::door::{Peer, check_accepted, refused};
use phalanx_core::wire::transfer::Message;
use phalanx_net::identity::Role;
use phalanx_net::link::Link;
use std::io;

impl Service {
    /// Serves a user's control link.
    pub fn serve(&self, mut peer: Peer) -> io::Result<()> {
        let (shaken, user) = peer.shake_hands(&self.member, control::LEVELS)?;
        if let Err(error) = check_accepted(&self.accepted, &user) {
            let (link, reader) = Link::new(peer.socket, Some(shaken), 0)?;
            return Err(self.refuse(&link, reader, &user, &error));
        }
        let mut guest = self.greet(peer, shaken, user, Role::User)?;
        match guest.hear(LONGEST)? {
            Message::Begin(request) => self.go(guest, request, None, &|| false).map(drop),
            Message::Expect { request, levels, name, certificate } => {
                self.expect(guest, request, levels, name, certificate)
            }
            Message::Carry(carriage) => self.carry(guest, &carriage),
            _ => Err(refused("the first word of a transfer is what it is to be")),
        }
    }
}
