//! Features of sockets on Windows: waiting, and passing a connection to another process.
//!
//! Two processes of one machine have a TCP connection over the loopback interface where other systems have a pair of unix sockets. No
//! other process can take its place: both ends are made here, each is checked to be the other one's peer, and an end reaches its process
//! as a handle that the system duplicates for that process alone.

use super::{Domain, Raw, Socket, Type};
use crate::memory::File;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::windows::io::{AsRawSocket, FromRawSocket};
use std::path::Path;
use std::time::Duration;
use windows_sys::Win32::Networking::WinSock::{
    FROM_PROTOCOL_INFO, INVALID_SOCKET, POLLIN, POLLOUT, SOCKET, WSA_FLAG_NO_HANDLE_INHERIT, WSA_FLAG_OVERLAPPED,
    WSADuplicateSocketW, WSAPOLLFD, WSAPROTOCOL_INFOW, WSAPoll, WSASocketW,
};

/// Connections of other processes that are refused while this process waits for its own one.
const STRANGERS: usize = 64;
/// The length of a passed connection, in bytes.
const PASSED: usize = size_of::<WSAPROTOCOL_INFOW>();
/// Wait of a read that has no timeout. It is repeated.
const LONG: Duration = Duration::from_secs(3600);

impl Socket {
    /// A new connection between two processes of this machine.
    pub fn pair() -> io::Result<(Socket, Socket)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let one = TcpStream::connect(listener.local_addr()?)?;
        for _ in 0..STRANGERS {
            let (other, peer) = listener.accept()?;
            if peer == one.local_addr()? && one.peer_addr()? == other.local_addr()? {
                return Ok((Socket::tcp(one)?, Socket::tcp(other)?));
            }
        }
        Err(io::Error::new(io::ErrorKind::ConnectionRefused, "other processes connect to this one all the time"))
    }

    /// Always an error: this system has no unix sockets.
    pub(crate) fn unix(_: &Path, _: Duration) -> io::Result<Socket> {
        Err(no_unix_sockets())
    }

    /// Never: this system has no unix sockets.
    pub fn is_dead(_: &Path) -> bool {
        false
    }

    /// Whether the process at the other end is known to run as the same user. The system does not tell.
    pub fn peer_is_same_user(&self) -> io::Result<bool> {
        Ok(false)
    }

    /// Waits up to `patience` for data, or for the end of the connection.
    pub fn wait_readable(&self, patience: Duration) -> io::Result<bool> {
        Ok(self.wait_for(POLLIN, patience)? != 0)
    }

    /// Waits up to `patience` for room to write, or for the end of the connection.
    pub fn wait_writable(&self, patience: Duration) -> io::Result<bool> {
        Ok(self.wait_for(POLLOUT, patience)? != 0)
    }

    /// Waits up to `patience` for either. Returns whether there is something to read, and whether there is room to
    /// write.
    pub fn wait_either(&self, patience: Duration) -> io::Result<(bool, bool)> {
        let ready = self.wait_for(POLLIN | POLLOUT, patience)?;
        Ok((ready & !POLLOUT != 0, ready & POLLOUT != 0)) // the end of the connection counts as readable
    }

    /// The events that occurred: those asked for, and errors and hang-ups, which are always reported.
    fn wait_for(&self, events: i16, patience: Duration) -> io::Result<i16> {
        let mut interest = WSAPOLLFD { fd: self.raw.as_raw_socket() as SOCKET, events, revents: 0 };
        let milliseconds = i32::try_from(patience.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX);
        // SAFETY: one entry, which lives as long as the call.
        match unsafe { WSAPoll(&raw mut interest, 1, milliseconds) } {
            0.. => Ok(interest.revents),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Receives into uninitialized memory what is there. With `waits`, waits for up to the timeout of
    /// [`Socket::set_read_patience`]: the system has no flag for a single read, so that the socket is non-blocking.
    pub(crate) fn receive_uninit(&self, buffer: &mut [MaybeUninit<u8>], waits: bool) -> io::Result<usize> {
        loop {
            match self.raw.recv(buffer) {
                Err(error) if waits && error.kind() == io::ErrorKind::WouldBlock => {
                    let patience = self.raw.read_timeout()?;
                    if !self.wait_readable(patience.unwrap_or(LONG))? && patience.is_some() {
                        return Err(error);
                    }
                }
                received => return received,
            }
        }
    }

    /// The bytes from which another process makes its own handle of this connection, with [`Socket::passed`]. This process may then close its handle.
    pub fn pass_to(&self, process: u32) -> io::Result<[u8; PASSED]> {
        let mut passed = MaybeUninit::<WSAPROTOCOL_INFOW>::zeroed();
        // SAFETY: the socket is open, and the system fills in the structure.
        if unsafe { WSADuplicateSocketW(self.raw.as_raw_socket() as SOCKET, process, passed.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: all of it was zeroed or filled in, and it has as many bytes.
        Ok(unsafe { std::mem::transmute::<MaybeUninit<WSAPROTOCOL_INFOW>, [u8; PASSED]>(passed) })
    }

    /// A connection that another process has passed to this one: reads it from there.
    pub fn passed(from: &mut impl Read) -> io::Result<Socket> {
        drop(Raw::new(Domain::IPV4, Type::STREAM, None)?); // begins the use of sockets in this process
        let mut passed = [0; PASSED];
        from.read_exact(&mut passed)?;
        let passed = passed.as_ptr().cast::<WSAPROTOCOL_INFOW>();
        let flags = WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT;
        // SAFETY: plain numbers, of which every value is one.
        let passed = unsafe { passed.read_unaligned() };
        // SAFETY: the structure lives as long as the call.
        let socket = unsafe {
            WSASocketW(FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO, &raw const passed, 0, flags)
        };
        if socket == INVALID_SOCKET {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was made above, and nothing else owns it.
        Ok(Socket { raw: unsafe { Raw::from_raw_socket(socket as _) } })
    }

    /// Passes `passenger` to the process at the other end of this connection.
    pub fn send_socket(&self, passenger: &Socket, process: u32) -> io::Result<()> {
        (&mut &*self).write_all(&passenger.pass_to(process)?)
    }

    /// Waits for a connection that the peer passes.
    pub fn receive_socket(&mut self) -> io::Result<Socket> {
        Socket::passed(self)
    }

    pub(crate) fn passes_files(&self) -> bool {
        false
    }

    pub(crate) fn send_with(&self, _: &[u8], file: &File) -> io::Result<usize> {
        match *file {}
    }

    pub(crate) fn receive_with(&self, _: &mut [u8]) -> io::Result<(usize, Option<File>)> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The error where a path should be that processes connect to.
pub(crate) fn no_unix_sockets() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "Windows has no unix sockets here: use an address, as host:port")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_carries_bytes_both_ways_and_says_what_is_ready() {
        let (mut one, mut other) = Socket::pair().unwrap();
        assert!(!one.wait_readable(Duration::ZERO).unwrap() && one.wait_writable(Duration::ZERO).unwrap());
        other.write_all(b"hello").unwrap();
        assert_eq!(one.wait_either(Duration::from_secs(10)).unwrap(), (true, true));
        let mut read = [0; 5];
        one.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"hello");
        drop(one);
        assert!(other.wait_readable(Duration::from_secs(10)).unwrap());
        assert_eq!(other.read(&mut read).unwrap(), 0);
    }

    #[test]
    fn a_read_that_waits_ends_after_its_timeout() {
        let (one, _other) = Socket::pair().unwrap();
        one.set_blocking(false).unwrap();
        one.set_read_patience(Duration::from_millis(20)).unwrap();
        assert_eq!(one.receive(&mut [0], true).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_passed_connection_is_the_same_one_after_its_sender_has_closed_it() {
        let (tether, mut tethered) = Socket::pair().unwrap();
        let (data, mut far) = Socket::pair().unwrap();
        tether.send_socket(&data, std::process::id()).unwrap();
        drop(data);
        let mut data = tethered.receive_socket().unwrap();
        data.write_all(b"x").unwrap();
        let mut read = [0];
        far.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"x");
    }
}
