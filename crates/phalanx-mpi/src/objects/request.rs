//! Requests: what a program waits for (MPI 5.0, 3.7).

use crate::constants::MPI_COMM_NULL;
use crate::error::{Class, Error, Result, fail};
use crate::objects::errhandler::{Kind, Owner};
use crate::objects::handle::{MOST, Table, handle_at, place_of};
use crate::objects::partitions::Partitions;
use crate::process::engine::{EMPTY, Engine, Status};
use crate::process::tasks::Task;
use crate::process::wait::Wait;
use crate::process::world::{World, world};
use phalanx_net::sync::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Canonical handle.
pub const REQUEST_NULL: u32 = 0x180;
/// Of every send that was done when it was begun: nothing more is known of it.
pub const REQUEST_DONE: u32 = handle_at(MOST - 1, POINT);
/// The kind of handles that are the numbers of the engine's sends and receives. Those have no object of their own, which would
/// cost as much as a short message.
const POINT: u32 = 13;

/// Owners of such requests whose communicators were freed, by number: [`Request::keep_handler`].
static KEPT: Mutex<BTreeMap<usize, Owner>> = Mutex::new(BTreeMap::new());

/// What a request stands for while it is active.
pub enum Active {
    /// Nothing: a persistent request that was not started, or whose outcome was seen.
    No,
    /// A send or a receive of the engine.
    Point(usize),
    /// An operation that goes on beside the program.
    Task(Arc<Task>),
    /// It was done before anybody asked.
    Done(Status),
    /// What the program itself completes.
    General(Arc<dyn General>),
}

/// A generalized request (MPI 5.0, 13.2).
pub trait General: Send + Sync {
    /// Whether the program has completed it.
    fn is_complete(&self) -> bool;
    /// Its outcome: calls the program's query function. Called without any lock.
    fn query(&self) -> Result<Status>;
    /// Calls the program's free function, once.
    fn free(&self) -> Result<()>;
    /// Calls the program's cancel function.
    fn cancel(&self) -> Result<()>;
}

/// Begins what a persistent request stands for.
pub type Start = Box<dyn Fn() -> Result<Active> + Send + Sync>;

/// A request: an operation that was begun, or that a persistent request stands for.
pub struct Request {
    /// The communicator, window, file or session whose error handler hears of failures.
    owner: Mutex<Owner>,
    active: Mutex<Active>,
    start: Option<Start>,
    /// Of a message in partitions.
    pub partitions: Option<Arc<Partitions>>,
}

static REQUESTS: Table<Request> = Table::new(8);

impl Request {
    /// A handle for what is under way.
    pub fn put(owner: Owner, active: Active) -> Result<u32> {
        match &active {
            Active::Point(id) if owner.kind == Kind::Comm && owner.kept.is_none() => {
                if let Some(handle) = expose(&mut world()?.engine(), *id, owner.object) {
                    return Ok(handle);
                }
            }
            Active::Done(status) if owner.kind == Kind::Comm && *status == EMPTY => return Ok(REQUEST_DONE),
            _ => {}
        }
        let owner = Mutex::new(owner);
        Request::insert(Request { owner, active: Mutex::new(active), start: None, partitions: None })
    }

    /// A handle for what can be started again and again.
    pub fn put_persistent(owner: Owner, start: Start) -> Result<u32> {
        Request::put_partitioned(owner, start, None)
    }

    /// The same of a message in partitions.
    pub fn put_partitioned(owner: Owner, start: Start, partitions: Option<Arc<Partitions>>) -> Result<u32> {
        let (owner, active) = (Mutex::new(owner), Mutex::new(Active::No));
        Request::insert(Request { owner, active, start: Some(start), partitions })
    }

    fn insert(request: Request) -> Result<u32> {
        REQUESTS.put(Arc::new(request)).ok_or_else(|| Error::new(Class::Other, "too many requests"))
    }

