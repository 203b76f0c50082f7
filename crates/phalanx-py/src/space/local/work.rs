//! Helpers shared by the operations of a space in this process.

use super::{FORKS, LocalSpace, Watch, forgotten};
use crate::errors::raise;
use crate::space::decode::decode_tuple;
use crate::space::encode::{Encoding, encode_tuple};
use crate::space::engine::{Engine, Search};
use crate::space::options::{Place, to_place};
use crate::space::template::to_template;
use crate::space::waiting::{Answer, Callback, SIGNALS, Slot, uninterrupted};
use crate::space::{failed, wrong};
use bytes::Bytes;
use phalanx_core::error::SpaceError;
use phalanx_core::ids::{SessionId, TransactionId};
use phalanx_core::space::{Asker, Goal, OutOptions, Outcome, Page, Question, Template, Tuple};
use phalanx_node::space::{Hosted, Locked, Told};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

impl Engine for LocalSpace {
    type Encoded = Tuple;
    type Pattern = Template;

    fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    fn encode(&self, fields: &Bound<'_, PyTuple>) -> PyResult<Tuple> {
        let bytes = Bytes::from(encode_tuple(fields, &self.encoding)?);
        Tuple::check(bytes, &self.encoding.limits).map_err(wrong)
    }

    fn pattern(&self, template: &Bound<'_, PyTuple>, query: Option<&Bound<'_, PyAny>>) -> PyResult<Template> {
        to_template(template, query, &self.encoding)
    }

    fn put<T>(&self, py: Python<'_>, tuples: T, options: OutOptions, transaction: Option<u128>) -> PyResult<u64>
    where
        T: AsRef<[Tuple]> + IntoIterator<Item = Tuple>,
    {
        let put = |locked: &mut Locked<'_>, now| {
            locked.engine().check_card(self.session)?;
            locked.engine().out(now, tuples.as_ref(), &options, transaction.map(TransactionId))
        };
        self.change(py, put)?.map_err(failed)
    }
}

impl Search<Template> {
    /// The question to the space's engine.
    pub(super) fn question(&self, asker: Asker, goal: Goal) -> Question<'_> {
        Question { asker, template: &self.pattern, get: &self.get, transaction: self.transaction, goal }
    }
}

impl LocalSpace {
    /// The space, for a server in this process.
    pub fn hosted(&self) -> Arc<Hosted> {
        self.hosted.clone()
    }

    pub(super) fn check(&self, _: Python<'_>) -> PyResult<()> {
        if self.forks != FORKS.load(Ordering::Relaxed) {
            let why = "this space belongs to the process that made it: make it after the fork, or serve() it";
            return Err(raise("SpaceError", why));
        }
        Ok(())
    }

    /// Locks the space. A holder of the lock never waits for the GIL, so waiting for the lock cannot deadlock. But the GIL is
    /// released meanwhile, so that other threads can run.
    pub(super) fn lock(&self, py: Python<'_>) -> PyResult<Locked<'_>> {
        self.check(py)?;
        let locked = match self.hosted.try_lock() {
            Some(locked) => locked,
            None => {
                py.detach(|| drop(self.hosted.lock()));
                self.hosted.lock()
            }
        };
        match locked.check() {
            Ok(()) => Ok(locked),
            Err(SpaceError::Cancelled) => Err(raise("SpaceError", "this space is closed")),
            Err(error) => Err(failed(error)),
        }
    }

    /// Delivers what other sessions are to be told. If the space is durable, also waits until the changes are stable.
    pub(super) fn flush(&self, py: Python<'_>, told: Told) -> PyResult<()> {
        match told.is_empty() {
            true => Ok(()),
            false => py.detach(|| told.flush()).map_err(failed),
        }
    }

    /// Changes the engine, and tells the sessions concerned.
    pub(super) fn change<T>(&self, py: Python<'_>, change: impl FnOnce(&mut Locked<'_>, Duration) -> T) -> PyResult<T> {
        let mut locked = self.lock(py)?;
        let changed = change(&mut locked, self.hosted.now());
        locked.tick();
        let told = locked.unlock();
        self.flush(py, told)?;
        Ok(changed)
    }

    /// The tuples that match now, and the session that must acknowledge them. `searches`: a query is evaluated tuple by tuple.
    pub(super) fn find(
        &self,
        py: Python<'_>,
        search: &Search<Template>,
        searches: bool,
    ) -> PyResult<(SessionId, Vec<Tuple>, Option<Place>)> {
        let mut locked = self.lock(py)?;
        let asker = Asker { session: locked.number(), request: 0, acknowledges: search.acknowledges };
        let question = search.question(asker, Goal::Page);
        let (outcome, told) = self.ask(py, locked, &question, searches || search.get.limit > 1)?;
        let page = match outcome {
            Ok(Outcome::Found(page)) => Ok(page),
            Ok(Outcome::One(tuple)) => Ok(Page { tuples: tuple.into_iter().collect(), next: None }),
            outcome => outcome.map(|_| Page::default()),
        };
        // A take is made durable when it is acknowledged, so it needs no flush here.
        let later = asker.acknowledges && !told.tells() && page.as_ref().is_ok_and(|page| !page.tuples.is_empty());
        if !later {
            self.flush(py, told)?;
        }
        let page = page.map_err(failed)?;
        Ok((asker.session, page.tuples, page.next.map(to_place)))
    }

