//! A space in this process: the engine behind a lock, the threads of this process that wait for it, and the sessions of other
//! processes.

use super::log::{Log, LogError, Position};
use phalanx_core::error::SpaceError;
use phalanx_core::ids::{SessionId, TransactionId};
use phalanx_core::space::{Command, Coordinator, Decision, InDoubt, Joining, Keepers, Options, Pool, Space};
use phalanx_net::identity::random_number;
use phalanx_net::sync::lock;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Pause between two steps of a search, in which other threads may lock the space.
const TURN: Duration = Duration::from_millis(1);
/// Most coordinators asked at the same time, because each takes a thread.
const MOST_ASKED: usize = 32;

/// The receiver of a session's commands.
pub trait Outlet: Send + Sync {
    /// Stores a command. It must be quick, because the space is locked.
    fn tell(&self, command: Command);
    /// Sends the stored commands. The space is not locked any more.
    fn flush(&self);
}

/// Asks the coordinator of transactions in doubt for its decisions. `None`: it cannot be asked now.
pub type Asks = Arc<dyn Fn(&Coordinator, &[InDoubt]) -> Vec<Option<Decision>> + Send + Sync>;

/// The engine and its log, shared by threads.
pub struct Hosted {
    state: Mutex<State>,
    /// Number of threads that wait for the lock. A thread that takes it again and again lets these go first.
    waiting: AtomicUsize,
    began: Instant,
    /// If set, the space is reached only over private links or within trusted networks.
    pub secure: bool,
    /// The group whose members alone may open the space.
    pub group: Option<String>,
    /// The user who created it.
    pub maker: Option<String>,
    /// Whether other members keep the space too. If it cannot go on here, it goes on there.
    replicated: bool,
    /// Wakes the ticking thread for an earlier deadline.
    sooner: Condvar,
    /// Commands for other sessions, in order. They are sent once the changes they come from are stable.
    outbox: Mutex<VecDeque<Unsaid>>,
    asks: Mutex<Option<Asks>>,
    /// The coordinators that are being asked now.
    asked: Mutex<HashSet<Coordinator>>,
}

type Unsaid = (Position, Arc<dyn Outlet>, Command);

struct State {
    engine: Space,
    /// The log of a durable or replicated space, until the space ends.
    log: Option<Arc<dyn Log>>,
    outlets: HashMap<SessionId, Arc<dyn Outlet>>,
    sessions: u64,
    /// When the ticking thread, if there is one, checks deadlines next.
    ticks: Option<Duration>,
    /// Why the space has ended.
    ended: Option<SpaceError>,
}

/// The work left after unlocking, before any answer is sent: flush the outlets that were told something and, in a durable or
/// replicated space, wait until the changes are stable.
#[must_use]
#[derive(Default)]
pub struct Told {
    outlets: Vec<Arc<dyn Outlet>>,
    unstable: Option<Unstable>,
}

/// A position that the log must reach.
struct Unstable {
    hosted: Arc<Hosted>,
    log: Arc<dyn Log>,
    position: Position,
    /// Whether other sessions also wait to be told something.
    tells: bool,
    /// Whether a request only read. Then the log must also confirm that no other member serves the space.
    reads: bool,
}

impl Told {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.outlets.is_empty() && self.unstable.is_none()
    }

    /// Whether the log must be waited for before any answer.
    pub fn is_unstable(&self) -> bool {
        self.unstable.is_some()
    }

    /// Whether other sessions wait for it. Then it must be flushed even if this session has no answer to send.
    pub fn tells(&self) -> bool {
        !self.outlets.is_empty() || self.unstable.as_ref().is_some_and(|unstable| unstable.tells)
    }

    /// Joins this work with that of `later`, which is of the same space.
    pub fn and(mut self, mut later: Told) -> Told {
        if let (Some(before), Some(later)) = (self.unstable, &mut later.unstable) {
            (later.tells, later.reads) = (later.tells | before.tells, later.reads | before.reads);
        }
        later.outlets.append(&mut self.outlets);
        later
    }

    /// Call this without the lock. After an error the answers must not be sent, because the changes may not have happened.
    pub fn flush(self) -> Result<(), SpaceError> {
        self.outlets.iter().for_each(|outlet| outlet.flush());
        self.unstable.map_or(Ok(()), Unstable::wait)
    }
}

