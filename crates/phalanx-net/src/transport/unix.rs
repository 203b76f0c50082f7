//! Unix sockets, to a path on this machine. The system confirms which user the server runs as.

use super::{Dialled, Target, Transport};
use crate::socket::Socket;
use std::io;
use std::path::Path;
use std::time::Duration;

pub(super) struct Unix;

impl Transport for Unix {
    /// The system connects or refuses at once, so there is nothing to be patient for.
    fn dial(&self, target: &Target, _: Duration) -> Option<io::Result<Dialled>> {
        match target {
            Target::Path(path) => Some(dial_path(path)),
            Target::Host(_) | Target::At(_) => None,
        }
    }
}

fn dial_path(path: &Path) -> io::Result<Dialled> {
    Ok(Dialled { socket: Socket::unix(path)?, address: None, again: path.into() })
}
