//! The receiving half of a link, for one thread.

use super::spin::Spin;
use super::writer::ALONE;
use super::{Counters, Link, LinkError};
use crate::copy::copy;
use crate::frames::{Assembler, Frame, Gate};
use crate::memory::{File, Table};
use crate::seal::{self, BLOCK, Context, HEAD, TAG};
#[cfg(target_os = "linux")]
use crate::socket::Waker;
use crate::tls::AwaitedOffer;
use phalanx_core::level::Level;
use socket2::MaybeUninitSlice;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Bytes read at once while it is unknown what they are. The rest of a large body is read straight to its final memory.
const READ_AT_ONCE: usize = 64 << 10;
/// The buffer has room for a block behind the bytes that were read with its head.
const BUFFER: usize = READ_AT_ONCE + HEAD + BLOCK + TAG;

/// Reassembles frames from the bytes of the socket.
#[derive(Debug)]
pub struct Reader {
    link: Arc<Link>,
    assembler: Assembler,
    buffer: Vec<u8>,
    /// Bytes at the start of the buffer that are not a whole record or block yet.
    kept: usize,
    /// Bytes missing from the block at the start of the buffer.
    wanted: usize,
    /// The offer that the server must still send, before anything else.
    awaited: Option<AwaitedOffer>,
    context: Option<Context>,
    /// Weaker blocks are refused.
    least: Level,
    /// The level of the last block that began. A frame goes on in blocks of its own level only: otherwise an attacker
    /// could put the start of a frame, in an unprotected block, before a protected one.
    level: Level,
    /// Bytes left of the current block without protection.
    plain: usize,
    direct: Option<Direct>,
    /// The read timeout that is set on the socket.
    patience: Option<Duration>,
    /// Files may arrive with the bytes.
    shares: bool,
    spin: Spin,
}

/// A block whose payload is read straight into the body that it belongs to.
#[derive(Debug)]
struct Direct {
    level: Level,
    payload: usize,
    /// Bytes received of its payload, its tag and the next block's head.
    filled: usize,
    tail: [u8; TAG + HEAD],
}

impl Reader {
    pub(crate) fn new(
        link: Arc<Link>,
        most_body: u64,
        least: Level,
        context: Option<Context>,
        awaited: Option<AwaitedOffer>,
    ) -> Reader {
        let (assembler, buffer) = (Assembler::new(most_body), vec![0; BUFFER]);
        Reader {
            link,
            assembler,
            buffer,
            kept: 0,
            wanted: 0,
            awaited,
            context,
            least,
            level: least,
            plain: 0,
            direct: None,
            patience: None,
            shares: false,
            spin: Spin::default(),
        }
    }

    /// Accepts bodies in memory shared with the peer.
    pub(crate) fn share(&mut self, memory: Table) {
        self.assembler.share(memory);
        self.shares = true;
    }

    /// Reads the link until it ends, and returns the reason as an error. `on_frame` gets every frame. `on_pause` is
    /// called whenever there is nothing to read, at least once per `pause`.
    pub fn run(
        mut self,
        pause: Duration,
        mut on_frame: impl FnMut(Frame),
        mut on_pause: impl FnMut(&Link),
    ) -> LinkError {
        let link = self.link.clone();
        let error = loop {
            if let Err(error) = self.read_all(&mut on_frame) {
                break error;
            }
            on_pause(&link);
            if let Err(error) = link.wait(pause) {
                break error.into();
            }
        };
        let was_closed_here = link.is_closed();
        link.close();
        if was_closed_here { LinkError::Closed } else { error }
    }

    /// Limits the bodies of all later frames. A longer body ends the link.
    pub fn set_most_body(&mut self, most: u64) {
        self.assembler.set_most_body(most);
    }

    /// Sets the gate, which the reading thread asks before it accepts a body.
    pub fn set_gate(&mut self, gate: Gate) {
        self.assembler.set_gate(gate);
    }

    /// Whether a frame or a block has arrived in part.
    pub fn is_within(&self) -> bool {
        self.kept > 0 || self.direct.is_some() || self.assembler.is_within()
    }

