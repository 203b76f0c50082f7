//! The socket to the launcher.

use phalanx_core::wire::ranks::{FromRank, MOST_TO_RANK, Messages, ToRank, frame};
use phalanx_net::sync::lock;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

pub struct Control {
    socket: OwnedFd,
    messages: Mutex<Messages>,
}

impl Control {
    pub fn new(socket: OwnedFd) -> Control {
        Control { socket, messages: Mutex::new(Messages::new(MOST_TO_RANK)) }
    }

    /// Says something to the launcher; waits until it is on its way.
    pub fn tell(&self, message: &FromRank) -> io::Result<()> {
        let bytes = frame(message);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            rest = &rest[send(&self.socket, rest, SendFlags::NOSIGNAL)?..];
        }
        Ok(())
    }

    /// The launcher's next word, if there is one; an error when it is gone.
    pub fn hear(&self, waits: bool) -> io::Result<Option<ToRank>> {
        let mut messages = lock(&self.messages);
        let flags = if waits { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        let mut buffer = [0; 4096];
        loop {
            if let Some(message) = messages.take().map_err(io::Error::other)? {
                return Ok(Some(message));
            }
            match recv(&self.socket, &mut buffer, flags) {
                Ok((_, 0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((_, count)) => messages.feed(&buffer[..count]),
                Err(rustix::io::Errno::AGAIN) => return Ok(None),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
