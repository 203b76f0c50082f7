//! A connected stream socket: TCP to other machines, a unix socket pair to processes of this one.
//!
//! What differs between systems is in `unix.rs` and `windows.rs`, behind the same functions.

#[cfg(unix)]
mod bell;
mod line;
mod listener;
#[cfg(unix)]
mod unix;
mod waker;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use bell::Bell;
pub use listener::Listener;
#[cfg(target_os = "linux")]
pub(crate) use unix::wait_for_events;
pub use waker::Waker;
#[cfg(windows)]
pub(crate) use windows::no_unix_sockets;

use socket2::{Domain, MaybeUninitSlice, Socket as Raw, TcpKeepalive, Type};
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
const NO_SIGNAL: i32 = rustix::net::SendFlags::NOSIGNAL.bits() as i32;
#[cfg(not(target_os = "linux"))]
const NO_SIGNAL: i32 = 0;

/// More is about to be written. TCP holds this data back until then, or for up to 200 ms. If the connection ends first,
/// even by the death of the process, the data is still sent.
#[cfg(target_os = "linux")]
const MORE: i32 = rustix::net::SendFlags::MORE.bits() as i32;
#[cfg(not(target_os = "linux"))]
const MORE: i32 = 0;

/// Flag for reads and writes that return at once, even if the socket is blocking.
#[cfg(unix)]
const NO_WAIT: i32 = rustix::net::SendFlags::DONTWAIT.bits() as i32;
#[cfg(not(unix))]
const NO_WAIT: i32 = 0; // links make it non-blocking

/// Whether a read or a write of a blocking socket can be told not to wait. If not, every link makes its socket non-blocking.
pub(crate) const CAN_BLOCK: bool = NO_WAIT != 0;

/// A connected socket. It is blocking before a link is made of it, and non-blocking afterwards.
#[derive(Debug)]
pub struct Socket {
    raw: Raw,
}

impl Socket {
    /// The other end's address; an error where it has none.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        self.raw.peer_addr()?.as_socket().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// This end's address; an error where it has none.
    pub fn here(&self) -> io::Result<SocketAddr> {
        self.raw.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// The address of this machine that connections to `to` have. No packet is sent. An error where there is no way there.
    pub fn way_out(to: SocketAddr) -> io::Result<IpAddr> {
        let raw = Raw::new(Domain::for_address(to), Type::DGRAM, None)?;
        raw.connect(&to.into())?;
        Ok(raw.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?.ip())
    }

    /// Whether both ends of a network connection are on this machine.
    pub fn is_within_machine(&self) -> bool {
        let ends = [self.raw.local_addr(), self.raw.peer_addr()].map(|end| Some(end.ok()?.as_socket()?.ip()));
        matches!(ends, [Some(here), Some(there)] if here == there)
    }

    /// A socket over an accepted or dialled connection.
    pub fn tcp(stream: TcpStream) -> io::Result<Socket> {
        let raw = Raw::from(stream);
        raw.set_tcp_nodelay(true)?;
        raw.set_tcp_keepalive(&TcpKeepalive::new().with_time(Duration::from_secs(10)))?;
        let socket = Socket { raw };
        socket.go_at_once();
        Ok(socket)
    }

    /// Makes the system end a TCP connection whose peer has not responded for `silence`, even while no thread here
    /// reads or writes. No effect on connections within this machine.
    pub fn end_when_silent(&self, silence: Duration) -> io::Result<()> {
        if self.peer().is_err() {
            return Ok(());
        }
        let (idle, between) = (silence / 3, (silence / 6).max(Duration::from_secs(1)));
        self.raw.set_tcp_keepalive(&TcpKeepalive::new().with_time(idle).with_interval(between))?;
        #[cfg(target_os = "linux")]
        self.raw.set_tcp_user_timeout(Some(silence))?;
        Ok(())
    }

    /// The timeout of reads and writes while the socket is blocking; `None`: no timeout.
    pub fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        self.raw.set_read_timeout(patience)?;
        self.raw.set_write_timeout(patience)
    }

    /// Sets whether reads and writes wait, or fail with `WouldBlock`.
    pub fn set_blocking(&self, blocking: bool) -> io::Result<()> {
        self.raw.set_nonblocking(!blocking)
    }

    /// Ends the connection for both ends, and for every thread that waits on it.
    pub fn shut_down(&self) {
        let _ = self.raw.shutdown(Shutdown::Both);
    }

    /// Another handle of the same connection.
    pub fn try_clone(&self) -> io::Result<Socket> {
        Ok(Socket { raw: self.raw.try_clone()? })
    }

    /// Sends what the socket takes now. If there `is_more` to come, a TCP connection may hold the bytes back. A peer
    /// that is gone is an error, never a signal.
    pub(crate) fn send(&self, bytes: &[u8], is_more: bool) -> io::Result<usize> {
        self.raw.send_with_flags(bytes, NO_SIGNAL | NO_WAIT | if is_more { MORE } else { 0 })
    }

    /// Like [`Socket::send`], from several slices.
    pub(crate) fn send_vectored(&self, slices: &[io::IoSlice<'_>], is_more: bool) -> io::Result<usize> {
        self.raw.send_vectored_with_flags(slices, NO_SIGNAL | NO_WAIT | if is_more { MORE } else { 0 })
    }

    /// Receives what is there. With `waits`, waits for up to the timeout of [`Socket::set_read_patience`].
    pub(crate) fn receive(&self, buffer: &mut [u8], waits: bool) -> io::Result<usize> {
        // SAFETY: only initialized bytes are written to it.
        let buffer = unsafe { std::slice::from_raw_parts_mut(buffer.as_mut_ptr().cast(), buffer.len()) };
        self.receive_uninit(buffer, waits)
    }

    /// Receives into several slices, without waiting.
    pub(crate) fn receive_vectored(&self, places: &mut [MaybeUninitSlice<'_>]) -> io::Result<usize> {
        self.raw.recv_vectored_with_flags(places, NO_WAIT).map(|(count, _)| count)
    }

    /// Sets the timeout of reads that wait.
    pub(crate) fn set_read_patience(&self, patience: Duration) -> io::Result<()> {
        self.raw.set_read_timeout(Some(patience))
    }

    /// For reading and writing with one deadline for the whole exchange, however slowly the bytes arrive.
    pub fn until(&mut self, deadline: Instant) -> Timed<'_> {
        Timed { socket: self, deadline }
    }

    /// Sends everything, while the socket is blocking. A peer that is gone is an error, never a signal.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn send_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.raw.send_with_flags(bytes, NO_SIGNAL) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Tells the other end that nothing more comes.
    pub(crate) fn end_writing(&self) {
        let _ = self.raw.shutdown(Shutdown::Write);
    }

    pub(crate) fn raw(&self) -> &Raw {
        &self.raw
    }
}

/// A blocking socket with a deadline; see [`Socket::until`].
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

impl io::Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.raw).read(buffer)
    }
}

impl io::Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.raw.send_with_flags(bytes, NO_SIGNAL)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl io::Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.raw.send_with_flags(bytes, NO_SIGNAL)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
