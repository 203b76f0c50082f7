//! Where connections are accepted: an address that other machines reach, or a path on this one.

use super::{Raw, Socket};
use socket2::{Domain, SockAddr, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

/// Connections that the system keeps until they are accepted.
const BACKLOG: i32 = 1024;

/// Where an executor or a server of spaces is reached.
#[derive(Debug)]
pub struct Listener {
    raw: Raw,
}

impl Listener {
    /// Listens at `address`: `host:port`, port 0 for any free one.
    pub fn bind(address: &str) -> io::Result<Listener> {
        Ok(Listener { raw: std::net::TcpListener::bind(address)?.into() })
    }

    /// Listens at `path`, which must not exist, for processes of this machine. Whoever may write it can connect.
    pub fn bind_path(path: &Path) -> io::Result<Listener> {
        let raw = Raw::new(Domain::UNIX, Type::STREAM, None)?;
        raw.bind(&SockAddr::unix(path)?)?;
        raw.listen(BACKLOG)?;
        Ok(Listener { raw })
    }

    /// Where it really listens; an error where that is a path.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.raw.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// Waits for the next connection, and where that comes from; none: from this machine, over a path.
    pub fn accept(&self) -> io::Result<(Socket, Option<SocketAddr>)> {
        let (raw, peer) = self.raw.accept()?;
        match peer.as_socket() {
            Some(peer) => Ok((Socket::tcp(raw.into())?, Some(peer))),
            None => Ok((Socket { raw }, None)),
        }
    }

    /// Lets nobody connect any more, and makes a thread that waits in [`Listener::accept`] look up.
    pub fn close(&self, patience: Duration) {
        // Where the system does not end a listener like this, a connection to it wakes the thread.
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
        // A connection that would wait for room in the backlog means that the thread is awake.
        let _ = raw.set_nonblocking(true);
        let _ = self.raw.local_addr().and_then(|address| raw.connect(&address));
    }
}