    /// None for MPI_REQUEST_NULL.
    pub fn of(handle: u32) -> Result<Option<Arc<Request>>> {
        if let Some(id) = place_of(handle, POINT) {
            return Request::of_point(handle, id).map(Some);
        }
        match REQUESTS.get(handle) {
            None if handle == REQUEST_NULL => Ok(None),
            None => no_request(handle),
            request => Ok(request),
        }
    }

    /// For as long as a call looks at it.
    fn of_point(handle: u32, id: usize) -> Result<Arc<Request>> {
        let (owner, active) = if handle == REQUEST_DONE {
            (Owner::comm(MPI_COMM_NULL), Active::Done(EMPTY))
        } else {
            let Some(comm) = world()?.engine().comm_of_exposed(id) else { return no_request(handle) };
            (owner_of(id, comm), Active::Point(id))
        };
        let (owner, active) = (Mutex::new(owner), Mutex::new(active));
        Ok(Arc::new(Request { owner, active, start: None, partitions: None }))
    }

    /// Whose error handler hears of its failures.
    pub fn owner(&self) -> Owner {
        lock(&self.owner).clone()
    }

    /// The communicator is freed: what is under way in it keeps its error handler, since the next communicator may get the
    /// same handle.
    pub fn keep_handler(world: &World, comm: u32) {
        let kept = |owner: &Owner| Owner { object: MPI_COMM_NULL, kind: Kind::Comm, kept: Some(owner.handler()) };
        let mut engine = world.engine();
        for id in engine.exposed_of(comm) {
            lock(&KEPT).insert(id, kept(&Owner::comm(comm)));
            engine.expose(id, MPI_COMM_NULL);
        }
        drop(engine);
        for request in REQUESTS.all() {
            let mut owner = lock(&request.owner);
            if owner.object == comm && owner.kind == Kind::Comm {
                *owner = kept(&owner);
            }
        }
    }

    /// Whether it can be started again and again.
    pub fn is_persistent(&self) -> bool {
        self.start.is_some()
    }

    /// Whether its operation was begun and not completed.
    pub fn is_active(&self) -> bool {
        !matches!(*lock(&self.active), Active::No)
    }

    /// Starts a persistent request.
    pub fn start(&self) -> Result<()> {
        let Some(start) = &self.start else { return fail(Class::Request, "the request is not persistent") };
        if self.is_active() {
            return fail(Class::Request, "the request is active: it must be completed before it is started again");
        }
        let active = start()?;
        *lock(&self.active) = active;
        Ok(())
    }

    /// The outcome, if there is one; the request is not active then, unless it is a receive that a loss has interrupted. `engine` is the world's.
    #[inline]
    fn finish(&self, engine: &mut Engine) -> Option<Outcome> {
        let mut active = lock(&self.active);
        let outcome = match &*active {
            Active::No => Outcome::Status(EMPTY),
            Active::Point(id) => match engine.outcome_or_pending(*id)? {
                pending @ Status { error: Some(Class::ProcFailedPending), .. } => {
                    return Some(Outcome::Status(pending));
                }
                status => Outcome::Status(status),
            },
            Active::Task(task) => Outcome::Status(task.outcome()?),
            Active::Done(status) => Outcome::Status(*status),
            Active::General(general) if general.is_complete() => Outcome::End(general.clone()),
            Active::General(_) => return None,
        };
        *active = Active::No;
        Some(outcome)
    }

    /// The outcome without an end to the request.
    fn look(&self, engine: &Engine) -> Option<Outcome> {
        Some(match &*lock(&self.active) {
            Active::No => Outcome::Status(EMPTY),
            Active::Point(id) => Outcome::Status(engine.peek(*id)?),
            Active::Task(task) => Outcome::Status(task.outcome()?),
            Active::Done(status) => Outcome::Status(*status),
            Active::General(general) if general.is_complete() => Outcome::Query(general.clone()),
            Active::General(_) => return None,
        })
    }