    /// Waits up to `pause` for bytes, without the poller, and reads what is there.
    pub fn poll(&mut self, pause: Duration, on_frame: &mut impl FnMut(Frame)) -> Result<(), LinkError> {
        if self.link.socket().wait_readable(pause)? { self.read_all(on_frame) } else { Ok(()) }
    }

    /// Like [`Reader::poll`], when bytes are expected at once: spins before it waits, as long as that pays.
    pub fn poll_soon(&mut self, pause: Duration, on_frame: &mut impl FnMut(Frame)) -> Result<(), LinkError> {
        let socket = self.link.socket();
        let is_ready = self.spin.until(|| socket.wait_readable(Duration::ZERO))? || socket.wait_readable(pause)?;
        if is_ready { self.read_all(on_frame) } else { Ok(()) }
    }

    /// Like [`Reader::poll_soon`], but returns early when another thread uses the waker.
    #[cfg(target_os = "linux")]
    pub fn poll_beside(
        &mut self,
        waker: &Waker,
        pause: Duration,
        on_frame: &mut impl FnMut(Frame),
    ) -> Result<(), LinkError> {
        let socket = self.link.socket();
        let is_ready = self.spin.until(|| socket.wait_readable(Duration::ZERO))? || waker.wait_beside(socket, pause)?;
        if is_ready { self.read_all(on_frame) } else { Ok(()) }
    }

    /// Waits up to `pause` in the read itself, and reads what is there. For links that were made with [`Link::direct`].
    #[cfg(unix)]
    pub fn receive(&mut self, pause: Duration, on_frame: &mut impl FnMut(Frame)) -> Result<(), LinkError> {
        if self.direct.is_some() || self.reads_body() {
            return self.poll(pause, on_frame);
        }
        if self.patience != Some(pause) {
            self.link.socket().set_read_patience(pause)?;
            self.patience = Some(pause);
        }
        if self.read_buffer(true, on_frame)? { self.read_all(on_frame) } else { Ok(()) }
    }

    /// Reads until the socket is empty.
    pub fn read_all(&mut self, on_frame: &mut impl FnMut(Frame)) -> Result<(), LinkError> {
        loop {
            if self.link.is_closed() {
                return Err(LinkError::Closed);
            }
            let may_have_more = if let Some(direct) = self.direct.take() {
                self.read_block(direct, on_frame)?
            } else if self.reads_body() {
                self.read_body(on_frame)?
            } else {
                self.read_buffer(false, on_frame)?
            };
            if !may_have_more {
                return Ok(());
            }
        }
    }

    /// Whether the next bytes belong to a large body and need no decryption.
    fn reads_body(&mut self) -> bool {
        self.as_they_are() >= ALONE && self.assembler.body().is_some_and(|body| body.missing() >= ALONE)
    }

    /// How many of the next bytes are neither protected nor part of a block's head.
    fn as_they_are(&self) -> usize {
        match (&self.awaited, &self.context) {
            (Some(_), _) => 0,
            (None, Some(_)) => self.plain,
            (None, None) => usize::MAX,
        }
    }

    /// Reads once into the body's memory. `false`: the socket had nothing.
    fn read_body(&mut self, on_frame: &mut impl FnMut(Frame)) -> Result<bool, LinkError> {
        let most = self.as_they_are();
        let body = self.assembler.body().expect("a body is being read");
        let spare = body.spare();
        let room = spare.len().min(most);
        let outcome = self.link.socket().receive_uninit(&mut spare[..room], false);
        let Some(count) = received(outcome, self.link.counters())? else {
            return Ok(false);
        };
        // SAFETY: the system has written them.
        unsafe { body.advance(count) };
        self.count_plain(count);
        self.assembler.finish(on_frame);
        Ok(true)
    }

    /// Counts bytes that came without protection.
    fn count_plain(&mut self, count: usize) {
        self.link.counters().levels[self.least as usize].bytes.fetch_add(count as u64, Ordering::Relaxed);
        self.plain = self.plain.saturating_sub(count);
    }

