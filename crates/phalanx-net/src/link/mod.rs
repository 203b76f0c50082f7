//! A link: frames, in order, between two identified processes.
//!
//! One thread of the process reads the link ([`Reader::run`]); any thread may write. A writer puts its frame into the
//! outbox and writes at once what the socket takes. The reader's thread writes the rest, so a thread that fires work or
//! answers never waits for a slow peer.

mod finisher;
mod reader;
#[cfg(unix)]
mod readers;
mod spin;
mod writer;

pub use finisher::Finisher;
pub use reader::Reader;
#[cfg(unix)]
pub use readers::{Attended, Readers, Receiver};

use crate::blocks::{Opener, Sealer, carried};
use crate::forks::Owner;
use crate::frames::Outbox;
use crate::identity::{Courier, Ends, Watch};
use crate::memory::{LONG, Pool, Table};
#[cfg(target_os = "linux")]
use crate::socket::wait_for_events;
use crate::socket::{CAN_BLOCK, Socket};
use crate::sync::lock;
use crate::tls::Shaken;
use bytes::Bytes;
use phalanx_core::error::WireError;
use phalanx_core::level::{Level, Levels, Mark};
use phalanx_core::wire::NewsDigest;
use polling::{Event, Events, PollMode, Poller};
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use thiserror::Error;
use writer::{Writer, at_once};

/// [`Link::send`] waits while the outbox has more bytes than this.
const FULL: usize = 16 << 20;
const KEY: usize = 0;

/// Why a link ended.
#[derive(Debug, Error)]
pub enum LinkError {
    /// This end closed the link.
    #[error("the link was closed")]
    Closed,
    /// The peer closed the connection, or its process ended.
    #[error("the connection ended")]
    Ended,
    /// The operating system reported an error of the connection.
    #[error("the connection failed: {0}")]
    Failed(io::Error),
    /// The peer sent bytes that break the protocol.
    #[error("{0}")]
    Wire(#[from] WireError),
}

impl LinkError {
    /// Whether the received bytes are not what the peer sent: they were altered on the way.
    pub fn is_attack(&self) -> bool {
        matches!(self, LinkError::Failed(error) if error.kind() == io::ErrorKind::InvalidData)
    }
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> LinkError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe => LinkError::Ended,
            _ => LinkError::Failed(error),
        }
    }
}

/// The traffic of a link at one level.
#[derive(Debug, Default)]
pub struct Spent {
    /// Bytes of frames, in both directions.
    pub bytes: AtomicU64,
    /// Nanoseconds spent on cryptography at this end.
    pub protection: AtomicU64,
}

/// The traffic of a link.
#[derive(Debug, Default)]
pub struct Counters {
    /// Bytes read from the socket, as on the network.
    pub received: AtomicU64,
    /// Bytes written to the socket.
    pub sent: AtomicU64,
    /// One entry per level, from clear to private.
    pub levels: [Spent; Level::ALL.len()],
}

/// The sending half of a link, shared by all threads.
#[derive(Debug)]
pub struct Link {
    socket: Socket,
    levels: Levels,
    outbox: Mutex<Outbox>,
    outbox_has_room: Condvar,
    /// The number of threads that wait for room in the outbox. If it is 0, the system call to notify them is saved.
    waiting: AtomicUsize,
    writer: Mutex<Writer>,
    /// `None` if the reader's thread blocks in the socket itself.
    poller: Option<Poller>,
    closed: AtomicBool,
    /// Shared memory for long bodies, on links within one machine.
    pool: Option<Mutex<Pool>>,
    /// Bytes that the writer has taken from the outbox and not yet written.
    taken: AtomicUsize,
    /// The number of queued bytes that the socket has taken. It may lag behind, but is never too high.
    written: AtomicU64,
    counters: Counters,
    /// The process that made the link. A fork writes nothing to it, and takes nothing from its poller.
    owner: Owner,
    /// Called about once a second.
    idle: OnceLock<Idle>,
    /// At a client: the courier of the news, or the one that prolongs the delegation.
    courier: OnceLock<Arc<dyn Courier>>,
}

/// Reads a link for which no thread waits.
struct Idle(Box<dyn Fn() + Send + Sync>);

impl Debug for Idle {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str("Idle")
    }
}

