//! The socket of a connection, written and read without waiting, by the process that has made the connection.

use super::Place;
use phalanx_net::forks::Owner;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;

const SEND: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

/// See the module. A fork gets errors: what it wrote would come between the bytes of the process that it was forked off,
/// and what it read would be missing there.
#[derive(Debug)]
pub struct Connection {
    socket: Arc<OwnedFd>,
    /// The last read of this round took all that there was: another one would be a call for nothing.
    drained: bool,
    /// A write has failed.
    failure: Option<io::Error>,
    owner: Owner,
}

impl Connection {
    /// Over a socket that does not block.
    pub fn new(socket: OwnedFd) -> Connection {
        Connection { socket: Arc::new(socket), drained: false, failure: None, owner: Owner::this() }
    }

    #[inline]
    pub fn socket(&self) -> &Arc<OwnedFd> {
        &self.socket
    }

    /// The next reads ask the socket again.
    #[inline]
    pub fn begin_round(&mut self) {
        self.drained = false;
    }

    /// Nothing is written any more. Reads tell why, once all that has come before was read.
    pub fn fail(&mut self, error: io::Error) {
        self.failure = Some(error);
    }

    /// Whether nothing is written any more.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Sends what there is room for; how many bytes that was.
    #[inline]
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.owner.check()?;
        sent(send(&self.socket, bytes, SEND))
    }

    /// The same from several places.
    pub fn send_all_of(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.owner.check()?;
        sent(sendmsg(&self.socket, pieces, &mut SendAncillaryBuffer::default(), SEND))
    }

    /// One read to a place, and of what is beyond it; 0 when there is nothing.
    pub fn receive(&mut self, place: Place, beyond: &mut [u8]) -> io::Result<usize> {
        self.owner.check()?;
        if self.drained {
            return Ok(0);
        }
        let room = place.length + beyond.len();
        let outcome = if place.length == 0 {
            recv(&self.socket, beyond, RecvFlags::DONTWAIT).map(|(_, count)| count)
        } else {
            // SAFETY: the place is lent.
            let place = unsafe { std::slice::from_raw_parts_mut(place.start, place.length) };
            rustix::io::readv(&self.socket, &mut [IoSliceMut::new(place), IoSliceMut::new(beyond)])
        };
        match outcome {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.drained = count < room;
                Ok(count)
            }
            Err(Errno::AGAIN | Errno::INTR) => match self.failure.take() {
                Some(error) => Err(error), // what had arrived before was taken
                None => Ok(0),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the connection at both ends.
    pub fn shut_down(&self) {
        if self.owner.is_this() {
            let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        }
    }
}

/// The count that was sent; 0 when there is no room.
fn sent(outcome: Result<usize, Errno>) -> io::Result<usize> {
    match outcome {
        Ok(count) => Ok(count),
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        Err(error) => Err(error.into()),
    }
}
