//! The receiving end of a stream.

use super::{Frame, Protection};
use crate::blocks::Opener;
use crate::seal::HEAD;
use crate::socket::Socket;
use crate::tls::Shaken;
use std::io::{self, ErrorKind};

/// Receives frames, one at a time, as they arrive at the socket.
#[derive(Debug)]
pub struct Incoming {
    socket: Socket,
    opener: Opener,
    /// The frame being received, and sometimes the head of the next one.
    frame: Frame,
    filled: usize,
    /// The length of the frame at the beginning that was already handed out.
    taken: usize,
}

impl Incoming {
    /// A stream over a connected socket. `shaken`: the result of the handshake done on it.
    pub fn new(socket: Socket, shaken: Option<Shaken>, protection: Protection) -> io::Result<Incoming> {
        let (_, _, opener) = protection.ends(shaken)?;
        socket.set_blocking(false)?;
        Ok(Incoming { socket, opener, frame: Frame::new(), filled: 0, taken: 0 })
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// The next frame's payload, opened; `None`: it has not arrived yet. An altered frame is an error of kind
    /// `InvalidData`, the end of the connection one of kind `UnexpectedEof`.
    pub fn receive(&mut self) -> io::Result<Option<&mut [u8]>> {
        self.frame.copy_within(self.taken..self.filled, 0); // at most a head
        (self.filled, self.taken) = (self.filled - self.taken, 0);
        if !self.fill(HEAD)? {
            return Ok(None);
        }
        let block = self.opener.block(*self.frame.first_chunk().expect("a head"))?;
        if !self.fill(block.length())? {
            return Ok(None);
        }
        self.taken = block.length();
        let payload = self.opener.open_at(block, &mut self.frame[..block.length()])?;
        Ok(Some(&mut self.frame[payload]))
    }

    /// Reads until there are `wanted` bytes. `false`: the socket has no more now. The head of the next frame is read in
    /// the same call if it is there, so that each frame takes one system call.
    fn fill(&mut self, wanted: usize) -> io::Result<bool> {
        while self.filled < wanted {
            let room = &mut self.frame[self.filled..wanted + if wanted > HEAD { HEAD } else { 0 }];
            match self.socket.receive(room, false) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
