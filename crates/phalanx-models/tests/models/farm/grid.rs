//! The states of a grid of one manager. The engine is the real one, everything else is the model's.

use super::interpreter::{Seat, each, fired, tokens};
use super::model::{Act, Deed, Farm, Faults, deeds};
use super::{BEHIND, CULPRIT, DOUBLED, DROPPED, LATE, LIED, LOST, RAISED, RETURNED};
use bytes::Bytes;
use phalanx_core::event::{Cause, Command, Event, Fact, Outcome};
use phalanx_core::flow::{Config, Engine, Graph, KILLS, RunOptions};
use phalanx_core::ids::{InterpreterId, RunId};
use phalanx_core::level::Level;
use phalanx_core::wire::{FromInterpreter, Tokens};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// An interpreter that is not heard for so long is lost.
const SILENCE: Duration = Duration::from_millis(400);
/// The time between two ticks. Whatever is in flight is late after it.
const TICK: Duration = Duration::from_millis(100);

/// A state. Two of them are the same if all of this is.
#[derive(Debug, Clone)]
pub struct Grid {
    engine: Engine,
    run: RunId,
    now: Duration,
    fed: u8,
    recruiting: u32,
    recruited: u32,
    seats: BTreeMap<u32, Seat>,
    pub left: Faults,
    raised: Vec<u8>,
    /// Pairs of tasks that a firing has held. An interpreter that lies can exchange their results, and no others.
    /// Empty where no interpreter lies.
    mates: BTreeSet<(u8, u8)>,
    /// The tasks in the order of their outcomes.
    pub delivered: Vec<u8>,
    pub ended: bool,
    /// For how many ticks nothing but time has passed.
    pub idle: u32,
    pub broken: Option<String>,
}

/// A state, and the events of the step that led to it.
pub struct Visit {
    pub grid: Grid,
    pub notes: Vec<&'static str>,
}

impl Grid {
    /// The events without failures in which no time passes.
    pub fn acts(&self) -> Vec<Act> {
        let recruit = (self.recruiting > 0).then_some(Act::Recruit);
        recruit.into_iter().chain(self.each(deeds)).collect()
    }

    /// The events that are possible at each interpreter.
    pub fn each(&self, deeds: impl Fn(&Seat) -> Vec<Deed>) -> Vec<Act> {
        let at = |id: u32, seat| deeds(seat).into_iter().map(move |deed| Act::At(id, deed));
        self.seats.iter().flat_map(|(id, seat)| at(*id, seat)).collect()
    }

    /// The faults that an interpreter may have.
    pub fn faults(&self, seat: &Seat) -> Vec<Deed> {
        let (left, up, said) = (&self.left, !seat.down, seat.outbox.len());
        let possible = [
            (Deed::Heal, seat.cut && up),
            (Deed::Die, left.deaths > 0 && up),
            (Deed::Cut, left.cuts > 0 && up && !seat.cut),
            (Deed::Raise, left.raises > 0 && seat.is_computing()),
            (Deed::Return, left.returns > 0 && seat.has_unbegun()),
            (Deed::Repeat, left.lies > 0 && said > 0),
            (Deed::Reorder, left.lies > 0 && said > 1),
        ];
        possible.into_iter().filter_map(|(deed, possible)| possible.then_some(deed)).collect()
    }

    /// An interpreter does something, or has a fault.
    pub fn act(&mut self, id: u32, deed: Deed) {
        let Some(seat) = self.seats.get_mut(&id) else { return };
        let left = &mut self.left;
        match deed {
            Deed::Take => seat.take(),
            Deed::Answer => seat.answer(1),
            Deed::AnswerAll => seat.answer_all(),
            Deed::Heal => seat.cut = false,
            Deed::Die => {
                left.deaths -= 1;
                seat.die();
            }
            Deed::Cut => {
                left.cuts -= 1;
                seat.cut = true;
            }
            Deed::Raise => {
                left.raises -= 1;
                self.raised.extend(seat.raise());
            }
            Deed::Return => {
                left.returns -= 1;
                seat.give_back();
            }
            Deed::Repeat => {
                left.lies -= 1;
                seat.outbox.push_front(seat.outbox[0].clone());
            }
            Deed::Reorder => {
                left.lies -= 1;
                seat.outbox.swap(0, 1);
            }
            Deed::Hear | Deed::End => unreachable!("the manager does these"),
        }
    }