impl Link {
    /// A link over a connected socket: clear, or at the level of the handshake that was done on it. A frame with a body
    /// of more than `most_body` bytes ends the link.
    pub fn new(socket: Socket, shaken: Option<Shaken>, most_body: u64) -> io::Result<(Arc<Link>, Reader)> {
        socket.set_blocking(false)?;
        let poller = Poller::new()?;
        // SAFETY: the socket is deleted from the poller before it is dropped, in `Drop`.
        unsafe { poller.add_with_mode(socket.raw(), Event::readable(KEY), PollMode::Level)? };
        Ok(Link::over(socket, shaken, most_body, Some(poller), None))
    }

    /// A clear link between two processes of this machine. Both ends put long bodies into shared memory, if the system
    /// and the socket support that.
    pub fn sharing(socket: Socket, most_body: u64) -> io::Result<(Arc<Link>, Reader)> {
        socket.set_blocking(false)?;
        let poller = Poller::new()?;
        // SAFETY: the socket is deleted from the poller before it is dropped, in `Drop`.
        unsafe { poller.add_with_mode(socket.raw(), Event::readable(KEY), PollMode::Level)? };
        let pool = if socket.passes_files() { Pool::new() } else { None };
        let shares = pool.is_some();
        let (link, mut reader) = Link::over(socket, None, most_body, Some(poller), pool);
        if shares {
            reader.share(Table::new());
        }
        Ok((link, reader))
    }

    /// A link for short requests and replies. Its reader blocks in the socket itself ([`Reader::receive`]), which saves
    /// system calls, but that reader does not write. If the link is blocked after a flush, the caller hands it to a
    /// [`Finisher`], or waits with [`Link::finish`].
    ///
    /// A link without protection is as one without a handshake, which has only proved who the peer is.
    pub fn direct(socket: Socket, mut shaken: Option<Shaken>, most_body: u64) -> io::Result<(Arc<Link>, Reader)> {
        socket.set_blocking(CAN_BLOCK)?;
        let hears = shaken.as_ref().is_some_and(|shaken| shaken.is_client);
        let watch = shaken.as_mut().and_then(|shaken| shaken.watch.take());
        let protects = shaken.filter(|shaken| shaken.levels.need_handshake());
        let (link, mut reader) = Link::over(socket, protects, most_body, None, None);
        if hears {
            link.attend(&mut reader, watch.as_ref().and_then(Watch::courier));
        }
        watch.into_iter().for_each(|watch| watch.over(&link));
        Ok((link, reader))
    }

    fn over(
        socket: Socket,
        shaken: Option<Shaken>,
        most_body: u64,
        poller: Option<Poller>,
        pool: Option<Pool>,
    ) -> (Arc<Link>, Reader) {
        let (levels, sealer, opener, awaited, watch, hears) = match shaken {
            None => (Levels::all(Level::Clear), None, None, None, None, false),
            Some(Shaken { levels, seal, open, awaited, watch, is_client, .. }) => {
                let (sealer, opener) =
                    (Sealer::new(Some(seal), carried(levels)), Opener::new(Some(open), carried(levels)));
                (levels, Some(sealer), Some(opener), awaited, watch, is_client)
            }
        };
        let courier = watch.as_ref().and_then(Watch::courier);
        let link = Arc::new(Link {
            socket,
            levels,
            outbox: Mutex::default(),
            outbox_has_room: Condvar::new(),
            waiting: AtomicUsize::new(0),
            writer: Mutex::new(Writer::new(sealer)),
            poller,
            closed: AtomicBool::new(false),
            pool: pool.map(Mutex::new),
            taken: AtomicUsize::new(0),
            written: AtomicU64::new(0),
            counters: Counters::default(),
            owner: Owner::this(),
            idle: OnceLock::new(),
            courier: OnceLock::new(),
        });
        if let Some(watch) = watch {
            watch.over(&link);
        }
        let mut reader = Reader::new(link.clone(), most_body, opener, awaited);
        if hears {
            link.attend(&mut reader, courier);
        }
        (link, reader)
    }

    /// At a client: passes the digest of the server's news to the courier.
    fn attend(&self, reader: &mut Reader, courier: Option<Arc<dyn Courier>>) {
        courier.iter().for_each(|courier| drop(self.courier.set(courier.clone())));
        reader.hear(courier);
    }

