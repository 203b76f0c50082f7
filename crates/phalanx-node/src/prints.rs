//! Output of tasks at the manager. It is passed as whole lines, in the order of arrival, to the one function that shows it.
//!
//! That function runs in a thread of its own, so that a slow terminal stops neither control threads nor heartbeats. An
//! interpreter may have [`PRINTED`] bytes on the way that were not shown yet. Beyond that it waits.

use crate::control::tell;
use crate::lines::Lines;
use bytes::Bytes;
use phalanx_core::ids::InterpreterId;
use phalanx_core::wire::machines::Kind;
use phalanx_core::wire::{PRINTED, ToInterpreter};
use phalanx_net::link::Link;
use phalanx_net::sync::lock;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// How long closing a manager waits for the last lines to be shown. It bounds the wait for a function that never returns.
const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// Lines that an interpreter printed. Only the last one may lack a line end.
#[derive(Debug)]
pub struct Printed {
    /// The name of the interpreter.
    pub interpreter: Arc<str>,
    /// Standard output or standard error.
    pub kind: Kind,
    /// The lines with their line ends, as bytes.
    pub lines: Vec<u8>,
}

/// How lines are shown to the user.
pub struct Show {
    /// Called with lines, in their order. It may block; meanwhile the interpreters wait.
    pub with: Box<dyn Fn(Vec<Printed>) + Send + Sync>,
    /// Whether an incomplete line waits until it is complete. Otherwise it is shown at the interpreter's next answer.
    pub whole: bool,
}

/// An interpreter, as a source of output.
pub struct Voice {
    id: InterpreterId,
    name: Arc<str>,
    link: Arc<Link>,
    unshown: AtomicUsize,
    /// Whether it has incomplete lines.
    begun: AtomicBool,
}

/// The queue of lines to be shown.
pub struct Prints {
    /// `None`: nothing is shown.
    show: Option<Show>,
    state: Mutex<State>,
    changed: Condvar,
    /// Number of pieces that have arrived, and of those that were shown.
    came: AtomicU64,
    shown: AtomicU64,
    shower: OnceLock<ThreadId>,
}

struct State {
    lines: Lines<(InterpreterId, Kind)>,
    waiting: VecDeque<(Arc<Voice>, Printed, usize)>,
    started: bool,
    closed: bool,
}

impl Voice {
    /// The output of this interpreter. What was shown is acknowledged over `link`.
    pub fn new(id: InterpreterId, name: &str, link: &Arc<Link>) -> Arc<Voice> {
        Arc::new(Voice {
            id,
            name: name.into(),
            link: link.clone(),
            unshown: AtomicUsize::new(0),
            begun: AtomicBool::new(false),
        })
    }

    fn has_shown(&self, bytes: usize) {
        if bytes > 0 {
            self.unshown.fetch_sub(bytes, Ordering::Relaxed);
            tell(&self.link, &ToInterpreter::Shown { bytes: bytes as u32 });
        }
    }
}

impl Prints {
    /// A queue that shows its lines with `show`; `None`: it discards them.
    pub fn new(show: Option<Show>) -> Arc<Prints> {
        let state = State { lines: Lines::new(), waiting: VecDeque::new(), started: false, closed: false };
        let [came, shown] = [const { AtomicU64::new(0) }; 2];
        let (state, changed, shower) = (Mutex::new(state), Condvar::new(), OnceLock::new());
        Arc::new(Prints { show, state, changed, came, shown, shower })
    }

    /// Adds output of an interpreter. Returns false if the interpreter ignores the limit on output that was not shown yet.
    pub fn take(self: &Arc<Prints>, voice: &Arc<Voice>, kind: Kind, bytes: &Bytes) -> bool {
        let count = bytes.len();
        if voice.unshown.fetch_add(count, Ordering::Relaxed) + count > PRINTED {
            return false;
        }
        if self.show.is_none() {
            voice.has_shown(count);
            return true;
        }
        let mut state = lock(&self.state);
        let lines = state.lines.take((voice.id, kind), bytes);
        if !bytes.ends_with(b"\n") {
            voice.begun.store(true, Ordering::Relaxed);
        }
        self.put(&mut state, voice, kind, lines, count);
        true
    }