    fn breaks(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }

    fn deliver(&mut self, farm: &Farm, outcome: Outcome) -> Option<&'static str> {
        if self.ended {
            self.breaks(format!("after the end: {outcome:?}"));
        }
        match outcome {
            Outcome::Results { first, tokens } => {
                self.results(farm, first as u8, &tokens);
                None
            }
            Outcome::Raised { task, error, .. } => {
                let whose = error[0];
                if !self.raised.contains(&whose) || !self.may_have(task as u8, whose) {
                    self.breaks(format!("task {task} raised nothing, and has {error:?}"));
                }
                self.settle(farm, task as u8);
                Some(RAISED)
            }
            Outcome::Culprit { task, killed, .. } => {
                if killed.len() < KILLS {
                    self.breaks(format!("task {task} killed only {killed:?}"));
                }
                self.settle(farm, task as u8);
                Some(CULPRIT)
            }
            Outcome::Ended => {
                if self.delivered.len() < usize::from(farm.tasks) {
                    self.breaks(format!("the end comes after {:?}", self.delivered));
                }
                self.ended = true;
                None
            }
            Outcome::Unmet { .. }
            | Outcome::Abandoned { .. }
            | Outcome::TimedOut { .. }
            | Outcome::Cancelled { .. } => {
                self.breaks(format!("nobody gave reason for {outcome:?}"));
                None
            }
        }
    }

    fn results(&mut self, farm: &Farm, first: u8, tokens: &Tokens) {
        for (task, token) in (first..).zip(each(tokens)) {
            let (whose, fired) = (token[0], &token[1..]);
            let is_whole = fired.iter().copied().eq(0..farm.instructions as u8);
            if !is_whole || !self.may_have(task, whose) {
                self.breaks(format!("task {task} has the result {token:?}"));
            }
            self.settle(farm, task);
        }
    }

    /// Whether a task may have what came out of this one.
    fn may_have(&self, task: u8, whose: u8) -> bool {
        task == whose || self.mates.contains(&(task, whose))
    }

    /// A firing has held these tokens.
    fn fired(&mut self, tokens: &[Vec<u8>]) {
        for token in tokens {
            self.mates.extend(tokens.iter().map(|other| (token[0], other[0])));
        }
    }

    fn settle(&mut self, farm: &Farm, task: u8) {
        if self.delivered.contains(&task) {
            self.breaks(format!("task {task} is delivered twice"));
        }
        if task >= farm.tasks || farm.ordered && usize::from(task) != self.delivered.len() {
            self.breaks(format!("task {task} is delivered after {:?}", self.delivered));
        }
        self.delivered.push(task);
    }
}

impl Visit {
    /// A new engine without interpreters.
    pub fn first(farm: &Farm) -> Visit {
        let (interpreters, patience) = (farm.interpreters, Duration::from_secs(60));
        let mut engine = Engine::new(Config { interpreters, goal: None, silence: SILENCE, patience });
        let program = engine.stage(Graph::chain(farm.instructions), b"code"[..].into());
        let (ahead, size) = (Duration::from_secs(1), Some(u64::from(farm.tasks)));
        let options = RunOptions { ordered: farm.ordered, ahead, spare: 1, stragglers: true, contract: false, size };
        let run = engine.open(Duration::ZERO, program, options);
        let grid = Grid {
            engine,
            run,
            now: Duration::ZERO,
            fed: 0,
            recruiting: 0,
            recruited: 0,
            seats: BTreeMap::new(),
            left: farm.faults.clone(),
            raised: Vec::new(),
            mates: BTreeSet::new(),
            delivered: Vec::new(),
            ended: false,
            idle: 0,
            broken: None,
        };
        let mut visit = Visit { grid, notes: Vec::new() };
        visit.obey(farm);
        visit
    }

    fn on(&mut self, event: Event) {
        self.grid.engine.on(self.grid.now, event);
    }

