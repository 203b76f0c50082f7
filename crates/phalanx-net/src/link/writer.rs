//! What a link is about to write: taken off the outbox, sealed if the level says so.

use super::{Counters, LinkError};
use crate::frames::Outbox;
use crate::seal::{BLOCK, Context, HEAD};
use crate::socket::Socket;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Bytes taken off the outbox at once: sealed, they are still in the core's cache when they are written.
pub(crate) const TAKEN_AT_ONCE: usize = 128 << 10;
/// Memory for sealed bytes that is kept for the next ones.
const MOST_KEPT: usize = 4 << 20;
/// A piece at least this long is a block of its own, or several: the receiver reads it straight to where it stays.
pub(crate) const ALONE: usize = 32 << 10;

#[derive(Debug)]
pub(crate) struct Writer {
    seal: Option<Context>,
    clear: Outbox,
    /// Blocks; those from `written` on are still to be written.
    sealed: Vec<u8>,
    written: usize,
    /// The socket was full: the reader's thread goes on when it has room.
    pub blocked: bool,
    /// The reader's thread is not to be woken by bytes that arrive: another thread reads.
    pub deaf: bool,
}

impl Writer {
    pub fn new(seal: Option<Context>) -> Writer {
        Writer { seal, clear: Outbox::default(), sealed: Vec::new(), written: 0, blocked: false, deaf: false }
    }

    pub fn has_rest(&self) -> bool {
        self.clear.bytes() > 0 || self.written < self.sealed.len()
    }

    /// Takes the next bytes to write; nothing may be left of those before.
    pub fn fill(&mut self, bytes: Outbox, counters: &Counters) {
        debug_assert!(!self.has_rest());
        self.written = 0;
        self.sealed.clear();
        self.sealed.shrink_to(MOST_KEPT);
        match self.seal {
            Some(_) => self.seal(&bytes, counters),
            None => self.clear = bytes,
        }
    }

    /// Refers no longer to the sender's memory, neither for what is still to be written nor for what waits behind it.
    pub fn own(&mut self, outbox: &mut Outbox, counters: &Counters) {
        self.clear.own();
        if self.seal.is_none() {
            return outbox.own();
        }
        self.sealed.drain(..self.written);
        self.written = 0;
        while outbox.bytes() > 0 {
            self.seal(&outbox.take(TAKEN_AT_ONCE), counters);
        }
    }

    /// Appends blocks to those that are to be written.
    fn seal(&mut self, bytes: &Outbox, counters: &Counters) {
        let Some(seal) = &mut self.seal else { return };
        let began = Instant::now();
        let mut block = Block::default();
        for piece in bytes.slices() {
            let mut rest = &piece[..];
            if rest.len() >= ALONE {
                block.end(seal, &mut self.sealed);
            }
            while !rest.is_empty() {
                rest = block.take(rest, seal, &mut self.sealed);
            }
        }
        block.end(seal, &mut self.sealed);
        counters.protection.fetch_add(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    /// One write; false when the socket is full.
    pub fn write_some(&mut self, socket: &Socket, counters: &Counters) -> Result<bool, LinkError> {
        let outcome = match self.clear.bytes() {
            0 => socket.send(&self.sealed[self.written..]),
            _ => socket.send_vectored(&self.clear.slices()),
        };
        let count = match outcome {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        counters.sent.fetch_add(count as u64, Ordering::Relaxed);
        match self.clear.bytes() {
            0 => self.written += count,
            _ => self.clear.advance(count),
        }
        Ok(true)
    }
}

/// The block that is being gathered at the end of a buffer.
#[derive(Default)]
struct Block {
    /// Where it begins, if it has.
    start: Option<usize>,
}

impl Block {
    /// Appends what has room; the rest.
    fn take<'a>(&mut self, bytes: &'a [u8], seal: &mut Context, out: &mut Vec<u8>) -> &'a [u8] {
        let start = *self.start.get_or_insert_with(|| {
            let start = out.len();
            out.extend_from_slice(&[0; HEAD]);
            start
        });
        let room = BLOCK - (out.len() - start - HEAD);
        let (taken, rest) = bytes.split_at(bytes.len().min(room));
        out.extend_from_slice(taken);
        if taken.len() == room {
            self.end(seal, out);
        }
        rest
    }

    /// Seals it.
    fn end(&mut self, seal: &mut Context, out: &mut Vec<u8>) {
        let Some(start) = self.start.take() else { return };
        let (head, tag) = seal.seal(&mut out[start + HEAD..]);
        out[start..start + HEAD].copy_from_slice(&head);
        out.extend_from_slice(&tag);
    }
}
