//! The receiving half of a link, for one thread.

use super::spin::Spin;
use super::writer::ALONE;
use super::{Counters, Link, LinkError};
use crate::blocks::{Block, Cut, Opener, Placed, TAIL};
use crate::frames::{Assembler, Frame, Gate};
use crate::identity::Courier;
use crate::memory::{File, Table};
use crate::seal::{BLOCK, HEAD, TAG};
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
/// Bytes read at once on a link that rests most of the time: one page. Its messages are shorter, and a hub keeps thousands of such
/// buffers.
const READ_AT_REST: usize = 4 << 10;

/// Reassembles frames from the bytes of the socket.
#[derive(Debug)]
pub struct Reader {
    link: Arc<Link>,
    assembler: Assembler,
    /// Made by the first read.
    buffer: Vec<u8>,
    /// The length of the buffer, unless a block needs more.
    usual: usize,
    /// Bytes read at once while it is unknown what they are.
    at_once: usize,
    /// Bytes at the start of the buffer that are not a whole record or block yet.
    kept: usize,
    /// Bytes missing from the block at the start of the buffer.
    wanted: usize,
    /// The offer that the server must still send, before anything else.
    awaited: Option<AwaitedOffer>,
    /// Cuts blocks, if the ends did a handshake.
    opener: Option<Opener>,
    /// The level of the last block that began. A frame goes on in blocks of its own level only: otherwise an attacker
    /// could put the start of a frame, in an unprotected block, before a protected one.
    level: Option<Level>,
    /// A block whose payload is read straight into the body that it belongs to.
    placed: Option<Placed>,
    /// The read timeout that is set on the socket.
    patience: Option<Duration>,
    /// Files may arrive with the bytes.
    shares: bool,
    spin: Spin,
}

impl Reader {
    pub(crate) fn new(
        link: Arc<Link>,
        most_body: u64,
        opener: Option<Opener>,
        awaited: Option<AwaitedOffer>,
    ) -> Reader {
        Reader {
            link,
            assembler: Assembler::new(most_body),
            buffer: Vec::new(),
            usual: BUFFER,
            at_once: READ_AT_ONCE,
            kept: 0,
            wanted: 0,
            awaited,
            opener,
            level: None,
            placed: None,
            patience: None,
            shares: false,
            spin: Spin::default(),
        }
    }

    /// The link that is read.
    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// At a client, of whichever service: frames in which the server says that its news have changed are no messages. They go to the
    /// courier, if there is one.
    pub(crate) fn hear(&mut self, courier: Option<Arc<dyn Courier>>) {
        self.assembler.hear(Box::new(move |news| courier.iter().for_each(|courier| courier.heard(news))));
    }

