//! The manager's driver: connects the flow engine to threads, links and clocks.
//!
//! Each recruited interpreter has a control thread, as in paper 000. It reads answers, lets the engine decide, and writes what
//! is fired next. The thread that makes the engine decide also carries out the engine's commands.

mod mailbox;
mod seat;
#[cfg(all(test, unix))]
mod tests;

pub use mailbox::Mailbox;

use crate::given;
use crate::journal::{Journal, Kept, Summary};
use crate::prints::{Prints, Show};
use crate::recruit::{Has, LASTS, Recruit, RecruitError, Source};
use bytes::Bytes;
use phalanx_core::error::WireError;
use phalanx_core::event::{Cause, Command, Event, Fact, Outcome};
use phalanx_core::flow::{Config, Engine, Goal, Graph, Marks, Options as FiringOptions, RunOptions, View};
use phalanx_core::hub::Needs;
use phalanx_core::ids::{InterpreterId, ProgramId, RunId, TaskId};
use phalanx_core::level::Agreed;
use phalanx_core::wire::{FromInterpreter, ToInterpreter, Tokens, decode, encode, encode_body};
use phalanx_net::frames::Frame;
use phalanx_net::identity::{Delegation, Extent, IdentityError, Scope, Service};
use phalanx_net::sync::lock;
use seat::Seat;
use serde::Serialize;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// Interval between two checks for silent interpreters.
const TICK: Duration = Duration::from_millis(150);
/// Interval between two checks for work that an idle interpreter could take over. It is one time slice, because no work is late
/// before that.
const LOOK: Duration = Duration::from_millis(20);
/// Idle buffers are freed after this many ticks. Programs that keep sending arrays reuse their buffers before that.
const TICKS_OF_IDLE_MEMORY: u32 = 3;
/// An interpreter that is not ready after this long is given up.
const READY_PATIENCE: Duration = Duration::from_secs(30);
/// Least time between two lines that tell the user what is waited for.
const BETWEEN_LINES: Duration = Duration::from_secs(3);
/// Interval at which control threads check whether the manager is closed.
const PAUSE: Duration = Duration::from_millis(500);

/// The options of a user's manager.
pub struct Options {
    /// Number of interpreters to keep; with a goal, the most to have. `None`: all that the place offers.
    pub interpreters: Option<u32>,
    /// What the contract asks for beyond a number of interpreters.
    pub goal: Option<Goal>,
    /// An interpreter that is silent for this long counts as lost.
    pub silence: Duration,
    /// Without any interpreter left, computations wait this long for machines to come back.
    pub patience: Duration,
    /// The file to which the journal's facts are written as lines of JSON.
    pub journal: Option<PathBuf>,
    /// Shows what tasks print. `None`: it is not shown.
    pub show: Option<Show>,
    /// Whether interpreters of other machines may use the spaces that are in code and tasks.
    pub gives: bool,
    /// Tells the user what the manager waits for. `None`: it is not told.
    pub tell: Option<Tell>,
}

/// Tells the user a line. It is called in a thread of its own.
pub type Tell = Arc<dyn Fn(String) + Send + Sync>;

/// Computes programs on recruited interpreters. Closing it ends everything it started.
pub struct Manager {
    core: Arc<Core>,
    /// The process that recruited. A fork has a copy of this value, but the interpreters are not its own.
    owner: u32,
}

/// What a page shows of a manager.
#[derive(Debug, Serialize)]
struct Shown {
    /// Seconds since the manager began.
    now: f64,
    #[serde(flatten)]
    view: View,
    kept: Kept,
}

struct Core {
    began: Instant,
    engine: Mutex<Engine>,
    /// Signalled when outcomes were read, an interpreter has ended, or the manager closes. A stream may have room then.
    room: Condvar,
    seats: Mutex<HashMap<InterpreterId, Arc<Seat>>>,
    mailboxes: Mutex<HashMap<RunId, Arc<Mailbox>>>,
    journal: Journal,
    prints: Arc<Prints>,
    /// What interpreters may use in the user's name.
    scope: Mutex<Scope>,
    gives: bool,
    tell: Option<Tell>,
    source: Box<dyn Source>,
    /// Whether the contract wants as many interpreters as there are.
    wants_all: bool,
    next_id: AtomicU32,
    closed: AtomicBool,
    myself: Weak<Core>,
}