    /// Waits until it is done.
    #[inline]
    pub fn wait(&self, world: &World) -> Result<Status> {
        let engine = world.engine();
        let is_copied = matches!(*lock(&self.active), Active::Point(id) if engine.is_copied(id));
        let wait = if is_copied { Wait::beside_copy() } else { Wait::default() };
        world.wait_on(engine, wait, |engine| self.finish(engine)).status()
    }

    /// Its outcome, if it is done.
    pub fn test(&self, world: &World) -> Result<Option<Status>> {
        world.progress();
        self.finish(&mut world.engine()).map(Outcome::status).transpose()
    }

    /// The same, and it stays what it is.
    pub fn test_only(&self, world: &World) -> Result<Option<Status>> {
        world.progress();
        let outcome = self.look(&world.engine());
        outcome.map(Outcome::status).transpose()
    }

    /// Whether what it stands for is done, or nothing; it stays what it is.
    pub fn is_done(&self, world: &World) -> bool {
        world.progress();
        self.look(&world.engine()).is_some()
    }

    /// Tries to take it back.
    pub fn cancel(&self, world: &World) -> Result<()> {
        let mut engine = world.engine();
        let general = match &*lock(&self.active) {
            Active::Point(id) => {
                engine.cancel(*id);
                return Ok(());
            }
            Active::General(general) => general.clone(),
            Active::No => return fail(Class::Request, "the request is not active"),
            Active::Task(_) => return fail(Class::Request, "only sends and receives can be cancelled"),
            Active::Done(_) => return Ok(()),
        };
        drop(engine);
        general.cancel()
    }

    /// Ends a handle. What is under way goes on to its end.
    pub fn free(handle: u32, world: &World) -> Result<()> {
        if let Some(id) = place_of(handle, POINT) {
            let request = Request::of_point(handle, id)?;
            if let Active::Point(id) = *lock(&request.active) {
                let mut engine = world.engine();
                engine.hide(id);
                engine.detach(id);
            }
            return Ok(());
        }
        let Some(request) = REQUESTS.take(handle) else {
            return fail(Class::Request, "the request is MPI_REQUEST_NULL, or was freed");
        };
        let mut engine = world.engine();
        if let Active::Point(id) = *lock(&request.active) {
            engine.detach(id);
        }
        Ok(())
    }

    /// Ends the handle of a request that is done, unless it can be started again, or goes on after a loss. Whether it ended.
    pub fn end(handle: u32, request: &Request) -> bool {
        let is_over = !request.is_persistent() && !request.is_active();
        is_over && (place_of(handle, POINT).is_some() || REQUESTS.take(handle).is_some())
    }
}

/// A handle for a send or a receive of the engine; None where there are too many.
#[inline]
pub(crate) fn expose(engine: &mut Engine, id: usize, comm: u32) -> Option<u32> {
    if id >= MOST - 1 {
        return None;
    }
    engine.expose(id, comm);
    Some(handle_at(id, POINT))
}

/// Whose handler hears of the failures of a request of a communicator with this handle.
fn owner_of(id: usize, comm: u32) -> Owner {
    let kept = if comm == MPI_COMM_NULL { lock(&KEPT).get(&id).cloned() } else { None };
    kept.unwrap_or_else(|| Owner::comm(comm))
}

fn no_request<T>(handle: u32) -> Result<T> {
    fail(Class::Request, format!("request {handle:#x} is no request, or was freed"))
}

/// Waits for sends and receives that have no objects of their own: all of them, in one wait. `done` hears of each outcome, and
/// of the request's owner where it failed. False when there are others among them: nothing was done then.
#[inline]
pub fn wait_for_points(
    world: &World,
    count: usize,
    handle: impl Fn(usize) -> u32,
    mut done: impl FnMut(usize, Status, Option<Owner>),
) -> bool {
    let mut engine = world.engine();
    let (mut pending, mut is_copied) = (0, false);
    for index in 0..count {
        match handle(index) {
            REQUEST_NULL | REQUEST_DONE => {}
            handle => match place_of(handle, POINT) {
                Some(id) if engine.comm_of_exposed(id).is_some() => {
                    is_copied |= engine.is_copied(id);
                    pending += 1;
                }
                _ => return false,
            },
        }
    }
    let mut next = 0;
    let mut goes_on = |engine: &mut Engine| {
        while next < count {
            let status = match handle(next) {
                REQUEST_NULL | REQUEST_DONE => (EMPTY, None),
                handle => outcome_at(engine, place_of(handle, POINT)?)?,
            };
            done(next, status.0, status.1);
            next += 1;
        }
        Some(())
    };
    if goes_on(&mut engine).is_none() {
        let wait = if is_copied { Wait::beside_copy() } else { Wait::default() };
        world.wait_on(engine, wait.for_all(pending), goes_on);
    }
    true
}