impl Unstable {
    fn wait(self) -> Result<(), SpaceError> {
        let confirmed = if self.reads { self.log.confirm(self.position) } else { self.log.wait(self.position) };
        drop(self.log);
        confirmed.map_err(|error| self.hosted.fail(&error))?;
        self.hosted.tell_stable(self.position);
        Ok(())
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
        let mut engine = Space::new(options)?;
        engine.identify(random_number());
        Ok(Hosted::of(engine, None, Instant::now()))
    }

    /// Wraps an existing engine and the log of its changes. `began` is the engine's time zero.
    pub(super) fn of(engine: Space, log: Option<Arc<dyn Log>>, began: Instant) -> Arc<Hosted> {
        let Options { secure, group, maker, replicas, .. } = engine.options().clone();
        let replicated = !replicas.is_empty();
        let state = State { engine, log, outlets: HashMap::new(), sessions: 0, ticks: None, ended: None };
        let (state, sooner, outbox) = (Mutex::new(state), Condvar::new(), Mutex::default());
        let waiting = AtomicUsize::new(0);
        let (asks, asked) = (Mutex::default(), Mutex::default());
        Arc::new(Hosted { state, waiting, began, secure, group, maker, replicated, sooner, outbox, asks, asked })
    }

    /// Takes the memory of the space from the account of its maker in this pool.
    pub fn charge_to(self: &Arc<Self>, pool: &Arc<Pool>) {
        let mut locked = self.lock();
        if !locked.engine().is_charged() {
            let account = pool.account(self.maker.as_deref());
            locked.engine().charge_to(account);
        }
    }

    /// Sets the function that asks other spaces for the outcome of transactions.
    pub fn ask_by(&self, asks: &Asks) {
        *lock(&self.asks) = Some(asks.clone());
    }

    /// Asks each coordinator in a thread of its own, and ends the transactions that are decided. The others will be in doubt
    /// again.
    fn ask_others(self: &Arc<Self>, mut doubts: Vec<InDoubt>) {
        let Some(asks) = lock(&self.asks).clone() else { return };
        while let Some(first) = doubts.pop() {
            let coordinator = first.coordinator.clone();
            let (mut same, others) = doubts.into_iter().partition::<Vec<_>, _>(|it| it.coordinator == coordinator);
            same.push(first);
            doubts = others;
            let mut asked = lock(&self.asked);
            if asked.len() >= MOST_ASKED || !asked.insert(coordinator.clone()) {
                continue;
            }
            drop(asked);
            let (space, asks, known) = (self.clone(), asks.clone(), coordinator.clone());
            let asking = move || {
                for (doubt, decision) in same.iter().zip(asks(&known, &same)) {
                    space.end_as_decided(doubt.transaction, decision);
                }
                lock(&space.asked).remove(&known);
            };
            if std::thread::Builder::new().name("phalanx-space".into()).spawn(asking).is_err() {
                lock(&self.asked).remove(&coordinator);
            }
        }
    }

    fn end_as_decided(self: &Arc<Self>, transaction: TransactionId, decision: Option<Decision>) {
        let (_, told) = self.with(|space, now| match decision {
            Some(Decision::Committed) => space.commit(now, transaction),
            Some(Decision::Aborted) => space.abort(now, transaction),
            Some(Decision::Open | Decision::Forgotten) | None => Ok(()),
        });
        // if it was not stored, the coordinator is asked again when the space is filled from its log
        let _ = told.flush();
    }

    /// The engine's clock.
    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Locks the space.
    pub fn lock(self: &Arc<Self>) -> Locked<'_> {
        if let Some(locked) = self.try_lock() {
            return locked;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let state = lock(&self.state);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Locked { hosted: self, state }
    }

    /// For a thread that has just unlocked the space and will need it again for long: lets waiting threads lock it first.
    pub(super) fn give_way(&self) {
        let end = Instant::now() + TURN;
        while self.waiting.load(Ordering::Relaxed) > 0 && Instant::now() < end {
            std::thread::sleep(TURN / 20);
        }
    }

