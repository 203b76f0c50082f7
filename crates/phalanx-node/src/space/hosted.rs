//! A space with those who use it: sessions of other processes, and this process itself.

use crate::sync::lock;
use phalanx_core::error::SpaceError;
use phalanx_core::ids::SessionId;
use phalanx_core::space::{Command, Options, RequestId, Space};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// One who uses a space, and learns what comes for it later.
pub trait Receive: Send + Sync {
    /// Takes note of a command for this session. Called under the space's lock, in order: it must be quick and not call the
    /// space. `false`: the watch that it is for is too far behind and ends.
    fn receive(&self, command: Command) -> bool;
    /// Sends what was noted; without the lock.
    fn wake(&self);
}

/// A space behind a lock, on a clock.
pub struct Hosted {
    began: Instant,
    pub secure: bool,
    inner: Mutex<Inner>,
    next_session: AtomicU64,
    nap: Arc<Nap>,
}

struct Inner {
    space: Space,
    receivers: HashMap<SessionId, Arc<dyn Receive>>,
    /// Until when the thread that ends leases sleeps; none: it does not run.
    nap: Option<Duration>,
}

/// Receivers to be woken; mostly none or one.
type Woken = Vec<(SessionId, Arc<dyn Receive>)>;

impl Hosted {
    /// A new space.
    pub fn new(options: Options) -> Result<Arc<Hosted>, SpaceError> {
        let secure = options.secure;
        let inner = Inner { space: Space::new(options)?, receivers: HashMap::new(), nap: None };
        let began = Instant::now();
        let nap = Arc::new(Nap { until: Mutex::new(began), earlier: Condvar::new() });
        Ok(Arc::new(Hosted { began, secure, inner: Mutex::new(inner), next_session: AtomicU64::new(1), nap }))
    }

    /// A new session, whose late answers go to `receiver`.
    pub fn join(&self, receiver: Arc<dyn Receive>) -> SessionId {
        let session = SessionId(self.next_session.fetch_add(1, Ordering::Relaxed));
        lock(&self.inner).receivers.insert(session, receiver);
        session
    }

    /// Ends a session.
    pub fn leave(self: &Arc<Self>, session: SessionId) {
        self.with(|space, now| space.end_session(now, session));
        lock(&self.inner).receivers.remove(&session);
    }

    /// Does something with the space; what that means for others is sent to them.
    pub fn with<T>(self: &Arc<Self>, work: impl FnOnce(&mut Space, Duration) -> T) -> T {
        let mut inner = lock(&self.inner);
        let done = work(&mut inner.space, self.began.elapsed());
        let woken = inner.deliver();
        if let Some(deadline) = inner.space.next_deadline() {
            self.wake_before(&mut inner, deadline);
        }
        drop(inner);
        woken.into_iter().for_each(|(_, receiver)| receiver.wake());
        done
    }

    /// The time of the space's clock after `wait` from now on.
    pub fn after(&self, wait: Duration) -> Duration {
        self.began.elapsed().saturating_add(wait)
    }

    fn wake_before(self: &Arc<Self>, inner: &mut Inner, deadline: Duration) {
        match inner.nap {
            Some(until) if until <= deadline => return,
            Some(_) => {}
            None => {
                let (weak, nap) = (Arc::downgrade(self), self.nap.clone());
                let ticks = move || nap.keep(&weak);
                if thread::Builder::new().name("phalanx-leases".into()).spawn(ticks).is_err() {
                    return; // tried again with the next call; those that find tuples end leases themselves
                }
            }
        }
        inner.nap = Some(deadline);
        self.nap.set(self.began + deadline);
    }

    /// Ends what is over; when there is more to end.
    fn tick(self: &Arc<Self>) -> Option<Instant> {
        self.with(|space, now| space.on_tick(now));
        let mut inner = lock(&self.inner);
        inner.nap = inner.space.next_deadline();
        let until = inner.nap.map(|until| self.began + until);
        until.inspect(|until| self.nap.set(*until));
        until
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        self.nap.set(Instant::now()); // the thread wakes up, and finds nobody
    }
}

/// Sleeps until the first lease or deadline ends, and keeps nothing alive meanwhile.
struct Nap {
    until: Mutex<Instant>,
    earlier: Condvar,
}

impl Nap {
    fn set(&self, until: Instant) {
        *lock(&self.until) = until;
        self.earlier.notify_one();
    }

    /// As long as there are some and the space is there.
    fn keep(&self, weak: &Weak<Hosted>) {
        loop {
            let until = lock(&self.until);
            let wait = until.saturating_duration_since(Instant::now());
            if !wait.is_zero() {
                drop(self.earlier.wait_timeout(until, wait).unwrap_or_else(PoisonError::into_inner));
                continue;
            }
            drop(until);
            if weak.upgrade().and_then(|hosted| hosted.tick()).is_none() {
                return;
            }
        }
    }
}

impl Inner {
    fn deliver(&mut self) -> Woken {
        let mut woken = Woken::new();
        while let Some(command) = self.space.next_command() {
            let (session, watch) = match &command {
                Command::Answer { session, .. } => (*session, None),
                Command::Notify { session, watch, .. } => (*session, Some(*watch)),
            };
            let Some(receiver) = self.receivers.get(&session) else { continue };
            if !receiver.receive(command) {
                self.end_watch(session, watch);
            }
            let receiver = &self.receivers[&session];
            if !woken.iter().any(|(other, _)| *other == session) {
                woken.push((session, receiver.clone()));
            }
        }
        woken
    }

    fn end_watch(&mut self, session: SessionId, watch: Option<RequestId>) {
        if let Some(watch) = watch {
            self.space.unwatch(session, watch);
        }
    }
}