    /// Why the server has ended the link, as far as this end can tell from what it has shown.
    pub fn why_ended(&self) -> Option<String> {
        self.courier.get()?.why_ended()
    }

    /// For a link that no thread reads while nothing is waited for: `read` is called about once a second, if the peer is a member
    /// that can be revoked. It reads what has arrived, so that news of the grid do not wait for the next request.
    pub fn read_when_idle(&self, read: impl Fn() + Send + Sync + 'static) {
        let _ = self.idle.set(Idle(Box::new(read)));
    }

    /// The levels of this link.
    pub fn levels(&self) -> Levels {
        self.levels
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// The traffic counters, which grow while the link is open.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Puts a frame into the outbox, at the level of its mark, without waiting. `start` is from
    /// [`phalanx_core::wire::encode`]. [`Link::flush`] must follow. Returns where the frame ends, for
    /// [`Link::is_written`].
    pub fn queue(&self, mark: Mark, start: Vec<u8>, body: Vec<Bytes>) -> u64 {
        let (mut outbox, level) = (lock(&self.outbox), self.levels.of(mark));
        match self.pool.is_some() && is_long(&body) {
            true => outbox.push_waiting(level, start, body), // the flush copies it, because this caller may hold a lock
            false => outbox.push(level, start, body),
        }
        outbox.queued()
    }

    /// Puts an independent frame, such as a heartbeat, into the outbox. It does not wait for bodies that are being
    /// copied into shared memory. [`Link::flush_heads`] must follow.
    pub fn queue_ahead(&self, start: Vec<u8>) {
        lock(&self.outbox).push_ahead(self.levels.of(Mark::None), start);
    }

    /// Whether the socket has taken all bytes up to the end of a queued frame.
    pub fn is_written(&self, end: u64) -> bool {
        self.written.load(Ordering::Acquire) >= end
    }

    /// Writes what the socket takes now. Errors end the link and are reported by its reader.
    pub fn flush(&self) {
        self.place_bodies();
        self.write(false);
    }

    /// Like [`Link::flush`], for frames that are not urgent. The system may hold them back for a moment, to send them
    /// with the next write.
    pub fn flush_with_next(&self) {
        self.place_bodies();
        self.write(true);
    }

    /// Like [`Link::flush`], for a caller that has queued no body. It does not copy other threads' bodies, so a
    /// heartbeat does not wait for gigabytes.
    pub fn flush_heads(&self) {
        self.write(false);
    }

    fn write(&self, is_more: bool) {
        if self.is_copy() {
            return;
        }
        let mut writer = lock(&self.writer);
        if let Err(error) = self.write_all(&mut writer, is_more) {
            writer.blocked = false; // otherwise room in the failed socket would wake the reader's thread in vain
            let _ = self.watch(&writer);
            drop(writer);
            if !matches!(error, LinkError::Ended | LinkError::Closed) {
                self.close();
            }
            self.tell_of_room();
        }
    }

    /// Copies queued bodies into shared memory. No thread waits for another thread's copy here. The thread that holds
    /// the pool checks again after releasing it, and goes on to write.
    fn place_bodies(&self) {
        let Some(pool) = self.pool.as_ref().filter(|_| !self.is_copy()) else { return };
        while lock(&self.outbox).has_waiting() {
            let Ok(mut pool) = pool.try_lock() else { return };
            let Some(body) = lock(&self.outbox).next_waiting() else { continue };
            let filled = pool.fill(&body).ok(); // no memory or no file: the body goes through the socket
            lock(&self.outbox).place(filled);
        }
    }

    /// Frees shared memory that this end keeps for long bodies and has not used since the last call. Should be called
    /// about once a second. It does not wait for a thread that copies a body, because the caller also sends the
    /// heartbeats.
    pub fn trim(&self) {
        if self.is_copy() {
            return;
        }
        if let Some(mut pool) = self.pool.as_ref().and_then(|pool| pool.try_lock().ok()) {
            pool.trim();
            drop(pool);
            self.flush(); // another thread may have found the pool in use
        }
    }

    /// Sends a frame, and waits while the outbox is full. The thread that reads this link must not call it.
    pub fn send(&self, mark: Mark, start: Vec<u8>, body: Vec<Bytes>) -> Result<(), LinkError> {
        // The body is copied before the frame is queued, so that other threads' heartbeats can overtake it.
        let long = self.pool.as_ref().filter(|_| is_long(&body) && !self.is_copy());
        let filled = long.and_then(|pool| lock(pool).fill(&body).ok());
        let mut outbox = lock(&self.outbox);
        while outbox.bytes() + self.taken.load(Ordering::Relaxed) > FULL && !self.is_closed() && !self.is_copy() {
            outbox = self.wait_for_room(outbox);
        }
        match filled {
            Some(filled) => outbox.push_filled(self.levels.of(mark), start, filled),
            None => outbox.push(self.levels.of(mark), start, body),
        }
        drop(outbox);
        self.flush();
        if self.is_closed() || self.is_copy() { Err(LinkError::Closed) } else { Ok(()) }
    }

    /// Bytes that wait to be written.
    pub fn waiting_bytes(&self) -> usize {
        lock(&self.outbox).bytes() + self.taken.load(Ordering::Relaxed)
    }

    /// Whether the last flush left bytes behind because the socket was full.
    pub fn is_blocked(&self) -> bool {
        self.taken.load(Ordering::Relaxed) > 0 && !self.is_closed()
    }

    /// Whether there are unread bytes, or the connection has ended.
    pub fn has_unread(&self) -> bool {
        self.socket.wait_readable(Duration::ZERO).unwrap_or(false)
    }

    /// Waits up to `pause` for room in the socket, and then writes.
    pub fn finish(&self, pause: Duration) -> io::Result<()> {
        if self.is_blocked() && self.socket.wait_writable(pause)? {
            self.flush();
        }
        Ok(())
    }

    /// Waits up to `pause` until the socket has room, and then writes, or until there is something to read. Returns
    /// whether there is. A thread whose request is not fully written waits here. It must not wait in a read, because
    /// the answer cannot come before the request is sent.
    pub fn finish_or_hear(&self, pause: Duration) -> io::Result<bool> {
        let (is_readable, is_writable) = self.socket.wait_either(pause)?;
        if is_writable {
            self.flush();
        }
        Ok(is_readable)
    }

    fn wait_for_room<'a>(&self, outbox: MutexGuard<'a, Outbox>) -> MutexGuard<'a, Outbox> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let waited = self.outbox_has_room.wait_timeout(outbox, Duration::from_secs(1));
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn tell_of_room(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.outbox_has_room.notify_all();
        }
    }

    /// Whether everything that was queued has been written.
    pub fn is_idle(&self) -> bool {
        let writer = lock(&self.writer); // the lock keeps bytes from moving from the outbox to the writer
        !writer.has_rest() && lock(&self.outbox).bytes() == 0
    }

    /// Copies all bytes that wait to be written, so that the sender may change its memory.
    pub fn settle(&self) {
        if self.is_copy() {
            return;
        }
        let mut writer = lock(&self.writer); // locked to the end, so that no bytes move from the outbox to the writer
        let settled = writer.own(&mut lock(&self.outbox), &self.counters);
        self.taken.store(writer.rest(), Ordering::Relaxed);
        drop(writer);
        if settled.is_err() {
            self.close();
        }
    }

    /// Ends the link at both ends; unwritten bytes are lost. In a fork, it ends only there, because the connection
    /// belongs to the process that made it.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        if self.is_copy() {
            return;
        }
        self.socket.shut_down();
        let _ = self.poller.as_ref().map(Poller::notify);
        self.tell_of_room();
    }

    /// Whether this process is a fork of the one that made the link.
    pub fn is_copy(&self) -> bool {
        !self.owner.is_this()
    }

    /// Whether the link has ended or is being closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn write_all(&self, writer: &mut Writer, is_more: bool) -> Result<(), LinkError> {
        let was_blocked = writer.blocked;
        writer.blocked = false;
        while !writer.blocked && (writer.has_rest() || self.refill(writer)?) {
            writer.blocked = !writer.write_some(&self.socket, is_more, &self.counters)?;
        }
        self.taken.store(writer.rest(), Ordering::Relaxed);
        self.tell_of_room();
        if writer.blocked != was_blocked {
            self.watch(writer)?;
        }
        Ok(())
    }

    fn watch(&self, writer: &Writer) -> io::Result<()> {
        let Some(poller) = &self.poller else { return Ok(()) };
        let interest = Event::new(KEY, !writer.deaf, writer.blocked);
        poller.modify_with_mode(self.socket.raw(), interest, PollMode::Level)
    }

    /// Waits up to `pause` until there is something to read, and returns true. Meanwhile continues to write when the
    /// socket has room.
    pub fn wait(&self, pause: Duration) -> io::Result<bool> {
        let poller = self.poller.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        // The poller's own wait also sets a timer and rearms its notifier: five system calls instead of one, two of
        // them after the bytes have arrived. It is needed only to find out what is ready.
        #[cfg(target_os = "linux")]
        let pause = match wait_for_events(poller, pause)? {
            false => return Ok(self.is_closed()),
            true if !self.is_blocked() => return Ok(true),
            true => Duration::ZERO,
        };
        let mut events = Events::new();
        poller.wait(&mut events, Some(pause))?;
        if events.iter().any(|event| event.writable) {
            self.flush();
        }
        Ok(events.iter().any(|event| event.readable) || self.is_closed())
    }

    /// Sets whether arriving bytes end [`Link::wait`]. A thread that reads by itself ([`Reader::poll`]) turns this off,
    /// and on again before it does something else.
    pub fn listen(&self, listens: bool) -> io::Result<()> {
        if self.is_copy() {
            return Ok(()); // the process that made the link has the same poller
        }
        let mut writer = lock(&self.writer);
        writer.deaf = !listens;
        self.watch(&writer)
    }

    /// Called when the writer has written everything that it took from the outbox.
    fn note_written(&self, outbox: &Outbox) {
        self.written.store(outbox.queued() - outbox.bytes() as u64, Ordering::Release);
    }

    /// Moves the next bytes from the outbox to the writer. `false`: there are none.
    fn refill(&self, writer: &mut Writer) -> io::Result<bool> {
        let mut outbox = lock(&self.outbox);
        self.note_written(&outbox);
        let Some(level) = outbox.level() else { return Ok(false) };
        let bytes = outbox.take(at_once(level));
        if outbox.bytes() <= FULL {
            self.tell_of_room();
        }
        drop(outbox); // so that no thread that queues frames waits for the cipher
        writer.fill(level, bytes, &self.counters)?;
        Ok(true)
    }
}

