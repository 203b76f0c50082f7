//! How a transfer ends, and what both of its ends do alike.

use crate::transfer::system;
use crate::control::tell;
use crate::remote::printable;
use phalanx_core::wire::transfer::{MOST_NUMBERS, MOST_PATH, Message, Totals};
use phalanx_net::link::Link;
use phalanx_net::socket::Socket;
use phalanx_net::sync::lock;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often a thread that waits for a stream looks whether all is over.
pub const PAUSE: Duration = Duration::from_millis(500);
/// How often the receiving end says what it has taken, while nothing else is said.
pub const TOLD: Duration = Duration::from_millis(50);
/// Failures that are remembered with their reasons; more are counted.
pub const MOST_TOLD: usize = 10_000;
/// Bytes that wait for an end that does not read what it is told, before it is given up.
const MOST_WAITING: usize = 64 << 20;

/// A file that was not copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Within the copy.
    pub path: PathBuf,
    pub reason: String,
}

/// What both ends of a transfer have: the control link, and the state of the whole.
pub struct Common {
    pub link: Arc<Link>,
    /// Of the two ends, this one closes the link when all is done.
    pub closes: bool,
    /// Connections by the numbers of their streams; none: it is no more.
    handles: Mutex<HashMap<u32, Option<Socket>>>,
    failures: Mutex<Vec<Failure>>,
    /// Streams that ended before the transfer did.
    pub lost: AtomicU32,
    /// Of these, those on which something came that the other end did not send.
    pub altered: AtomicU32,
    /// All is over: what remains is to leave.
    over: AtomicBool,
    totals: Mutex<Option<Totals>>,
    /// Words about older versions that went, or came: while these are compared, no bytes arrive.
    pub moved: AtomicU64,
    /// Why this end gave up, where it did.
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

    /// Says something to the other end.
    pub fn tell(&self, message: &Message) {
        tell(&self.link, message);
        if self.link.waiting_bytes() > MOST_WAITING {
            self.link.close();
        }
    }

    /// What tells the other end of something that failed and is no entry, or was ended before.
    pub fn skipped(path: &Path, reason: String) -> Message {
        let mut path = system::to_bytes(path.as_os_str());
        path.truncate(MOST_PATH);
        Message::Skipped { path, reason }
    }

    /// The other end says that something failed there.
    pub fn on_skipped(&self, mut path: Vec<u8>, reason: &str) {
        path.truncate(MOST_PATH);
        let path = system::from_bytes(path).unwrap_or_default();
        self.add_failure(path.into(), printable(reason));
    }

    /// Remembers a stream's connection. False: there was one of that number, or it is none.
    pub fn keep(&self, stream: u32, handle: Socket) -> bool {
        let mut handles = lock(&self.handles);
        if handles.contains_key(&stream) || stream >= MOST_NUMBERS {
            return false;
        }
        handles.insert(stream, Some(handle));
        true
    }

    /// A stream is no more, and its number is not given again.
    pub fn forget(&self, stream: u32) {
        lock(&self.handles).insert(stream, None);
    }

    /// Ends a stream's connection; whoever serves it notices.
    pub fn cut(&self, stream: u32) {
        if let Some(Some(handle)) = lock(&self.handles).get(&stream) {
            handle.shut_down();
        }
    }

    /// Ends every connection.
    pub fn cut_all(&self) {
        lock(&self.handles).values().flatten().for_each(Socket::shut_down);
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    pub fn set_over(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// This end cannot go on.
    pub fn give_up(&self, why: String) {
        let mut broken = lock(&self.broken);
        if broken.is_none() {
            self.tell(&Message::Refused { reason: why.clone() });
            *broken = Some(why);
        }
        drop(broken);
        self.link.close();
    }

    /// The other end does not go on.
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

    /// What came of it, once the receiving end has said so.
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