    /// For a link that rests most of the time: reads little at once, and keeps a buffer for long blocks only while one arrives.
    pub fn save_memory(&mut self) {
        (self.usual, self.at_once) = (READ_AT_REST, READ_AT_REST);
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
            // A peer that never lets the socket run empty keeps no duty of `on_pause` from its turn.
            let until = Instant::now() + pause;
            if let Err(error) = self.read_while(|| Instant::now() < until, &mut on_frame) {
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
        self.kept > 0 || self.placed.is_some() || self.assembler.is_within()
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

    /// Waits up to `pause` in the read itself, and reads what is there, for about as long at most: a peer that never lets the
    /// socket run empty does not keep the calling thread. For links that were made with [`Link::direct`].
    pub fn receive(&mut self, pause: Duration, on_frame: &mut impl FnMut(Frame)) -> Result<(), LinkError> {
        if self.placed.is_some() || self.reads_body() {
            let is_ready = self.link.socket().wait_readable(pause)?;
            return if is_ready { self.read_for(pause, on_frame) } else { Ok(()) };
        }
        if self.patience != Some(pause) {
            self.link.socket().set_read_patience(pause)?;
            self.patience = Some(pause);
        }
        if self.read_buffer(true, on_frame)? { self.read_for(pause, on_frame) } else { Ok(()) }
    }

    /// Reads until the socket is empty, or for this long.
    pub fn read_for(&mut self, time: Duration, on_frame: &mut impl FnMut(Frame)) -> Result<(), LinkError> {
        let until = Instant::now().checked_add(time);
        self.read_while(|| until.is_none_or(|until| Instant::now() < until), on_frame)
    }

    /// Reads until the socket is empty.
    pub fn read_all(&mut self, on_frame: &mut impl FnMut(Frame)) -> Result<(), LinkError> {
        self.read_while(|| true, on_frame)
    }

    /// Reads until the socket is empty, or until `goes_on` returns false after a read.
    pub fn read_while(
        &mut self,
        goes_on: impl Fn() -> bool,
        on_frame: &mut impl FnMut(Frame),
    ) -> Result<(), LinkError> {
        loop {
            if self.link.is_closed() {
                return Err(LinkError::Closed);
            }
            let may_have_more = if let Some(placed) = self.placed.take() {
                self.read_block(placed, on_frame)?
            } else if self.reads_body() {
                self.read_body(on_frame)?
            } else {
                self.read_buffer(false, on_frame)?
            };
            if !may_have_more || !goes_on() {
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
        match (&self.awaited, &self.opener) {
            (Some(_), _) => 0,
            (None, Some(opener)) => opener.plain(),
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
        self.opener.iter_mut().for_each(|opener| opener.take_plain(count));
        self.count_plain(count);
        self.assembler.finish(on_frame);
        Ok(true)
    }

    /// Counts bytes that came without protection.
    fn count_plain(&mut self, count: usize) {
        let level = self.link.levels().base;
        self.link.counters().levels[level as usize].bytes.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Reads once into the buffer. If less came than there was room for, the socket is empty, and a second read would
    /// be a wasted system call.
    fn read_buffer(&mut self, waits: bool, on_frame: &mut impl FnMut(Frame)) -> Result<bool, LinkError> {
        let room = self.room();
        self.fit(self.kept + room);
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

    /// How much to read into the buffer at once: a whole block, and much of a large body that comes in private ones.
    fn room(&mut self) -> usize {
        let is_bulk = self.level == Some(Level::Private)
            && self.assembler.body().is_some_and(|body| body.missing() >= READ_AT_ONCE);
        if is_bulk { BUFFER - self.kept } else { self.at_once.max(self.wanted) }
    }

    /// Makes the buffer long enough, or short again after a block that was longer than usual.
    fn fit(&mut self, needed: usize) {
        let length = needed.max(self.usual);
        if self.buffer.len() < length || (self.buffer.len() > self.usual && length == self.usual) {
            let mut fitting = vec![0; length]; // the system zeroes its pages when they are first used
            fitting[..self.kept].copy_from_slice(&self.buffer[..self.kept]);
            self.buffer = fitting;
        }
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
            if let Some(number) = complete {
                self.opener.iter_mut().for_each(|opener| opener.begin_at(number));
                self.awaited = None;
            }
        }
        if self.awaited.is_none() {
            used += match self.opener {
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
        while let Some(opener) = &mut self.opener {
            match opener.cut(&self.buffer[at..self.kept])? {
                Cut::Plain(level, payload) => {
                    self.goes_on(level)?;
                    self.feed_plain(at + payload.start..at + payload.end, on_frame)?;
                    at += payload.end;
                }
                Cut::Whole(block) => {
                    let bytes = &mut self.buffer[at..][..block.length()];
                    let payload = timed(block, self.link.counters(), || opener.open_at(block, bytes))?;
                    self.goes_on(block.level())?;
                    self.assembler.feed(&self.buffer[at..][payload], on_frame)?;
                    at += block.length();
                }
                Cut::Part(None) => break,
                Cut::Part(Some(block)) => {
                    self.goes_on(block.level())?;
                    match self.goes_direct(block, at + HEAD) {
                        true => at = self.kept,
                        false => self.wanted = at + block.length() - self.kept,
                    }
                    break;
                }
            }
        }
        Ok(at - start)
    }

    /// Notes the level of a block. An error if a frame that began in a block of another level would go on in it.
    fn goes_on(&mut self, level: Level) -> io::Result<()> {
        match self.level.replace(level) {
            Some(before) if before != level && self.assembler.is_within() => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "a frame goes on in a block of another level"))
            }
            _ => Ok(()),
        }
    }

    /// Directs the rest of a block straight into the body, if all of it belongs to the body. The part already in the
    /// buffer, from `begin` on, is copied.
    fn goes_direct(&mut self, block: Block, begin: usize) -> bool {
        let body = self.assembler.body().filter(|_| block.stays() && block.payload() >= ALONE);
        let Some(room) = body.and_then(|body| body.room(block.payload())) else { return false };
        self.placed = Some(Placed::begin(block, &self.buffer[begin..self.kept], room));
        true
    }

    /// Reads once into such a block, its tag, and the head of the next block.
    fn read_block(&mut self, mut placed: Placed, on_frame: &mut impl FnMut(Frame)) -> Result<bool, LinkError> {
        let length = placed.block().payload();
        let body = self.assembler.body().expect("the block belongs to it");
        let payload = &mut body.room(length).expect("it had room when the block began")[..length];
        let rest = &mut payload[placed.payload()..];
        let missing = rest.len() + placed.spare().len();
        let mut tail = [MaybeUninit::uninit(); TAIL];
        let mut places = [rest, &mut tail[..placed.spare().len()]].map(MaybeUninitSlice::new);
        let outcome = self.link.socket().receive_vectored(&mut places);
        let Some(count) = received(outcome, self.link.counters())? else {
            self.placed = Some(placed);
            return Ok(false);
        };
        let behind = (placed.payload() + count).saturating_sub(length);
        for (to, from) in placed.spare().iter_mut().zip(&tail[..behind]) {
            // SAFETY: the system has written as many as it said.
            *to = unsafe { from.assume_init() };
        }
        if !placed.advance(count) {
            self.placed = Some(placed);
            return Ok(count == missing);
        }
        // SAFETY: the whole payload was read.
        let payload = unsafe { std::slice::from_raw_parts(payload.as_ptr().cast::<u8>(), length) };
        let opener = self.opener.as_mut().expect("blocks come with keys only");
        timed(placed.block(), self.link.counters(), || opener.check_placed(&placed, payload))?;
        // SAFETY: they were read and decrypted.
        unsafe { body.advance(length) };
        self.assembler.finish(on_frame);
        self.kept = placed.next().len();
        self.buffer[..self.kept].copy_from_slice(placed.next());
        self.use_buffer(on_frame)?;
        Ok(count == missing)
    }
}

/// Opens a block, and counts its bytes and the time that its protection takes.
fn timed<T>(block: Block, counters: &Counters, open: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let began = Instant::now();
    let opened = open();
    let spent = &counters.levels[block.level() as usize];
    spent.bytes.fetch_add(block.payload() as u64, Ordering::Relaxed);
    spent.protection.fetch_add(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
    opened
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