#[inline]
fn outcome_at(engine: &mut Engine, id: usize) -> Option<(Status, Option<Owner>)> {
    let comm = engine.comm_of_exposed(id);
    let status = engine.outcome_or_pending(id)?;
    Some((status, status.error.and(comm).map(|comm| owner_of(id, comm))))
}

enum Outcome {
    Status(Status),
    Query(Arc<dyn General>),
    End(Arc<dyn General>),
}

impl Outcome {
    fn status(self) -> Result<Status> {
        match self {
            Outcome::Status(status) => Ok(status),
            Outcome::Query(general) => general.query(),
            Outcome::End(general) => {
                let (status, freed) = (general.query(), general.free());
                status.and_then(|status| freed.map(|()| status))
            }
        }
    }
}

/// Waits until one of them is done: which, and its outcome. None when none of them is active.
pub fn wait_any(world: &World, requests: &[Option<Arc<Request>>]) -> Option<(usize, Result<Status>)> {
    if !requests.iter().flatten().any(|request| request.is_active()) {
        return None;
    }
    let (index, outcome) = world.wait(|engine| any(engine, requests));
    Some((index, outcome.status()))
}

/// The first that is done, if any is.
pub fn test_any(world: &World, requests: &[Option<Arc<Request>>]) -> Option<(usize, Result<Status>)> {
    world.progress();
    let found = any(&mut world.engine(), requests);
    found.map(|(index, outcome)| (index, outcome.status()))
}

fn any(engine: &mut Engine, requests: &[Option<Arc<Request>>]) -> Option<(usize, Outcome)> {
    let active = requests.iter().enumerate().filter_map(|(index, request)| Some((index, request.as_ref()?)));
    active
        .filter(|(_, request)| request.is_active())
        .find_map(|(index, request)| Some((index, request.finish(engine)?)))
}

/// All that are done; waits until one is. None when none of them is active.
pub fn wait_some(world: &World, requests: &[Option<Arc<Request>>]) -> Option<Vec<(usize, Status)>> {
    let (index, outcome) = wait_any(world, requests)?;
    let mut done = test_some(world, requests);
    done.retain(|(other, _)| *other != index); // one that goes on after a loss is found twice
    done.push((index, in_status(outcome)));
    done.sort_by_key(|(index, _)| *index);
    Some(done)
}

/// All that are done.
pub fn test_some(world: &World, requests: &[Option<Arc<Request>>]) -> Vec<(usize, Status)> {
    world.progress();
    let mut done = Vec::new();
    for (index, request) in requests.iter().enumerate().filter_map(|(at, one)| Some((at, one.as_ref()?))) {
        let outcome = if request.is_active() { request.finish(&mut world.engine()) } else { None };
        done.extend(outcome.map(|outcome| (index, in_status(outcome.status()))));
    }
    done
}

/// What a status says of one of several requests: its error too, which another one's does not hide.
pub fn in_status(outcome: Result<Status>) -> Status {
    outcome.unwrap_or_else(|error| Status { error: Some(error.class), ..EMPTY })
}

/// Whether all are done; none of them is ended.
pub fn are_done(world: &World, requests: &[Option<Arc<Request>>]) -> bool {
    world.progress();
    let engine = world.engine();
    requests.iter().flatten().all(|request| request.look(&engine).is_some())
}
