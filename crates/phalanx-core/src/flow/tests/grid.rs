//! A simulated grid: an engine, and simulations of its driver, its interpreters, their network and its user.
//!
//! Time is a number here, and all future events wait in an agenda. Links keep their order. So a computation can be
//! repeated exactly from its plan, which is printed when a test fails.

use super::check::Check;
use super::garbage;
use super::plan::{Kind, LABELS, LOOK, Plan, TICK, milliseconds};
use super::reader::Reader;
use super::remote::{Act, Remote};
use super::seat::{Happening, Seat, State};
use crate::event::{Cause, Command, Event, Fact, Lack};
use crate::flow::{Config, Engine, KILLS};
use crate::ids::InterpreterId;
use crate::level::Level;
use crate::needs::{Facts, Needs};
use crate::wire::{FromInterpreter, ToInterpreter};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Time between two heartbeats of an interpreter.
const BEAT: Duration = milliseconds(400);
/// A computation that takes longer than this hangs.
const LONGEST: Duration = Duration::from_secs(20_000);
/// How long to wait for late messages when all is done.
const AFTERWARDS: Duration = Duration::from_secs(3);

pub struct Grid {
    pub plan: Plan,
    pub engine: Engine,
    pub now: Duration,
    /// When the last stream was done.
    pub done: Duration,
    pub seats: BTreeMap<InterpreterId, Seat>,
    /// One reader for each stream.
    pub readers: Vec<Reader>,
    pub facts: Vec<Fact>,
    /// The interpreters that the engine dismissed, and after which silence.
    pub dismissed: Vec<(InterpreterId, Duration)>,
    check: Check,
    agenda: BTreeMap<(Duration, bool, u64), Happening>,
    happenings: u64,
    recruits: u32,
    /// The needs for which interpreters were recruited.
    recruited_for: BTreeMap<InterpreterId, Arc<Needs>>,
}

/// The facts of an interpreter with this label.
fn facts(label: &str) -> Arc<Facts> {
    Arc::new(Facts::from([("labels".to_owned(), label.to_owned())]))
}

/// The need of this label.
pub fn needs(label: &str) -> Needs {
    Needs { labels: vec![label.to_owned()], ..Needs::default() }
}

impl Grid {
    /// Computes all streams of the plan.
    pub fn compute(plan: Plan) -> Grid {
        let mut grid = Grid::start(plan);
        while !grid.readers.iter().all(Reader::is_done) {
            grid.next();
        }
        grid.done = grid.now;
        grid
    }

    /// Like [`Grid::compute`], and then waits a little longer.
    pub fn run(plan: Plan) -> Grid {
        let mut grid = Grid::compute(plan);
        let end = grid.done + AFTERWARDS;
        while grid.now < end {
            grid.next();
        }
        grid
    }

    /// Handles all events up to this moment.
    pub fn run_until(plan: Plan, end: Duration) -> Grid {
        let mut grid = Grid::start(plan);
        while grid.now < end {
            grid.next();
        }
        grid
    }

    /// Goes on until this moment.
    pub fn run_on_until(&mut self, end: Duration) {
        self.obey();
        while self.now < end {
            self.next();
        }
    }

    fn start(plan: Plan) -> Grid {
        let Plan { interpreters, goal, silence, patience, .. } = plan;
        let mut engine = Engine::new(Config { interpreters, goal, silence, patience });
        for label in &LABELS[1..] {
            let _ = engine.need(needs(label));
        }
        let unlucky = plan.losses_of_one_task() >= KILLS;
        let readers = plan.streams.iter().enumerate().map(|(index, stream)| Reader::open(&mut engine, index, stream));
        let mut grid = Grid {
            readers: readers.collect(),
            plan,
            engine,
            now: Duration::ZERO,
            done: Duration::ZERO,
            seats: BTreeMap::new(),
            facts: Vec::new(),
            dismissed: Vec::new(),
            check: Check::default(),
            agenda: BTreeMap::new(),
            happenings: 0,
            recruits: 0,
            recruited_for: BTreeMap::new(),
        };
        grid.readers.iter_mut().for_each(|reader| reader.unlucky = unlucky);
        grid.add(TICK, Happening::Tick);
        grid.add(LOOK, Happening::Look);
        grid.obey();
        grid
    }

    fn add(&mut self, at: Duration, happening: Happening) {
        self.happenings += 1;
        let not_tick = !matches!(happening, Happening::Tick); // a driver may tick before it reads
        self.agenda.insert((at, not_tick, self.happenings), happening);
    }