    /// Call this before an interpreter's answer is handled. Incomplete lines are shown before it.
    pub fn answers(self: &Arc<Prints>, voice: &Arc<Voice>) {
        let waits = self.show.as_ref().is_none_or(|show| show.whole);
        if waits || !voice.begun.swap(false, Ordering::Relaxed) {
            return;
        }
        let mut state = lock(&self.state);
        for kind in [Kind::Output, Kind::Error] {
            let begun = state.lines.end((voice.id, kind));
            if !begun.is_empty() {
                self.put(&mut state, voice, kind, begun, 0);
            }
        }
    }

    /// Adds the last output of an interpreter that has ended.
    pub fn end(self: &Arc<Prints>, voice: &Arc<Voice>, last: Vec<(Kind, Bytes)>) {
        if self.show.is_none() {
            return;
        }
        let mut state = lock(&self.state);
        for (kind, bytes) in last {
            let lines = state.lines.take((voice.id, kind), &bytes);
            self.put(&mut state, voice, kind, lines, 0);
        }
        for kind in [Kind::Output, Kind::Error] {
            let mut rest = state.lines.end((voice.id, kind));
            if !rest.is_empty() {
                rest.push(b'\n');
                self.put(&mut state, voice, kind, rest, 0);
            }
        }
    }

    fn put(self: &Arc<Prints>, state: &mut State, voice: &Arc<Voice>, kind: Kind, lines: Vec<u8>, bytes: usize) {
        if state.closed {
            return;
        }
        let printed = Printed { interpreter: voice.name.clone(), kind, lines };
        state.waiting.push_back((voice.clone(), printed, bytes));
        self.came.fetch_add(1, Ordering::AcqRel);
        if !std::mem::replace(&mut state.started, true) {
            let prints = self.clone();
            let started = thread::Builder::new().name("phalanx-prints".into()).spawn(move || prints.run());
            state.started = started.is_ok();
        }
        self.changed.notify_all();
    }

    /// Shows the queued lines until the manager is closed.
    fn run(&self) {
        let _ = self.shower.set(thread::current().id());
        loop {
            let nothing = |state: &mut State| state.waiting.is_empty() && !state.closed;
            let waited = self.changed.wait_while(lock(&self.state), nothing);
            let waiting = std::mem::take(&mut waited.unwrap_or_else(PoisonError::into_inner).waiting);
            if waiting.is_empty() {
                return;
            }
            let count = waiting.len() as u64;
            let (mut printed, mut voices) = (Vec::new(), Vec::new());
            for (voice, lines, bytes) in waiting {
                voices.push((voice, bytes));
                printed.extend((!lines.lines.is_empty()).then_some(lines));
            }
            if let Some(show) = self.show.as_ref().filter(|_| !printed.is_empty()) {
                (show.with)(printed);
            }
            voices.into_iter().for_each(|(voice, bytes)| voice.has_shown(bytes));
            // held, so that a waiter cannot check before this change and sleep after its notification
            let _state = lock(&self.state);
            self.shown.fetch_add(count, Ordering::AcqRel);
            self.changed.notify_all();
        }
    }

    /// Waits up to `patience` until everything that has arrived is shown. Returns whether it is. If the function that shows
    /// calls this, it does not wait for itself.
    pub fn settle(&self, patience: Duration) -> bool {
        let came = self.came.load(Ordering::Acquire);
        let is_shown = || self.shown.load(Ordering::Acquire) >= came;
        if is_shown() || self.shower.get() == Some(&thread::current().id()) {
            return true;
        }
        let waited = self.changed.wait_timeout_while(lock(&self.state), patience, |_| !is_shown());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        is_shown()
    }

    /// Shows the rest. Later output is dropped.
    pub fn close(&self) {
        self.settle(LAST_PATIENCE);
        lock(&self.state).closed = true;
        self.changed.notify_all();
    }
}
