//! Words between services beside the messages: delivered whole and in order, to whoever serves their context.
//!
//! Whoever makes progress serves what has come, so that no more waits here than one round reads. What may pile up is answers
//! to a process that asks on and on and does not read: who serves it looks for that ([`Engine::reads_answers`]).

use super::{Engine, Outgoing, Path, Peer, Waiting};
use crate::process::transport::{Header, Kind};

/// Bytes of the longest word.
pub const MOST_ASIDE: usize = 256 << 10;

/// Words of one context that may wait for room on their way to a process that asks for more.
pub const MOST_WAITING: usize = 1024;

/// Bytes from which on the memory of a word is kept for the next ones.
pub const LONG: usize = 8 << 10;

/// Most long words whose memory is kept.
const MOST_SPARE: usize = 32;

/// A word that has arrived.
pub struct Aside {
    /// The context of the word.
    pub context: u64,
    /// The process that it is from.
    pub from: u32,
    /// The rank that the sender says it has.
    pub source: i32,
    /// The word.
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
        self.transmit(to, header, Outgoing::Owned(bytes), None);
        !matches!(self.peers[to as usize].path, Path::Gone)
    }

    /// Whether a process reads what it is told in a context. Who lets more than [`MOST_WAITING`] words wait is treated as one
    /// that does not keep to the rules.
    pub fn reads_answers(&mut self, from: u32, context: u64) -> bool {
        let Peer { waiting, path, .. } = &self.peers[from as usize];
        let is_its = |it: &&Waiting| it.header.kind == Kind::Aside as u16 && it.header.context == context;
        if waiting.len() <= MOST_WAITING || waiting.iter().filter(is_its).count() <= MOST_WAITING {
            return true;
        }
        if matches!(path, Path::Socket(_) | Path::Shared { .. }) {
            self.end_connection(from);
        }
        false
    }

    /// Memory for that many bytes. For a long word it is memory that was used before, where there is some: the system clears
    /// new memory page by page, which takes longer than the word does.
    pub fn memory_for(&mut self, length: usize) -> Vec<u8> {
        let mut memory = if length < LONG { Vec::new() } else { self.spare.pop().unwrap_or_default() };
        memory.reserve(length);
        memory
    }

    /// Takes back memory that is used no more.
    pub fn give_back(&mut self, mut memory: Vec<u8>) {
        if (LONG..=2 * MOST_ASIDE).contains(&memory.capacity()) && self.spare.len() < MOST_SPARE {
            memory.clear();
            self.spare.push(memory);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::engine::Ended;
    use crate::process::transport::Link;
    use std::os::unix::net::UnixStream;

    #[test]
    fn who_asks_on_and_on_and_reads_no_answer_is_treated_as_lost() {
        let (near, _deaf) = UnixStream::pair().expect("sockets");
        near.set_nonblocking(true).expect("a socket");
        let mut engine = Engine::new(0, vec![Path::Own, Path::Socket(Box::new(Link::clear(near.into())))], None);
        let answer = |engine: &mut Engine, context| engine.send_aside(1, context, 0, vec![0; 64 << 10]);
        let waiting = |engine: &Engine| engine.peers[1].waiting.len();
        while waiting(&engine) < MOST_WAITING {
            assert!(engine.reads_answers(1, 6) && answer(&mut engine, 6));
        }
        assert!(answer(&mut engine, 10) && engine.reads_answers(1, 6), "what waits in another context is not counted");
        assert!(answer(&mut engine, 6));
        assert!(engine.reads_answers(1, 10));
        assert_eq!(engine.ended(), []);
        assert!(!engine.reads_answers(1, 6) && !engine.reads_answers(1, 6));
        assert_eq!(engine.ended(), [Ended { peer: 1, left: false }], "it is told once");
        engine.lose(1);
        assert_eq!(waiting(&engine), 0);
    }
}
