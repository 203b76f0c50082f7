//! A space of another process. `phalanx/space/_engine.py` describes the interface.

mod asking;
mod doomed;
mod watching;

use asking::{call, nonsense, unusable};
use doomed::Doomed;
use watching::Nudging;

use super::encode::Encoding;
use super::engine::{Engine, Out};
use super::info;
use super::local::FORKS;
use super::options::{Numbered, Place, to_duration, to_once, to_options, to_place};
use super::whole::{self, At, Item, Items, to_spot};
use super::{Decider, to_coordinator, to_isolation};
use crate::errors::raise;
use crate::grid::Dialler;
use crate::policy::Words;
use bytes::Bytes;
use phalanx_core::error::SpaceError;
use phalanx_core::ids::TransactionId;
use phalanx_core::level::Mark;
use phalanx_core::space::{Coordinator, Decision, Limits, RequestId};
use phalanx_core::wire::space::{FromSpace, ToSpace, Wait};
use phalanx_net::sync::lock;
use phalanx_node::space::{Answer, Client, ClientError, Connect, Done, Nudge, SpaceAddress};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// How often a wait checks for Ctrl-C.
const SIGNALS: Duration = Duration::from_millis(50);
/// A server should end a waiting request when its time is over. After this extra time the client stops waiting.
const GRACE: Duration = Duration::from_secs(1);
/// Time for the server to confirm that it has aborted a transaction.
const ABORTING: Duration = Duration::from_secs(10);
/// Timeout for reaching a server, and for its first answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A space of another process, over one connection shared by all threads of this process.
#[pyclass(frozen)]
pub struct RemoteSpace {
    client: Arc<Client>,
    encoding: Encoding,
    watches: Mutex<HashMap<u64, Watch>>,
    doomed: Arc<Doomed>,
    forks: u64,
    /// What the server has answered when it was asked for its name.
    name: OnceLock<String>,
}

/// What is needed to watch again after events were dropped.
#[derive(Clone)]
struct Watch {
    /// The watch's current request. Python knows the watch by the number of its first one.
    request: RequestId,
    template: Bytes,
    nudge: Option<Nudge>,
    last: u64,
}

type Asked = Result<Answer, ClientError>;

#[pymethods]
impl RemoteSpace {
    /// Connects to a space. Creates it if it does not exist and `create` is set. `dialler`: the user's identity, and
    /// whom it expects. `members`: the addresses of the servers that replicate it. `seconds`: how long to search for it there.
    #[new]
    #[expect(clippy::too_many_arguments)]
    #[pyo3(signature = (address, options, objects, *, dialler, policy, create, members, seconds))]
    fn new(
        py: Python<'_>,
        address: &str,
        options: &Bound<'_, PyDict>,
        objects: bool,
        dialler: Option<Dialler>,
        policy: Words,
        create: bool,
        members: Vec<String>,
        seconds: f64,
    ) -> PyResult<RemoteSpace> {
        let address: SpaceAddress = address.parse().map_err(|error| raise("SpaceError", error))?;
        // A member that is no user is allowed here; the server's rules decide whether to accept it.
        let dialler = dialler.map(Dialler::read_any).transpose()?;
        let options = to_options(options)?;
        let limits =
            Limits { fields: options.most_fields, nesting: options.most_nesting, bytes: options.most_tuple_bytes };
        let secure = options.secure || options.group.is_some();
        let connect = Connect {
            policy: policy.read()?,
            dialler,
            create: create.then_some(options),
            members: Vec::new(),
            patience: PATIENCE,
        };
        let places: Result<Vec<_>, _> = members.iter().map(|member| member.parse()).collect();
        let (places, looks) = (places.map_err(|error| raise("SpaceError", error))?, to_duration(seconds, "seconds")?);
        let reach = move || match places.is_empty() {
            true => Client::connect(address, &connect),
            false => Client::connect_to_members(&address.name, &places, &connect, looks),
        };
        let client = crate::manager::interruptibly(py, reach)?.map_err(unusable)?;
        if secure && client.mark() != Mark::Data {
            py.detach(|| client.close());
            let what = "is there already, and was not made with secure=True: its tuples may be read on the way";
            return Err(raise("PolicyError", format!("{} {what}", client.address())));
        }
        let (encoding, forks) = (Encoding { limits, objects }, FORKS.load(Ordering::Relaxed));
        Ok(RemoteSpace {
            client,
            encoding,
            watches: Mutex::default(),
            doomed: Arc::default(),
            forks,
            name: OnceLock::new(),
        })
    }