impl Manager {
    /// Starts recruiting; interpreters are fed as they become ready.
    pub fn start(source: Box<dyn Source>, options: Options) -> io::Result<Manager> {
        let began = Instant::now();
        let wants_all = options.interpreters.is_none();
        let interpreters = options.interpreters.unwrap_or_else(|| source.offered());
        let Options { goal, silence, patience, .. } = options;
        let config = Config { interpreters, goal, silence, patience };
        let journal = Journal::new(began, options.journal.as_deref())?;
        let core = Arc::new_cyclic(|myself| Core {
            began,
            engine: Mutex::new(Engine::new(config)),
            room: Condvar::new(),
            seats: Mutex::default(),
            mailboxes: Mutex::default(),
            journal,
            prints: Prints::new(options.show),
            scope: Mutex::default(),
            gives: options.gives,
            tell: options.tell,
            source,
            wants_all,
            next_id: AtomicU32::new(1),
            closed: AtomicBool::new(false),
            myself: myself.clone(),
        });
        core.drive(|_, _| ());
        let ticking = core.clone();
        thread::Builder::new().name("phalanx-tick".into()).spawn(move || ticking.tick())?;
        Ok(Manager { core, owner: std::process::id() })
    }

    /// How many interpreters the contract asks for now.
    pub fn interpreters(&self) -> u32 {
        lock(&self.core.engine).wanted()
    }

    /// Registers a program. `code` is the pickled tuple of the functions that its instructions fire. `options`: one entry per
    /// instruction; a missing one means the default.
    pub fn stage(&self, graph: Graph, code: Bytes, marks: Marks, options: Vec<FiringOptions>) -> ProgramId {
        self.give(&code);
        self.core.drive(|engine, _| {
            let program = engine.stage(graph, code);
            engine.mark(program, marks);
            engine.set_options(program, options);
            program
        })
    }

    /// The number of what an instruction needs, for its options. It may take a moment to find out where programs are. `None`: the
    /// manager has too many different needs.
    pub fn need(&self, needs: Needs) -> Option<u16> {
        let known = if needs.software.is_empty() { Vec::new() } else { self.core.source.learn(&needs.software) };
        self.core.drive(|engine, now| {
            for (id, Has { own, machine }) in known {
                engine.on(now, Event::Has { id, own, machine });
            }
            engine.need(needs)
        })
    }

    /// Forgets a program; its runs must be closed.
    pub fn forget(&self, program: ProgramId) {
        self.core.drive(|engine, _| engine.forget(program));
    }

    /// Lets all interpreters of other machines use more of a service in the user's name. Whatever is staged
    /// or fed afterwards reaches an interpreter after its delegation.
    ///
    /// # Errors
    /// The scope cannot be written into a delegation, or the user's key cannot sign one.
    pub fn delegate(&self, service: Service, extent: Extent) -> Result<(), IdentityError> {
        let is_new = lock(&self.core.scope).add(service, extent)?;
        match is_new {
            true => self.core.delegate_to_all(),
            false => Ok(()),
        }
    }

    /// Delegates the use of the spaces in a pickle that is about to be sent. If there are too many, the error of the task that opens
    /// one says what to do.
    fn give(&self, pickled: &[u8]) {
        let names = if self.core.gives { given::found_in(pickled) } else { BTreeSet::new() };
        if !names.is_empty() {
            let _ = self.delegate(Service::Spaces, Extent::Named(names));
        }
    }

    /// Opens a run whose outcomes go to `mailbox`.
    pub fn open(&self, program: ProgramId, options: RunOptions, mailbox: &Arc<Mailbox>) -> RunId {
        self.core.drive(|engine, now| {
            let run = engine.open(now, program, options);
            lock(&self.core.mailboxes).insert(run, mailbox.clone());
            run
        })
    }