/// Whether a body goes through shared memory, if there is some.
fn is_long(body: &[Bytes]) -> bool {
    body.iter().map(Bytes::len).sum::<usize>() >= LONG
}

impl Ends for Link {
    fn end(&self) {
        self.close();
    }

    fn has_ended(&self) -> bool {
        self.is_closed()
    }

    fn tell(&self, news: NewsDigest) {
        self.queue_ahead(news.to_frame());
        self.flush_heads();
    }

    fn look(&self) {
        self.idle.get().into_iter().for_each(|idle| (idle.0)());
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if !self.is_copy() {
            let _ = self.poller.as_ref().map(|poller| poller.delete(self.socket.raw()));
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use phalanx_core::wire::{MAX_BODY, ToInterpreter, encode};
    use std::sync::mpsc::channel;
    use std::thread;

    #[test]
    fn signs_of_life_wait_for_no_copy_into_shared_memory() {
        let (one, other) = Socket::pair().unwrap();
        let (link, _reader) = Link::sharing(one, MAX_BODY).unwrap();
        link.queue(Mark::None, encode(&ToInterpreter::Beat, LONG as u64), vec![vec![0; LONG].into()]);
        let copying = lock(link.pool.as_ref().unwrap()); // as a thread that copies gigabytes on a busy machine
        let (said, hears) = channel();
        let beats = link.clone();
        let beating = thread::spawn(move || {
            beats.queue_ahead(encode(&ToInterpreter::Beat, 0));
            beats.flush_heads();
            beats.trim();
            said.send(()).unwrap();
        });
        hears.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(other.wait_readable(Duration::from_secs(60)).unwrap());
        drop(copying);
        beating.join().unwrap();
    }
}
