//! A connected stream socket: TCP to other machines, a unix socket pair to processes of this one.

use crate::address::Address;
use socket2::{Domain, Socket as Raw, TcpKeepalive, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Enough that a batch or a large array's piece fits without the writer waiting for the reader.
const BUFFER: usize = 1 << 20;

#[cfg(target_os = "linux")]
const NO_SIGNAL: i32 = rustix::net::SendFlags::NOSIGNAL.bits() as i32;
#[cfg(not(target_os = "linux"))]
const NO_SIGNAL: i32 = 0;

/// Connected, and either blocking (before a link is made of it) or not (after).
#[derive(Debug)]
pub struct Socket {
    raw: Raw,
}

impl Socket {
    /// Two ends of a new connection between processes of this machine.
    pub fn pair() -> io::Result<(Socket, Socket)> {
        let (one, other) = Raw::pair(Domain::UNIX, Type::STREAM, None)?;
        for end in [&one, &other] {
            end.set_send_buffer_size(BUFFER)?;
        }
        Ok((Socket { raw: one }, Socket { raw: other }))
    }

    /// Connects to an executor; tries every address the name has until `patience` is over.
    pub fn dial(address: &Address, patience: Duration) -> io::Result<Socket> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for target in (address.host.as_str(), address.port).to_socket_addrs()? {
            match Socket::dial_at(&target, patience) {
                Ok(socket) => return Ok(socket),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Connects to where another connection of ours ended.
    pub fn dial_at(target: &SocketAddr, patience: Duration) -> io::Result<Socket> {
        Socket::tcp(TcpStream::connect_timeout(target, patience)?)
    }

    /// The other end's address; an error where it has none.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        self.raw.peer_addr()?.as_socket().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// A connection that was accepted or dialled.
    pub fn tcp(stream: TcpStream) -> io::Result<Socket> {
        let raw = Raw::from(stream);
        raw.set_tcp_nodelay(true)?;
        raw.set_tcp_keepalive(&TcpKeepalive::new().with_time(Duration::from_secs(10)))?;
        Ok(Socket { raw })
    }

    /// How long a read or write may take while the socket is blocking; `None`: for ever.
    pub fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        self.raw.set_read_timeout(patience)?;
        self.raw.set_write_timeout(patience)
    }

    /// Reads and writes wait, or say `WouldBlock`.
    pub fn set_blocking(&self, blocking: bool) -> io::Result<()> {
        self.raw.set_nonblocking(!blocking)
    }

    /// Ends the connection for both sides and for every thread that waits on it.
    pub fn shut_down(&self) {
        let _ = self.raw.shutdown(Shutdown::Both);
    }

    /// Another handle of the same connection.
    pub fn try_clone(&self) -> io::Result<Socket> {
        Ok(Socket { raw: self.raw.try_clone()? })
    }

    /// Sends what the socket takes now. A peer that is gone is an error, never a signal.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.raw.send_with_flags(bytes, NO_SIGNAL)
    }

    /// The same from several places.
    pub(crate) fn send_vectored(&self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.raw.send_vectored_with_flags(slices, NO_SIGNAL)
    }

    /// For reading and writing with one deadline for all of it, however little comes at a time.
    pub fn until(&mut self, deadline: Instant) -> Timed<'_> {
        Timed { socket: self, deadline }
    }

    pub(crate) fn raw(&self) -> &Raw {
        &self.raw
    }
}

/// A blocking socket until a deadline; see [`Socket::until`].
#[derive(Debug)]
pub struct Timed<'a> {
    socket: &'a mut Socket,
    deadline: Instant,
}

impl Timed<'_> {
    fn ready(&mut self) -> io::Result<&mut Socket> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.socket.set_patience(Some(left))?;
        Ok(self.socket)
    }
}

impl io::Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.ready()?.read(buffer)
    }
}

impl io::Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.ready()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The first of the addresses that the machine's name has.
pub fn look_up(address: &Address) -> io::Result<SocketAddr> {
    let mut found = (address.host.as_str(), address.port).to_socket_addrs()?;
    found.next().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))
}

/// Where an executor is reached.
#[derive(Debug)]
pub struct Listener {
    tcp: TcpListener,
}

impl Listener {
    /// Listens at `address`: `host:port`, port 0 for any free one.
    pub fn bind(address: &str) -> io::Result<Listener> {
        Ok(Listener { tcp: TcpListener::bind(address)? })
    }

    /// Where it really listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Waits for the next connection; whose it says it is.
    pub fn accept(&self) -> io::Result<(Socket, SocketAddr)> {
        let (stream, peer) = self.tcp.accept()?;
        Ok((Socket::tcp(stream)?, peer))
    }

    /// Makes a thread that waits in [`Listener::accept`] look up, by connecting to it.
    pub fn wake(&self, patience: Duration) {
        let Ok(mut address) = self.address() else { return };
        match address {
            SocketAddr::V4(_) if address.ip().is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            SocketAddr::V6(_) if address.ip().is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        let _ = TcpStream::connect_timeout(&address, patience);
    }
}

impl io::Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.raw).read(buffer)
    }
}

impl io::Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl io::Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(unix)]
mod unix {
    use super::{Raw, Socket};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::Errno;
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recvmsg, sendmsg};
    use std::io::{self, IoSlice, IoSliceMut};
    use std::mem::MaybeUninit;
    use std::os::fd::{AsFd, OwnedFd};
    use std::time::Duration;

    impl From<OwnedFd> for Socket {
        fn from(fd: OwnedFd) -> Socket {
            Socket { raw: Raw::from(fd) }
        }
    }

    impl From<Socket> for OwnedFd {
        fn from(socket: Socket) -> OwnedFd {
            socket.raw.into()
        }
    }

    impl Socket {
        /// Waits up to `patience` for something to read, or for the connection's end.
        pub fn wait_readable(&self, patience: Duration) -> io::Result<bool> {
            let mut interest = [PollFd::new(&self.raw, PollFlags::IN)];
            let patience = Timespec { tv_sec: patience.as_secs() as _, tv_nsec: patience.subsec_nanos().into() };
            match poll(&mut interest, Some(&patience)) {
                Ok(ready) => Ok(ready > 0),
                Err(Errno::INTR) => Ok(false),
                Err(error) => Err(error.into()),
            }
        }

        /// Gives `passenger` to the process at the other end of this unix socket, with one byte.
        pub fn send_socket(&self, passenger: &Socket) -> io::Result<()> {
            let fds = [passenger.raw.as_fd()];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            control.push(SendAncillaryMessage::ScmRights(&fds));
            sendmsg(&self.raw, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
            Ok(())
        }

        /// Waits for a socket that the other end gives.
        pub fn receive_socket(&self) -> io::Result<Socket> {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut byte = [0];
            recvmsg(&self.raw, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
            let fd = control.drain().find_map(|message| match message {
                RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
                _ => None,
            });
            fd.map(Socket::from).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
        }

        /// Whether the process at the other end of this unix socket runs as the same user as this one.
        #[cfg(target_os = "linux")]
        pub fn peer_is_same_user(&self) -> io::Result<bool> {
            let peer = rustix::net::sockopt::socket_peercred(&self.raw)?;
            Ok(peer.uid == rustix::process::geteuid())
        }

        /// Whether the process at the other end runs as the same user: these sockets come in pairs, and only
        /// processes that were given one have one.
        #[cfg(not(target_os = "linux"))]
        pub fn peer_is_same_user(&self) -> io::Result<bool> {
            Ok(true)
        }
    }
}