    /// How many tasks of the stream the run can take now; waits up to `patience` for it to be more than 0.
    pub fn room(&self, run: RunId, patience: Duration) -> u32 {
        let engine = lock(&self.core.engine);
        let room = engine.room(run);
        if room > 0 || patience.is_zero() {
            return room;
        }
        let waited = self.core.room.wait_timeout_while(engine, patience, |engine| engine.room(run) == 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.room(run)
    }

    /// Feeds the next tasks of a run's stream. For a graph, they must be separate tokens.
    pub fn feed(&self, run: RunId, tasks: Tokens) -> Result<(), WireError> {
        self.give(tasks.parts().first().map_or(&[], |pickles| pickles));
        self.core.drive(|engine, now| engine.feed(now, run, tasks))
    }

    /// Marks the end of the run's stream.
    pub fn finish(&self, run: RunId) {
        self.core.drive(|engine, _| engine.finish(run));
    }

    /// Cancels a task of a chain, and ends the interpreter that fires it. Returns false if it has an outcome already.
    pub fn cancel(&self, run: RunId, task: TaskId) -> bool {
        self.core.drive(|engine, now| engine.cancel(now, run, task))
    }

    /// Closes a run that is not read any more, and ends the interpreters that are still firing its tasks after a moment.
    pub fn stop_run(&self, run: RunId) {
        self.core.drive(|engine, now| engine.stop(now, run));
        lock(&self.core.mailboxes).remove(&run);
    }

    /// Closes a run that is not read any more. Tasks that were begun are not ended.
    pub fn close_run(&self, run: RunId) {
        self.core.drive(|engine, _| engine.close(run));
        lock(&self.core.mailboxes).remove(&run);
    }

    /// Takes the outcomes in a mailbox. Waits up to `patience` for the first one; an `eager` reader is served before others.
    /// All output printed before these outcomes has been shown.
    pub fn take(&self, mailbox: &Mailbox, patience: Duration, eager: bool) -> VecDeque<(RunId, Outcome)> {
        let began = Instant::now();
        // A forked process has copies of the links, and would steal bytes from the original process.
        if eager && !patience.is_zero() && std::process::id() == self.owner {
            self.core.read_for(mailbox, patience);
        }
        let printed = |_| self.core.prints.settle(patience);
        let outcomes = mailbox.take(patience.saturating_sub(began.elapsed()), eager, printed);
        if !outcomes.is_empty() {
            let mut engine = lock(&self.core.engine);
            for (run, outcome) in &outcomes {
                engine.read(*run, u64::from(outcome.tasks()));
            }
            drop(engine);
            self.core.room.notify_all();
        }
        outcomes
    }

    /// The totals of the journal's facts so far.
    pub fn summary(&self) -> Summary {
        for seat in lock(&self.core.seats).values() {
            self.core.journal.spent_so_far(&seat.spent());
        }
        self.core.journal.summary()
    }

    /// What a page shows, as JSON: what the manager does now, and what its journal has kept. [`Manager::summary`] has the totals.
    pub fn shown(&self) -> io::Result<String> {
        let now = self.core.began.elapsed();
        let view = lock(&self.core.engine).view(now);
        let shown = Shown { now: now.as_secs_f64(), view, kept: self.core.journal.kept() };
        Ok(serde_json::to_string(&shown)?)
    }

    /// Ends every interpreter at once, and every thread soon. Returns an error if the journal's file is incomplete.
    pub fn close(&self) -> io::Result<()> {
        if std::process::id() != self.owner {
            return Ok(());
        }
        self.core.closed.store(true, Ordering::Release);
        let seats: Vec<_> = lock(&self.core.seats).drain().collect();
        for (id, seat) in &seats {
            self.core.journal.record(&seat.spent());
            self.core.journal.record(&Fact::Dismissed { interpreter: *id });
            seat.link.close();
        }
        for (_, seat) in &seats {
            let mut hold = lock(&seat.hold);
            hold.end();
            self.core.prints.end(&seat.voice, hold.last_words());
        }
        self.core.prints.close();
        self.core.source.close();
        self.core.room.notify_all();
        self.core.journal.flush()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

impl Core {
    /// Lets the engine decide, and carries out its commands. Frames enter the links' outboxes in the order of the commands.
    /// Writing, and everything else that can take long, happens after the engine is unlocked.
    fn drive<T>(&self, decide: impl FnOnce(&mut Engine, Duration) -> T) -> T {
        let mut engine = lock(&self.engine);
        let decided = decide(&mut engine, self.began.elapsed());
        let (mut written, mut dismissed, mut recruits) = (Vec::<(Arc<Seat>, bool)>::new(), Vec::new(), Vec::new());
        let mut delivered: Vec<Arc<Mailbox>> = Vec::new();
        while let Some(command) = engine.next_command() {
            match command {
                Command::Send { to, message, body } => {
                    let Some(seat) = lock(&self.seats).get(&to).cloned() else { continue };
                    let bytes = body.iter().map(|part| part.len() as u64).sum();
                    match message {
                        ToInterpreter::Beat => seat.link.queue_ahead(encode(&message, bytes)),
                        _ => drop(seat.link.queue(message.mark(), encode(&message, bytes), body)),
                    }
                    match written.iter_mut().find(|(other, _)| Arc::ptr_eq(other, &seat)) {
                        Some((_, has_body)) => *has_body |= bytes > 0,
                        None => written.push((seat, bytes > 0)),
                    }
                }
                Command::Deliver { run, outcome } => {
                    let Some(mailbox) = lock(&self.mailboxes).get(&run).cloned() else { continue };
                    mailbox.put(run, outcome);
                    if !delivered.iter().any(|other| Arc::ptr_eq(other, &mailbox)) {
                        delivered.push(mailbox);
                    }
                }
                Command::Record(fact) => self.journal.record(&fact),
                Command::Recruit => recruits.push(None),
                Command::RecruitFor { needs } => recruits.push(Some(needs)),
                Command::Dismiss { id } => dismissed.extend(lock(&self.seats).get(&id).cloned()),
            }
        }
        drop(engine);
        delivered.iter().for_each(|mailbox| mailbox.tell());
        written.iter().for_each(|(seat, has_body)| match has_body {
            true => seat.link.flush(),
            false => seat.link.flush_heads(),
        });
        dismissed.iter().for_each(|seat| seat.link.close());
        recruits.into_iter().for_each(|needs| self.recruit(needs));
        decided
    }

    /// Recruits an interpreter, which has what is needed, in a new thread, which then becomes its control thread.
    fn recruit(&self, needs: Option<Arc<Needs>>) {
        let Some(core) = self.myself.upgrade() else { return };
        let id = InterpreterId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let control = move || match needs {
            None => match core.source.recruit(id) {
                Ok(recruit) => core.control(id, recruit),
                Err(error) => core.recruit_failed(&error),
            },
            Some(needs) => match core.source.recruit_for(id, &needs) {
                Ok(recruit) => core.control(id, recruit),
                Err((lack, reason)) if !core.closed.load(Ordering::Acquire) => {
                    core.drive(|engine, now| engine.on(now, Event::Lacking { needs, reason, lack }));
                }
                Err(_) => {}
            },
        };
        if let Err(error) = thread::Builder::new().name(format!("phalanx-control-{}", id.0)).spawn(control) {
            self.recruit_failed(&RecruitError::Start(error));
        }
    }

    fn recruit_failed(&self, error: &RecruitError) {
        if !self.closed.load(Ordering::Acquire) {
            let reason = error.to_string();
            let is_closed = matches!(error, RecruitError::Closed(_));
            let event = if is_closed { Event::Closed { reason } } else { Event::RecruitFailed { reason } };
            self.drive(|engine, now| engine.on(now, event));
        }
    }

    /// The control thread of one interpreter, from its first message to its end.
    fn control(&self, id: InterpreterId, recruit: Recruit) {
        let seat = Arc::new(Seat::new(id, recruit));
        lock(&self.seats).insert(id, seat.clone());
        if self.closed.load(Ordering::Acquire) {
            lock(&self.seats).remove(&id); // the manager was closed before it could see this seat
            lock(&seat.hold).end();
            return;
        }
        if let Err(error) = self.delegate_to(&seat) {
            lock(&self.seats).remove(&id);
            lock(&seat.hold).end();
            return self.recruit_failed(&error.into());
        }
        let began = Instant::now();
        let end = seat.attend(
            PAUSE,
            |frame| self.on_frame(&seat, frame),
            || {
                let late = !seat.is_ready.load(Ordering::Relaxed) && began.elapsed() > READY_PATIENCE;
                if self.closed.load(Ordering::Acquire) || late {
                    seat.link.close();
                }
            },
        );
        let cause = seat.cause(end);
        if lock(&self.seats).remove(&id).is_some() {
            self.prints.end(&seat.voice, lock(&seat.hold).last_words());
            self.journal.record(&seat.spent()); // closing may have recorded it already
        }
        if !self.closed.load(Ordering::Acquire) {
            self.ended(&seat, cause);
        }
    }

    /// Sends every interpreter what the user gives it now.
    fn delegate_to_all(&self) -> Result<(), IdentityError> {
        let seats: Vec<_> = lock(&self.seats).values().cloned().collect();
        seats.iter().try_for_each(|seat| self.delegate_to(seat))
    }

    fn delegate_to(&self, seat: &Seat) -> Result<(), IdentityError> {
        let scope = lock(&self.scope).clone();
        let Some(given) = lock(&seat.hold).delegate(&scope)? else { return Ok(()) };
        let (message, body) = (ToInterpreter::Delegation, encode_body(&given));
        seat.link.queue(message.mark(), encode(&message, body.len() as u64), vec![body.into()]);
        seat.link.flush();
        if let Some(text) = &given.delegation {
            let until = Delegation::end_of(text).unwrap_or_default();
            let scope = scope.to_string().trim_end().replace('\n', ", ");
            self.journal.record(&Fact::Delegated { interpreter: seat.id, scope, until });
        }
        Ok(())
    }

    /// Handles a message of an interpreter, in the thread that reads its link.
    fn on_frame(&self, seat: &Seat, frame: Frame) {
        let (id, link) = (seat.id, &seat.link);
        match decode(&frame.header) {
            Ok(FromInterpreter::Ready { pid }) if !seat.is_ready.swap(true, Ordering::Relaxed) => {
                let (name, machine, level) = (seat.name.clone(), seat.machine.clone(), link.levels().base);
                let Has { own, machine: of_machine } = seat.has.clone();
                self.drive(|engine, now| {
                    engine.on(now, Event::Recruited { id, name, machine, pid, level });
                    engine.on(now, Event::Has { id, own, machine: of_machine });
                });
                let Agreed { levels, why, weaker } = seat.agreed.clone();
                let weaker = weaker.contains(&true);
                self.journal.record(&Fact::Protected { interpreter: id, levels, why, weaker });
            }
            Ok(FromInterpreter::Printed { kind }) => {
                if !self.prints.take(&seat.voice, kind, &frame.body) {
                    link.close();
                }
            }
            Ok(message) if seat.is_ready.load(Ordering::Relaxed) => {
                if !matches!(message, FromInterpreter::Beat) {
                    self.prints.answers(&seat.voice);
                }
                self.drive(|engine, now| engine.on(now, Event::Message { id, message, body: frame.body }));
            }
            Ok(_) => link.close(),
            Err(error) => {
                let _ = seat.violation.set(error);
                link.close();
            }
        }
    }

    /// Saves a wake-up when one call is in progress, on the only interpreter at work: the reader that waits for the outcome
    /// reads the interpreter's link itself. It does so until the outcome is there or `patience` has passed. Otherwise the
    /// control thread would be woken first, only to wake the reader.
    fn read_for(&self, mailbox: &Mailbox, patience: Duration) {
        #[cfg(target_os = "linux")]
        if let Some(seat) = self.seat_of_only_call() {
            seat.read_for(mailbox, patience, |frame| self.on_frame(&seat, frame));
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (mailbox, patience);
    }

    fn seat_of_only_call(&self) -> Option<Arc<Seat>> {
        let id = lock(&self.engine).only_call()?;
        lock(&self.seats).get(&id).cloned()
    }

    fn ended(&self, seat: &Seat, cause: Cause) {
        let Seat { id, name, .. } = seat;
        let reason = format!("{name} did not start: {cause}");
        let event = match seat.is_ready.load(Ordering::Relaxed) {
            true => Event::Lost { id: *id, cause },
            false if matches!(cause, Cause::Closed { .. }) => Event::Closed { reason },
            false => Event::RecruitFailed { reason },
        };
        self.drive(|engine, now| engine.on(now, event));
        self.room.notify_all();
    }

    /// Closes the links of interpreters that have died. A process that a task forked may otherwise keep such a link open.
    fn end_links_of_the_dead(&self) {
        let dead = |seat: &&Arc<Seat>| seat.hold.try_lock().is_ok_and(|hold| hold.has_ended());
        let dead: Vec<_> = lock(&self.seats).values().filter(dead).cloned().collect();
        dead.into_iter().for_each(|seat| seat.link.close());
    }

    /// For the given time, checks whether an idle interpreter could take over work of another one.
    fn look_for(&self, time: Duration) {
        let began = Instant::now();
        while let Some(left) = time.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
            let is_computing = lock(&self.engine).is_computing();
            thread::sleep(if is_computing { LOOK.min(left) } else { left });
            if lock(&self.engine).has_idle_beside_work() {
                self.drive(|engine, now| engine.on(now, Event::Look));
            }
        }
    }

    /// Frees the buffers for large arrays that have not been used for a while.
    fn give_memory_back(&self) {
        let links: Vec<_> = lock(&self.seats).values().map(|seat| seat.link.clone()).collect();
        links.iter().for_each(|link| link.trim());
        phalanx_net::body::trim();
    }

    /// Tells the user what requests for interpreters wait for: when that is new, and every few seconds at most. `told`: the last line,
    /// and when it was told.
    fn tell_waits(&self, told: &mut (String, Option<Instant>)) {
        let Some(tell) = &self.tell else { return };
        if told.1.is_some_and(|when| when.elapsed() < BETWEEN_LINES) {
            return;
        }
        let Some(waits) = self.source.waits() else { return };
        let (wanted, here) = (lock(&self.engine).wanted(), lock(&self.seats).len());
        if here >= wanted as usize {
            return; // others have given what an executor is still asked for
        }
        let line = format!("waiting for interpreters: {wanted} are wanted, {here} are here; {waits}");
        if line == told.0 {
            return;
        }
        *told = (line.clone(), Some(Instant::now()));
        let tell = tell.clone();
        // The function may block, and this thread notices silent interpreters.
        let _ = thread::Builder::new().name("phalanx-tell".into()).spawn(move || tell(line));
    }

    /// The ticking thread: checks signs of life and gives the engine its ticks, until the manager is closed.
    fn tick(&self) {
        let mut delegated = Instant::now();
        let offered = || self.wants_all.then(|| self.source.offered());
        let mut last_offered = offered();
        let mut told = (String::new(), None);
        for ticks in 1u32.. {
            if self.closed.load(Ordering::Acquire) {
                return;
            }
            self.look_for(TICK);
            if ticks % TICKS_OF_IDLE_MEMORY == 0 {
                self.give_memory_back();
            }
            self.end_links_of_the_dead();
            if delegated.elapsed() > LASTS / 3 {
                delegated = Instant::now();
                let _ = self.delegate_to_all(); // the same key has signed before
            }
            let signs: Vec<Event> = lock(&self.seats).values().filter_map(|seat| seat.sign_of_life()).collect();
            self.tell_waits(&mut told);
            let shares = self.source.shares();
            let offered = offered();
            let changed = offered.filter(|_| last_offered != offered);
            last_offered = offered;
            self.drive(|engine, now| {
                if let Some(interpreters) = changed {
                    engine.on(now, Event::Offered { interpreters });
                }
                for (among, keep) in shares {
                    engine.on(now, Event::Share { among, keep });
                }
                signs.into_iter().for_each(|sign| engine.on(now, sign));
                engine.on(now, Event::Tick);
            });
        }
    }
}
