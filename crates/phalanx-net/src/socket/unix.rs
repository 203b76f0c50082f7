//! What unix sockets can do beside carrying bytes: waiting, passing sockets on, telling whose the other end is.

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
        self.wait_for(PollFlags::IN, patience)
    }

    /// Waits up to `patience` for room to write, or for the connection's end.
    pub fn wait_writable(&self, patience: Duration) -> io::Result<bool> {
        self.wait_for(PollFlags::OUT, patience)
    }

    fn wait_for(&self, what: PollFlags, patience: Duration) -> io::Result<bool> {
        let mut interest = [PollFd::new(&self.raw, what)];
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