    /// The level of its tuples, the rule that decided it, and whether it is weaker than the default.
    #[getter]
    fn level(&self) -> (&'static str, String, bool) {
        let (agreed, mark) = (self.client.agreed(), self.client.mark());
        (agreed.levels.of(mark).name(), agreed.why[mark as usize].clone(), agreed.weaker[mark as usize])
    }

    /// The name in the server's certificate; none if it is a process of this user and showed none.
    #[getter]
    fn peer(&self) -> Option<&str> {
        self.client.peer()
    }

    /// The name of the member that serves it: that in the certificate it showed, or what a process of this user says. Empty: it
    /// has none.
    fn server_name(&self, py: Python<'_>) -> PyResult<String> {
        if let Some(known) = self.client.peer().or(self.name.get().map(String::as_str)) {
            return Ok(known.to_owned());
        }
        self.check()?;
        let client = self.client.clone();
        let name = crate::manager::interruptibly(py, move || client.ask_name())?.map_err(unusable)?;
        Ok(self.name.get_or_init(|| name).clone())
    }

    /// Whether the connection has ended.
    #[getter]
    fn ended(&self) -> bool {
        self.client.has_ended()
    }

    /// The addresses of the members that replicate it; empty if one server alone keeps it.
    #[getter]
    fn members(&self) -> Vec<String> {
        self.client.members().to_vec()
    }

    /// The names in the certificates of these members, in the same order.
    #[getter]
    fn names_of_members(&self) -> Vec<String> {
        self.client.names_of_members().to_vec()
    }

    /// The address of the server at the other end of the connection.
    #[getter]
    fn place(&self) -> String {
        self.client.address().place.to_string()
    }

    /// What other spaces need in order to ask this one for the outcome of a transaction: the addresses of its servers, its name
    /// there, its identity, and whether it is durable.
    #[getter]
    fn coordinator(&self) -> Decider {
        let Coordinator { places, space, identity, durable } = self.client.coordinator();
        (places, space, identity, durable)
    }

    /// The outcome of a transaction that began at most `age` seconds ago, asked over a new connection: "open", "committed",
    /// "aborted", or "forgotten". None: the space is not there.
    #[pyo3(signature = (transaction, age, /))]
    fn decision(&self, py: Python<'_>, transaction: u128, age: f64) -> PyResult<Option<&'static str>> {
        let (transaction, age) = (TransactionId(transaction), to_duration(age, "age")?);
        self.check()?;
        let client = self.client.clone();
        let decision = crate::manager::interruptibly(py, move || client.decision(transaction, age))?;
        Ok(decision.map(|decision| match decision {
            Decision::Open => "open",
            Decision::Committed => "committed",
            Decision::Aborted => "aborted",
            Decision::Forgotten => "forgotten",
        }))
    }

    /// Checks, for one millisecond, whether the connection has ended.
    fn look(&self, py: Python<'_>) -> PyResult<()> {
        self.check()?;
        py.detach(|| self.client.look());
        Ok(())
    }

    /// From now on, tuples of more than so many bytes are refused before they are in memory, with an OverflowError. They stay in
    /// the space.
    #[pyo3(signature = (most, /))]
    fn refuse_longer(&self, most: u64) {
        self.client.refuse_longer(most);
    }

    /// Whether the space was created for this client.
    #[getter]
    fn created(&self) -> bool {
        self.client.created()
    }

    /// Whether its tuples travel as marked data.
    #[getter]
    fn secure(&self) -> bool {
        self.client.mark() == Mark::Data
    }

    /// Registers a client, so that the space remembers its requests that must happen only once.
    #[pyo3(signature = (client, /))]
    fn register(&self, py: Python<'_>, client: u128) -> PyResult<()> {
        self.order(py, |request| ToSpace::Register { request, client })
    }

    #[pyo3(signature = (fields, lease, key, label, priority, transaction, once = None, /))]
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
        once: Option<Numbered>,
    ) -> PyResult<u64> {
        self.put_fields(py, fields, Out { lease, key, label, priority, once }, transaction)
    }

