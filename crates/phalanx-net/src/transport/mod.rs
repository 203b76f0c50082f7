//! What carries the bytes of a link. Each transport is a file in this folder and a line in [`TRANSPORTS`].
//!
//! A transport connects to the targets that it leads to, and hands out a socket. It knows nothing of preambles,
//! identities and levels, which are the business of [`crate::dial`]. So whatever carries a link sees only what the
//! link's levels let it see. A transport whose bytes come over no socket of the system hands out one end of a
//! [`Socket::pair`], and copies between the other end and what it has.

mod hub;
mod named;
mod tcp;
mod unix;

pub use named::{Guide, RELAYED, Watcher, called, guide, host_of, member_at, watch};
pub use tcp::look_up;

use crate::address::Address;
use crate::socket::Socket;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// All transports. The first one that leads to a target connects to it.
const TRANSPORTS: &[&dyn Transport] = &[&unix::Unix, &named::Named, &hub::Hub, &tcp::Tcp];

/// A way to reach servers.
pub trait Transport: Sync {
    /// Connects to the target, or fails when `patience` is over. `None`: this transport does not lead there.
    fn dial(&self, target: &Target, patience: Duration) -> Option<io::Result<Dialled>>;
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A machine as users name it, by a name or by a number.
    Host(Address),
    /// A hub. Its way may lead through an HTTP proxy.
    Hub(Address),
    /// An address that was looked up or reached before.
    At(SocketAddr),
    /// A path on this machine.
    Path(PathBuf),
}

/// A connection on which nothing has been sent yet.
#[derive(Debug)]
pub struct Dialled {
    /// The connection.
    pub socket: Socket,
    /// The address by which a policy judges the server. `None`: it is on this machine.
    pub address: Option<SocketAddr>,
    /// Where further connections to the same server go, even if its name resolves differently by then.
    pub again: Target,
}

/// Connects to the target. Each of its addresses may take as long as `patience`.
pub fn dial(target: &Target, patience: Duration) -> io::Result<Dialled> {
    dial_by(TRANSPORTS, target, patience)
}

/// Like [`dial`], by one of the given transports.
pub fn dial_by(transports: &[&dyn Transport], target: &Target, patience: Duration) -> io::Result<Dialled> {
    let dialled = transports.iter().find_map(|transport| transport.dial(target, patience));
    dialled.unwrap_or_else(|| Err(io::Error::new(io::ErrorKind::Unsupported, format!("nothing leads to {target}"))))
}

impl From<&Address> for Target {
    fn from(address: &Address) -> Target {
        Target::Host(address.clone())
    }
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Target {
        Target::At(address)
    }
}

impl From<&Path> for Target {
    fn from(path: &Path) -> Target {
        Target::Path(path.to_owned())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Host(address) | Target::Hub(address) => address.fmt(f),
            Target::At(address) => address.fmt(f),
            Target::Path(path) => path.display().fmt(f),
        }
    }
}
