//! The bytes that a link writes next: taken from the outbox, and sealed if the level requires it.

use super::{Counters, LinkError};
use crate::blocks::{Around, Sealer, longest};
use crate::frames::Outbox;
use crate::seal::{BLOCK, PLAIN_BLOCK};
use crate::socket::Socket;
use bytes::Bytes;
use phalanx_core::level::Level;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Bytes taken from the outbox at once. Protected bytes should still be in the core's cache when they are written.
/// Others are only referred to, so there may be more.
pub(crate) const fn at_once(level: Level) -> usize {
    match level {
        Level::Clear | Level::Authenticated => PLAIN_AT_ONCE,
        Level::Safe | Level::Private => BLOCK,
    }
}

const PLAIN_AT_ONCE: usize = 4 << 20;
const _: () = assert!(PLAIN_AT_ONCE <= PLAIN_BLOCK);
/// Limit on the memory kept for sealed bytes after they are written.
const MOST_KEPT: usize = 4 << 20;
/// A piece of at least this length gets blocks of its own, so that the receiver can read it straight to its final
/// memory.
pub(crate) const ALONE: usize = 32 << 10;

#[derive(Debug)]
pub(crate) struct Writer {
    /// Makes blocks, if the ends did a handshake.
    sealer: Option<Sealer>,
    /// Written from where they lie, before the sealed bytes.
    plain: Outbox,
    /// Private blocks; those from `written` on are still to be written.
    sealed: Vec<u8>,
    written: usize,
    /// The socket was full. The reader's thread continues when there is room.
    pub blocked: bool,
    /// Arriving bytes must not wake the reader's thread, because another thread reads.
    pub deaf: bool,
}

impl Writer {
    pub fn new(sealer: Option<Sealer>) -> Writer {
        Writer { sealer, plain: Outbox::default(), sealed: Vec::new(), written: 0, blocked: false, deaf: false }
    }

    pub fn has_rest(&self) -> bool {
        self.rest() > 0
    }

    /// The number of bytes still to be written.
    pub fn rest(&self) -> usize {
        self.plain.bytes() + self.sealed.len() - self.written
    }

    /// Takes the next bytes to write, all of one level. The previous ones must be written.
    pub fn fill(&mut self, level: Level, bytes: Outbox, counters: &Counters) -> io::Result<()> {
        debug_assert!(!self.has_rest());
        self.written = 0;
        self.sealed.clear();
        self.sealed.shrink_to(MOST_KEPT);
        self.protect(level, bytes, counters)
    }

    /// Copies everything that still refers to the sender's memory, here and in the outbox.
    pub fn own(&mut self, outbox: &mut Outbox, counters: &Counters) -> io::Result<()> {
        self.plain.own();
        // Sealing copies too, so as much as possible is sealed now. More than `MOST_KEPT` would need fresh memory.
        self.sealed.drain(..self.written);
        self.written = 0;
        while outbox.level() == Some(Level::Private) && self.sealed.len() < MOST_KEPT {
            self.protect(Level::Private, outbox.take(at_once(Level::Private)), counters)?;
        }
        outbox.own();
        Ok(())
    }

    fn protect(&mut self, level: Level, bytes: Outbox, counters: &Counters) -> io::Result<()> {
        let spent = &counters.levels[level as usize];
        spent.bytes.fetch_add((bytes.bytes() + bytes.shared()) as u64, Ordering::Relaxed);
        let Some(sealer) = &mut self.sealer else {
            self.plain = bytes;
            return Ok(());
        };
        let began = Instant::now();
        let made = match level {
            Level::Clear | Level::Authenticated => enclose(level, bytes, sealer, &mut self.plain),
            Level::Safe => blocks(level, bytes).try_for_each(|block| enclose(level, block, sealer, &mut self.plain)),
            Level::Private => blocks(level, bytes).try_for_each(|block| {
                let pieces = block.pieces().map(|piece| &piece[..]);
                sealer.append(level, pieces, &mut self.sealed)
            }),
        };
        spent.protection.fetch_add(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
        made
    }

    /// Writes once. `false`: the socket is full.
    pub fn write_some(&mut self, socket: &Socket, is_more: bool, counters: &Counters) -> Result<bool, LinkError> {
        let outcome = match (self.plain.bytes(), self.plain.only()) {
            (0, _) => socket.send(&self.sealed[self.written..], is_more),
            (_, Some(piece)) => match self.plain.file() {
                Some(file) => socket.send_with(piece, file),
                None => socket.send(piece, is_more),
            },
            (_, None) => socket.send_vectored(&self.plain.slices(), is_more),
        };
        let count = match outcome {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            // The system allows no more files in flight (RLIMIT_NOFILE limits them too).
            Err(error) if self.plain.file().is_some() && !is_end(&error) => {
                self.plain.inline_first();
                return Ok(true);
            }
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

fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::NotConnected)
}

/// Cuts bytes into blocks. A long piece starts a new safe block, which can be received where it stays.
fn blocks(level: Level, mut bytes: Outbox) -> impl Iterator<Item = Outbox> {
    let alone = if level == Level::Safe { ALONE } else { usize::MAX };
    std::iter::from_fn(move || (bytes.bytes() > 0).then(|| bytes.take_before(longest(level), alone)))
}

/// Appends a block that refers to the bytes in place.
fn enclose(level: Level, block: Outbox, sealer: &mut Sealer, out: &mut Outbox) -> io::Result<()> {
    let pieces = block.pieces().map(|piece| &piece[..]);
    let Around { head, tag } = sealer.enclose(level, block.bytes(), pieces)?;
    out.push_piece(level, Bytes::copy_from_slice(&head));
    out.append(block);
    if let Some(tag) = tag {
        out.push_piece(level, Bytes::copy_from_slice(&tag));
    }
    Ok(())
}