    /// Reads once into the buffer. If less came than there was room for, the socket is empty, and a second read would
    /// be a wasted system call.
    fn read_buffer(&mut self, waits: bool, on_frame: &mut impl FnMut(Frame)) -> Result<bool, LinkError> {
        let room = READ_AT_ONCE.max(self.wanted);
        let spare = &mut self.buffer[self.kept..][..room];
        let (socket, counters) = (self.link.socket(), self.link.counters());
        if self.shares {
            let (outcome, file) = match socket.receive_with(spare) {
                Ok((count, file)) => (Ok(count), file),
                Err(error) => (Err(error), None),
            };
            let Some(count) = received(outcome, counters)? else { return Ok(false) };
            self.feed_shared(count, file, on_frame)?;
            return Ok(count == room || self.reads_body());
        }
        let Some(count) = received(socket.receive(spare, waits), counters)? else {
            return Ok(false);
        };
        self.kept += count;
        self.use_buffer(on_frame)?;
        // More of a body that has begun will come, and is read straight to its final memory.
        Ok(count == room || self.reads_body())
    }

    /// Handles the bytes at the start of the buffer, all of them unprotected frames, and a file that came with them.
    fn feed_shared(
        &mut self,
        count: usize,
        file: Option<File>,
        on_frame: &mut impl FnMut(Frame),
    ) -> Result<(), LinkError> {
        let shared = self.assembler.shared();
        let fed = self.assembler.feed_with(&self.buffer[..count], file, on_frame);
        self.count_plain(count + (self.assembler.shared() - shared) as usize);
        Ok(fed?)
    }

    /// Handles the bytes in the buffer, and keeps an incomplete record or block.
    fn use_buffer(&mut self, on_frame: &mut impl FnMut(Frame)) -> Result<(), LinkError> {
        let mut used = 0;
        self.wanted = 0;
        while let Some(awaited) = &mut self.awaited {
            let Some((record, complete)) = awaited.hear(&self.buffer[used..self.kept])? else { break };
            used += record;
            if complete {
                self.awaited = None;
            }
        }
        if self.awaited.is_none() {
            used += match self.context {
                Some(_) => self.open_blocks(used, on_frame)?,
                None => self.feed_plain(used..self.kept, on_frame)?,
            };
        }
        self.buffer.copy_within(used..self.kept, 0);
        self.kept -= used;
        Ok(())
    }

    fn feed_plain(&mut self, range: Range<usize>, on_frame: &mut impl FnMut(Frame)) -> Result<usize, LinkError> {
        let count = range.len();
        self.count_plain(count);
        self.assembler.feed(&self.buffer[range], on_frame)?;
        Ok(count)
    }

    /// Opens the blocks in the buffer from `start` on, in place. Returns the number of bytes used.
    fn open_blocks(&mut self, start: usize, on_frame: &mut impl FnMut(Frame)) -> Result<usize, LinkError> {
        let mut at = start;
        loop {
            let plain = self.plain.min(self.kept - at);
            at += self.feed_plain(at..at + plain, on_frame)?;
            let Some(head) = self.buffer[at..self.kept].first_chunk() else { break };
            let (level, payload) = seal::parse(*head)?;
            self.check_level(level)?;
            let (begin, end) = (at + HEAD, at + HEAD + payload);
            if !seal::has_tag(level) {
                self.context.as_mut().expect("blocks come with keys only").pass();
                (self.plain, at) = (payload, begin);
                continue;
            }
            if self.kept < end + TAG {
                match self.goes_direct(level, payload, begin) {
                    true => at = self.kept,
                    false => self.wanted = end + TAG - self.kept,
                }
                break;
            }
            let (before, after) = self.buffer.split_at_mut(end);
            let tag = *after.first_chunk().expect("the block is whole");
            open(self.context.as_mut(), level, &mut before[begin..], tag, self.link.counters())?;
            self.assembler.feed(&self.buffer[begin..end], on_frame)?;
            at = end + TAG;
        }
        Ok(at - start)
    }

