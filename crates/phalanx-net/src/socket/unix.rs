//! Features of unix sockets beside carrying bytes: waiting, passing sockets and files, identifying the peer's user.

use super::{NO_WAIT, Raw, Socket};
#[cfg(target_os = "linux")]
use polling::Poller;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recvmsg, sendmsg};
use socket2::{Domain, SockAddr, Type};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// Buffer size in bytes. Large enough for a batch, or a piece of a large array, without the writer waiting for the
/// reader.
const BUFFER: usize = 1 << 20;

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
    /// A new connection between two processes of this machine.
    pub fn pair() -> io::Result<(Socket, Socket)> {
        let (one, other) = Raw::pair(Domain::UNIX, Type::STREAM, None)?;
        for end in [&one, &other] {
            end.set_send_buffer_size(BUFFER)?;
        }
        Ok((Socket { raw: one }, Socket { raw: other }))
    }

    /// Connects to a process of this machine that listens at `path`. Fails on systems without unix sockets.
    pub(crate) fn unix(path: &Path, patience: Duration) -> io::Result<Socket> {
        let raw = Raw::new(Domain::UNIX, Type::STREAM, None)?;
        raw.set_write_timeout(Some(patience))?; // holds for connecting too
        raw.connect(&SockAddr::unix(path)?)?;
        raw.set_write_timeout(None)?;
        Ok(Socket { raw })
    }

    /// Whether there is a socket at `path` without a listening process. No connection is made, so a live listener does
    /// not notice: the probe is of another socket type, and the system reports the mismatch before it connects.
    pub fn is_dead(path: &Path) -> bool {
        let ask = || Raw::new(Domain::UNIX, Type::DGRAM, None)?.connect(&SockAddr::unix(path)?);
        ask().err().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    }

    /// Like [`Socket::receive`], into uninitialized memory.
    pub(crate) fn receive_uninit(&self, buffer: &mut [MaybeUninit<u8>], waits: bool) -> io::Result<usize> {
        self.raw.recv_with_flags(buffer, if waits { 0 } else { NO_WAIT })
    }

    /// Waits up to `patience` for data, or for the end of the connection.
    pub fn wait_readable(&self, patience: Duration) -> io::Result<bool> {
        self.wait_for(PollFlags::IN, patience)
    }

    /// Waits up to `patience` for room to write, or for the end of the connection.
    pub fn wait_writable(&self, patience: Duration) -> io::Result<bool> {
        self.wait_for(PollFlags::OUT, patience)
    }

    /// Waits up to `patience` for either. Returns whether there is something to read, and whether there is room to
    /// write.
    pub fn wait_either(&self, patience: Duration) -> io::Result<(bool, bool)> {
        let ready = wait_for(&self.raw, PollFlags::IN | PollFlags::OUT, patience)?;
        // The end of the connection counts as readable.
        Ok((!ready.difference(PollFlags::OUT).is_empty(), ready.contains(PollFlags::OUT)))
    }

    fn wait_for(&self, what: PollFlags, patience: Duration) -> io::Result<bool> {
        Ok(!wait_for(&self.raw, what, patience)?.is_empty())
    }

    /// Passes `passenger` to the process at the other end of this unix socket, with one byte.
    pub fn send_socket(&self, passenger: &Socket) -> io::Result<()> {
        self.send_file(passenger.raw.as_fd())
    }

    /// Passes an open file to the peer.
    pub fn send_file(&self, passenger: BorrowedFd<'_>) -> io::Result<()> {
        let fds = [passenger];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&fds));
        sendmsg(&self.raw, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Waits for a socket that the peer passes.
    pub fn receive_socket(&self) -> io::Result<Socket> {
        self.receive_file(RecvFlags::empty()).map(Socket::from)
    }

    /// An open file that the peer has passed. Fails if there is none yet.
    pub fn receive_file_now(&self) -> io::Result<OwnedFd> {
        self.receive_file(RecvFlags::DONTWAIT)
    }

    fn receive_file(&self, flags: RecvFlags) -> io::Result<OwnedFd> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        recvmsg(&self.raw, &mut [IoSliceMut::new(&mut byte)], &mut control, flags | RecvFlags::CMSG_CLOEXEC)?;
        let fd = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        fd.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Whether this is a unix socket, which can pass files.
    pub(crate) fn passes_files(&self) -> bool {
        self.raw.local_addr().is_ok_and(|address| address.is_unix())
    }

    /// Sends what the socket takes now, and passes a file with the first byte.
    pub(crate) fn send_with(&self, bytes: &[u8], file: &OwnedFd) -> io::Result<usize> {
        let fds = [file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&fds));
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        Ok(sendmsg(&self.raw, &[IoSlice::new(bytes)], &mut control, flags)?)
    }

    /// Receives what is there, and a file passed with it. Fails if more than one file was passed, or if this process
    /// cannot open more files.
    pub(crate) fn receive_with(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let received = recvmsg(&self.raw, &mut [IoSliceMut::new(buffer)], &mut control, flags)?;
        let mut files: Vec<OwnedFd> = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                files.extend(fds);
            }
        }
        match (files.len(), received.flags.contains(ReturnFlags::CTRUNC)) {
            (0 | 1, false) => Ok((received.bytes, files.pop())),
            (0, true) => Err(io::Error::other("a file could not be taken: this process has as many open as it may")),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the peer passes on files that nobody asked for")),
        }
    }

    /// Whether the process at the other end of this unix socket runs as the same user.
    #[cfg(target_os = "linux")]
    pub fn peer_is_same_user(&self) -> io::Result<bool> {
        let peer = rustix::net::sockopt::socket_peercred(&self.raw)?;
        Ok(peer.uid == rustix::process::geteuid())
    }

    /// Whether the process at the other end of this unix socket runs as the same user, or as root, which has all rights over
    /// this process anyway.
    #[cfg(target_os = "linux")]
    pub fn peer_is_same_user_or_root(&self) -> io::Result<bool> {
        let peer = rustix::net::sockopt::socket_peercred(&self.raw)?;
        Ok(peer.uid == rustix::process::geteuid() || peer.uid.is_root())
    }

    /// The process at the other end of this unix socket, as it was when the socket was connected. 0: this process cannot see it.
    #[cfg(target_os = "linux")]
    pub fn peer_process(&self) -> io::Result<u32> {
        let peer = rustix::net::sockopt::socket_peercred(&self.raw)?;
        Ok(peer.pid.as_raw_nonzero().get().unsigned_abs())
    }

    /// Whether the process at the other end runs as the same user. Always true: these sockets come in pairs, and only
    /// processes that were given one have one.
    #[cfg(not(target_os = "linux"))]
    pub fn peer_is_same_user(&self) -> io::Result<bool> {
        Ok(true)
    }

    /// Whether the process at the other end runs as the same user, or as root. Always true, for the same reason.
    #[cfg(not(target_os = "linux"))]
    pub fn peer_is_same_user_or_root(&self) -> io::Result<bool> {
        Ok(true)
    }
}

/// Waits up to `patience` for one of the events of an epoll instance.
#[cfg(target_os = "linux")]
pub(crate) fn wait_for_events(poller: &Poller, patience: Duration) -> io::Result<bool> {
    Ok(!wait_for(poller, PollFlags::IN, patience)?.is_empty())
}

/// The events that occurred: those asked for, and errors and hang-ups, which poll always reports.
fn wait_for(what: impl AsFd, events: PollFlags, patience: Duration) -> io::Result<PollFlags> {
    let mut interest = [PollFd::new(&what, events)];
    let patience = Timespec { tv_sec: patience.as_secs() as _, tv_nsec: patience.subsec_nanos().into() };
    match poll(&mut interest, Some(&patience)) {
        Ok(_) => Ok(interest[0].revents()),
        Err(Errno::INTR) => Ok(PollFlags::empty()),
        Err(error) => Err(error.into()),
    }
}
