//! The sending end of a stream.

use super::{Frame, GAP, LENGTH, PAYLOAD, Protection};
use crate::blocks::{Around, Sealer};
use crate::copy::move_ahead;
use crate::seal::{HEAD, RECORD, RECORD_TAIL, UPDATE};
use crate::socket::Socket;
use crate::tls::Shaken;
use phalanx_core::level::Level;
use std::io;
use std::iter::once;
use std::ops::Range;

/// Sends frames, one at a time, as the socket takes them.
#[derive(Debug)]
pub struct Outgoing {
    socket: Socket,
    level: Level,
    sealer: Sealer,
    frame: Frame,
    /// Where in the frame the next payload begins.
    begin: usize,
    /// The part of the frame that the socket has not taken yet.
    unsent: Range<usize>,
}

impl Outgoing {
    /// A stream over a connected socket. `shaken`: the result of the handshake done on it.
    pub fn new(socket: Socket, shaken: Option<Shaken>, protection: Protection) -> io::Result<Outgoing> {
        let (level, sealer, _) = protection.ends(shaken)?;
        socket.set_blocking(false)?;
        let begin = if level == Level::Private { GAP } else { HEAD };
        Ok(Outgoing { socket, level, sealer, frame: Frame::new(level, begin), begin, unsent: 0..0 })
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// The memory for the next frame's payload. Only to be used when the last frame is sent.
    pub fn payload(&mut self) -> &mut [u8] {
        &mut self.frame[self.begin..][..PAYLOAD]
    }

    /// Protects the first `length` bytes of the payload. [`Outgoing::send`] then sends them.
    pub fn seal(&mut self, length: usize) -> io::Result<()> {
        if self.level == Level::Private {
            return self.seal_privately(length);
        }
        let Around { head, tag } = self.sealer.enclose(self.level, length, once(&self.frame[HEAD..][..length]))?;
        let mut end = HEAD + length;
        self.frame[..HEAD].copy_from_slice(&head);
        if let Some(tag) = tag {
            self.frame[end..][..tag.len()].copy_from_slice(&tag);
            end += tag.len();
        }
        self.unsent = 0..end;
        Ok(())
    }

    /// Moves the payload to the front, block by block, and seals each there.
    fn seal_privately(&mut self, length: usize) -> io::Result<()> {
        self.frame[GAP - LENGTH..GAP].copy_from_slice(&(length as u32).to_le_bytes());
        let (mut from, payload_end, mut end) = (GAP - LENGTH, GAP + length, 0);
        while from < payload_end {
            let update = self.frame[end..].first_chunk_mut::<UPDATE>().expect("it goes where the gap still is");
            if self.sealer.update_due(update) {
                end += UPDATE;
            }
            let count = (payload_end - from).min(RECORD);
            move_ahead(&mut self.frame, from..from + count, end + HEAD);
            let block = &mut self.frame[end..][..HEAD + count + RECORD_TAIL];
            self.sealer.seal(block)?;
            end += block.len();
            from += count;
        }
        self.unsent = 0..end;
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn unsent(&self) -> &[u8] {
        &self.frame[self.unsent.clone()]
    }

    /// Whether a sealed frame is not completely sent.
    pub fn is_sending(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Sends what the socket takes now. Returns whether the whole frame is sent.
    pub fn send(&mut self) -> io::Result<bool> {
        self.sealer.check_owner()?;
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
