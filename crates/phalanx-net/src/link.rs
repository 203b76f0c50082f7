//! A link: frames, in order, between two identified processes.
//!
//! One thread of the process reads the link ([`Reader::run`]); any thread writes it. A writer puts its frame
//! into the outbox and writes at once what the socket takes; what is left over goes out from the reader's
//! thread, so that nobody who fires or answers waits for a slow peer.

use crate::frames::{Assembler, Frame, Outbox};
use crate::socket::Socket;
use crate::tls::{Channel, Early};
use bytes::Bytes;
use phalanx_core::error::WireError;
use phalanx_core::level::Level;
use polling::{Event, Events, PollMode, Poller};
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Plaintext sealed at once: many records, and still in the cache when it is written.
const SEALED_AT_ONCE: usize = 256 << 10;
const READ_AT_ONCE: usize = 256 << 10;
/// A body of which at least this much is missing is read straight into its memory.
const READ_DIRECT: usize = 32 << 10;
/// Bytes in the outbox beyond which [`Link::send`] waits.
const FULL: usize = 16 << 20;
const KEY: usize = 0;

/// Why a link ended.
#[derive(Debug, Error)]
pub enum LinkError {
    #[error("the link was closed")]
    Closed,
    #[error("the connection ended")]
    Ended,
    #[error("the connection failed: {0}")]
    Failed(io::Error),
    #[error("{0}")]
    Wire(#[from] WireError),
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> LinkError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                LinkError::Ended
            }
            _ => LinkError::Failed(error),
        }
    }
}

/// What a link has done so far.
#[derive(Debug, Default)]
pub struct Counters {
    /// Bytes read from and written to the socket, as the network sees them.
    pub received: AtomicU64,
    pub sent: AtomicU64,
    /// Nanoseconds in cryptography on this end.
    pub protection: AtomicU64,
}

/// The sending half, shared by all threads.
#[derive(Debug)]
pub struct Link {
    socket: Socket,
    channel: Option<Mutex<Channel>>,
    outbox: Mutex<Outbox>,
    outbox_has_room: Condvar,
    writer: Mutex<Writer>,
    poller: Poller,
    closed: AtomicBool,
    counters: Counters,
}

/// What is being written: taken off the outbox, sealed if the level says so.
#[derive(Debug, Default)]
struct Writer {
    clear: Outbox,
    /// Records; those from `written` to `filled` are still to be written.
    sealed: Vec<u8>,
    written: usize,
    filled: usize,
    /// The socket was full: the reader's thread goes on when it has room.
    blocked: bool,
    /// The reader's thread is not to be woken by bytes that arrive: another thread reads.
    deaf: bool,
}

/// The receiving half, for one thread.
#[derive(Debug)]
pub struct Reader {
    link: Arc<Link>,
    assembler: Assembler,
    buffer: Vec<u8>,
    /// Bytes at the buffer's beginning that are not yet a whole record.
    kept: usize,
    early: Early,
}

impl Link {
    /// A link over a connected socket; with a channel every byte on it is sealed. A frame with a body of more than
    /// `most_body` bytes ends it.
    pub fn new(socket: Socket, channel: Option<(Channel, Early)>, most_body: u64) -> io::Result<(Arc<Link>, Reader)> {
        socket.set_blocking(false)?;
        let (channel, early) = match channel {
            Some((channel, early)) => (Some(Mutex::new(channel)), early),
            None => (None, Early::default()),
        };
        let poller = Poller::new()?;
        // SAFETY: the socket is deleted from the poller before it is dropped, in `Drop`.
        unsafe { poller.add_with_mode(socket.raw(), Event::readable(KEY), PollMode::Level)? };
        let link = Arc::new(Link {
            socket,
            channel,
            outbox: Mutex::default(),
            outbox_has_room: Condvar::new(),
            writer: Mutex::default(),
            poller,
            closed: AtomicBool::new(false),
            counters: Counters::default(),
        });
        let reader =
            Reader { link: link.clone(), assembler: Assembler::new(most_body), buffer: Vec::new(), kept: 0, early };
        Ok((link, reader))
    }

    /// What protects this link.
    pub fn level(&self) -> Level {
        if self.channel.is_some() { Level::Private } else { Level::Clear }
    }

