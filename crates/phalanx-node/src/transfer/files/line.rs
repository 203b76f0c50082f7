//! Sends requests and assigns the answers to the waiting callers. Answers arrive in the order of the requests.

use bytes::Bytes;
use phalanx_core::level::Mark;
use phalanx_core::wire::encode;
use phalanx_core::wire::files::{Answer, Ask, MOST_AHEAD, Why};
use phalanx_net::link::Link;
use phalanx_net::sync::lock;
use std::collections::VecDeque;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use thiserror::Error;

/// Interval at which a wait calls [`GoesOn`].
const OFTEN: Duration = Duration::from_millis(100);

/// Called about ten times a second during a wait. If it returns false, the wait ends with [`FilesError::Interrupted`].
pub type GoesOn<'a> = dyn FnMut() -> bool + 'a;

/// Why a request has failed.
#[derive(Debug, Clone, Error)]
pub enum FilesError {
    /// The executor cannot be reached.
    #[error("{0}")]
    Unreachable(String),
    /// No level is left for the link.
    #[error("{0}")]
    Level(String),
    /// The user's certificate is missing or wrong.
    #[error("{0}")]
    Identity(String),
    /// The other end could not do it.
    #[error("{1}")]
    Failed(Why, String),
    /// The connection ended.
    #[error("the connection to {0} ended")]
    Lost(String),
    /// This end closed the link.
    #[error("the link was closed here")]
    Closed,
    /// The other end broke the protocol.
    #[error("the other end does not speak as an executor does")]
    Nonsense,
    /// The question cannot be asked: a path or a pattern is wrong.
    #[error("a path or a pattern is empty, too long, or leads up again")]
    NoQuestion,
    /// The caller does not wait any more.
    #[error("nobody waits for it any more")]
    Interrupted,
    /// An earlier error has left a gap in the file.
    #[error("a part of the file is missing since an earlier error: open it again")]
    Broken,
}

/// The answer to a request, and its body.
pub type Outcome = Result<(Answer, Bytes), FilesError>;

/// Where requests go.
pub enum Way {
    /// To a thread that accesses this machine's own files, until `is_over`.
    Own {
        asks: Mutex<Option<Sender<(Ask, Bytes)>>>,
        is_over: AtomicBool,
    },
    There(Arc<Link>),
}

/// A way for requests, and the callers that wait for answers.
pub struct Line {
    pub way: Way,
    /// The name of the other end, for messages to users.
    pub name: String,
    /// `None`: no more answers arrive.
    waiters: Mutex<Option<Waiters>>,
    has_room: Condvar,
    process: u32,
}

#[derive(Default)]
struct Waiters {
    waiting: VecDeque<Sender<Outcome>>,
    /// Handles to close as soon as another request may be sent. No caller waits for that.
    forgotten: Vec<u32>,
}

/// An answer that has not been received yet.
pub struct Waiting {
    answer: Mutex<Receiver<Outcome>>,
    line: Arc<Line>,
}

impl Line {
    pub fn new(way: Way, name: String) -> Arc<Line> {
        let waiters = Mutex::new(Some(Waiters::default()));
        Arc::new(Line { way, name, waiters, has_room: Condvar::new(), process: process::id() })
    }

    /// Sends a request. Waits first while too many requests are under way.
    pub fn ask(self: &Arc<Line>, ask: &Ask, body: Bytes, go_on: &mut GoesOn<'_>) -> Result<Waiting, FilesError> {
        ask.check().map_err(|_| FilesError::NoQuestion)?;
        let mut waiters = self.with_room(go_on)?; // held, so that waiters are in the order of the requests
        let (sender, waiting) = self.expect();
        waiters.as_mut().ok_or_else(|| self.lost())?.waiting.push_back(sender);
        self.way.send(ask, body);
        Ok(waiting)
    }

    /// Waits for the first answer, which the other end sends without a request.
    pub fn await_first(self: &Arc<Line>) -> Waiting {
        let (sender, waiting) = self.expect();
        if let Some(waiters) = &mut *lock(&self.waiters) {
            waiters.waiting.push_back(sender);
        }
        waiting
    }

    /// Closes a handle without waiting for the answer.
    pub fn forget(&self, handle: u32) {
        if self.is_copy() {
            return;
        }
        if let Some(waiters) = &mut *lock(&self.waiters) {
            waiters.forgotten.push(handle);
            waiters.close_some(&self.way);
        }
    }

