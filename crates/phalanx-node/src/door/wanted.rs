//! What a peer wants of the service behind a door.

use super::refused;
use phalanx_net::identity::Service;
use phalanx_net::preamble::Preamble;
use std::io;

/// The purpose of a connection, as far as a service has to answer it. News are for the door itself, and ranks have no door. So
/// neither is here, and no service has to refuse them. See [`Preamble`] for the rest.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "each is the preamble of the same name")]
pub enum Wanted {
    Control,
    Data { token: [u8; 16] },
    Space { shakes: bool },
    Replica,
    Ranks,
    Transfer,
    Executor,
    Stream { token: [u8; 12], number: u32 },
    Files,
    Join,
    Hub,
    Hubs,
    Relay { token: [u8; 16] },
    Content,
    Comm { shakes: bool },
}

impl Wanted {
    /// What this preamble asks of a service. `None`: news, which the door answers.
    pub(super) fn of(preamble: Preamble) -> io::Result<Option<Wanted>> {
        Ok(Some(match preamble {
            Preamble::News => return Ok(None),
            Preamble::Rank { .. } => return Err(refused("ranks connect to each other, not to a server")),
            Preamble::Control => Wanted::Control,
            Preamble::Data { token } => Wanted::Data { token },
            Preamble::Space { shakes } => Wanted::Space { shakes },
            Preamble::Replica => Wanted::Replica,
            Preamble::Ranks => Wanted::Ranks,
            Preamble::Transfer => Wanted::Transfer,
            Preamble::Executor => Wanted::Executor,
            Preamble::Stream { token, number } => Wanted::Stream { token, number },
            Preamble::Files => Wanted::Files,
            Preamble::Join => Wanted::Join,
            Preamble::Hub => Wanted::Hub,
            Preamble::Hubs => Wanted::Hubs,
            Preamble::Relay { token } => Wanted::Relay { token },
            Preamble::Content => Wanted::Content,
            Preamble::Comm { shakes } => Wanted::Comm { shakes },
        }))
    }

    /// The service that a delegation must allow. `None`: no process may ask for this in a user's name.
    pub(super) fn service(self) -> Option<Service> {
        match self {
            Wanted::Space { .. } => Some(Service::Spaces),
            Wanted::Transfer | Wanted::Stream { .. } | Wanted::Files => Some(Service::Copies),
            _ => None,
        }
    }
}