    fn check_level(&mut self, level: Level) -> io::Result<()> {
        let before = std::mem::replace(&mut self.level, level);
        if level < self.least {
            return Err(not_of_this_link("a block is protected less than this link is"));
        }
        match self.assembler.is_within() && level != before {
            true => Err(not_of_this_link("a frame goes on in a block of another level")),
            false => Ok(()),
        }
    }

    /// Directs the rest of a block straight into the body, if all of it belongs to the body. The part already in the
    /// buffer, from `begin` on, is copied.
    fn goes_direct(&mut self, level: Level, payload: usize, begin: usize) -> bool {
        let body = self.assembler.body().filter(|_| payload >= ALONE);
        let Some(room) = body.and_then(|body| body.room(payload)) else { return false };
        let here = &self.buffer[begin..self.kept];
        let (of_payload, of_tag) = here.split_at(here.len().min(payload));
        // SAFETY: there is room for the whole payload.
        unsafe { copy(of_payload.as_ptr(), room.as_mut_ptr().cast(), of_payload.len()) };
        let mut direct = Direct { level, payload, filled: here.len(), tail: [0; TAG + HEAD] };
        direct.tail[..of_tag.len()].copy_from_slice(of_tag);
        self.direct = Some(direct);
        true
    }

    /// Reads once into such a block, its tag, and the head of the next block.
    fn read_block(&mut self, mut direct: Direct, on_frame: &mut impl FnMut(Frame)) -> Result<bool, LinkError> {
        let body = self.assembler.body().expect("the block belongs to it");
        let room = body.room(direct.payload).expect("it had room when the block began");
        let payload = &mut room[..direct.payload];
        let filled_tail = direct.filled.saturating_sub(payload.len());
        let missing = payload.len() + direct.tail.len() - direct.filled;
        let begin = direct.filled.min(payload.len());
        let mut tail = [MaybeUninit::uninit(); TAG + HEAD];
        let mut places = [&mut payload[begin..], &mut tail[filled_tail..]].map(MaybeUninitSlice::new);
        let outcome = self.link.socket().receive_vectored(&mut places);
        let Some(count) = received(outcome, self.link.counters())? else {
            self.direct = Some(direct);
            return Ok(false);
        };
        let of_tail = (direct.filled + count).saturating_sub(payload.len());
        for (to, from) in direct.tail[..of_tail].iter_mut().zip(&tail).skip(filled_tail) {
            // SAFETY: the system has written as many as it said.
            *to = unsafe { from.assume_init() };
        }
        direct.filled += count;
        if of_tail < TAG {
            self.direct = Some(direct);
            return Ok(count == missing);
        }
        // SAFETY: the whole payload was read.
        let payload = unsafe { std::slice::from_raw_parts_mut(payload.as_mut_ptr().cast::<u8>(), payload.len()) };
        let tag = *direct.tail.first_chunk().expect("is longer");
        open(self.context.as_mut(), direct.level, payload, tag, self.link.counters())?;
        // SAFETY: they were read and decrypted.
        unsafe { body.advance(direct.payload) };
        self.assembler.finish(on_frame);
        self.kept = of_tail - TAG;
        self.buffer[..self.kept].copy_from_slice(&direct.tail[TAG..of_tail]);
        self.use_buffer(on_frame)?;
        Ok(count == missing)
    }
}

/// Checks and decrypts a block in place.
fn open(
    context: Option<&mut Context>,
    level: Level,
    payload: &mut [u8],
    tag: [u8; TAG],
    counters: &Counters,
) -> io::Result<()> {
    let began = Instant::now();
    let opened = context.expect("blocks come with keys only").open(level, payload, tag);
    let spent = &counters.levels[level as usize];
    spent.bytes.fetch_add(payload.len() as u64, Ordering::Relaxed);
    spent.protection.fetch_add(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
    opened
}

fn not_of_this_link(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The number of bytes read; `None`: nothing now. The end of the connection is an error.
fn received(outcome: io::Result<usize>, counters: &Counters) -> Result<Option<usize>, LinkError> {
    match outcome {
        Ok(0) => Err(LinkError::Ended),
        Ok(count) => {
            counters.received.fetch_add(count as u64, Ordering::Relaxed);
            Ok(Some(count))
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