    fn next(&mut self) {
        let ((at, not_tick, number), happening) = self.agenda.pop_first().expect("ticks go on");
        assert!(at < LONGEST, "the computation hangs");
        let awake = self.plan.sleep.filter(|(from, to)| (*from..*to).contains(&at)).map(|(_, to)| to);
        match awake {
            // Keeps its old place among the events of that moment, because a link's messages arrive in order.
            Some(awake) if !happening.is_remote() => drop(self.agenda.insert((awake, not_tick, number), happening)),
            _ => {
                self.now = at;
                self.happen(happening);
            }
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Arrive(id, message, body) => return self.arrive(id, message, body),
            Happening::Act(id, act) => return self.act(id, act),
            Happening::Tick => {
                self.add(self.now + TICK, Happening::Tick);
                self.engine.on(self.now, Event::Tick);
            }
            Happening::Look => {
                self.add(self.now + LOOK, Happening::Look);
                if !self.engine.has_idle_beside_work() {
                    return;
                }
                self.engine.on(self.now, Event::Look);
            }
            Happening::Hear(id, message, body) => self.hear(id, message, body),
            Happening::LinkEnds(id, cause) => self.engine.on(self.now, Event::Lost { id, cause }),
            Happening::Recruited(id) => self.recruited(id),
            Happening::RecruitFails(id) => {
                let reason = format!("no machine for {}", id.0);
                let is_closed = self.now < self.plan.closed_until;
                self.engine
                    .on(self.now, if is_closed { Event::Closed { reason } } else { Event::RecruitFailed { reason } });
            }
            Happening::Lacks(needs) => {
                let (reason, lack) = ("no machine with a label".to_owned(), Lack::Busy);
                self.engine.on(self.now, Event::Lacking { needs, reason, lack });
            }
            Happening::Read(reader, tasks) => self.engine.read(self.readers[reader].run, tasks),
        }
        self.obey();
    }