    /// Locks the space unless another thread has it locked.
    pub fn try_lock(self: &Arc<Self>) -> Option<Locked<'_>> {
        use std::sync::TryLockError;
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Locked { hosted: self, state })
    }

    /// Runs `work` on the engine. The returned `Told` must be flushed before the result is sent.
    pub fn with<T>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut Space, Duration) -> Result<T, SpaceError>,
    ) -> (Result<T, SpaceError>, Told) {
        let mut locked = self.lock();
        if let Err(error) = locked.check() {
            return (Err(error), Told::default());
        }
        let done = work(locked.engine(), self.now());
        locked.tick();
        (done, locked.unlock())
    }

    /// Adds members that keep the space too, and removes others by their addresses. Takes as long as new members need to learn
    /// the state.
    pub(super) fn change_members(self: &Arc<Self>, add: &[Joining], remove: &[String]) -> Result<(), SpaceError> {
        let log = self.lock().state.log.clone();
        let alone = || SpaceError::Options("its server alone keeps it: it has no members".into());
        log.ok_or_else(alone)?.change_members(add, remove).map_err(|error| match error {
            LogError::Misfit(why) => SpaceError::Options(why),
            error => SpaceError::Uncertain(error.to_string()),
        })
    }

    /// Ends the space: waiting requests get an error, the ticking thread ends, and all memory is freed. A durable space is on
    /// the disk by then.
    pub fn end(&self) {
        self.end_with(SpaceError::Cancelled);
    }

    /// After an error of the log, the engine holds more than the log. So it is discarded, and all waiting requests get the
    /// error.
    fn fail(&self, error: &LogError) -> SpaceError {
        if self.replicated {
            let leader = if let LogError::NotLeading { leader } = error { leader.clone() } else { None };
            self.move_to(leader);
            return SpaceError::Uncertain(error.to_string());
        }
        let error = SpaceError::NotKept(error.to_string());
        self.end_with(error.clone());
        error
    }

    /// Ends a replicated space here because another member leads it now. Waiting requests are told to wait there.
    pub(super) fn move_to(&self, leader: Option<String>) {
        self.end_with(SpaceError::Elsewhere { leader });
    }

    fn end_with(&self, why: SpaceError) {
        let mut state = lock(&self.state);
        if state.ended.is_some() {
            return;
        }
        state.ended = Some(why.clone());
        self.sooner.notify_all();
        let waiting = state.engine.waiting();
        let outlets = std::mem::take(&mut state.outlets);
        let old = Space::new(Options::default()).map(|empty| std::mem::replace(&mut state.engine, empty));
        let log = state.log.take();
        drop(state);
        drop((old, log));
        let answer = |session, request| Command::Answer { session, request, answer: Err(why.clone()) };
        let unsaid: Vec<_> = lock(&self.outbox).drain(..).collect();
        for (_, outlet, command) in unsaid {
            if let Command::Answer { session, request, .. } = command {
                // The log may hold the changes that this answer came from.
                let answer = Err(SpaceError::Uncertain(why.to_string()));
                outlet.tell(Command::Answer { session, request, answer });
                outlet.flush();
            }
        }
        for (session, request) in waiting {
            outlets.get(&session).into_iter().for_each(|outlet| outlet.tell(answer(session, request)));
        }
        outlets.values().for_each(|outlet| outlet.flush());
    }

    /// Whether the space has ended, by request or because its log failed.
    pub fn has_ended(&self) -> bool {
        lock(&self.state).ended.is_some()
    }

    /// Whether every change goes to a log.
    pub fn is_kept(&self) -> bool {
        lock(&self.state).log.is_some()
    }

    /// Sends the stored commands that are stable up to `position`.
    fn tell_stable(&self, position: Position) {
        let mut told: Vec<Arc<dyn Outlet>> = Vec::new();
        let mut outbox = lock(&self.outbox);
        while outbox.front().is_some_and(|(at, ..)| *at <= position) {
            let Some((_, outlet, command)) = outbox.pop_front() else { break };
            outlet.tell(command);
            remember(&mut told, &outlet);
        }
        drop(outbox);
        told.iter().for_each(|outlet| outlet.flush());
    }

    /// The ticking thread, which runs while anything has a deadline.
    fn tick(self: Arc<Self>) {
        let mut locked = self.lock();
        loop {
            let next = locked.state.engine.next_deadline().filter(|_| locked.state.ended.is_none());
            locked.state.ticks = next;
            let Some(next) = next else { return };
            let now = self.now();
            if next > now {
                let waited = self.sooner.wait_timeout(locked.state, next - now);
                locked.state = waited.unwrap_or_else(PoisonError::into_inner).0;
            } else {
                locked.state.engine.on_tick(now);
                let doubts = locked.state.engine.in_doubt(now);
                let _ = locked.unlock().flush(); // after an error there are no deadlines left to check
                self.ask_others(doubts);
                self.give_way();
                locked = self.lock();
            }
        }
    }
}

