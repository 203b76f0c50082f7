//! A space in this process. `phalanx/space/_engine.py` describes the interface.

mod work;

use work::answered;

use super::decode::decode_tuple;
use super::encode::Encoding;
use super::engine::{Engine, Out};
use super::options::{Place, to_duration, to_options};
use super::waiting::{Answer, Callback, Events, Found, Slot, decode_events, patiently};
use super::whole::{self, At, Item, Items, to_at, to_items, to_spot};
use super::{Decider, failed, info, to_coordinator, to_isolation, wrong};
use crate::errors::raise;
use crate::grid::Dialler;
use phalanx_core::error::SpaceError;
use phalanx_core::ids::{SessionId, TransactionId};
use phalanx_core::level::Policy;
use phalanx_core::space::{Asker, Get, Goal, Outcome, Question, Template, Tuple};
use phalanx_net::sync::lock;
use phalanx_node::space::{Directory, Hosted, Outlet, asks};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Name of the only space of a directory that is not served.
const KEPT: &str = "space";
/// How many forks lie between the first process and this one.
pub(super) static FORKS: AtomicU64 = AtomicU64::new(0);

/// Call this in the child after a fork.
#[pyfunction]
pub fn space_was_forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A space in this process, whose threads share it.
#[pyclass(frozen)]
pub struct LocalSpace {
    hosted: Arc<Hosted>,
    encoding: Encoding,
    /// The session that this process's transactions belong to.
    session: SessionId,
    watches: Mutex<HashMap<u64, Arc<Watch>>>,
    forks: u64,
}

struct Watch {
    events: Arc<Events>,
    template: Arc<Template>,
    last: AtomicU64,
}

#[pymethods]
impl LocalSpace {
    /// `directory`: the folder where the space is kept; `None`: it ends with this process.
    #[new]
    #[pyo3(signature = (options, objects, directory = None, *, dialler = None))]
    fn new(
        py: Python<'_>,
        options: &Bound<'_, PyDict>,
        objects: bool,
        directory: Option<PathBuf>,
        dialler: Option<Dialler>,
    ) -> PyResult<LocalSpace> {
        let options = to_options(options)?;
        let dialler = dialler.map(Dialler::read_any).transpose()?;
        let make = || match directory {
            Some(directory) => {
                let opened = Directory::new(directory).open(KEPT, Some(options));
                opened.inspect(|space| space.ask_by(&asks(dialler, Policy::default())))
            }
            None => Hosted::new(options),
        };
        let hosted = py.detach(make).map_err(failed)?;
        let (limits, session) = {
            let mut locked = hosted.lock();
            (locked.engine().limits(), locked.number())
        };
        let encoding = Encoding { limits, objects };
        let forks = FORKS.load(Ordering::Relaxed);
        Ok(LocalSpace { hosted, encoding, session, watches: Mutex::default(), forks })
    }

    #[pyo3(signature = (fields, lease, key, label, priority, transaction, /))]
    #[expect(clippy::too_many_arguments)]
    fn out(
        &self,
        py: Python<'_>,
        fields: &Bound<'_, PyTuple>,
        lease: Option<f64>,
        key: Option<&Bound<'_, PyAny>>,
        label: Option<&Bound<'_, PyAny>>,
        priority: Option<i64>,
        transaction: Option<u128>,
    ) -> PyResult<u64> {
        self.put_fields(py, fields, Out { lease, key, label, priority, once: None }, transaction)
    }

    #[pyo3(signature = (tuples, lease, label, priority, transaction, /))]
    fn out_many(
        &self,
        py: Python<'_>,
        tuples: Vec<Bound<'_, PyTuple>>,
        lease: Option<f64>,
        label: Option<&Bound<'_, PyAny>>,
        priority: Option<i64>,
        transaction: Option<u128>,
    ) -> PyResult<()> {
        self.put_many(py, &tuples, Out { lease, key: None, label, priority, once: None }, transaction)
    }

