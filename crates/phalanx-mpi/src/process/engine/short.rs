//! Short messages between processes of one machine: those of which the time counts most. They need no request where the
//! channel has room for them, or has them already.

use super::{EMPTY, Engine, Envelope, Outgoing, Path, Status};
use crate::process::transport::{Header, Kind};
use phalanx_core::spmd::Pattern;
use phalanx_net::copy::copy;

pub use crate::process::transport::INLINE as SHORT;

/// Receives of which one looks at everything else too.
pub(super) const OFTEN: u32 = 64;

/// What a look at a channel finds.
pub enum Found {
    /// Nothing has come.
    Nothing,
    /// The message was received.
    Message(Status),
    /// Something that needs [`Engine::receive`].
    Other,
}

impl Engine {
    /// Sends at most [`SHORT`] bytes to another process of this machine. False when that is not to be done so.
    #[inline]
    pub fn send_short(&mut self, to: u32, envelope: &Envelope, data: &Outgoing) -> bool {
        let Envelope { context, source, tag } = *envelope;
        let length = data.length();
        let peer = &mut self.peers[to as usize];
        let Path::Shared { sender, .. } = &mut peer.path else { return false };
        let Some(sent) = peer.account.sent_with(length) else { return false };
        if length > SHORT || !peer.waiting.is_empty() || !self.revoked.is_empty() {
            return false;
        }
        let header =
            Header { context, source, tag, length: length as u64, kind: Kind::Eager as u16, ..Header::default() };
        // SAFETY: whoever sends lends the data.
        if unsafe { sender.push(&header, data.start(), length) }.is_none() {
            return false;
        }
        peer.account.sent = sent;
        self.wake(to);
        true
    }

    /// Whether [`Engine::receive_short`] may be used: no matching message is stored, no request is open, and no frame waits for room.
    #[inline]
    pub fn may_receive_short(&mut self, pattern: &Pattern) -> bool {
        let is_quiet = self.blocked == 0
            && self.requests.is_empty()
            && self.sockets.is_empty()
            && self.asides.is_empty()
            && self.lost_sources.is_empty()
            && self.revoked.is_empty();
        if !is_quiet || self.rounds.wrapping_add(1) % OFTEN == 0 || !self.matching.would_wait(pattern) {
            return false;
        }
        self.rounds = self.rounds.wrapping_add(1);
        true
    }

    /// Receives what another process of this machine has sent next, if it is a message for which the receive was made and all of
    /// it is there.
    ///
    /// # Safety
    /// `to` may be written for `capacity` bytes.
    #[inline]
    pub unsafe fn receive_short(&mut self, from: u32, pattern: &Pattern, to: *mut u8, capacity: usize) -> Found {
        let peer = &mut self.peers[from as usize];
        let Path::Shared { receiver, bell, .. } = &mut peer.path else { return Found::Other };
        let Some(chunk) = receiver.peek() else { return Found::Nothing };
        let Header { context, length, source, tag, kind, flags, .. } = chunk.header;
        let is_plain = kind == Kind::Eager as u16 && flags == 0 && length == chunk.length as u64;
        let fits = length <= capacity as u64 && peer.arriving.is_none();
        if !is_plain || !fits || pattern.context != context || !pattern.takes(&Envelope { context, source, tag }) {
            return Found::Other;
        }
        if length > 0 {
            // SAFETY: the chunk has these bytes, and the caller lends the room for them.
            unsafe { copy(chunk.bytes, to, chunk.length) };
        }
        if receiver.pop(&chunk) {
            bell.ring();
        }
        self.note_taken(from, length);
        Found::Message(Status { source, tag, bytes: length, ..EMPTY })
    }
}
