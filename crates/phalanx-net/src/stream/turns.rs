//! Assigns streams to threads: a free thread takes the next stream that can go on.
//!
//! Paper 003, section IV: streams are not mapped to threads, so the two numbers can be chosen independently.

use super::{Incoming, Outgoing};
use crate::forks::Owner;
use crate::socket::Socket;
use crate::sync::lock;
use polling::{Event, Events, Poller};
use std::collections::HashMap;
use std::io;
use std::num::NonZeroUsize;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

/// One end of a stream, as a pool of threads sees it.
pub trait Stream: Send {
    /// The event that the stream waits for.
    fn interest(&self, key: usize) -> Event;
    /// The connection below the stream.
    fn raw(&self) -> &Socket;
    /// Waits up to `pause` for this event, in the calling thread and without the poller.
    fn wait(&self, pause: Duration) -> io::Result<bool>;
}

impl Stream for Incoming {
    fn interest(&self, key: usize) -> Event {
        Event::readable(key)
    }

    fn wait(&self, pause: Duration) -> io::Result<bool> {
        self.socket().wait_readable(pause)
    }

    fn raw(&self) -> &Socket {
        self.socket()
    }
}

impl Stream for Outgoing {
    fn interest(&self, key: usize) -> Event {
        Event::writable(key)
    }

    fn wait(&self, pause: Duration) -> io::Result<bool> {
        self.socket().wait_writable(pause)
    }

    fn raw(&self) -> &Socket {
        self.socket()
    }
}

/// The streams of one end of a transfer. Any number of threads may call [`Turns::next`].
#[derive(Debug)]
pub struct Turns<S: Stream> {
    poller: Arc<Poller>,
    /// Held by the thread that polls. Each event goes to one thread only.
    waiting: Mutex<Events>,
    streams: RwLock<HashMap<usize, Slot<S>>>,
    /// Streams that have nothing to do, even if their sockets are ready.
    resting: Mutex<Vec<usize>>,
    closed: AtomicBool,
}

/// A stream, or `None` while a thread serves it.
type Slot<S> = Mutex<Option<Polled<S>>>;

/// A stream that only its holder serves. Dropping it ends the stream; [`Turns::pause`] puts it back.
#[derive(Debug)]
pub struct Turn<S: Stream> {
    /// The key under which the stream was added.
    pub key: usize,
    /// The stream itself.
    pub stream: Polled<S>,
}

/// A stream that is registered with the poller until it is dropped.
#[derive(Debug)]
pub struct Polled<S: Stream> {
    stream: S,
    poller: Arc<Poller>,
    /// A fork has the same poller, and must leave it as it is.
    owner: Owner,
}

impl<S: Stream> Polled<S> {
    fn new(poller: &Arc<Poller>, stream: S, key: usize) -> io::Result<Polled<S>> {
        // SAFETY: dropping it deletes its socket from the poller before the socket is closed.
        unsafe { poller.add(stream.raw().raw(), Event::none(key))? };
        Ok(Polled { stream, poller: poller.clone(), owner: Owner::this() })
    }
}

impl<S: Stream> Drop for Polled<S> {
    fn drop(&mut self) {
        if self.owner.is_this() {
            let _ = self.poller.delete(self.stream.raw().raw());
        }
    }
}

impl<S: Stream> Deref for Polled<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.stream
    }
}

impl<S: Stream> DerefMut for Polled<S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.stream
    }
}

impl<S: Stream> Turns<S> {
    /// An empty pool.
    pub fn new() -> io::Result<Turns<S>> {
        let events = Events::with_capacity(NonZeroUsize::MIN);
        let (waiting, streams, resting) = (Mutex::new(events), RwLock::default(), Mutex::default());
        Ok(Turns { poller: Arc::new(Poller::new()?), waiting, streams, resting, closed: AtomicBool::new(false) })
    }

    /// Adds a stream under a key that no stream has or had.
    pub fn add(&self, key: usize, stream: S) -> io::Result<()> {
        let stream = Polled::new(&self.poller, stream, key)?;
        self.write().insert(key, Mutex::new(None));
        self.again(Turn { key, stream })
    }

    /// Waits up to `pause` for a stream that can go on. `None`: there was none, or the pool is closed.
    pub fn next(&self, pause: Duration) -> io::Result<Option<Turn<S>>> {
        let mut events = lock(&self.waiting);
        events.clear();
        if !self.closed.load(Ordering::Acquire) {
            self.poller.wait(&mut events, Some(pause))?;
        }
        if self.closed.load(Ordering::Acquire) {
            return Ok(None);
        }
        let key = events.iter().next().map(|event| event.key);
        drop(events);
        Ok(key.and_then(|key| self.take(key).map(|stream| Turn { key, stream })))
    }

    /// The stream cannot go on now. If there is a thread for each stream (`threads`), this thread waits for its own
    /// stream and gets it back, which keeps the frame in the core's cache. Otherwise any thread goes on with it.
    pub fn pause(&self, turn: Turn<S>, threads: usize, pause: Duration) -> io::Result<Option<Turn<S>>> {
        if self.count() > threads {
            return self.again(turn).map(|()| None);
        }
        turn.stream.wait(pause)?;
        Ok((!self.closed.load(Ordering::Acquire)).then_some(turn))
    }

    /// Puts the stream back until it can go on.
    fn again(&self, turn: Turn<S>) -> io::Result<()> {
        let streams = self.read();
        let Some(slot) = streams.get(&turn.key) else { return Ok(()) };
        let mut slot = lock(slot);
        self.poller.modify(turn.stream.raw().raw(), turn.stream.interest(turn.key))?;
        *slot = Some(turn.stream);
        Ok(())
    }

    /// Puts the stream back until [`Turns::wake`], because it has nothing to do. No thread waits with it, since other
    /// streams may have work.
    pub fn rest(&self, turn: Turn<S>) {
        let mut resting = lock(&self.resting);
        if let Some(slot) = self.read().get(&turn.key) {
            *lock(slot) = Some(turn.stream);
            resting.push(turn.key);
        }
    }

    /// Resting streams may have something to do again.
    pub fn wake(&self) -> io::Result<()> {
        for key in std::mem::take(&mut *lock(&self.resting)) {
            if let Some(stream) = self.take(key) {
                self.again(Turn { key, stream })?;
            }
        }
        Ok(())
    }

    /// Removes a stream that has ended.
    pub fn remove(&self, turn: Turn<S>) {
        self.write().remove(&turn.key);
        turn.stream.raw().shut_down();
    }

    /// The number of streams.
    pub fn count(&self) -> usize {
        self.read().len()
    }

    /// Closes the pool: no thread waits any more, and no stream goes on.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let _ = self.poller.notify();
    }

    fn take(&self, key: usize) -> Option<Polled<S>> {
        lock(self.read().get(&key)?).take()
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, HashMap<usize, Slot<S>>> {
        self.streams.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, HashMap<usize, Slot<S>>> {
        self.streams.write().unwrap_or_else(PoisonError::into_inner)
    }
}
