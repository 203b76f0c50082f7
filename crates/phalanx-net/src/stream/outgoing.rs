//! The sending end of a stream.

use super::{Frame, PAYLOAD, Protection};
use crate::seal::{Context, HEAD, TAG, head};
use crate::socket::Socket;
use crate::tls::Shaken;
use phalanx_core::level::Level;
use std::io;
use std::ops::Range;

/// Sends frames, one at a time, as the socket takes them.
#[derive(Debug)]
pub struct Outgoing {
    socket: Socket,
    level: Level,
    context: Option<Context>,
    frame: Frame,
    /// The part of the frame that the socket has not taken yet.
    unsent: Range<usize>,
}

impl Outgoing {
    /// A stream over a connected socket. `shaken`: the result of the handshake done on it.
    pub fn new(socket: Socket, shaken: Option<Shaken>, protection: Protection) -> io::Result<Outgoing> {
        need_keys(shaken.as_ref(), protection)?;
        socket.set_blocking(false)?;
        let (level, context, _) = protection.contexts(shaken);
        Ok(Outgoing { socket, level, context, frame: Frame::new(), unsent: 0..0 })
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// The memory for the next frame's payload. Only to be used when the last frame is sent.
    pub fn payload(&mut self) -> &mut [u8] {
        &mut self.frame[HEAD..][..PAYLOAD]
    }

    /// Protects the first `length` bytes of the payload. [`Outgoing::send`] then sends them.
    pub fn seal(&mut self, length: usize) {
        let payload = &mut self.frame[HEAD..][..length];
        let (head, tag) = match (&mut self.context, self.level) {
            (None, level) => (head(level, length), None),
            (Some(context), Level::Private) => {
                let (head, tag) = context.seal(payload);
                (head, Some(tag))
            }
            (Some(context), level) => {
                let head = head(level, length);
                (head, Some(context.tag(head, std::iter::once(&*payload))))
            }
        };
        self.frame[..HEAD].copy_from_slice(&head);
        if let Some(tag) = tag {
            self.frame[HEAD + length..][..TAG].copy_from_slice(&tag);
        }
        self.unsent = 0..HEAD + length + tag.map_or(0, |tag| tag.len());
    }

    /// Whether a sealed frame is not completely sent.
    pub fn is_sending(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Sends what the socket takes now. Returns whether the whole frame is sent.
    pub fn send(&mut self) -> io::Result<bool> {
        while !self.unsent.is_empty() {
            match self.socket.send(&self.frame[self.unsent.clone()], false) {
                Ok(count) => self.unsent.start += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// Fails if a stream at a protected level has no handshake, so that a missing handshake never weakens a stream.
pub(super) fn need_keys(shaken: Option<&Shaken>, protection: Protection) -> io::Result<()> {
    match shaken.is_some() || protection.level == Level::Clear {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "this level needs a handshake")),
    }
}
