//! Unix sockets, to a path on this machine. The system confirms which user the server runs as.

use super::{Dialled, Target, Transport};
use crate::socket::Socket;
use std::io;
use std::path::Path;
use std::time::Duration;

pub(super) struct Unix;

impl Transport for Unix {
    /// The system connects or refuses at once, unless too many connections wait for a server that takes none.
    fn dial(&self, target: &Target, patience: Duration) -> Option<io::Result<Dialled>> {
        match target {
            Target::Path(path) => Some(dial_path(path, patience)),
            Target::Host(_) | Target::Hub(_) | Target::At(_) => None,
        }
    }
}

fn dial_path(path: &Path, patience: Duration) -> io::Result<Dialled> {
    Ok(Dialled { socket: Socket::unix(path, patience)?, address: None, again: path.into() })
}
