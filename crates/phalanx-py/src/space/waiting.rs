//! Who waits for a space in this process: a thread, a function that is called, or a reader of events.

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

/// How often a wait in the main thread looks whether somebody pressed Ctrl-C.
pub const SIGNALS: Duration = Duration::from_millis(50);
/// Events, and their bytes, that wait for a reader; then he is told again from the space's log.
const MOST_EVENTS: usize = 10_000;
const MOST_BYTES: usize = 64 << 20;

pub type Answer = Result<Tuple, SpaceError>;

/// A thread that waits for its answer.
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

    /// What came meanwhile.
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

/// Waits without the interpreter's lock, and hears Ctrl-C: for `step(patience)` to give something, until `end`.
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

/// To be called before what was taken is acknowledged: a Ctrl-C that met the tuple would be raised before anybody has it.
/// Raises KeyboardInterrupt.
pub fn uninterrupted(py: Python<'_>) -> PyResult<()> {
    py.check_signals()
}

impl Slot {
    /// Waits for the answer until `end`. Raises KeyboardInterrupt.
    pub fn wait_for_python(&self, py: Python<'_>, end: Option<Instant>) -> PyResult<Option<Answer>> {
        patiently(py, end, |patience| self.wait(patience))
    }
}

/// A function of Python's that is called with the outcome.
pub struct Callback {
    /// Let go when it was called: a future that nobody reads is to be seen as such.
    done: Mutex<Option<Py<PyAny>>>,
    objects: bool,
    /// Whether the outcome waits for `settle`.
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

    /// Calls it, if there is an answer.
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
                let _ = py.detach(|| told.flush()); // there is nobody to be told
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
        // Where the interpreter is ending there is nobody to be told.
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
    /// More came than wait here: they are to be asked for again.
    missing: bool,
    ended: bool,
    nudged: bool,
}

/// What a reader of events finds.
pub enum Found {
    Events(VecDeque<(u64, Tuple)>),
    /// There were more, which are to be asked for again.
    Missing,
    Ended,
}

impl Events {
    pub fn new(nudge: Option<Py<PyAny>>) -> Events {
        Events { state: Mutex::default(), came: Condvar::new(), nudge }
    }

    /// What came, if something comes within `patience`.
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

    /// Events that were given and not used come again, before all others.
    pub fn put_back(&self, events: impl DoubleEndedIterator<Item = (u64, Tuple)>) {
        let mut state = lock(&self.state);
        for event in events.rev() {
            state.bytes += event.1.bytes().len();
            state.queue.push_front(event);
        }
        drop(state);
        self.came.notify_all();
    }

    /// Nothing comes any more.
    pub fn end(&self) {
        lock(&self.state).ended = true;
        self.came.notify_all();
        self.flush();
    }

    /// From here on nothing is missing.
    pub fn resume(&self) {
        lock(&self.state).missing = false;
    }
}

/// What [`decode_events`] gives: decoded events, or the error of the one with this number.
pub type Decoded<'py> = Result<Vec<(u64, Bound<'py, PyTuple>)>, (u64, PyErr)>;

/// Events as Python's, up to one that cannot be decoded, which is an error when it is the first; and those that are left.
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
