//! What both ends of a transfer have in common: the control link, the streams' connections, the failures, and how it ended.

use crate::control::tell;
use crate::dial::printable;
use crate::transfer::system;
use phalanx_core::wire::transfer::{MOST_NUMBERS, MOST_PATH, Message, Totals};
use phalanx_net::link::Link;
use phalanx_net::socket::Socket;
use phalanx_net::sync::lock;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Interval at which a thread that waits for a stream checks whether the transfer is over.
pub const PAUSE: Duration = Duration::from_millis(500);
/// Interval at which the receiving end acknowledges frames.
pub const TOLD: Duration = Duration::from_millis(50);
/// Most failures that are kept with their reasons. All are counted.
pub const MOST_TOLD: usize = 10_000;
/// Most bytes that may wait on the control link for an end that does not read. With more, the link is closed.
const MOST_WAITING: usize = 64 << 20;

/// A file that was not copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The path within the copy.
    pub path: PathBuf,
    /// Why, for people.
    pub reason: String,
}

/// The state that one end's threads share, whether it sends or receives.
pub struct Common {
    pub link: Arc<Link>,
    /// Whether this end closes the link when the transfer is done. The other end waits for that.
    pub closes: bool,
    /// The connections of streams, by number; `None`: the stream has ended.
    handles: Mutex<HashMap<u32, Option<Socket>>>,
    failures: Mutex<Vec<Failure>>,
    /// Streams that ended before the transfer did.
    pub lost: AtomicU32,
    /// Of these, the streams on which altered bytes arrived.
    pub altered: AtomicU32,
    /// Whether the transfer is over, and all threads are to return.
    over: AtomicBool,
    totals: Mutex<Option<Totals>>,
    /// Number of messages about older versions in both directions. While versions are compared, no bytes arrive, but the
    /// transfer moves.
    pub moved: AtomicU64,
    /// Why the transfer was given up.
    broken: Mutex<Option<String>>,
}

impl Common {
    pub fn new(link: Arc<Link>, closes: bool) -> Common {
        Common {
            link,
            closes,
            handles: Mutex::default(),
            failures: Mutex::default(),
            lost: AtomicU32::new(0),
            altered: AtomicU32::new(0),
            over: AtomicBool::new(false),
            totals: Mutex::default(),
            moved: AtomicU64::new(0),
            broken: Mutex::default(),
        }
    }

    /// Sends a message to the other end.
    pub fn tell(&self, message: &Message) {
        tell(&self.link, message);
        if self.link.waiting_bytes() > MOST_WAITING {
            self.link.close();
        }
    }

    /// The message about a failure that belongs to no entry, or to an entry that had ended.
    pub fn skipped(path: &Path, reason: String) -> Message {
        let mut path = system::to_bytes(path.as_os_str());
        path.truncate(MOST_PATH);
        Message::Skipped { path, reason }
    }

    /// The other end has reported such a failure.
    pub fn on_skipped(&self, mut path: Vec<u8>, reason: &str) {
        path.truncate(MOST_PATH);
        let path = system::from_bytes(path).unwrap_or_default();
        self.add_failure(path.into(), printable(reason));
    }

    /// Remembers a stream's connection. Returns false if the number was used before or is out of range.
    pub fn keep(&self, stream: u32, handle: Socket) -> bool {
        let mut handles = lock(&self.handles);
        if handles.contains_key(&stream) || stream >= MOST_NUMBERS {
            return false;
        }
        handles.insert(stream, Some(handle));
        true
    }

    /// Forgets the connection of a stream that has ended. Its number is not used again.
    pub fn forget(&self, stream: u32) {
        lock(&self.handles).insert(stream, None);
    }

    /// Shuts a stream's connection down. The thread that serves it notices.
    pub fn cut(&self, stream: u32) {
        if let Some(Some(handle)) = lock(&self.handles).get(&stream) {
            handle.shut_down();
        }
    }

    /// Shuts every connection down.
    pub fn cut_all(&self) {
        lock(&self.handles).values().flatten().for_each(Socket::shut_down);
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    pub fn set_over(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// Gives the transfer up, because this end cannot continue, and tells the other end.
    pub fn give_up(&self, why: String) {
        let mut broken = lock(&self.broken);
        if broken.is_none() {
            self.tell(&Message::Refused { reason: why.clone() });
            *broken = Some(why);
        }
        drop(broken);
        self.link.close();
    }

    /// The other end has given the transfer up.
    pub fn set_broken(&self, why: String) {
        lock(&self.broken).get_or_insert(why);
        self.link.close();
    }

    pub fn broken(&self) -> Option<String> {
        lock(&self.broken).clone()
    }

    pub fn set_totals(&self, totals: Totals) {
        *lock(&self.totals) = Some(totals);
    }

    /// The totals, once the receiving end has reported them.
    pub fn totals(&self) -> Option<Totals> {
        *lock(&self.totals)
    }

    pub fn add_failure(&self, path: PathBuf, reason: String) {
        let mut failures = lock(&self.failures);
        if failures.len() < MOST_TOLD {
            failures.push(Failure { path, reason });
        }
    }

    pub fn failures(&self) -> Vec<Failure> {
        lock(&self.failures).clone()
    }
}