    #[pyo3(signature = (tuples, lease, label, priority, transaction, once = None, /))]
    #[expect(clippy::too_many_arguments)]
    fn out_many(
        &self,
        py: Python<'_>,
        tuples: Vec<Bound<'_, PyTuple>>,
        lease: Option<f64>,
        label: Option<&Bound<'_, PyAny>>,
        priority: Option<i64>,
        transaction: Option<u128>,
        once: Option<Numbered>,
    ) -> PyResult<()> {
        self.put_many(py, &tuples, Out { lease, key: None, label, priority, once }, transaction)
    }

    /// `patience`: seconds within which the answer should come. If a take in a transaction gets no answer in time, the
    /// transaction can only be aborted.
    #[pyo3(signature = (template, take, select, r#where, transaction, patience = None, /))]
    #[expect(clippy::too_many_arguments)]
    fn get<'py>(
        &self,
        py: Python<'py>,
        template: &Bound<'py, PyTuple>,
        take: bool,
        select: &Bound<'py, PyTuple>,
        r#where: Option<&Bound<'py, PyAny>>,
        transaction: Option<u128>,
        patience: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let search = self.search(template, take, select, r#where, transaction)?;
        let acknowledges = search.acknowledges;
        let answer = self.get_soon(py, to_patience(patience)?, search)?;
        self.found(py, answer, acknowledges)
    }