    /// Asks the engine, in several steps if needed. `detached`: the GIL is released already during the first step.
    pub(super) fn ask(
        &self,
        py: Python<'_>,
        locked: Locked<'_>,
        question: &Question,
        detached: bool,
    ) -> PyResult<(Result<Outcome, SpaceError>, Told)> {
        let first = |mut locked: Locked<'_>| {
            let outcome = locked.engine().ask(self.hosted.now(), question);
            (outcome, locked.unlock())
        };
        let (mut outcome, mut told) = match detached {
            false => first(locked),
            true => {
                drop(locked);
                py.detach(|| first(self.hosted.lock()))
            }
        };
        while matches!(outcome, Ok(Outcome::GoesOn)) {
            let more;
            (outcome, more) = py.detach(|| self.hosted.go_on(question.asker, SIGNALS));
            told = told.and(more);
            if let Err(interrupted) = py.check_signals() {
                self.end_session(question.asker.session);
                return Err(interrupted);
            }
        }
        Ok((outcome, told))
    }

    /// Converts tuples to Python's. If one cannot be converted, the tuples go back into the space.
    pub(super) fn hand_over<'py>(
        &self,
        py: Python<'py>,
        session: SessionId,
        acknowledge: bool,
        tuples: &[Tuple],
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let decoded: PyResult<Vec<_>> =
            tuples.iter().map(|tuple| decode_tuple(py, tuple.bytes(), self.encoding.objects)).collect();
        if acknowledge {
            let decoded = decoded.and_then(|decoded| uninterrupted(py).map(|()| decoded));
            let mut locked = self.lock(py)?;
            match decoded {
                Ok(_) => locked.engine().acknowledge(session, 0),
                Err(_) => locked.close(session),
            }
            let told = locked.unlock();
            self.flush(py, told)?;
            return decoded;
        }
        decoded
    }

    /// Ends a wait that has timed out. Returns the answer, if one came at this very moment.
    pub(super) fn give_up(&self, session: SessionId, slot: &Slot) -> Option<Answer> {
        let mut locked = self.hosted.lock();
        let waited = locked.engine().cancel(session, 0);
        locked.forget(session);
        if waited {
            locked.close(session);
        }
        let _ = locked.unlock().flush(); // a waiting request has changed nothing
        slot.take()
    }

    /// Ends a session. The tuples that it took and did not acknowledge go back.
    pub(super) fn end_session(&self, session: SessionId) {
        let mut locked = self.hosted.lock();
        locked.close(session);
        let _ = locked.unlock().flush(); // if the return is not stored, then neither was the take
    }

    /// Called after events were dropped because the queue was full. The events that the space remembers are delivered again.
    pub(super) fn watch_again(&self, py: Python<'_>, number: u64, watch: &Watch) -> PyResult<()> {
        let session = SessionId(number);
        let mut locked = self.lock(py)?;
        locked.engine().unwatch(session, 0);
        watch.events.resume();
        let last = watch.last.load(Ordering::Relaxed);
        let watching = locked.engine().watch(session, 0, watch.template.clone(), Some(last));
        let told = locked.unlock();
        self.flush(py, told)?;
        match watching.map_err(failed)?.missed {
            0 => Ok(()),
            missed => Err(forgotten(missed)),
        }
    }

    /// Continues a search in a thread of its own, because no caller waits for it.
    pub(super) fn search_on(&self, asker: Asker, callback: Arc<Callback>) -> PyResult<()> {
        let hosted = self.hosted.clone();
        let search = move || {
            let (outcome, told) = hosted.go_on(asker, Duration::MAX);
            let flushed = told.flush();
            match flushed.and(outcome) {
                Err(SpaceError::Cancelled) => {} // it was cancelled, so it gets no answer
                outcome => callback.answer(asker.session, answered(outcome)),
            }
        };
        let started = thread::Builder::new().name("phalanx-space".into()).spawn(search);
        if let Err(error) = started {
            self.end_session(asker.session);
            return Err(raise("SpaceError", error));
        }
        Ok(())
    }
}

/// The answer for a caller that waits for one tuple; `None`: it comes later.
pub(super) fn answered(outcome: Result<Outcome, SpaceError>) -> Option<Answer> {
    match outcome {
        Ok(Outcome::One(tuple)) => Some(tuple.ok_or(SpaceError::TimedOut)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    }
}