    #[pyo3(signature = (template, take, select, r#where, transaction, /))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        template: &Bound<'py, PyTuple>,
        take: bool,
        select: &Bound<'py, PyTuple>,
        r#where: Option<&Bound<'py, PyAny>>,
        transaction: Option<u128>,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let search = self.search(template, take, select, r#where, transaction)?;
        let (session, mut tuples, _) = self.find(py, &search, r#where.is_some())?;
        match tuples.pop() {
            None => Ok(None),
            Some(tuple) => self.hand_over(py, session, search.acknowledges, &[tuple]).map(|mut all| all.pop()),
        }
    }

    #[pyo3(signature = (template, take, select, r#where, transaction, limit, after, /))]
    #[expect(clippy::too_many_arguments)]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        template: &Bound<'py, PyTuple>,
        take: bool,
        select: &Bound<'py, PyTuple>,
        r#where: Option<&Bound<'py, PyAny>>,
        transaction: Option<u128>,
        limit: u32,
        after: Option<Place>,
    ) -> PyResult<(Bound<'py, PyList>, Option<Place>)> {
        let search = self.search(template, take, select, r#where, transaction)?.paged(limit, after);
        let (session, tuples, next) = self.find(py, &search, r#where.is_some())?;
        let tuples = self.hand_over(py, session, search.acknowledges, &tuples)?;
        Ok((PyList::new(py, tuples)?, next))
    }

    #[pyo3(signature = (template, take, select, r#where, transaction, timeout, /))]
    #[expect(clippy::too_many_arguments)]
    fn wait<'py>(
        &self,
        py: Python<'py>,
        template: &Bound<'py, PyTuple>,
        take: bool,
        select: &Bound<'py, PyTuple>,
        r#where: Option<&Bound<'py, PyAny>>,
        transaction: Option<u128>,
        timeout: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let search = self.search(template, take, select, r#where, transaction)?;
        let end = timeout.map(|seconds| to_duration(seconds, "timeout=")).transpose()?;
        let end = end.map(|timeout| Instant::now() + timeout);
        let slot = Arc::new(Slot::default());
        let mut locked = self.lock(py)?;
        let session = locked.open(slot.clone());
        let asker = Asker { session, request: 0, acknowledges: search.acknowledges };
        let question = search.question(asker, Goal::Wait(None));
        let (found, told) = self.ask(py, locked, &question, r#where.is_some())?;
        let found = answered(found);
        if found.is_some() {
            self.hosted.lock().forget(session);
        }
        // A take is made durable when it is acknowledged, so it needs no flush here.
        if !(asker.acknowledges && matches!(found, Some(Ok(_))) && !told.tells()) {
            self.flush(py, told)?;
        }
        let answer: Option<Answer> = match found {
            Some(found) => Some(found),
            None => match slot.wait_for_python(py, end) {
                Ok(Some(answer)) => Some(answer),
                Ok(None) => self.give_up(session, &slot),
                Err(interrupted) => {
                    self.end_session(session);
                    return Err(interrupted);
                }
            },
        };
        match answer {
            Some(Ok(tuple)) => self.hand_over(py, session, asker.acknowledges, &[tuple]).map(|mut all| all.pop()),
            Some(Err(SpaceError::TimedOut)) | None => Ok(None),
            Some(Err(error)) => Err(failed(error)),
        }
    }

    #[pyo3(signature = (template, take, select, r#where, transaction, timeout, done, /))]
    #[expect(clippy::too_many_arguments)]
    fn begin_wait(
        &self,
        py: Python<'_>,
        template: &Bound<'_, PyTuple>,
        take: bool,
        select: &Bound<'_, PyTuple>,
        r#where: Option<&Bound<'_, PyAny>>,
        transaction: Option<u128>,
        timeout: Option<f64>,
        done: Py<PyAny>,
    ) -> PyResult<u64> {
        let search = self.search(template, take, select, r#where, transaction)?;
        let timeout = timeout.map(|seconds| to_duration(seconds, "timeout=")).transpose()?;
        let callback = Arc::new(Callback::new(done, self.encoding.objects, search.acknowledges, &self.hosted));
        let mut locked = self.lock(py)?;
        let session = locked.open(callback.clone());
        let asker = Asker { session, request: 0, acknowledges: search.acknowledges };
        let now = self.hosted.now();
        let goal = Goal::Wait(timeout.map(|timeout| now.saturating_add(timeout)));
        let found = locked.engine().ask(now, &search.question(asker, goal));
        locked.tick();
        let told = locked.unlock();
        self.flush(py, told)?;
        match found {
            Ok(Outcome::GoesOn) => self.search_on(asker, callback)?,
            found => callback.answer(session, answered(found)),
        }
        Ok(session.0)
    }

    #[pyo3(signature = (request, /))]
    fn cancel(&self, py: Python<'_>, request: u64) -> PyResult<bool> {
        let mut locked = self.lock(py)?;
        let waited = locked.engine().cancel(SessionId(request), 0);
        if waited {
            locked.close(SessionId(request));
        }
        let told = locked.unlock();
        self.flush(py, told)?;
        Ok(waited)
    }

    #[pyo3(signature = (request, kept, /))]
    fn settle(&self, py: Python<'_>, request: u64, kept: bool) -> PyResult<()> {
        let session = SessionId(request);
        let mut locked = self.lock(py)?;
        if locked.forget(session) {
            match kept {
                true => locked.engine().acknowledge(session, 0),
                false => locked.close(session),
            }
        }
        let told = locked.unlock();
        self.flush(py, told)
    }

    #[pyo3(signature = (template, r#where, transaction, /))]
    fn count(
        &self,
        py: Python<'_>,
        template: &Bound<'_, PyTuple>,
        r#where: Option<&Bound<'_, PyAny>>,
        transaction: Option<u128>,
    ) -> PyResult<u64> {
        let (template, get) = (&self.pattern(template, r#where)?, &Get::default());
        let mut locked = self.lock(py)?;
        let asker = Asker { session: locked.number(), request: 0, acknowledges: false };
        let (transaction, goal) = (transaction.map(TransactionId), Goal::Count);
        let (counted, told) = self.ask(py, locked, &Question { asker, template, get, transaction, goal }, true)?;
        self.flush(py, told)?;
        match counted.map_err(failed)? {
            Outcome::Counted(count) => Ok(count),
            _ => Ok(0),
        }
    }

    #[pyo3(signature = (number, lease, /))]
    fn renew(&self, py: Python<'_>, number: u64, lease: Option<f64>) -> PyResult<bool> {
        let lease = lease.map(|seconds| to_duration(seconds, "a lease")).transpose()?;
        match self.change(py, |locked, now| locked.engine().renew(now, number, lease)) {
            Ok(renewed) => match renewed {
                Ok(()) => Ok(true),
                Err(SpaceError::NoLease) => Ok(false),
                Err(error) => Err(failed(error)),
            },
            Err(error) => Err(error),
        }
    }

    #[pyo3(signature = (transaction, timeout, repeatable, /))]
    fn begin(&self, py: Python<'_>, transaction: u128, timeout: f64, repeatable: bool) -> PyResult<()> {
        let (timeout, isolation) = (to_duration(timeout, "timeout=")?, to_isolation(repeatable));
        let (session, transaction) = (self.session, TransactionId(transaction));
        self.change(py, |locked, now| locked.engine().begin(now, session, transaction, timeout, isolation))?
            .map_err(failed)
    }

    #[pyo3(signature = (transaction, coordinator = None, /))]
    fn prepare(&self, py: Python<'_>, transaction: u128, coordinator: Option<Decider>) -> PyResult<()> {
        let (transaction, coordinator) = (TransactionId(transaction), coordinator.map(to_coordinator));
        self.change(py, |locked, now| locked.engine().prepare(now, transaction, coordinator))?.map_err(failed)
    }

    /// Sets the card of a spread space, which says who the members are and where they keep tuples. This succeeds if the current
    /// card is `replaces`. Otherwise returns the card that the space has.
    #[pyo3(signature = (card, replaces = None, /))]
    fn go_by(&self, py: Python<'_>, card: Vec<u8>, replaces: Option<Vec<u8>>) -> PyResult<Option<Vec<u8>>> {
        let changed = self.change(py, |locked, now| {
            let space = locked.engine();
            if let Some(replaces) = replaces {
                space.replace_card(now, card.clone().into(), &replaces)?;
            }
            let is_so = space.go_by_card(self.session, &card);
            Ok((!is_so).then(|| space.card().to_vec()))
        });
        changed?.map_err(failed)
    }

    /// A page of all tuples, whatever they look like, and where the next page begins.
    #[pyo3(signature = (after, /))]
    fn browse<'py>(&self, py: Python<'py>, after: Option<At>) -> PyResult<Items<'py>> {
        let session = self.session;
        let found = self.change(py, |locked, now| locked.engine().browse(now, session, after.map(to_spot)))?;
        let (all, next) = found.map_err(failed)?;
        Ok((to_items(py, all), next.map(to_at)))
    }

    /// Takes those of the given tuples that are still in place, under a transaction.
    #[pyo3(signature = (spots, transaction, /))]
    fn withdraw<'py>(&self, py: Python<'py>, spots: Vec<At>, transaction: u128) -> PyResult<Vec<Item<'py>>> {
        let spots: Vec<_> = spots.into_iter().map(to_spot).collect();
        let asker = Asker { session: self.session, request: 0, acknowledges: false };
        let taken = self
            .change(py, |locked, now| locked.engine().withdraw_whole(now, asker, &spots, TransactionId(transaction)))?;
        Ok(to_items(py, taken.map_err(failed)?))
    }

    /// Puts tuples that are given as encoded bytes.
    #[pyo3(signature = (tuples, lease, key, label, priority, transaction, /))]
    #[expect(clippy::too_many_arguments)]
    fn put_whole(
        &self,
        py: Python<'_>,
        tuples: Vec<Vec<u8>>,
        lease: Option<f64>,
        key: Option<Vec<u8>>,
        label: Option<Vec<u8>>,
        priority: i64,
        transaction: Option<u128>,
    ) -> PyResult<()> {
        let check = |bytes: Vec<u8>| Tuple::check(bytes.into(), &self.encoding.limits).map_err(wrong);
        let tuples: PyResult<Vec<_>> = tuples.into_iter().map(check).collect();
        self.put(py, tuples?, whole::to_options(lease, key, label, priority)?, transaction).map(drop)
    }

    #[pyo3(signature = (transaction, /))]
    fn commit(&self, py: Python<'_>, transaction: u128) -> PyResult<()> {
        self.change(py, |locked, now| locked.engine().commit(now, TransactionId(transaction)))?.map_err(failed)
    }

    #[pyo3(signature = (transaction, /))]
    fn abort(&self, py: Python<'_>, transaction: u128) -> PyResult<()> {
        match self.change(py, |locked, now| locked.engine().abort(now, TransactionId(transaction)))? {
            Ok(()) | Err(SpaceError::NoTransaction) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }

    #[pyo3(signature = (template, r#where, since, nudge, /))]
    fn watch(
        &self,
        py: Python<'_>,
        template: &Bound<'_, PyTuple>,
        r#where: Option<&Bound<'_, PyAny>>,
        since: Option<u64>,
        nudge: Option<Py<PyAny>>,
    ) -> PyResult<u64> {
        let template = Arc::new(self.pattern(template, r#where)?);
        let events = Arc::new(Events::new(nudge));
        let mut locked = self.lock(py)?;
        let session = locked.open(events.clone());
        let watching = locked.engine().watch(session, 0, template.clone(), since);
        if watching.is_err() {
            locked.close(session);
        }
        let told = locked.unlock();
        self.flush(py, told)?;
        let watching = watching.map_err(failed)?;
        if watching.missed > 0 {
            self.end_session(session);
            return Err(forgotten(watching.missed));
        }
        let watch = Arc::new(Watch { events, template, last: AtomicU64::new(watching.last) });
        lock(&self.watches).insert(session.0, watch);
        Ok(session.0)
    }

    #[pyo3(signature = (watch, timeout, /))]
    fn events<'py>(
        &self,
        py: Python<'py>,
        watch: u64,
        timeout: Option<f64>,
    ) -> PyResult<Vec<(u64, Bound<'py, PyTuple>)>> {
        let end = timeout.map(|seconds| to_duration(seconds, "timeout=")).transpose()?;
        let end = end.map(|timeout| Instant::now() + timeout);
        let watching = lock(&self.watches).get(&watch).cloned();
        let watching = watching.ok_or_else(|| raise("SpaceError", "this watch has ended"))?;
        loop {
            match patiently(py, end, |patience| watching.events.wait(patience))? {
                None => return Ok(Vec::new()),
                Some(Found::Ended) => return Err(raise("SpaceError", "this watch has ended")),
                Some(Found::Missing) => self.watch_again(py, watch, &watching)?,
                Some(Found::Events(events)) => {
                    let decode = |tuple: &Tuple| decode_tuple(py, tuple.bytes(), self.encoding.objects);
                    let (decoded, rest) = decode_events(events, decode);
                    // Includes an event that cannot be decoded, so that it is not delivered again.
                    let last =
                        decoded.as_ref().map_or_else(|(last, _)| *last, |events| events.last().map_or(0, |it| it.0));
                    watching.last.store(last, Ordering::Relaxed);
                    if !rest.is_empty() {
                        watching.events.put_back(rest.into_iter());
                        py.detach(|| watching.events.flush());
                    }
                    return decoded.map_err(|(_, error)| error);
                }
            }
        }
    }

    #[pyo3(signature = (watch, /))]
    fn unwatch(&self, py: Python<'_>, watch: u64) -> PyResult<()> {
        let watching = lock(&self.watches).remove(&watch);
        if let Some(watching) = watching {
            py.detach(|| self.end_session(SessionId(watch)));
            watching.events.end();
        }
        Ok(())
    }

    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = self.change(py, |locked, _| locked.engine().info())?;
        info::to_python(py, &found)
    }

    fn close(&self, py: Python<'_>) {
        if self.forks == FORKS.load(Ordering::Relaxed) {
            py.detach(|| self.hosted.end());
        }
    }
}

impl Drop for LocalSpace {
    fn drop(&mut self) {
        if self.forks == FORKS.load(Ordering::Relaxed) {
            self.hosted.end();
        }
    }
}

pub(super) fn forgotten(missed: u64) -> PyErr {
    let what = "events, matching or not, have been forgotten; make the space with a larger log_events=, or read faster";
    raise("SpaceError", format!("{missed} {what}"))
}