    /// The counters, growing while the link lives.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Puts a frame into the outbox and does not wait; `start` is from [`phalanx_core::wire::encode`].
    /// [`Link::flush`] must follow.
    pub fn queue(&self, start: Vec<u8>, body: Vec<Bytes>) {
        lock(&self.outbox).push(start, body);
    }

    /// Writes what the socket takes now. Errors end the link; its reader tells.
    pub fn flush(&self) {
        let mut writer = lock(&self.writer);
        if let Err(error) = self.write(&mut writer) {
            writer.blocked = false; // room in a socket that failed would wake the reader's thread for nothing
            let _ = self.watch(&writer);
            drop(writer);
            if !matches!(error, LinkError::Ended | LinkError::Closed) {
                self.close();
            }
            self.outbox_has_room.notify_all();
        }
    }

    /// Sends a frame, and waits while the peer is far behind; not for the thread that reads this link.
    pub fn send(&self, start: Vec<u8>, body: Vec<Bytes>) -> Result<(), LinkError> {
        let mut outbox = lock(&self.outbox);
        while outbox.bytes() > FULL && !self.is_closed() {
            let waited = self.outbox_has_room.wait_timeout(outbox, Duration::from_secs(1));
            outbox = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        outbox.push(start, body);
        drop(outbox);
        self.flush();
        if self.is_closed() { Err(LinkError::Closed) } else { Ok(()) }
    }

    /// Copies what waits to be written, so that whoever sent it may change it.
    pub fn settle(&self) {
        let mut writer = lock(&self.writer); // held to the end: nothing moves from the outbox to the writer meanwhile
        writer.clear.own();
        lock(&self.outbox).own();
    }

    /// Ends the link on both ends; what was not written is lost.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.socket.shut_down();
        let _ = self.poller.notify();
        self.outbox_has_room.notify_all();
    }

    /// Whether the link has ended, or is about to.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn write(&self, writer: &mut Writer) -> Result<(), LinkError> {
        let was_blocked = writer.blocked;
        writer.blocked = false;
        while !writer.blocked && (writer.has_rest() || self.refill(writer)?) {
            writer.blocked = !writer.write_some(&self.socket, &self.counters)?;
        }
        if writer.blocked != was_blocked {
            self.watch(writer)?;
        }
        Ok(())
    }

    fn watch(&self, writer: &Writer) -> io::Result<()> {
        let interest = Event::new(KEY, !writer.deaf, writer.blocked);
        self.poller.modify_with_mode(self.socket.raw(), interest, PollMode::Level)
    }

    /// Waits up to `pause` until there is something to read (true) or to go on writing with, which is done here.
    pub fn wait(&self, pause: Duration) -> io::Result<bool> {
        let mut events = Events::new();
        self.poller.wait(&mut events, Some(pause))?;
        if events.iter().any(|event| event.writable) {
            self.flush();
        }
        Ok(events.iter().any(|event| event.readable) || self.is_closed())
    }

    /// Whether bytes that arrive end [`Link::wait`]. A thread that reads by itself ([`Reader::poll`]) says no, and yes
    /// again before it turns to something else.
    pub fn listen(&self, listens: bool) -> io::Result<()> {
        let mut writer = lock(&self.writer);
        writer.deaf = !listens;
        self.watch(&writer)
    }

    /// Takes the next bytes off the outbox and seals them; false when there are none.
    fn refill(&self, writer: &mut Writer) -> Result<bool, LinkError> {
        let mut outbox = lock(&self.outbox);
        writer.clear = outbox.take(SEALED_AT_ONCE);
        if outbox.bytes() <= FULL {
            self.outbox_has_room.notify_all();
        }
        drop(outbox);
        if writer.clear.bytes() == 0 {
            return Ok(false);
        }
        let Some(channel) = &self.channel else { return Ok(true) };
        let began = Instant::now();
        let slices = writer.clear.slices();
        let slices: Vec<&[u8]> = slices.iter().map(|slice| &slice[..]).collect();
        writer.filled = lock(channel).seal(&slices, &mut writer.sealed)?;
        writer.written = 0;
        writer.clear = Outbox::default();
        self.counters.protection.fetch_add(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
        Ok(true)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = self.poller.delete(self.socket.raw());
    }
}

impl Writer {
    fn has_rest(&self) -> bool {
        self.clear.bytes() > 0 || self.written < self.filled
    }