impl Locked<'_> {
    /// Whether [`Hosted::end`] was called.
    pub fn has_ended(&self) -> bool {
        self.state.ended.is_some()
    }

    /// The error, if the space has ended.
    pub fn check(&self) -> Result<(), SpaceError> {
        self.state.ended.clone().map_or(Ok(()), Err)
    }

    /// The members that replicate the space, and what this one knows of them. `None`: this server alone keeps it.
    pub fn keepers(&self) -> Option<Keepers> {
        self.state.log.as_ref().and_then(|log| log.keepers())
    }

    /// The engine. Call [`Locked::tick`] and [`Locked::unlock`] after changing it.
    pub fn engine(&mut self) -> &mut Space {
        &mut self.state.engine
    }

    /// Opens a session whose commands go to the outlet.
    pub fn open(&mut self, outlet: Arc<dyn Outlet>) -> SessionId {
        let session = self.number();
        self.state.outlets.insert(session, outlet);
        session
    }

    /// Opens a session without an outlet, for requests that are answered at once.
    pub fn number(&mut self) -> SessionId {
        self.state.sessions += 1;
        SessionId(self.state.sessions)
    }

    /// Closes a session: its waiting requests and watches end, and the tuples that it has not acknowledged come back.
    pub fn close(&mut self, session: SessionId) {
        self.forget(session);
        self.state.engine.end_session(self.hosted.now(), session);
    }

    /// Removes the session's outlet. `false`: it had been removed before.
    pub fn forget(&mut self, session: SessionId) -> bool {
        self.state.outlets.remove(&session).is_some()
    }

    /// Hands all new commands to the outlets, and unlocks.
    pub fn unlock(mut self) -> Told {
        if self.state.engine.is_behind() {
            self.tick();
        }
        let state = &mut *self.state;
        state.engine.settle();
        let mut told = Told::default();
        if let Some(log) = state.log.clone() {
            let changes = state.engine.take_changes();
            let reads = changes.is_empty();
            let position = if reads { log.position() } else { log.append(changes) };
            told.unstable = Some(Unstable { hosted: self.hosted.clone(), log, position, tells: false, reads });
        }
        while let Some(command) = state.engine.next_command() {
            let (Command::Answer { session, .. } | Command::Notify { session, .. }) = &command;
            let Some(outlet) = state.outlets.get(session) else { continue };
            match &mut told.unstable {
                Some(unstable) => {
                    unstable.tells = true;
                    lock(&self.hosted.outbox).push_back((unstable.position, outlet.clone(), command));
                }
                None => {
                    outlet.tell(command);
                    remember(&mut told.outlets, outlet);
                }
            }
        }
        told
    }

    /// Call this after a change that may have added a deadline. Makes sure that a thread checks it in time.
    pub fn tick(&mut self) {
        let Some(next) = self.state.engine.next_deadline() else { return };
        match self.state.ticks {
            Some(ticks) if ticks <= next => {}
            Some(_) => {
                self.state.ticks = Some(next);
                self.hosted.sooner.notify_all();
            }
            None if self.state.ended.is_some() => {}
            None => {
                let hosted = self.hosted.clone();
                let started = std::thread::Builder::new().name("phalanx-space".into()).spawn(move || hosted.tick());
                // Without that thread, a lease ends only at the next request, which also tries to start the thread again.
                self.state.ticks = started.is_ok().then_some(next);
            }
        }
    }
}

fn remember(outlets: &mut Vec<Arc<dyn Outlet>>, outlet: &Arc<dyn Outlet>) {
    if !outlets.iter().any(|one| Arc::ptr_eq(one, outlet)) {
        outlets.push(outlet.clone());
    }
}
