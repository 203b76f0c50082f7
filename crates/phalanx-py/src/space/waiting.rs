//! Waits for a space in this process, by a thread, a callback, or a reader of events.

use super::decode::decode_tuple;
use super::failed;
use phalanx_core::error::SpaceError;
use phalanx_core::ids::SessionId;
use phalanx_core::space::{Command, Tuple};
use phalanx_net::sync::lock;
use phalanx_node::space::{Hosted, Outlet};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How often a wait in the main thread checks for Ctrl-C.
pub const SIGNALS: Duration = Duration::from_millis(50);
/// Most events, and most of their bytes, that wait for a reader. Beyond it they are dropped, and read again from the space's
/// log.
const MOST_EVENTS: usize = 10_000;
const MOST_BYTES: usize = 64 << 20;

pub type Answer = Result<Tuple, SpaceError>;

/// The slot in which a waiting thread gets its answer.
#[derive(Default)]
pub struct Slot {
    answer: Mutex<Option<Answer>>,
    came: Condvar,
}

impl Slot {
    /// The answer, if it comes within `patience`.
    fn wait(&self, patience: Option<Duration>) -> Option<Answer> {
        let answer = lock(&self.answer);
        let mut answer = match patience {
            None => self.came.wait_while(answer, |it| it.is_none()).unwrap_or_else(PoisonError::into_inner),
            Some(patience) => {
                let waited = self.came.wait_timeout_while(answer, patience, |it| it.is_none());
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        answer.take()
    }

    /// The answer, if it has come.
    pub fn take(&self) -> Option<Answer> {
        lock(&self.answer).take()
    }
}

impl Outlet for Slot {
    fn tell(&self, command: Command) {
        if let Command::Answer { answer, .. } = command {
            *lock(&self.answer) = Some(answer);
            self.came.notify_one();
        }
    }

    fn flush(&self) {}
}

/// Waits without the GIL, and notices Ctrl-C. Calls `step(patience)` until it returns something, or until `end`.
pub fn patiently<T: Send>(
    py: Python<'_>,
    end: Option<Instant>,
    step: impl Fn(Option<Duration>) -> Option<T> + Sync,
) -> PyResult<Option<T>> {
    let threading = py.import("threading")?;
    let signals = threading.call_method0("current_thread")?.is(&threading.call_method0("main_thread")?);
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let patience = if signals { Some(left.map_or(SIGNALS, |left| left.min(SIGNALS))) } else { left };
        if let Some(found) = py.detach(|| step(patience)) {
            return Ok(Some(found));
        }
        py.check_signals()?;
        if left == Some(Duration::ZERO) {
            return Ok(None);
        }
    }
}

/// Call this before acknowledging a taken tuple. A Ctrl-C that came at the same time would otherwise be raised before any code
/// holds the tuple. Raises KeyboardInterrupt.
pub fn uninterrupted(py: Python<'_>) -> PyResult<()> {
    py.check_signals()
}

impl Slot {
    /// Waits for the answer until `end`. Raises KeyboardInterrupt.
    pub fn wait_for_python(&self, py: Python<'_>, end: Option<Instant>) -> PyResult<Option<Answer>> {
        patiently(py, end, |patience| self.wait(patience))
    }
}

/// A Python callback for the outcome.
pub struct Callback {
    /// Released after the call, so that a future that nothing reads can be recognised as such.
    done: Mutex<Option<Py<PyAny>>>,
    objects: bool,
    /// Whether the outcome must be confirmed by `settle`.
    takes: bool,
    hosted: Weak<Hosted>,
    answer: Mutex<Option<(SessionId, Answer)>>,
}

impl Callback {
    pub fn new(done: Py<PyAny>, objects: bool, takes: bool, hosted: &Arc<Hosted>) -> Callback {
        Callback {
            done: Mutex::new(Some(done)),
            objects,
            takes,
            hosted: Arc::downgrade(hosted),
            answer: Mutex::default(),
        }
    }

    /// Calls the callback, if there is an answer.
    pub fn answer(&self, session: SessionId, answer: Option<Answer>) {
        if let Some(answer) = answer {
            self.tell(Command::Answer { session, request: 0, answer });
            self.flush();
        }
    }

    fn call(&self, py: Python<'_>, session: SessionId, answer: Answer) {
        let Some(done) = lock(&self.done).take() else { return };
        let tuple = match answer {
            Ok(tuple) => decode_tuple(py, tuple.bytes(), self.objects).map(|fields| Some(fields.into_any())),
            Err(SpaceError::TimedOut) => Ok(None),
            Err(error) => Err(failed(error)),
        };
        if !(self.takes && matches!(tuple, Ok(Some(_)))) {
            if let Some(hosted) = self.hosted.upgrade() {
                let mut locked = hosted.lock();
                locked.close(session);
                let told = locked.unlock();
                let _ = py.detach(|| told.flush()); // there is no caller to report an error to
            }
        }
        let outcome = match tuple {
            Ok(outcome) => outcome.unwrap_or_else(|| py.None().into_bound(py)),
            Err(error) => error.into_value(py).into_bound(py).into_any(),
        };
        if let Err(error) = done.call1(py, (outcome,)) {
            error.write_unraisable(py, Some(done.bind(py)));
        }
    }
}

impl Outlet for Callback {
    fn tell(&self, command: Command) {
        if let Command::Answer { session, answer, .. } = command {
            *lock(&self.answer) = Some((session, answer));
        }
    }