    #[pyo3(signature = (template, take, select, r#where, transaction, limit, after, patience = None, /))]
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
        patience: Option<f64>,
    ) -> PyResult<(Bound<'py, PyList>, Option<Place>)> {
        let search = self.search(template, take, select, r#where, transaction)?.paged(limit, after);
        let acknowledges = search.acknowledges;
        let answer = self.get_soon(py, to_patience(patience)?, search)?;
        let FromSpace::Got { request, tuples, next } = answer.message else { return Err(nonsense()) };
        let decoded = self.settled(py, request, acknowledges, || self.decode_many(py, &answer.body, tuples))?;
        Ok((PyList::new(py, decoded)?, next.map(to_place)))
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
        let (wait, acknowledges, takes) = (to_wait(timeout)?, search.acknowledges, search.takes_under());
        let (template, message) = search.request(wait);
        match self.ask_within(py, self.within(wait), true, template, message)? {
            None => {
                self.doomed.add(takes);
                Ok(None)
            }
            Some(Err(ClientError::Space(SpaceError::TimedOut))) => Ok(None),
            Some(answer) => self.found(py, answer.map_err(unusable)?, acknowledges),
        }
    }

    #[pyo3(signature = (template, take, select, r#where, transaction, timeout, done, patience = None, /))]
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
        patience: Option<f64>,
    ) -> PyResult<u64> {
        self.check()?;
        let search = self.search(template, take, select, r#where, transaction)?;
        let wait = to_wait(timeout)?;
        let waits = !matches!(wait, Wait::No | Wait::For(Duration::ZERO));
        let until = to_patience(patience)?.or(self.within(wait)).and_then(|within| Instant::now().checked_add(within));
        let (objects, takes, doomed) = (self.encoding.objects, search.takes_under(), self.doomed.clone());
        let done: Done = Box::new(move |answer| {
            let is_late = matches!(answer, Err(ClientError::Late { .. }));
            if is_late {
                doomed.add(takes);
            }
            let answer = if is_late && waits { Err(SpaceError::TimedOut.into()) } else { answer };
            Python::attach(move |py| {
                call(py, &done, answer, objects);
                // Dropped while the GIL is held. Otherwise the reference is released only at the next call into this library.
                drop(done);
            });
        });
        let (template, message) = search.request(wait);
        py.detach(|| self.client.start(message, vec![template], until, done)).map_err(unusable)
    }

    #[pyo3(signature = (request, /))]
    fn cancel(&self, py: Python<'_>, request: u64) -> PyResult<bool> {
        self.check()?;
        Ok(py.detach(|| self.client.cancel_begun(request)))
    }

    #[pyo3(signature = (request, kept, /))]
    fn settle(&self, py: Python<'_>, request: u64, kept: bool) -> PyResult<()> {
        self.check()?;
        self.tell_settled(py, request, kept)
    }

    #[pyo3(signature = (template, r#where, transaction, patience = None, /))]
    fn count(
        &self,
        py: Python<'_>,
        template: &Bound<'_, PyTuple>,
        r#where: Option<&Bound<'_, PyAny>>,
        transaction: Option<u128>,
        patience: Option<f64>,
    ) -> PyResult<u64> {
        let template = self.pattern(template, r#where)?;
        let (patience, transaction) = (to_patience(patience)?, transaction.map(TransactionId));
        let message = |request| ToSpace::Count { request, transaction };
        match self.ask_soon(py, patience, None, template, message)?.message {
            FromSpace::Counted { count, .. } => Ok(count),
            _ => Err(nonsense()),
        }
    }

    #[pyo3(signature = (number, lease, /))]
    fn renew(&self, py: Python<'_>, number: u64, lease: Option<f64>) -> PyResult<bool> {
        let lease = lease.map(|seconds| to_duration(seconds, "a lease")).transpose()?;
        match self.ask(py, false, Bytes::new(), |request| ToSpace::Renew { request, number, lease })? {
            Ok(_) => Ok(true),
            Err(ClientError::Space(SpaceError::NoLease)) => Ok(false),
            Err(error) => Err(unusable(error)),
        }
    }

    #[pyo3(signature = (transaction, timeout, repeatable, patience = None, /))]
    fn begin(
        &self,
        py: Python<'_>,
        transaction: u128,
        timeout: f64,
        repeatable: bool,
        patience: Option<f64>,
    ) -> PyResult<()> {
        let (timeout, transaction) = (to_duration(timeout, "timeout=")?, TransactionId(transaction));
        let (patience, isolation) = (to_patience(patience)?, to_isolation(repeatable));
        let message = |request| ToSpace::Begin { request, transaction, timeout, isolation };
        self.ask_soon(py, patience, None, Bytes::new(), message).map(drop)
    }

    #[pyo3(signature = (transaction, coordinator = None, /))]
    fn prepare(&self, py: Python<'_>, transaction: u128, coordinator: Option<Decider>) -> PyResult<()> {
        let (transaction, coordinator) = (TransactionId(transaction), coordinator.map(to_coordinator));
        self.doomed.check(transaction)?;
        self.order(py, |request| ToSpace::Prepare { request, transaction, coordinator })
    }

    /// Adopts a spread space's card, which says who the members are and where they keep tuples. This succeeds if the space has
    /// that card, or had the card that it `replaces`. Otherwise returns the card that the space has.
    #[pyo3(signature = (card, replaces = None, /))]
    fn go_by(&self, py: Python<'_>, card: Vec<u8>, replaces: Option<Vec<u8>>) -> PyResult<Option<Vec<u8>>> {
        let answer = self.ask(py, false, Bytes::new(), |request| ToSpace::GoBy { request, card, replaces })?;
        match answer.map_err(unusable)?.message {
            FromSpace::Card { other, .. } => Ok(other),
            _ => Err(nonsense()),
        }
    }

    /// A page of all tuples, whatever they look like, and where the next page begins.
    #[pyo3(signature = (after, /))]
    fn browse<'py>(&self, py: Python<'py>, after: Option<At>) -> PyResult<Items<'py>> {
        self.whole(py, |request| ToSpace::Browse { request, after: after.map(to_spot) })
    }

    /// Takes those of the given tuples that are still in place, under a transaction.
    #[pyo3(signature = (spots, transaction, /))]
    fn withdraw<'py>(&self, py: Python<'py>, spots: Vec<At>, transaction: u128) -> PyResult<Vec<Item<'py>>> {
        let (spots, transaction) = (spots.into_iter().map(to_spot).collect(), TransactionId(transaction));
        Ok(self.whole(py, |request| ToSpace::Withdraw { request, spots, transaction })?.0)
    }

    /// Puts tuples that are given as encoded bytes.
    #[pyo3(signature = (tuples, lease, key, label, priority, transaction, /))]
    #[expect(clippy::too_many_arguments)]
    fn put_whole(
        &self,
        py: Python<'_>,
        tuples: Vec<PyBackedBytes>,
        lease: Option<f64>,
        key: Option<Vec<u8>>,
        label: Option<Vec<u8>>,
        priority: i64,
        transaction: Option<u128>,
    ) -> PyResult<()> {
        let options = whole::to_options(lease, key, label, priority)?;
        let mut bytes = Vec::with_capacity(tuples.iter().map(|tuple| tuple.len()).sum());
        tuples.iter().for_each(|tuple| bytes.extend_from_slice(tuple));
        self.put_bytes(py, bytes, tuples.len() as u32, options, transaction).map(drop)
    }

    #[pyo3(signature = (transaction, once = None, /))]
    fn commit(&self, py: Python<'_>, transaction: u128, once: Option<Numbered>) -> PyResult<()> {
        let (transaction, once) = (TransactionId(transaction), once.map(to_once));
        self.doomed.check(transaction)?;
        self.order(py, |request| ToSpace::Commit { request, transaction, once })
    }

    /// Aborts a transaction. A server that does not answer aborts it when it resumes.
    #[pyo3(signature = (transaction, /))]
    fn abort(&self, py: Python<'_>, transaction: u128) -> PyResult<()> {
        let transaction = TransactionId(transaction);
        let patience = if self.doomed.remove(transaction) { Duration::ZERO } else { ABORTING };
        let message = |request| ToSpace::Abort { request, transaction };
        match self.ask_within(py, Some(patience), false, Bytes::new(), message)? {
            None | Some(Ok(_)) => Ok(()),
            Some(Err(ClientError::Space(SpaceError::NoTransaction) | ClientError::Ended { .. })) => Ok(()),
            Some(Err(error)) => Err(unusable(error)),
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
        let template = self.pattern(template, r#where)?;
        let nudge = nudge.map(|nudge| {
            let nudging = Nudging::new(nudge);
            Arc::new(move || nudging.call()) as Nudge
        });
        let watch = self.begin_watch(py, Watch { request: 0, template, nudge, last: 0 }, since)?;
        let number = watch.request;
        lock(&self.watches).insert(number, watch);
        Ok(number)
    }

    #[pyo3(signature = (watch, timeout, /))]
    fn events<'py>(
        &self,
        py: Python<'py>,
        watch: u64,
        timeout: Option<f64>,
    ) -> PyResult<Vec<(u64, Bound<'py, PyTuple>)>> {
        self.check()?;
        let end = timeout.map(|seconds| to_duration(seconds, "timeout=")).transpose()?;
        let end = end.map(|timeout| Instant::now() + timeout);
        loop {
            let current = lock(&self.watches).get(&watch).cloned();
            let current = current.ok_or_else(|| raise("SpaceError", "this watch has ended"))?;
            let left = end.map_or(SIGNALS, |end| end.saturating_duration_since(Instant::now()).min(SIGNALS));
            match py.detach(|| self.client.events(current.request, left)) {
                Some(Ok(events)) => return self.came(py, watch, events),
                Some(Err(ClientError::Space(SpaceError::Full { .. }))) => self.watch_again(py, watch, current)?,
                Some(Err(error)) => return Err(unusable(error)),
                None => {
                    self.client.look_after();
                    py.check_signals()?;
                }
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                return Ok(Vec::new());
            }
        }
    }

    #[pyo3(signature = (watch, /))]
    fn unwatch(&self, py: Python<'_>, watch: u64) -> PyResult<()> {
        self.check()?;
        let Some(ended) = lock(&self.watches).remove(&watch) else { return Ok(()) };
        self.client.forget(ended.request);
        match self.order(py, |request| ToSpace::Unwatch { request, watch: ended.request }) {
            Err(error) if error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py) => Err(error),
            _ => Ok(()), // the space has forgotten it together with the connection
        }
    }

    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let answer = self.ask(py, false, Bytes::new(), |request| ToSpace::Info { request })?;
        match answer.map_err(unusable)?.message {
            FromSpace::Info { info, .. } => info::to_python(py, &info),
            _ => Err(nonsense()),
        }
    }

    /// Adds and removes members of a replicated space. The connection must be to the member that leads.
    #[pyo3(signature = (add, remove, /))]
    fn change_members(&self, py: Python<'_>, add: Vec<String>, remove: Vec<String>) -> PyResult<()> {
        self.check()?;
        let places: Result<Vec<_>, _> = add.iter().map(|member| member.parse()).collect();
        let places = places.map_err(|error| raise("SpaceError", error))?;
        let client = self.client.clone();
        let change = move || client.change_members(&places, &remove);
        crate::manager::interruptibly(py, change)?.map_err(unusable)
    }

    fn close(&self, py: Python<'_>) {
        if self.forks == FORKS.load(Ordering::Relaxed) {
            py.detach(|| self.client.close());
        }
    }

    /// Closes the connection. Waits up to `seconds` until a replicated space knows which tuples were taken. False: it does not
    /// know yet.
    fn leave(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let patience = to_duration(seconds, "seconds")?;
        if self.forks != FORKS.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let client = self.client.clone();
        crate::manager::interruptibly(py, move || client.leave(patience))
    }
}

