//! Words between services beside the messages: delivered whole and in order, to whoever serves their context.

use super::{Engine, Outgoing, Path, Waiting};
use crate::transport::{Header, Kind};

/// Bytes of the longest word.
pub const MOST_ASIDE: usize = 256 << 10;

/// A word that has arrived.
pub struct Aside {
    pub context: u64,
    /// The process that it is from.
    pub from: u32,
    /// The rank that the sender says it has.
    pub source: i32,
    pub bytes: Vec<u8>,
}

impl Engine {
    /// Sends a word of at most [`MOST_ASIDE`] bytes. False when the process cannot be reached.
    pub fn send_aside(&mut self, to: u32, context: u64, source: i32, bytes: Vec<u8>) -> bool {
        debug_assert!(bytes.len() <= MOST_ASIDE);
        if to == self.me {
            self.keep_aside(Aside { context, from: to, source, bytes });
            return true;
        }
        let length = bytes.len() as u64;
        let header = Header { context, length, source, kind: Kind::Aside as u16, ..Header::default() };
        let data = Outgoing::Owned(bytes);
        let sent = self.push(to, &header, &data);
        if sent != Some(data.length()) {
            self.wait_for_room(to, Waiting { header, data, sent: sent.unwrap_or(usize::MAX), of: None });
        }
        !matches!(self.peers[to as usize].path, Path::Gone)
    }

    pub(super) fn keep_aside(&mut self, aside: Aside) {
        self.asides.push_back(aside);
        self.completions += 1;
    }

    /// The next word that has arrived.
    pub fn next_aside(&mut self) -> Option<Aside> {
        self.asides.pop_front()
    }

    /// Whether words have arrived.
    #[inline]
    pub fn has_asides(&self) -> bool {
        !self.asides.is_empty()
    }
}