    fn flush(&self) {
        let Some((session, answer)) = lock(&self.answer).take() else { return };
        // If Python is shutting down, there is no one left to notify.
        let _ = Python::try_attach(|py| self.call(py, session, answer));
    }
}

/// Events that wait for their reader.
pub struct Events {
    state: Mutex<Waiting>,
    came: Condvar,
    nudge: Option<Py<PyAny>>,
}

#[derive(Default)]
struct Waiting {
    queue: VecDeque<(u64, Tuple)>,
    bytes: usize,
    /// Events were dropped because too many waited. They must be requested again.
    missing: bool,
    ended: bool,
    nudged: bool,
}

/// What a reader of events gets.
pub enum Found {
    Events(VecDeque<(u64, Tuple)>),
    /// Events were dropped, and must be requested again.
    Missing,
    Ended,
}

impl Events {
    pub fn new(nudge: Option<Py<PyAny>>) -> Events {
        Events { state: Mutex::default(), came: Condvar::new(), nudge }
    }

    /// What has come, or comes within `patience`.
    pub fn wait(&self, patience: Option<Duration>) -> Option<Found> {
        let nothing = |it: &mut Waiting| it.queue.is_empty() && !it.missing && !it.ended;
        let state = lock(&self.state);
        let mut state = match patience {
            None => self.came.wait_while(state, nothing).unwrap_or_else(PoisonError::into_inner),
            Some(patience) => {
                let waited = self.came.wait_timeout_while(state, patience, nothing);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.nudged = false;
        if !state.queue.is_empty() {
            state.bytes = 0;
            return Some(Found::Events(std::mem::take(&mut state.queue)));
        }
        match (state.missing, state.ended) {
            (_, true) => Some(Found::Ended),
            (true, false) => Some(Found::Missing),
            (false, false) => None,
        }
    }

    /// Puts back events that were handed out and not used. They come before all others the next time.
    pub fn put_back(&self, events: impl DoubleEndedIterator<Item = (u64, Tuple)>) {
        let mut state = lock(&self.state);
        for event in events.rev() {
            state.bytes += event.1.bytes().len();
            state.queue.push_front(event);
        }
        drop(state);
        self.came.notify_all();
    }

    /// Marks the end: no more events come.
    pub fn end(&self) {
        lock(&self.state).ended = true;
        self.came.notify_all();
        self.flush();
    }

    /// The dropped events have been requested again, so none are missing from here on.
    pub fn resume(&self) {
        lock(&self.state).missing = false;
    }
}

/// What [`decode_events`] returns: decoded events, or the error of the one with this number.
pub type Decoded<'py> = Result<Vec<(u64, Bound<'py, PyTuple>)>, (u64, PyErr)>;

/// Decodes events up to the first one that cannot be decoded. If that is the very first, its error is returned. Also returns
/// the events that are left.
pub fn decode_events<'py, T>(
    mut events: VecDeque<(u64, T)>,
    decode: impl Fn(&T) -> PyResult<Bound<'py, PyTuple>>,
) -> (Decoded<'py>, VecDeque<(u64, T)>) {
    let mut decoded = Vec::with_capacity(events.len());
    while let Some((sequence, tuple)) = events.pop_front() {
        match decode(&tuple) {
            Ok(fields) => decoded.push((sequence, fields)),
            Err(error) if decoded.is_empty() => return (Err((sequence, error)), events),
            Err(_) => {
                events.push_front((sequence, tuple));
                break;
            }
        }
    }
    (Ok(decoded), events)
}

impl Outlet for Events {
    fn tell(&self, command: Command) {
        let mut state = lock(&self.state);
        match command {
            Command::Answer { .. } => state.ended = true,
            Command::Notify { .. } if state.missing => {}
            Command::Notify { sequence, tuple, .. } => {
                let bytes = state.bytes + tuple.bytes().len();
                if state.queue.len() >= MOST_EVENTS || (bytes > MOST_BYTES && !state.queue.is_empty()) {
                    state.missing = true;
                } else {
                    state.bytes = bytes;
                    state.queue.push_back((sequence, tuple));
                }
            }
        }
        drop(state);
        self.came.notify_all();
    }

    fn flush(&self) {
        let Some(nudge) = &self.nudge else { return };
        if std::mem::replace(&mut lock(&self.state).nudged, true) {
            return;
        }
        let _ = Python::try_attach(|py| {
            if let Err(error) = nudge.call0(py) {
                error.write_unraisable(py, Some(nudge.bind(py)));
            }
        });
    }
}
