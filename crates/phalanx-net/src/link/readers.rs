//! Threads that read many links, and write what the sockets did not take at once: for programs with more links than threads.
//!
//! Protection is the work of these threads. So neither an event loop nor a lock of an interpreter waits for a cipher.

use super::{Link, LinkError, Reader};
use crate::frames::Frame;
use crate::sync::lock;
use polling::{Event, Events, PollMode, Poller};
use std::collections::HashMap;
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A link is read for this long before the next one has its turn.
const TURN: Duration = Duration::from_millis(5);
/// How often memory that is kept for bodies is looked through.
const PAUSE: Duration = Duration::from_secs(1);
/// Limit on the threads. More would share the cores with the tasks of the program.
const MOST: usize = 4;

/// Gets what a link brings. It is called by a thread of [`Readers`], and must not wait.
pub trait Receiver: Send + Sync {
    /// A frame has arrived.
    fn on_frame(&self, frame: Frame);
    /// Whether more may be read. If not, [`Attended::read_on`] goes on later.
    fn has_room(&self) -> bool;
    /// Whether the receiver is done with the link, because the peer breaks its protocol.
    fn is_over(&self) -> bool;
    /// Some of what waited was written.
    fn on_written(&self);
    /// The link has ended. Nothing else follows.
    fn on_end(&self, why: LinkError);
}

/// Threads for many links. They end when this is dropped.
#[derive(Debug)]
pub struct Readers {
    threads: Vec<Arc<Attendant>>,
    next: AtomicUsize,
}

/// A link that one of the threads reads.
pub struct Attended {
    /// The link. [`Attended::write`] writes the frames that are [queued](Link::queue) there.
    pub link: Arc<Link>,
    key: usize,
    reader: Mutex<Reader>,
    receiver: Arc<dyn Receiver>,
    /// Whether the thread waits for bytes, and whether for room to write.
    waits: Mutex<(bool, bool)>,
    thread: Arc<Attendant>,
}

impl Debug for Attended {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.debug_struct("Attended").field("link", &self.link).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Attendant {
    poller: Poller,
    links: Mutex<HashMap<usize, Arc<Attended>>>,
    ended: AtomicBool,
}

impl Readers {
    /// Starts the threads: one for each core, and no more than a few.
    pub fn start() -> io::Result<Readers> {
        let count = thread::available_parallelism().map_or(1, usize::from).min(MOST);
        let mut readers = Readers { threads: Vec::new(), next: AtomicUsize::new(0) };
        for _ in 0..count {
            let (links, ended) = (Mutex::default(), AtomicBool::new(false));
            let attendant = Arc::new(Attendant { poller: Poller::new()?, links, ended });
            readers.threads.push(attendant.clone());
            thread::Builder::new().name("phalanx-links".into()).spawn(move || attendant.run())?;
        }
        Ok(readers)
    }

    /// Reads a link that was made with [`Link::direct`], until it ends.
    pub fn attend(&self, link: Arc<Link>, reader: Reader, receiver: Arc<dyn Receiver>) -> io::Result<Arc<Attended>> {
        let key = self.next.fetch_add(1, Ordering::Relaxed);
        let thread = self.threads[key % self.threads.len()].clone();
        let (reader, waits) = (Mutex::new(reader), Mutex::new((true, false)));
        let attended = Arc::new(Attended { link, key, reader, receiver, waits, thread: thread.clone() });
        let mut links = lock(&thread.links);
        // SAFETY: the socket is deleted from the poller before the link is let go, in `let_go`.
        unsafe { thread.poller.add_with_mode(attended.link.socket().raw(), Event::readable(key), PollMode::Level)? };
        links.insert(key, attended.clone());
        Ok(attended)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        for thread in &self.threads {
            thread.ended.store(true, Ordering::Release);
            let _ = thread.poller.notify();
        }
    }
}

impl Attended {
    /// Has the thread write what was queued.
    pub fn write(&self) {
        self.wait(|waits| waits.1 = true);
    }

    /// Writes what was queued in the calling thread, as far as the socket takes it. The thread of the link writes the rest.
    pub fn write_here(&self) {
        self.link.flush();
        if self.link.waiting_bytes() > 0 {
            self.write();
        }
    }

    /// Goes on to read: the receiver has room again.
    pub fn read_on(&self) {
        self.wait(|waits| waits.0 = true);
    }

    fn wait(&self, change: impl FnOnce(&mut (bool, bool))) {
        let mut waits = lock(&self.waits);
        let before = *waits;
        change(&mut waits);
        if *waits != before && !self.link.is_copy() {
            let interest = Event::new(self.key, waits.0, waits.1);
            // An error says that the link was let go already.
            let _ = self.thread.poller.modify_with_mode(self.link.socket().raw(), interest, PollMode::Level);
        }
    }

    /// Writes what was queued, or reads for a turn, and waits for what is still to be done.
    fn serve(&self, event: Event) -> Result<(), LinkError> {
        if event.writable {
            self.link.flush();
            self.wait(|waits| waits.1 = self.link.waiting_bytes() > 0);
            self.receiver.on_written();
        }
        // Beside the ends of the connection, nothing else wakes a thread that waits for neither.
        if event.readable || !event.writable {
            self.read()?;
        }
        if self.receiver.is_over() || self.link.is_closed() { Err(LinkError::Closed) } else { Ok(()) }
    }

    fn read(&self) -> Result<(), LinkError> {
        let until = Instant::now() + TURN;
        let goes_on = || self.receiver.has_room() && !self.receiver.is_over() && Instant::now() < until;
        lock(&self.reader).read_while(goes_on, &mut |frame| self.receiver.on_frame(frame))?;
        self.wait(|waits| waits.0 = self.receiver.has_room());
        Ok(())
    }
}

impl Attendant {
    fn run(&self) {
        let (mut events, mut trimmed) = (Events::new(), Instant::now());
        while !self.ended.load(Ordering::Acquire) {
            events.clear();
            let pause = if lock(&self.links).is_empty() { None } else { Some(PAUSE) };
            if self.poller.wait(&mut events, pause).is_err() {
                break;
            }
            for event in events.iter() {
                let attended = lock(&self.links).get(&event.key).cloned();
                if let Some(attended) = attended {
                    self.serve(&attended, event);
                }
            }
            if trimmed.elapsed() > PAUSE {
                crate::body::trim();
                trimmed = Instant::now();
            }
        }
        let left: Vec<_> = lock(&self.links).values().cloned().collect();
        left.iter().for_each(|attended| self.let_go(attended, LinkError::Closed));
    }

    fn serve(&self, attended: &Attended, event: Event) {
        if let Err(error) = attended.serve(event) {
            self.let_go(attended, error);
        }
    }

    fn let_go(&self, attended: &Attended, why: LinkError) {
        let was_closed_here = attended.link.is_closed();
        let _ = self.poller.delete(attended.link.socket().raw());
        attended.link.close();
        attended.receiver.on_end(if was_closed_here { LinkError::Closed } else { why });
        lock(&self.links).remove(&attended.key);
    }
}
