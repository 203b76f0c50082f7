//! A space in this process: the engine behind a lock, and whoever waits for what comes out of it: threads of this
//! process, and sessions of others.

use phalanx_core::error::SpaceError;
use phalanx_core::ids::SessionId;
use phalanx_core::space::{Command, Options, Space};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Where a session's commands go.
pub trait Outlet: Send + Sync {
    /// Keeps a command. Quick: the space is locked.
    fn tell(&self, command: Command);
    /// Something was told; the space is not locked any more.
    fn flush(&self);
}

/// The engine, shared by threads.
pub struct Hosted {
    state: Mutex<State>,
    began: Instant,
    /// Over networks that are not trusted, only private links reach it.
    pub secure: bool,
    /// What the ticking thread waits for.
    sooner: Condvar,
}

struct State {
    engine: Space,
    outlets: HashMap<SessionId, Arc<dyn Outlet>>,
    sessions: u64,
    /// When the ticking thread, if there is one, looks next.
    ticks: Option<Duration>,
    ended: bool,
}

/// The outlets that were told something, to be flushed when the lock is free.
#[must_use]
#[derive(Default)]
pub struct Told(Vec<Arc<dyn Outlet>>);

impl Told {
    /// Whether nobody is to be told anything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// To be called without the lock.
    pub fn flush(self) {
        self.0.iter().for_each(|outlet| outlet.flush());
    }
}

/// The locked space.
pub struct Locked<'a> {
    hosted: &'a Arc<Hosted>,
    state: MutexGuard<'a, State>,
}

impl Hosted {
    /// An empty space.
    pub fn new(options: Options) -> Result<Arc<Hosted>, SpaceError> {
        let secure = options.secure;
        let engine = Space::new(options)?;
        let state = State { engine, outlets: HashMap::new(), sessions: 0, ticks: None, ended: false };
        let (state, began, sooner) = (Mutex::new(state), Instant::now(), Condvar::new());
        Ok(Arc::new(Hosted { state, began, secure, sooner }))
    }

    /// Time as the engine counts it.
    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Waits until nobody else has it locked.
    pub fn lock(self: &Arc<Self>) -> Locked<'_> {
        Locked { hosted: self, state: self.state.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// If nobody else has it locked.
    pub fn try_lock(self: &Arc<Self>) -> Option<Locked<'_>> {
        use std::sync::TryLockError;
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Locked { hosted: self, state })
    }

    /// Does something with the engine, and tells whom it concerns.
    pub fn with<T>(self: &Arc<Self>, work: impl FnOnce(&mut Space, Duration) -> T) -> T {
        let mut locked = self.lock();
        let done = work(locked.engine(), self.now());
        locked.tick();
        locked.unlock().flush();
        done
    }

    /// Ends everything: who waits is told so, the ticking thread goes, and all memory is given back.
    pub fn end(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.ended = true;
        self.sooner.notify_all();
        let outlets: Vec<_> = state.outlets.drain().collect();
        let old = Space::new(Options::default()).map(|empty| std::mem::replace(&mut state.engine, empty));
        drop(state);
        drop(old);
        for (session, outlet) in outlets {
            outlet.tell(Command::Answer { session, request: 0, answer: Err(SpaceError::Cancelled) });
            outlet.flush();
        }
    }

    /// Lives while something has a deadline.
    fn tick(self: Arc<Self>) {
        let mut locked = self.lock();
        loop {
            let next = locked.state.engine.next_deadline().filter(|_| !locked.state.ended);
            locked.state.ticks = next;
            let Some(next) = next else { return };
            let now = self.now();
            if next > now {
                let waited = self.sooner.wait_timeout(locked.state, next - now);
                locked.state = waited.unwrap_or_else(PoisonError::into_inner).0;
            } else {
                locked.state.engine.on_tick(now);
                locked.unlock().flush();
                locked = self.lock();
            }
        }
    }
}

impl Locked<'_> {
    /// Whether [`Hosted::end`] was called.
    pub fn has_ended(&self) -> bool {
        self.state.ended
    }

    /// The engine; [`Locked::tick`] and [`Locked::unlock`] are to be called after it was changed.
    pub fn engine(&mut self) -> &mut Space {
        &mut self.state.engine
    }

    /// A session of its own, whose commands go to the outlet.
    pub fn open(&mut self, outlet: Arc<dyn Outlet>) -> SessionId {
        let session = self.number();
        self.state.outlets.insert(session, outlet);
        session
    }

    /// A session without an outlet, for requests that are answered at once.
    pub fn number(&mut self) -> SessionId {
        self.state.sessions += 1;
        SessionId(self.state.sessions)
    }

    /// The session's waiters and watches go, what it has not acknowledged comes back.
    pub fn close(&mut self, session: SessionId) {
        self.forget(session);
        self.state.engine.end_session(self.hosted.now(), session);
    }

    /// Nothing comes for the session any more; `false`: it was forgotten before.
    pub fn forget(&mut self, session: SessionId) -> bool {
        self.state.outlets.remove(&session).is_some()
    }

    /// Tells everybody what has come out, and unlocks.
    pub fn unlock(mut self) -> Told {
        let state = &mut *self.state;
        let mut told = Told::default();
        while let Some(command) = state.engine.next_command() {
            let (Command::Answer { session, .. } | Command::Notify { session, .. }) = &command;
            if let Some(outlet) = state.outlets.get(session) {
                outlet.tell(command);
                if !told.0.iter().any(|one| Arc::ptr_eq(one, outlet)) {
                    told.0.push(outlet.clone());
                }
            }
        }
        told
    }

    /// After what may have a deadline: sees that somebody looks at the clock then.
    pub fn tick(&mut self) {
        let Some(next) = self.state.engine.next_deadline() else { return };
        match self.state.ticks {
            Some(ticks) if ticks <= next => {}
            Some(_) => {
                self.state.ticks = Some(next);
                self.hosted.sooner.notify_all();
            }
            None if self.state.ended => {}
            None => {
                let hosted = self.hosted.clone();
                let started = std::thread::Builder::new().name("phalanx-space".into()).spawn(move || hosted.tick());
                // Without a thread a lease ends when somebody looks; the next call tries again.
                self.state.ticks = started.is_ok().then_some(next);
            }
        }
    }
}
