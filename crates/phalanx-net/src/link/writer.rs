//! What a link is about to write: taken off the outbox, sealed if the level says so.

use super::{Counters, LinkError};
use crate::frames::Outbox;
use crate::seal::{BLOCK, Context, HEAD, PLAIN_BLOCK, head};
use crate::socket::Socket;
use bytes::Bytes;
use phalanx_core::level::Level;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Bytes taken off the outbox at once. Those that are protected are still in the core's cache when they are written;
/// the others are just referred to.
pub(crate) const fn at_once(level: Level) -> usize {
    match level {
        Level::Clear | Level::Authenticated => PLAIN_AT_ONCE,
        Level::Safe | Level::Private => BLOCK,
    }
}

const PLAIN_AT_ONCE: usize = 4 << 20;
const _: () = assert!(PLAIN_AT_ONCE <= PLAIN_BLOCK);
/// Memory for sealed bytes that is kept for the next ones.
const MOST_KEPT: usize = 4 << 20;
/// A piece at least this long is a block of its own, or several: the receiver reads it straight to where it stays.
pub(crate) const ALONE: usize = 32 << 10;

#[derive(Debug)]
pub(crate) struct Writer {
    /// On links whose ends shook hands.
    context: Option<Context>,
    /// To be written from where it lies, before what is sealed.
    plain: Outbox,
    /// Private blocks; those from `written` on are still to be written.
    sealed: Vec<u8>,
    written: usize,
    /// The socket was full: the reader's thread goes on when it has room.
    pub blocked: bool,
    /// The reader's thread is not to be woken by bytes that arrive: another thread reads.
    pub deaf: bool,
}

impl Writer {
    pub fn new(context: Option<Context>) -> Writer {
        Writer { context, plain: Outbox::default(), sealed: Vec::new(), written: 0, blocked: false, deaf: false }
    }

    pub fn has_rest(&self) -> bool {
        self.rest() > 0
    }

    /// Bytes that are still to be written.
    pub fn rest(&self) -> usize {
        self.plain.bytes() + self.sealed.len() - self.written
    }

    /// Takes the next bytes to write, all of one level; nothing may be left of those before.
    pub fn fill(&mut self, level: Level, bytes: Outbox, counters: &Counters) {
        debug_assert!(!self.has_rest());
        self.written = 0;
        self.sealed.clear();
        self.sealed.shrink_to(MOST_KEPT);
        self.protect(level, bytes, counters);
    }

    /// Refers no longer to the sender's memory, neither for what is still to be written nor for what waits behind it.
    pub fn own(&mut self, outbox: &mut Outbox, counters: &Counters) {
        self.plain.own();
        // Sealing copies too, so what can be sealed now is.
        self.sealed.drain(..self.written);
        self.written = 0;
        while outbox.level() == Some(Level::Private) {
            self.protect(Level::Private, outbox.take(at_once(Level::Private)), counters);
        }
        outbox.own();
    }

    fn protect(&mut self, level: Level, bytes: Outbox, counters: &Counters) {
        let spent = &counters.levels[level as usize];
        spent.bytes.fetch_add(bytes.bytes() as u64, Ordering::Relaxed);
        let Some(context) = &mut self.context else {
            self.plain = bytes;
            return;
        };
        let began = Instant::now();
        match level {
            Level::Clear | Level::Authenticated => {
                context.pass();
                let head = Bytes::copy_from_slice(&head(level, bytes.bytes()));
                self.plain.push_piece(level, head);
                bytes.pieces().for_each(|piece| self.plain.push_piece(level, piece.clone()));
            }
            Level::Safe => tag(&bytes, context, &mut self.plain),
            Level::Private => seal(&bytes, context, &mut self.sealed),
        }
        spent.protection.fetch_add(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    /// One write; false when the socket is full.
    pub fn write_some(&mut self, socket: &Socket, counters: &Counters) -> Result<bool, LinkError> {
        let outcome = match self.plain.bytes() {
            0 => socket.send(&self.sealed[self.written..]),
            _ => socket.send_vectored(&self.plain.slices()),
        };
        let count = match outcome {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        counters.sent.fetch_add(count as u64, Ordering::Relaxed);
        match self.plain.bytes() {
            0 => self.written += count,
            _ => self.plain.advance(count),
        }
        Ok(true)
    }
}

/// Appends safe blocks, which refer to the bytes where they lie.
fn tag(bytes: &Outbox, context: &mut Context, out: &mut Outbox) {
    let mut block = Outbox::default();
    let mut end = |block: &mut Outbox| {
        let block = std::mem::take(block);
        if block.bytes() == 0 {
            return;
        }
        let head = head(Level::Safe, block.bytes());
        let tag = context.tag(head, block.pieces().map(|piece| &piece[..]));
        out.push_piece(Level::Safe, Bytes::copy_from_slice(&head));
        block.pieces().for_each(|piece| out.push_piece(Level::Safe, piece.clone()));
        out.push_piece(Level::Safe, Bytes::copy_from_slice(&tag));
    };
    for piece in bytes.pieces() {
        if piece.len() >= ALONE {
            end(&mut block);
        }
        let mut rest = piece.clone();
        while !rest.is_empty() {
            let room = BLOCK - block.bytes();
            block.push_piece(Level::Safe, rest.split_to(rest.len().min(room)));
            if block.bytes() == BLOCK {
                end(&mut block);
            }
        }
    }
    end(&mut block);
}

/// Appends private blocks.
fn seal(bytes: &Outbox, context: &mut Context, out: &mut Vec<u8>) {
    let mut block = Block::default();
    for piece in bytes.pieces() {
        let mut rest = &piece[..];
        if rest.len() >= ALONE {
            block.end(context, out);
        }
        while !rest.is_empty() {
            rest = block.take(rest, context, out);
        }
    }
    block.end(context, out);
}

/// The private block that is being gathered at the end of a buffer.
#[derive(Default)]
struct Block {
    /// Where it begins, if it has.
    start: Option<usize>,
}

impl Block {
    /// Appends what has room; the rest.
    fn take<'a>(&mut self, bytes: &'a [u8], context: &mut Context, out: &mut Vec<u8>) -> &'a [u8] {
        let start = *self.start.get_or_insert_with(|| {
            let start = out.len();
            out.extend_from_slice(&[0; HEAD]);
            start
        });
        let room = BLOCK - (out.len() - start - HEAD);
        let (taken, rest) = bytes.split_at(bytes.len().min(room));
        out.extend_from_slice(taken);
        if taken.len() == room {
            self.end(context, out);
        }
        rest
    }

    /// Seals it.
    fn end(&mut self, context: &mut Context, out: &mut Vec<u8>) {
        let Some(start) = self.start.take() else { return };
        let (head, tag) = context.seal(&mut out[start + HEAD..]);
        out[start..start + HEAD].copy_from_slice(&head);
        out.extend_from_slice(&tag);
    }
}