    /// Carries out the engine's commands, while the user continues to feed tasks.
    fn obey(&mut self) {
        loop {
            while let Some(command) = self.engine.next_command() {
                self.carry_out(command);
            }
            let (engine, now) = (&mut self.engine, self.now);
            let went_on = self.readers.iter_mut().any(|reader| reader.go_on(engine, now));
            if !went_on {
                break;
            }
        }
        self.check.check(&self.engine, &self.readers);
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Send { to, message, body } => {
                let Some(seat) = self.seats.get(&to) else { panic!("{message:?} to nobody") };
                self.add(self.now + seat.delay, Happening::Arrive(to, message, body.concat().into()));
            }
            Command::Recruit => self.recruit(None),
            Command::RecruitFor { needs } => self.recruit(Some(needs)),
            Command::Dismiss { id } => self.dismiss(id),
            Command::Deliver { run, outcome } => {
                let index = self.readers.iter().position(|reader| reader.run == run).expect("an open run");
                let tasks = u64::from(outcome.tasks());
                self.readers[index].take(outcome);
                self.add(self.now + self.plan.reading, Happening::Read(index, tasks));
            }
            Command::Record(fact) => {
                self.check.record(&fact, &self.readers);
                self.check_needs(&fact);
                self.facts.push(fact);
            }
        }
    }

    /// Panics if an instruction is fired where what it needs is missing.
    fn check_needs(&self, fact: &Fact) {
        let Fact::Fired { interpreter, run, instruction, .. } = fact else { return };
        let Some(reader) = self.readers.iter().find(|reader| reader.run == *run) else { return };
        let needed = reader.stream.settings.get(usize::from(*instruction)).map_or(0, |it| it.needs);
        let facts = &self.seats[interpreter].facts;
        assert!(needed == 0 || needs(LABELS[usize::from(needed)]).are_met(facts), "{fact:?} without what it needs");
    }

    fn recruit(&mut self, needs: Option<Arc<Needs>>) {
        let how = self.plan.recruits.get(self.recruits as usize).copied().unwrap_or_default();
        self.recruits += 1;
        let id = InterpreterId(self.recruits);
        let happening = match (&needs, how.fails) {
            (_, false) => Happening::Recruited(id),
            (None, true) => Happening::RecruitFails(id),
            (Some(needs), true) => Happening::Lacks(needs.clone()),
        };
        self.recruited_for.extend(needs.map(|needs| (id, needs)));
        self.add(self.now + how.takes, happening);
    }

    fn recruited(&mut self, id: InterpreterId) {
        let delay = self.plan.delays[id.0 as usize % self.plan.delays.len()];
        let slowness = self.plan.slowness[id.0 as usize % self.plan.slowness.len()];
        let mut seat = Seat::new(Remote::new(Rc::new(self.plan.streams.clone()), slowness), delay, self.now);
        let label = self.recruited_for.get(&id).map(|needs| needs.labels[0].as_str());
        let facts = facts(label.unwrap_or(self.plan.labels[id.0 as usize % self.plan.labels.len()]));
        seat.facts = facts.clone();
        self.seats.insert(id, seat);
        self.add(self.now + BEAT, Happening::Act(id, Act::Say(FromInterpreter::Beat, Bytes::new())));
        let (name, machine) = (format!("interpreter/{}", id.0), "machine".to_owned());
        self.engine.on(self.now, Event::Recruited { id, name, machine, pid: id.0, level: Level::Clear });
        self.engine.on(self.now, Event::Has { id, own: facts.clone(), machine: facts });
    }

    fn arrive(&mut self, id: InterpreterId, message: ToInterpreter, body: Bytes) {
        self.step(id);
        let seat = self.seats.get_mut(&id).expect("sent to a seat");
        if matches!(seat.state, State::Down | State::Frozen) {
            return;
        }
        for (at, act) in seat.remote.take(self.now, message, body) {
            self.add(at, Happening::Act(id, act));
        }
    }

    fn act(&mut self, id: InterpreterId, act: Act) {
        if !matches!(act, Act::Step) {
            self.step(id);
        }
        let seat = self.seats.get_mut(&id).expect("somebody acts");
        match act {
            _ if matches!(seat.state, State::Down | State::Frozen) => {}
            Act::Step => {
                for (at, act) in seat.remote.step(self.now) {
                    self.add(at, Happening::Act(id, act));
                }
            }
            Act::Die => self.die(id, self.plan.crashes_lose_answers),
            Act::Say(message, body) => {
                if message == FromInterpreter::Beat {
                    self.add(self.now + BEAT, Happening::Act(id, Act::Say(FromInterpreter::Beat, Bytes::new())));
                }
                self.say(id, message, body);
            }
        }
    }

    fn say(&mut self, id: InterpreterId, message: FromInterpreter, body: Bytes) {
        let seat = self.seats.get_mut(&id).expect("somebody says it");
        seat.stops |= matches!(message, FromInterpreter::Stop { .. });
        if seat.state == State::Unheard {
            return seat.held.push((message, body));
        }
        seat.arrived = seat.arrived.max(self.now + seat.delay);
        let at = seat.arrived;
        self.add(at, Happening::Hear(id, message, body));
    }

    fn hear(&mut self, id: InterpreterId, message: FromInterpreter, body: Bytes) {
        let seat = self.seats.get_mut(&id).expect("somebody said it");
        if !seat.cut {
            seat.heard = self.now;
            self.engine.on(self.now, Event::Message { id, message, body });
        }
    }

    fn die(&mut self, id: InterpreterId, answers_lost: bool) {
        let seat = self.seats.get_mut(&id).expect("somebody dies");
        (seat.state, seat.cut) = (State::Down, answers_lost);
        let at = seat.arrived.max(self.now + seat.delay);
        self.add(at, Happening::LinkEnds(id, Cause::Died { how: "killed by signal 9".to_owned() }));
    }

    /// The driver closes the link. Messages in flight may still arrive, and so may the news of its end.
    fn dismiss(&mut self, id: InterpreterId) {
        let seat = self.seats.get_mut(&id).expect("somebody is dismissed");
        let released = matches!(self.facts.last(), Some(Fact::Released { interpreter }) if *interpreter == id);
        assert!(seat.faulty || seat.stops || released, "{id:?} was dismissed, and had done nothing");
        seat.state = State::Down;
        let (silent, held, end) = (self.now - seat.heard, std::mem::take(&mut seat.held), seat.arrived);
        if !released {
            self.dismissed.push((id, silent));
        }
        for (message, body) in held {
            self.add(self.now, Happening::Hear(id, message, body));
        }
        let cause = Cause::Died { how: "dismissed".to_owned() };
        self.add(end.max(self.now + milliseconds(1)), Happening::LinkEnds(id, cause));
    }

    /// Counts an interpreter's messages, and triggers the fault that was planned for this one.
    fn step(&mut self, id: InterpreterId) {
        let seat = self.seats.get_mut(&id).expect("a seat's message");
        let step = seat.steps;
        seat.steps += 1;
        let planned = self.plan.faults.iter().find(|fault| (fault.interpreter, fault.step) == (id.0, step));
        let Some(kind) = planned.filter(|_| seat.state == State::Up).map(|fault| fault.kind) else { return };
        seat.faulty = true;
        match kind {
            Kind::Dies => self.die(id, false),
            Kind::DiesAnswersLost => self.die(id, true),
            Kind::Freezes => seat.state = State::Frozen,
            Kind::ComesLate => seat.state = State::Unheard,
            Kind::Says(garbage) => {
                let (message, body) = garbage::answer(garbage, &self.engine, id);
                self.hear(id, message, body);
                self.obey();
            }
        }
    }
}

impl Drop for Grid {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed after {:?} of {:?}", self.now, self.plan);
        }
    }
}
