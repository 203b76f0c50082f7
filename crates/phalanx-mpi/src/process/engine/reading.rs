//! What arrives over sockets. The other end is a process of the program, but what it says is checked: who does not keep to
//! the rules is treated as lost.

use super::aside::MOST_ASIDE;
use super::credit::{MESSAGE, MOST};
use super::request::{Request, Sending};
use super::{EAGER, Engine, Path, Peer, is_marked};
use crate::process::transport::{Arrived, HEADER, Header, Kind, Readable};
use phalanx_core::wire::ranks::MOST_RANKS;
use std::ops::Range;

/// Reads of one socket before the next one's turn.
const TURN: usize = 16;
/// Where there is shared memory too, sockets are looked at in one round of so many: a look there is a system call.
const ROUNDS: u32 = 8;

impl Engine {
    /// A socket is ready: the next round looks at all of them.
    pub fn look_at_sockets(&mut self) {
        self.unfinished = true;
    }

    /// Reads and writes what can be read and written. Whether something was.
    pub(super) fn progress_sockets(&mut self) -> bool {
        if !self.shared.is_empty() && !self.unfinished && self.rounds % ROUNDS != 0 {
            return false;
        }
        let some = self.readable.as_ref().filter(|_| !self.unfinished && !self.pending);
        if let Some(some) = some.map(Readable::look) {
            return some.fold(false, |moved, peer| self.read(peer) | moved);
        }
        self.unfinished = false;
        let mut moved = false;
        for index in (0..self.sockets.len()).rev() {
            moved |= self.read(self.sockets[index]);
        }
        self.look_for_pending();
        moved
    }

    pub(super) fn read(&mut self, peer: u32) -> bool {
        let mut moved = false;
        if let Path::Socket(link) = &mut self.peers[peer as usize].path {
            moved = link.begin_round();
        }
        for _ in 0..TURN {
            let place = self.place(peer);
            let Path::Socket(link) = &mut self.peers[peer as usize].path else { return true };
            let kept = match link.read(place) {
                Ok(Arrived::Nothing) => return moved,
                Ok(Arrived::Placed(_)) if self.goes_on_at_another_level(peer) => false,
                Ok(Arrived::Placed(length)) => {
                    self.take_placed(peer, length);
                    true
                }
                Ok(Arrived::Bytes) => self.take_bytes(peer),
                Err(_) => false,
            };
            moved = true;
            if !kept {
                self.end_connection(peer);
                return true;
            }
        }
        self.unfinished = true;
        moved
    }

    /// Takes frames out of what was read; false when they are not what a process of this program sends.
    fn take_bytes(&mut self, peer: u32) -> bool {
        let Path::Socket(link) = &mut self.peers[peer as usize].path else { return true };
        let (buffer, range) = link.take();
        let kept = self.take_frames(peer, &buffer, range);
        if let Path::Socket(link) = &mut self.peers[peer as usize].path {
            link.give_back(buffer);
        }
        kept
    }

    fn take_frames(&mut self, peer: u32, buffer: &[u8], range: Range<usize>) -> bool {
        let mut bytes = &buffer[range];
        let is_weak = matches!(&self.peers[peer as usize].path, Path::Socket(link) if link.is_weak());
        if self.goes_on_at_another_level(peer) {
            return false;
        }
        loop {
            let (header, most) = match self.missing(peer) {
                Some(missing) => (Header::default(), missing), // that of the frame is known
                None => match self.begin_frame(peer, &mut bytes, is_weak) {
                    None => return true,
                    Some((header, was_weak)) if was_weak && is_marked(header.context) => return false,
                    Some((header, _)) if !self.makes_sense(peer, &header) => return false,
                    Some((header, _)) => (header, header.length as usize),
                },
            };
            let (now, later) = bytes.split_at(bytes.len().min(most));
            self.take(peer, &header, now.as_ptr(), now.len());
            bytes = later;
            if bytes.is_empty() {
                return true;
            }
        }
    }

    /// Whether what was read last goes on a frame of another level. An attacker could have made a frame without protection
    /// longer, so that it swallows the protected one behind it.
    fn goes_on_at_another_level(&self, peer: u32) -> bool {
        let Peer { path: Path::Socket(link), arriving, level, .. } = &self.peers[peer as usize] else { return false };
        arriving.is_some() && link.level() != *level
    }

    /// The next header, once all of it has come, and whether a part of it came at a low level.
    fn begin_frame(&mut self, peer: u32, bytes: &mut &[u8], is_weak: bool) -> Option<(Header, bool)> {
        let Peer { head, head_is_weak, level, path, .. } = &mut self.peers[peer as usize];
        if let Path::Socket(link) = path {
            *level = link.level();
        }
        if head.is_empty() {
            *head_is_weak = is_weak;
            if let Some((whole, rest)) = bytes.split_first_chunk::<HEADER>() {
                *bytes = rest;
                return Some((Header::of(whole), is_weak));
            }
        }
        *head_is_weak |= is_weak;
        let (now, later) = bytes.split_at(bytes.len().min(HEADER - head.len()));
        head.extend_from_slice(now);
        *bytes = later;
        let header = Header::of(head.first_chunk()?);
        head.clear();
        Some((header, *head_is_weak))
    }

    fn makes_sense(&self, from: u32, header: &Header) -> bool {
        let Header { context, id, length, source, .. } = *header;
        let number = usize::try_from(id).unwrap_or(usize::MAX);
        // Of a group that may be larger than the processes that this one knows yet.
        let is_rank = u32::try_from(source).is_ok_and(|source| source < MOST_RANKS);
        let receives = || match self.requests.get(number) {
            Some(Request::Receive(it)) => it.awaits(from, length) && it.context == context,
            _ => false,
        };
        // Of a revoked communicator what it answers may have ended meanwhile.
        let is_late = self.is_revoked(context);
        let awaits = |what: &dyn Fn(&Sending) -> bool| is_late || self.send_to(from, header).is_some_and(what);
        is_rank
            && match Kind::of(header.kind) {
                Some(Kind::Eager) => length <= EAGER as u64 && self.has_room_for(from, length),
                Some(Kind::Data) => is_late || receives(),
                Some(Kind::Aside) => length <= MOST_ASIDE as u64,
                Some(Kind::Offer) => length == 16 && self.has_room_for(from, 0),
                Some(Kind::Wanted) => length == 8 && awaits(&|it| it.data.is_some()),
                Some(Kind::Credit) => length == 8,
                Some(Kind::Matched) => length == 0 && awaits(&|it| it.awaits_match),
                // It is answered, and who does not read the answers gets no more of them.
                Some(Kind::Withdraw) => length == 0 && self.peers[from as usize].waiting.len() <= MOST / MESSAGE,
                Some(Kind::Withdrawn | Kind::Farewell) => length == 0, // what was wanted back may be done meanwhile
                None => false,
            }
    }
}