    /// One write; false when the socket is full.
    fn write_some(&mut self, socket: &Socket, counters: &Counters) -> Result<bool, LinkError> {
        let outcome = match self.clear.bytes() {
            0 => socket.send(&self.sealed[self.written..self.filled]),
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

impl Reader {
    /// Reads the link until it ends, which is always an error that says why. `on_frame` gets every frame; `on_pause`
    /// is called whenever nothing is there to read, at least every `pause`.
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

    /// Waits up to `pause` for bytes, by the calling thread alone, and reads what is there.
    pub fn poll(&mut self, pause: Duration, on_frame: &mut impl FnMut(Frame)) -> Result<(), LinkError> {
        let first = self.buffer.is_empty(); // what the handshake read too much is not in the socket
        if first || self.link.socket.wait_readable(pause)? { self.read_all(on_frame) } else { Ok(()) }
    }

    /// Reads until the socket has nothing more.
    pub fn read_all(&mut self, on_frame: &mut impl FnMut(Frame)) -> Result<(), LinkError> {
        if self.buffer.is_empty() {
            self.begin(on_frame)?;
        }
        loop {
            if self.link.is_closed() {
                return Err(LinkError::Closed);
            }
            let read = if self.link.channel.is_some() { self.read_sealed(on_frame) } else { self.read_clear(on_frame) };
            match read {
                Ok(Some(())) => {}
                Ok(None) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// What the handshake read too much comes first.
    fn begin(&mut self, on_frame: &mut impl FnMut(Frame)) -> Result<(), LinkError> {
        self.buffer = vec![0; READ_AT_ONCE.max(self.early.incoming.len())];
        let early = std::mem::take(&mut self.early);
        self.assembler.feed(&early.plaintext, on_frame)?;
        self.buffer[..early.incoming.len()].copy_from_slice(&early.incoming);
        if !early.incoming.is_empty() {
            self.open(early.incoming.len(), on_frame)?;
        }
        Ok(())
    }

    /// One read; `None` when there is nothing now.
    fn read_clear(&mut self, on_frame: &mut impl FnMut(Frame)) -> Result<Option<()>, LinkError> {
        let direct = self.assembler.body().filter(|body| body.missing() >= READ_DIRECT);
        let Some(body) = direct else {
            let Some(count) = received(self.link.socket.raw().read(&mut self.buffer), &self.link.counters)? else {
                return Ok(None);
            };
            self.assembler.feed(&self.buffer[..count], on_frame)?;
            // Less than there was room for: the socket is empty, and asking it again would be a call for nothing.
            return Ok((count == self.buffer.len()).then_some(()));
        };
        let Some(count) = received(self.link.socket.raw().recv(body.spare()), &self.link.counters)? else {
            return Ok(None);
        };
        // SAFETY: the system has written them.
        unsafe { body.advance(count) };
        self.assembler.finish(on_frame);
        Ok(Some(()))
    }

    fn read_sealed(&mut self, on_frame: &mut impl FnMut(Frame)) -> Result<Option<()>, LinkError> {
        let spare = &mut self.buffer[self.kept..];
        let room = spare.len();
        let Some(count) = received(self.link.socket.raw().read(spare), &self.link.counters)? else {
            return Ok(None);
        };
        self.open(self.kept + count, on_frame)?;
        Ok((count == room).then_some(()))
    }

    /// Opens the records in the first `filled` bytes of the buffer and keeps what is no whole record.
    fn open(&mut self, filled: usize, on_frame: &mut impl FnMut(Frame)) -> Result<(), LinkError> {
        let channel = self.link.channel.as_ref().expect("only sealed links open");
        let began = Instant::now();
        let (mut other, mut wire, mut frames) = (Duration::ZERO, Ok(()), Vec::new());
        let consumed = lock(channel).open(&mut self.buffer[..filled], |plaintext| {
            let opened = Instant::now();
            if wire.is_ok() {
                wire = self.assembler.feed(plaintext, &mut |frame| frames.push(frame));
            }
            other += opened.elapsed();
        });
        let protection = began.elapsed().saturating_sub(other);
        self.link.counters.protection.fetch_add(protection.as_nanos() as u64, Ordering::Relaxed);
        // The channel is free again: whoever gets a frame may answer it on this link.
        frames.into_iter().for_each(on_frame);
        wire?;
        let consumed = consumed?;
        self.buffer.copy_within(consumed..filled, 0);
        self.kept = filled - consumed;
        Ok(())
    }
}

/// The count that was read; `None` for nothing now, an error for the end.
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