    pub fn recruit(&mut self, farm: &Farm) {
        self.grid.recruiting -= 1;
        self.grid.recruited += 1;
        let id = self.grid.recruited;
        self.grid.seats.insert(id, Seat::new(farm.batch));
        let (name, machine) = (format!("interpreter {id}"), "machine".to_owned());
        self.on(Event::Recruited { id: InterpreterId(id), name, machine, pid: id, level: Level::Clear });
    }

    pub fn hear(&mut self, id: u32) {
        let Some(seat) = self.grid.seats.get_mut(&id) else { return };
        let Some((message, body)) = seat.outbox.pop_front() else { return };
        if seat.forgotten {
            self.notes.push(LATE);
        }
        if matches!(message, FromInterpreter::Returned { kept: 2.., .. }) {
            self.notes.push(BEHIND);
        }
        self.on(Event::Message { id: InterpreterId(id), message, body });
    }

    pub fn end(&mut self, id: u32) {
        self.grid.seats.remove(&id);
        let how = "its link ended".to_owned();
        self.on(Event::Lost { id: InterpreterId(id), cause: Cause::Died { how } });
    }

    /// A tick. Every interpreter that is neither dead nor cut off was heard before it.
    pub fn wait(&mut self) {
        let grid = &mut self.grid;
        match grid.acts().is_empty() {
            true => grid.idle += 1,
            false => grid.left.waits -= 1,
        }
        grid.now += TICK;
        let heard = self.grid.seats.iter().filter(|(_, seat)| !seat.down && !seat.cut);
        let heard: Vec<u32> = heard.map(|(id, _)| *id).collect();
        heard.into_iter().for_each(|id| self.on(Event::Heard { id: InterpreterId(id) }));
        self.on(Event::Tick);
    }

    /// Carries out the engine's commands. The user feeds tasks and reads outcomes at once.
    pub fn obey(&mut self, farm: &Farm) {
        loop {
            while let Some(command) = self.grid.engine.next_command() {
                self.carry_out(farm, command);
            }
            let grid = &mut self.grid;
            let room = grid.engine.room(grid.run).min(u32::from(farm.tasks - grid.fed)) as u8;
            if room == 0 || grid.ended {
                return;
            }
            let task: Vec<Vec<u8>> = (grid.fed..grid.fed + room).map(|task| vec![task]).collect();
            grid.engine.feed(grid.now, grid.run, tokens(&task)).expect("tokens of a chain");
            grid.fed += room;
            if grid.fed == farm.tasks {
                grid.engine.finish(grid.run);
            }
        }
    }

    fn carry_out(&mut self, farm: &Farm, command: Command) {
        let grid = &mut self.grid;
        match command {
            Command::Send { to, message, body } => {
                let body = Bytes::from(body.concat());
                if farm.faults.lies > 0 {
                    grid.fired(&fired(&message, body.clone()));
                }
                match grid.seats.get_mut(&to.0) {
                    Some(seat) => seat.hear(message, body),
                    None => grid.breaks(format!("{message:?} is for nobody")),
                }
            }
            Command::Recruit | Command::RecruitFor { .. } => grid.recruiting += 1,
            Command::Dismiss { id } => {
                if let Some(seat) = grid.seats.get_mut(&id.0) {
                    seat.die();
                }
            }
            Command::Deliver { outcome, .. } => {
                let tasks = u64::from(outcome.tasks());
                self.notes.extend(grid.deliver(farm, outcome));
                grid.engine.read(grid.run, tasks);
            }
            Command::Record(fact) => self.note(farm, &fact),
        }
    }

    fn note(&mut self, farm: &Farm, fact: &Fact) {
        match fact {
            Fact::Lost { interpreter, cause, tasks } => {
                let is_liar = cause.contains("broke the protocol");
                if is_liar && farm.faults.lies == 0 {
                    self.grid.breaks(format!("interpreter {} keeps to the protocol: {cause}", interpreter.0));
                }
                if let Some(seat) = self.grid.seats.get_mut(&interpreter.0) {
                    seat.forgotten = true;
                }
                self.notes.extend((*tasks > 0).then_some(LOST));
                self.notes.extend(is_liar.then_some(LIED));
            }
            Fact::Doubled { .. } => self.notes.push(DOUBLED),
            Fact::Dropped { .. } => self.notes.push(DROPPED),
            Fact::Returned { .. } => self.notes.push(RETURNED),
            _ => {}
        }
    }
}
