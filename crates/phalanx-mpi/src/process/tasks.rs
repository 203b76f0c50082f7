//! Work that goes on beside the program: non-blocking collective operations and the like, as futures.
//!
//! Nobody wakes them: whoever makes progress polls all of them when something was completed.

use crate::error::{Error, Result};
use crate::process::engine::{EMPTY, Status};
use crate::process::world::World;
use phalanx_net::sync::lock;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

type Work = Pin<Box<dyn Future<Output = Result<Status>> + Send>>;

/// An operation that goes on beside the program.
pub struct Task {
    work: Mutex<Option<Work>>,
    done: AtomicBool,
    outcome: Mutex<Result<Status>>,
}

static TASKS: Mutex<Vec<Arc<Task>>> = Mutex::new(Vec::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// What a caller knows to be safe to move to another thread: pointers into buffers that the user lends until the
/// operation is done.
pub struct Lent<T>(pub T);

// SAFETY: by contract of the operation that the memory is lent to.
unsafe impl<T> Send for Lent<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Lent<T> {}

impl<F: Future> Future for Lent<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the field is pinned with the whole.
        unsafe { self.map_unchecked_mut(|lent| &mut lent.0) }.poll(context)
    }
}

impl Task {
    /// Begins the work, and does of it what can be done at once. It may use memory that its caller lends until it is done.
    pub fn begin(world: &World, work: impl Future<Output = Result<()>> + 'static) -> Arc<Task> {
        Task::begin_with_status(world, async move { work.await.map(|()| EMPTY) })
    }

    /// The same, of which something was received.
    pub fn begin_with_status(world: &World, work: impl Future<Output = Result<Status>> + 'static) -> Arc<Task> {
        let work: Work = Box::pin(Lent(work));
        let (work, outcome) = (Mutex::new(Some(work)), Mutex::new(Ok(EMPTY)));
        let task = Arc::new(Task { work, done: AtomicBool::new(false), outcome });
        if !task.go_on(world) {
            lock(&TASKS).push(task.clone());
            COUNT.fetch_add(1, Ordering::Release);
        }
        task
    }

    /// What came of it, once it is done.
    pub fn outcome(&self) -> Option<Status> {
        if !self.done.load(Ordering::Acquire) {
            return None;
        }
        let failed = |error: &Error| Status { error: Some(error.class), ..EMPTY };
        Some(lock(&self.outcome).as_ref().map_or_else(failed, |status| *status))
    }

    /// Why it failed.
    pub fn failure(&self) -> Option<Error> {
        lock(&self.outcome).clone().err()
    }

    /// Whether it is done.
    fn go_on(&self, world: &World) -> bool {
        let Ok(mut work) = self.work.try_lock() else { return false }; // another thread does
        let Some(future) = work.as_mut() else { return true };
        let Poll::Ready(outcome) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) else { return false };
        *work = None;
        drop(work);
        *lock(&self.outcome) = outcome;
        self.done.store(true, Ordering::Release);
        world.note_completion();
        true
    }
}

/// Whether there are any.
#[inline]
pub fn are_there() -> bool {
    COUNT.load(Ordering::Acquire) > 0
}

/// Lets every task do what it can do now.
#[inline]
pub fn poll(world: &World) {
    if are_there() {
        poll_all(world);
    }
}

#[cold]
fn poll_all(world: &World) {
    let tasks = lock(&TASKS).clone();
    let done: Vec<_> = tasks.into_iter().filter(|task| task.go_on(world)).collect();
    if !done.is_empty() {
        let mut tasks = lock(&TASKS);
        let before = tasks.len();
        tasks.retain(|task| !done.iter().any(|other| Arc::ptr_eq(task, other)));
        COUNT.fetch_sub(before - tasks.len(), Ordering::Release);
    }
}

/// Waits for a request of the engine.
pub async fn outcome(world: &World, request: usize) -> Status {
    std::future::poll_fn(|_| match world.engine().outcome(request) {
        Some(status) => Poll::Ready(status),
        None => Poll::Pending,
    })
    .await
}
