//! TCP, to a port of any machine.

use super::{Dialled, Target, Transport};
use crate::address::Address;
use crate::socket::Socket;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

pub(super) struct Tcp;

impl Transport for Tcp {
    fn dial(&self, target: &Target, patience: Duration) -> Option<io::Result<Dialled>> {
        match target {
            Target::Host(address) => Some(dial_any(address, patience)),
            Target::At(address) => Some(dial_at(address, patience)),
            Target::Hub(_) | Target::Path(_) => None,
        }
    }
}

/// Tries every address of the machine's name.
pub(super) fn dial_any(address: &Address, patience: Duration) -> io::Result<Dialled> {
    let mut last = no_address();
    for found in addresses(address)? {
        match dial_at(&found, patience) {
            Ok(dialled) => return Ok(dialled),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn dial_at(address: &SocketAddr, patience: Duration) -> io::Result<Dialled> {
    let socket = Socket::tcp(TcpStream::connect_timeout(address, patience)?)?;
    // A server that hangs up at once leaves no peer: its hang-up is the error to show.
    let address = socket.peer().unwrap_or(*address);
    Ok(Dialled { socket, address: Some(address), again: Target::At(address) })
}

/// The first address of the machine's name.
pub fn look_up(address: &Address) -> io::Result<SocketAddr> {
    addresses(address)?.next().ok_or_else(no_address)
}

fn addresses(address: &Address) -> io::Result<impl Iterator<Item = SocketAddr>> {
    (address.host.as_str(), address.port).to_socket_addrs()
}

fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the name has no address")
}
