//! Listeners: at an address that other machines reach, or at a path on this machine.

use super::{Raw, Socket};
use socket2::{Domain, SockAddr, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

/// Limit on the connections that the system keeps until they are accepted.
const BACKLOG: i32 = 1024;

/// The listener of an executor or of a server of spaces.
#[derive(Debug)]
pub struct Listener {
    raw: Raw,
}

impl Listener {
    /// Listens at `address`, given as `host:port`. Port 0 takes any free port.
    pub fn bind(address: &str) -> io::Result<Listener> {
        Ok(Listener { raw: std::net::TcpListener::bind(address)?.into() })
    }

    /// Listens at `path`, which must not exist, for processes of this machine. Every user who may write to the path can
    /// connect.
    pub fn bind_path(path: &Path) -> io::Result<Listener> {
        let raw = Raw::new(Domain::UNIX, Type::STREAM, None)?;
        raw.bind(&SockAddr::unix(path)?)?;
        raw.listen(BACKLOG)?;
        Ok(Listener { raw })
    }

    /// The actual address. Fails if the listener is at a path.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.raw.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// Waits for the next connection. Also returns the peer's address; `None`: the peer is on this machine, over a
    /// path.
    pub fn accept(&self) -> io::Result<(Socket, Option<SocketAddr>)> {
        let (raw, peer) = self.raw.accept()?;
        match peer.as_socket() {
            Some(peer) => Ok((Socket::tcp(raw.into())?, Some(peer))),
            None => Ok((Socket { raw }, None)),
        }
    }

    /// Stops listening, and wakes a thread that waits in [`Listener::accept`].
    pub fn close(&self, patience: Duration) {
        // On systems where this does not end a listener, a connection to it wakes the thread.
        let _ = self.raw.shutdown(Shutdown::Both);
        self.wake(patience);
    }

    fn wake(&self, patience: Duration) {
        let Ok(mut address) = self.address() else { return self.wake_path() };
        match address {
            SocketAddr::V4(_) if address.ip().is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            SocketAddr::V6(_) if address.ip().is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        let _ = TcpStream::connect_timeout(&address, patience);
    }

    fn wake_path(&self) {
        let Ok(raw) = Raw::new(Domain::UNIX, Type::STREAM, None) else { return };
        // If the backlog is full, the connection would wait, but then the thread is awake anyway.
        let _ = raw.set_nonblocking(true);
        let _ = self.raw.local_addr().and_then(|address| raw.connect(&address));
    }
}