impl Drop for RemoteSpace {
    fn drop(&mut self) {
        if self.forks == FORKS.load(Ordering::Relaxed) {
            self.client.close();
        }
    }
}

impl RemoteSpace {
    /// How long to wait for the answer to a request with a timeout. `None`: without limit. This also holds for a replicated
    /// space, where another member may answer.
    fn within(&self, wait: Wait) -> Option<Duration> {
        match wait {
            Wait::For(timeout) if !timeout.is_zero() && self.client.members().is_empty() => {
                Some(timeout.saturating_add(GRACE))
            }
            _ => None,
        }
    }
}

fn to_patience(seconds: Option<f64>) -> PyResult<Option<Duration>> {
    seconds.map(|seconds| to_duration(seconds, "patience")).transpose()
}

fn to_wait(timeout: Option<f64>) -> PyResult<Wait> {
    match timeout {
        None => Ok(Wait::Forever),
        Some(seconds) => Ok(Wait::For(to_duration(seconds, "timeout=")?)),
    }
}

/// Call this when the process ends. Waits up to `seconds` until durable spaces know which tuples were taken. False: some do not
/// know.
#[pyfunction]
pub fn end_spaces(py: Python<'_>, seconds: f64) -> PyResult<bool> {
    let patience = to_duration(seconds, "seconds")?;
    crate::manager::interruptibly(py, move || phalanx_node::space::end_process(patience))
}