    /// The caller that waits for the next answer, if there is one.
    pub fn next(&self) -> Option<Sender<Outcome>> {
        let next = lock(&self.waiters).as_mut().and_then(|waiters| {
            let next = waiters.waiting.pop_front();
            waiters.close_some(&self.way);
            next
        });
        self.has_room.notify_one();
        next
    }

    /// Ends all waits. No more answers arrive.
    pub fn end(&self) {
        lock(&self.waiters).take();
        self.has_room.notify_all();
    }

    /// Closes the line. Callers that wait get an error soon.
    pub fn close(&self) {
        match &self.way {
            Way::There(link) => link.close(),
            Way::Own { .. } if self.is_copy() => {}
            Way::Own { asks, is_over } => {
                is_over.store(true, Ordering::Release);
                lock(asks).take();
            }
        }
    }

    /// Whether no more answers can arrive.
    pub fn is_closed(&self) -> bool {
        self.is_over() || self.is_copy()
    }

    /// The same for a thread of the process that created the line. Makes no system call.
    pub fn is_over(&self) -> bool {
        match &self.way {
            Way::There(link) => link.is_closed(),
            Way::Own { is_over, .. } => is_over.load(Ordering::Acquire),
        }
    }

    /// Whether this process is a fork of the one that created the line. A fork has no thread that receives answers.
    pub fn is_copy(&self) -> bool {
        process::id() != self.process
    }

    fn expect(self: &Arc<Line>) -> (Sender<Outcome>, Waiting) {
        let (sender, answer) = channel();
        (sender, Waiting { answer: Mutex::new(answer), line: self.clone() })
    }

    fn with_room(&self, go_on: &mut GoesOn<'_>) -> Result<MutexGuard<'_, Option<Waiters>>, FilesError> {
        let is_full = |waiters: &mut Option<Waiters>| waiters.as_ref().is_some_and(|it| !it.has_room());
        while !self.is_copy() {
            let waited = self.has_room.wait_timeout_while(lock(&self.waiters), OFTEN, is_full);
            let (mut waiters, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if !is_full(&mut waiters) {
                return Ok(waiters);
            }
            drop(waiters);
            if !go_on() {
                return Err(FilesError::Interrupted);
            }
        }
        Err(self.lost())
    }

    fn lost(&self) -> FilesError {
        let why = match &self.way {
            Way::There(link) => link.why_ended(),
            Way::Own { .. } => None,
        };
        match why {
            Some(why) => FilesError::Identity(format!("{}: {why}", self.name)),
            None => FilesError::Lost(self.name.clone()),
        }
    }
}

impl Waiters {
    fn has_room(&self) -> bool {
        self.waiting.len() < MOST_AHEAD
    }

    fn close_some(&mut self, way: &Way) {
        while self.has_room() {
            let Some(handle) = self.forgotten.pop() else { return };
            self.waiting.push_back(channel().0);
            way.send(&Ask::Close { handle }, Bytes::new());
        }
    }
}

impl Way {
    /// Does not wait.
    fn send(&self, ask: &Ask, body: Bytes) {
        match self {
            Way::There(link) => {
                let start = encode(ask, body.len() as u64);
                link.queue(Mark::None, start, if body.is_empty() { Vec::new() } else { vec![body] });
                link.flush();
            }
            Way::Own { asks, .. } => {
                if let Some(asks) = &*lock(asks) {
                    let _ = asks.send((ask.clone(), body)); // fails if the thread has ended
                }
            }
        }
    }
}

impl Waiting {
    /// Waits for the answer.
    pub fn wait(self, go_on: &mut GoesOn<'_>) -> Outcome {
        let answer = lock(&self.answer);
        loop {
            match answer.recv_timeout(OFTEN) {
                Ok(outcome) => return outcome,
                Err(RecvTimeoutError::Timeout) if self.line.is_copy() => return Err(self.line.lost()),
                Err(RecvTimeoutError::Timeout) if go_on() => {}
                Err(RecvTimeoutError::Timeout) => return Err(FilesError::Interrupted),
                Err(RecvTimeoutError::Disconnected) => return Err(self.line.lost()),
            }
        }
    }
}
