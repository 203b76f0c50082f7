//! Mailboxes: where the threads that read runs find outcomes, and how these readers are woken.

use phalanx_core::event::Outcome;
use phalanx_core::ids::RunId;
use phalanx_net::socket::Waker;
use phalanx_net::sync::lock;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// Holds the outcomes of runs for the threads that read them ("readers").
#[derive(Debug, Default)]
pub struct Mailbox {
    state: Mutex<Outcomes>,
    arrived: Condvar,
    arrived_for_eager: Condvar,
}

#[derive(Debug, Default)]
struct Outcomes {
    waiting: VecDeque<(RunId, Outcome)>,
    /// Number of outcomes taken so far.
    taken: u64,
    /// Number of eager readers. Each waits for an outcome of its own, and is woken before a reader that reads for others.
    eager: usize,
    /// For each kind of reader (other, eager): whether to return although nothing has arrived.
    nudged: [bool; 2],
    /// The eager reader that waits in an interpreter's link instead of here.
    reader: Option<(ThreadId, Arc<Waker>)>,
    /// Wakes that reader. It is made when it is first needed.
    waker: Option<Arc<Waker>>,
}

impl Mailbox {
    /// Takes all outcomes that are here. Waits up to `patience` for the first one, or for a nudge. Then waits as long again for
    /// `settle`, which returns whether the output printed before these outcomes has been shown.
    pub(super) fn take(
        &self,
        patience: Duration,
        eager: bool,
        settle: impl FnOnce(Duration) -> bool,
    ) -> VecDeque<(RunId, Outcome)> {
        let kind = usize::from(eager);
        let mut outcomes = lock(&self.state);
        if !patience.is_zero() {
            outcomes.eager += kind;
            let arrived = if eager { &self.arrived_for_eager } else { &self.arrived };
            let nothing = |outcomes: &mut Outcomes| outcomes.waiting.is_empty() && !outcomes.nudged[kind];
            let waited = arrived.wait_timeout_while(outcomes, patience, nothing);
            outcomes = waited.unwrap_or_else(PoisonError::into_inner).0;
            outcomes.eager -= kind;
        }
        outcomes.nudged[kind] = false;
        let (some, last) = (!outcomes.waiting.is_empty(), outcomes.taken + outcomes.waiting.len() as u64);
        drop(outcomes);
        match some && settle(patience) {
            true => self.take_until(last),
            false => VecDeque::new(),
        }
    }

    /// Takes the outcomes up to number `last`. Another thread may have taken some of them meanwhile.
    fn take_until(&self, last: u64) -> VecDeque<(RunId, Outcome)> {
        let mut outcomes = lock(&self.state);
        let count = (last.saturating_sub(outcomes.taken) as usize).min(outcomes.waiting.len());
        outcomes.taken += count as u64;
        let later = outcomes.waiting.split_off(count);
        std::mem::replace(&mut outcomes.waiting, later)
    }

    /// Ends the current wait of every reader, or its next one, because an outcome may have come another way.
    pub fn nudge(&self) {
        lock(&self.state).nudged = [true; 2];
        self.arrived.notify_all();
        self.arrived_for_eager.notify_all();
        lock(&self.state).wake_reader();
    }

    /// Lets an eager reader wait in a link until [`Mailbox::end_reading`]. The waker ends that wait when an outcome comes
    /// another way. `None`: the reader must not wait, because outcomes are here already or it was nudged.
    pub(super) fn begin_reading(&self) -> Option<Arc<Waker>> {
        let mut outcomes = lock(&self.state);
        if outcomes.calls_reader() || outcomes.reader.is_some() {
            return None;
        }
        let waker = match &outcomes.waker {
            Some(waker) => waker.clone(),
            None => Arc::new(Waker::new().ok()?),
        };
        outcomes.waker = Some(waker.clone());
        outcomes.reader = Some((thread::current().id(), waker.clone()));
        Some(waker)
    }

    /// Whether the reader that waits in a link must return.
    pub(super) fn calls_reader(&self) -> bool {
        lock(&self.state).calls_reader()
    }

    /// Whether a reader waits in a link.
    #[cfg(test)]
    pub(super) fn has_reader(&self) -> bool {
        lock(&self.state).reader.is_some()
    }

    /// Ends the waiting that [`Mailbox::begin_reading`] allowed.
    pub(super) fn end_reading(&self) {
        lock(&self.state).reader = None;
    }

    /// Stores an outcome. [`Mailbox::tell`] must follow.
    pub(super) fn put(&self, run: RunId, outcome: Outcome) {
        lock(&self.state).waiting.push_back((run, outcome));
    }

    /// Wakes a reader. This is separate from `put`, which runs under the engine's lock, because the woken reader needs that
    /// lock too.
    pub(super) fn tell(&self) {
        let outcomes = lock(&self.state);
        let (for_eager, has_reader) = (outcomes.eager > 0, outcomes.reader.is_some());
        outcomes.wake_reader();
        drop(outcomes);
        match (for_eager, has_reader) {
            (true, _) => self.arrived_for_eager.notify_one(),
            (false, true) => {}
            (false, false) => self.arrived.notify_one(),
        }
    }
}

impl Outcomes {
    /// Whether the reader that waits in a link has something to do here.
    fn calls_reader(&self) -> bool {
        !self.waiting.is_empty() || self.nudged[usize::from(true)]
    }

    /// Wakes the reader that waits in a link, unless it is the calling thread.
    fn wake_reader(&self) {
        let reader = self.reader.as_ref().filter(|(thread, _)| *thread != thread::current().id());
        if let Some((_, waker)) = reader {
            waker.wake();
        }
    }
}
