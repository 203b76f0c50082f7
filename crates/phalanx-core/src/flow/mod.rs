//! The flow engine: macro data flow on remote interpreters (paper 000).
//!
//! A task instantiates its own copy of the program's graph; instructions with all their tokens sit in the
//! repository; an interpreter with room takes the next one. The engine decides, the manager's driver in
//! `phalanx-node` does. Consecutive tasks travel together (one `Work`), so that a fine grain costs one
//! decision a batch and not one a task.

mod contract;
mod forward;
mod gather;
mod graph;
mod groups;
mod interpreter;
mod marks;
mod pace;
mod repository;
mod run;
mod staff;
mod straggler;
#[cfg(test)]
mod tests;
mod watch;

pub use contract::Goal;
pub use graph::{Graph, GraphError, Instruction, Takes, Target};
pub use marks::{MarkedData, Marks};
pub use run::RunOptions;

use crate::error::WireError;
use crate::event::{Cause, Command, Event, Fact, Outcome};
use crate::ids::{FiringId, InterpreterId, ProgramId, RunId};
use crate::wire::{Follow, FromInterpreter, Stayed, ToInterpreter, Tokens};
use bytes::Bytes;
use contract::Contract;
use forward::Given;
use gather::Bulk;
use groups::Groups;
use interpreter::{Firing, Interpreter, Race};
use pace::{Pace, SLICE};
use repository::{Repository, Work};
use run::Run;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

/// A task whose firing ended this many interpreters is the culprit.
pub const KILLS: usize = 3;
/// So is one that as many were lost with, dead or silent: it may stop the processes that fire it.
pub const LOSSES: usize = 6;
/// Interpreters are told that often that the manager lives.
const BEAT: Duration = Duration::from_millis(400);
/// Missing interpreters are looked for again that often.
const RECRUIT_AGAIN: Duration = Duration::from_secs(1);
/// Losses that an error names.
const MOST_LOSSES: usize = 16;

/// What the user's contract and patience are.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Interpreters to keep, or, with a goal, to have at most.
    pub interpreters: u32,
    /// What the contract asks for beyond a number of interpreters.
    pub goal: Option<Goal>,
    /// An interpreter not heard from for this long is lost.
    pub silence: Duration,
}

#[derive(Debug)]
struct Program {
    graph: Graph,
    code: Bytes,
    marks: Marks,
    /// One for each instruction.
    paces: Vec<Pace>,
    /// For each fan, how many parts a token is split into: a moving average.
    parts: Vec<f64>,
}

impl Program {
    /// What a task needs on its way to its result.
    fn whole(&self) -> Pace {
        let tokens = |number: usize| self.tokens(self.graph.instruction(number as u16).fan);
        Pace::whole(self.paces.iter().enumerate().map(|(number, pace)| (pace, tokens(number))))
    }

    /// How long `tokens` tokens take, with what follows where they stay; unknown before the first answer.
    fn estimate(&self, mut instruction: u16, tokens: u32) -> Option<Duration> {
        let mut whole = self.paces[usize::from(instruction)].estimate(tokens)?;
        for next in self.graph.follow(instruction) {
            if !self.paces[usize::from(instruction)].gives_heavy() {
                break;
            }
            whole += self.paces[usize::from(next)].estimate(tokens).unwrap_or_default();
            instruction = next;
        }
        Some(whole)
    }

    /// How many tokens of a task are numbered in a fan.
    fn tokens(&self, mut fan: u16) -> f64 {
        let mut tokens = 1.0;
        while fan != 0 {
            tokens *= self.parts[usize::from(fan)].max(1.0);
            fan = self.graph.around(fan);
        }
        tokens
    }
}

/// State of one manager's computing. Times are since any fixed moment, the same in all calls.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    contract: Contract,
    programs: HashMap<ProgramId, Program>,
    runs: BTreeMap<RunId, Run>,
    repository: Repository,
    interpreters: BTreeMap<InterpreterId, Interpreter>,
    recruiting: u32,
    /// Whether there ever was an interpreter.
    recruited: bool,
    losses: VecDeque<String>,
    /// Why the last recruit could not be had; `None` after one that could.
    last_failure: Option<String>,
    /// When the last event was.
    now: Duration,
    last_tick: Duration,
    last_beat: Duration,
    last_recruit: Duration,
    next_firing: u64,
    next_name: u32,
    commands: VecDeque<Command>,
}

impl Engine {
    /// An engine that at once commands the recruiting of what the contract asks for.
    pub fn new(config: Config) -> Engine {
        let mut engine = Engine {
            config,
            contract: Contract::new(config.goal, config.interpreters),
            programs: HashMap::new(),
            runs: BTreeMap::new(),
            repository: Repository::default(),
            interpreters: BTreeMap::new(),
            recruiting: 0,
            recruited: false,
            losses: VecDeque::new(),
            last_failure: None,
            now: Duration::ZERO,
            last_tick: Duration::ZERO,
            last_beat: Duration::ZERO,
            last_recruit: Duration::ZERO,
            next_firing: 0,
            next_name: 0,
            commands: VecDeque::new(),
        };
        engine.recruit_missing(Duration::ZERO);
        engine
    }

    /// The next thing to do; the order is binding.
    pub fn next_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// Takes a program: a graph, and the pickled tuple of its instructions' functions.
    pub fn stage(&mut self, graph: Graph, code: Bytes) -> ProgramId {
        let id = ProgramId(self.new_name());
        let (paces, parts) = (vec![Pace::default(); graph.len()], vec![0.0; graph.fans()]);
        self.programs.insert(id, Program { graph, code, marks: Marks::default(), paces, parts });
        id
    }

    /// Says what of a program is marked, before it is run.
    pub fn mark(&mut self, program: ProgramId, marks: Marks) {
        if let Some(program) = self.programs.get_mut(&program) {
            program.marks = marks;
        }
    }

    /// Forgets a program, here and where it was staged. Its runs must be closed.
    pub fn forget(&mut self, program: ProgramId) {
        self.programs.remove(&program);
        for (id, interpreter) in &mut self.interpreters {
            if interpreter.staged.remove(&program) {
                let message = ToInterpreter::Forget { program };
                self.commands.push_back(Command::Send { to: *id, message, body: Vec::new() });
            }
        }
    }

    /// Opens a run of a staged program.
    pub fn open(&mut self, now: Duration, program: ProgramId, options: RunOptions) -> RunId {
        let id = RunId(self.new_name());
        let graph = &self.programs[&program].graph;
        let groups = (!graph.is_chain()).then(|| Groups::new(graph.clone()));
        self.runs.insert(id, Run::new(program, groups, options));
        if self.interpreters.is_empty() {
            self.recruit_missing(now);
        }
        id
    }

    /// How many tasks the run can take from its stream now; 0: none before more results were read.
    pub fn room(&self, run: RunId) -> u32 {
        let Some((run, program)) = self.run_and_program(run) else { return 0 };
        let interpreters = (self.interpreters.len() as u32).max(self.recruiting).max(1);
        run.room(program.paces[0].batch(), &program.whole(), interpreters)
    }

    /// The next tasks of a run's stream. Tasks of a graph must be separate tokens: others are refused.
    pub fn feed(&mut self, now: Duration, run_id: RunId, tasks: Tokens) -> Result<(), WireError> {
        let Some(run) = self.runs.get_mut(&run_id).filter(|run| !run.has_ended()) else { return Ok(()) };
        self.now = now;
        if run.groups.is_some() {
            self.feed_graph(now, run_id, tasks)?;
        } else {
            let program = self.programs.get_mut(&run.program).expect("programs outlive their runs");
            program.paces[0].weighed(tasks.count(), tasks.bytes());
            let first = run.feed(now, tasks.count());
            self.repository.append(Work::new(run_id, 0, first, tasks));
        }
        self.fire(now);
        Ok(())
    }

    /// The run's stream has ended.
    pub fn finish(&mut self, run: RunId) {
        if let Some(open) = self.runs.get_mut(&run) {
            open.finish();
            self.end_if_done(run);
        }
    }

    /// The run's reader took the outcomes of `tasks` tasks, which makes room.
    pub fn read(&mut self, run: RunId, tasks: u64) {
        if let Some(run) = self.runs.get_mut(&run) {
            run.read(tasks);
        }
    }

    /// Nobody reads the run any more: what it has left is not fired.
    pub fn close(&mut self, run: RunId) {
        self.runs.remove(&run);
        self.contract.forget(run);
        self.repository.drop_run(run);
    }

    /// Something happened.
    pub fn on(&mut self, now: Duration, event: Event) {
        self.now = now;
        match event {
            Event::Recruited { id, name, machine, pid, level } => {
                self.recruiting = self.recruiting.saturating_sub(1);
                self.recruited = true;
                self.last_failure = None;
                self.record(Fact::Recruited { interpreter: id, name: name.clone(), machine, pid, level });
                self.interpreters.insert(id, Interpreter::new(name, now));
                self.fire(now);
            }
            Event::RecruitFailed { reason } => {
                self.recruiting = self.recruiting.saturating_sub(1);
                self.record(Fact::RecruitFailed { reason: reason.clone() });
                self.last_failure = Some(reason.clone());
                self.remember_loss(reason);
                self.abandon_if_alone();
            }
            Event::Message { id, message, body } => self.on_message(now, id, message, body),
            Event::Heard { id } => self.on_heard(now, id),
            Event::Lost { id, cause } => self.on_lost(now, id, cause),
            Event::Tick => self.on_tick(now),
        }
    }

    fn on_heard(&mut self, now: Duration, id: InterpreterId) {
        if let Some(interpreter) = self.interpreters.get_mut(&id) {
            interpreter.heard = now;
        }
    }

    fn on_message(&mut self, now: Duration, id: InterpreterId, message: FromInterpreter, body: Bytes) {
        if !self.interpreters.contains_key(&id) {
            return; // replaced before: what it still says was fired elsewhere
        }
        self.on_heard(now, id);
        let understood = match message {
            FromInterpreter::Ready { .. } => Err(WireError::UnexpectedAnswer),
            FromInterpreter::Beat => Ok(()),
            FromInterpreter::Attacked => {
                self.commands.push_back(Command::Dismiss { id });
                self.on_lost(now, id, Cause::Attacked);
                Ok(())
            }
            FromInterpreter::Ahead { firing, shape } => {
                Tokens::from_wire(shape, body).and_then(|tokens| self.on_ahead(id, firing, tokens))
            }
            FromInterpreter::Fired { firing, shape, ways, stayed, busy, protection } => {
                let given = Tokens::from_wire(shape, body).map(|tokens| Given { ways, stayed, tokens });
                given.and_then(|given| self.on_fired(now, id, firing, given, busy, protection))
            }
            FromInterpreter::Failed { firing, busy } => {
                self.on_failed(now, id, firing, body, Duration::from_nanos(busy))
            }
            FromInterpreter::Returned { firing } => self.on_returned(now, id, firing),
        };
        if let Err(error) = understood {
            self.commands.push_back(Command::Dismiss { id });
            self.on_lost(now, id, Cause::Protocol { what: error.to_string() });
        }
    }

    /// Results came: they are the next instruction's tokens, or leave.
    fn on_fired(
        &mut self,
        now: Duration,
        id: InterpreterId,
        firing: FiringId,
        given: Given,
        busy: u64,
        protection: u64,
    ) -> Result<(), WireError> {
        let (ahead, followed) = self.check_given(id, firing, &given)?;
        let (tasks, bytes) = (given.tasks(), given.tokens.bytes() + ahead.iter().map(Tokens::bytes).sum::<u64>());
        let whole = given.stayed.iter().fold(busy, |whole, stayed| whole.saturating_add(stayed.busy));
        let (mut works, race) = self.answered(now, id, firing, tasks, Duration::from_nanos(whole))?;
        let run = works[0].run;
        if race == Race::Lost {
            let busy = whole;
            self.record(Fact::Dropped { interpreter: id, run, tasks, bytes, busy, protection });
            self.fire(now);
            return Ok(());
        }
        self.win(race);
        if !followed.is_empty() {
            self.on_stayed(id, &mut works[0], &followed, &given.stayed);
        }
        let (instruction, duration) = (works[0].instruction, Duration::from_nanos(busy));
        self.record(Fact::Answered { interpreter: id, run, instruction, tasks, bytes, busy, protection });
        let Some(open) = self.runs.get(&run) else {
            self.fire(now);
            return Ok(());
        };
        let program = self.programs.get_mut(&open.program).expect("programs outlive their runs");
        let pace = &mut program.paces[usize::from(instruction)];
        if let Some(interpreter) = self.interpreters.get_mut(&id) {
            interpreter.compared(pace.ratio(tasks, duration));
        }
        pace.measured(tasks, duration, bytes);
        if open.groups.is_some() {
            self.give(&works, ahead, given)?;
        } else {
            self.pass_on(&works[0], given.tokens, bytes);
        }
        self.fire(now);
        Ok(())
    }

    /// Tokens of one task stayed, and the instructions that follow were fired on them: `work` is the last one's now.
    fn on_stayed(&mut self, id: InterpreterId, work: &mut Work, followed: &[u16], stayed: &[Stayed]) {
        let run = work.run;
        for (next, Stayed { bytes, busy }) in followed.iter().zip(stayed.iter().copied()) {
            let instruction = std::mem::replace(&mut work.instruction, *next);
            self.record(Fact::Stayed { interpreter: id, run, instruction, bytes, busy });
            let Some(program) = self.runs.get(&run).and_then(|run| self.programs.get_mut(&run.program)) else {
                continue;
            };
            program.paces[usize::from(instruction)].measured(1, Duration::from_nanos(busy), bytes);
            program.paces[usize::from(*next)].weighed(1, bytes);
        }
    }

    /// What an instruction of a chain gave is the next one's token, or leaves.
    fn pass_on(&mut self, work: &Work, tokens: Tokens, bytes: u64) {
        let program = self.programs.get_mut(&self.runs[&work.run].program).expect("programs outlive their runs");
        match program.graph.next(work.instruction) {
            Some(next) => {
                program.paces[usize::from(next)].weighed(tokens.count(), bytes);
                self.repository.prepend(Work::new(work.run, next, work.task, tokens));
            }
            None => self.settle(work.run, work.task, Outcome::Results { first: work.task, tokens }),
        }
    }

    fn on_failed(
        &mut self,
        now: Duration,
        id: InterpreterId,
        firing: FiringId,
        error: Bytes,
        busy: Duration,
    ) -> Result<(), WireError> {
        let (works, race) = self.answered(now, id, firing, 1, busy)?;
        if race == Race::Lost {
            self.fire(now);
            return Ok(());
        }
        self.win(race);
        let by = self.interpreters[&id].name.clone();
        if let Some(task) = self.task_of(&works[0]) {
            self.record(Fact::Raised { interpreter: id, run: works[0].run, task });
            self.settle(works[0].run, task, Outcome::Raised { task, error, by });
        }
        self.fire(now);
        Ok(())
    }

    fn on_returned(&mut self, now: Duration, id: InterpreterId, firing: FiringId) -> Result<(), WireError> {
        let head = self.interpreters[&id].in_flight.front().filter(|head| head.id == firing);
        let tasks = head.ok_or(WireError::UnexpectedAnswer)?.tasks();
        let (works, race) = self.answered(now, id, firing, tasks, Duration::ZERO)?;
        self.record(Fact::Returned { interpreter: id, tasks });
        self.hand_back(race, works.into_iter(), Engine::give_back);
        self.fire(now);
        Ok(())
    }

    /// Takes the `tasks` next tasks off the firing, which must be the first in flight and hold as many. If it was in a
    /// race, this decides it.
    fn answered(
        &mut self,
        now: Duration,
        id: InterpreterId,
        firing: FiringId,
        tasks: u32,
        busy: Duration,
    ) -> Result<(Vec<Work>, Race), WireError> {
        let interpreter = self.interpreters.get_mut(&id).expect("messages of others were dropped");
        let head = interpreter.in_flight.front_mut().filter(|head| head.id == firing && head.tasks() >= tasks);
        let head = head.filter(|_| tasks > 0).ok_or(WireError::UnexpectedAnswer)?;
        head.busy += busy;
        head.ahead.clear();
        let (works, race) = (head.split_off(tasks), head.race);
        if race != Race::Lost {
            head.race = Race::Alone;
        }
        if head.work.count == 0 {
            let spent = interpreter.complete(now);
            if let Some(run) = self.runs.get_mut(&works[0].run).filter(|_| race != Race::Lost) {
                run.spent += spent;
            }
        }
        Ok((works, race))
    }

    /// An interpreter is gone: what it had in flight is fired elsewhere, and another one is recruited.
    fn on_lost(&mut self, now: Duration, id: InterpreterId, cause: Cause) {
        let Some(mut interpreter) = self.interpreters.remove(&id) else { return };
        let loss = format!("{} {cause}", interpreter.name);
        self.record(Fact::Lost { interpreter: id, cause: cause.to_string(), tasks: interpreter.tasks() });
        self.remember_loss(loss.clone());
        if let Some(head) = interpreter.in_flight.front_mut() {
            // Firings are in order: only the first can be at fault.
            for work in std::iter::once(&mut head.work).chain(&mut head.more) {
                work.killed.push(loss.clone());
                work.deaths += usize::from(!matches!(cause, Cause::Silent { .. } | Cause::Attacked));
            }
        }
        for firing in interpreter.in_flight.into_iter().rev() {
            let works = std::iter::once(firing.work).chain(firing.more);
            self.hand_back(firing.race, works, Engine::put_back);
        }
        self.recruit_missing(now);
        self.fire(now);
    }

    /// The works of a firing were not done at an interpreter: they go `back`, the first one to the front, unless they are in
    /// flight elsewhere, or were done there.
    fn hand_back(
        &mut self,
        race: Race,
        mut works: impl DoubleEndedIterator<Item = Work>,
        back: impl Fn(&mut Engine, Work),
    ) {
        match race {
            Race::Alone => works.rev().for_each(|work| back(self, work)),
            Race::Against(..) => works.next().into_iter().for_each(|work| self.withdraw(race, work)),
            Race::Lost => {}
        }
    }

    /// Work that was not done goes back into the repository, unless it has killed too often or nobody waits.
    fn put_back(&mut self, work: Work) {
        if !self.runs.contains_key(&work.run) {
            return;
        }
        if work.deaths < KILLS && work.killed.len() < LOSSES {
            return self.repository.prepend(work);
        }
        let Some(task) = self.task_of(&work) else { return };
        let (token, index) = work.tokens.slice(work.start, work.tokens.count().min(1));
        self.settle(work.run, task, Outcome::Culprit { task, token, index, killed: work.killed });
    }

    fn on_tick(&mut self, now: Duration) {
        let since = now.saturating_sub(self.last_tick);
        self.last_tick = now;
        let slept = since > self.config.silence / 2;
        if slept {
            // It was us who did not listen. That counts little, for who was suspended must not dismiss everybody; but
            // not nothing, for who is starved all the time must notice silence in the end.
            let excused = since - self.config.silence / 4;
            self.interpreters
                .values_mut()
                .for_each(|interpreter| interpreter.heard = (interpreter.heard + excused).min(now));
        }
        self.drop_silent(now);
        if slept {
            self.contract.look_anew();
        } else {
            self.double_stragglers(now);
            self.keep_contract(now);
        }
        if now.saturating_sub(self.last_beat) >= BEAT {
            self.last_beat = now;
            for id in self.interpreters.keys() {
                let message = ToInterpreter::Beat;
                self.commands.push_back(Command::Send { to: *id, message, body: Vec::new() });
            }
        }
        if now.saturating_sub(self.last_recruit) >= RECRUIT_AGAIN && !self.interpreters.is_empty() {
            self.recruit_missing(now);
        }
    }

    fn drop_silent(&mut self, now: Duration) {
        let silence = |interpreter: &Interpreter| now.saturating_sub(interpreter.heard);
        let silent = self.interpreters.iter().filter(|(_, it)| silence(it) >= self.config.silence);
        let silent: Vec<_> = silent.map(|(id, it)| (*id, silence(it).as_millis() as u64)).collect();
        for (id, milliseconds) in silent {
            self.commands.push_back(Command::Dismiss { id });
            self.on_lost(now, id, Cause::Silent { milliseconds });
        }
    }

    /// Gives fireable instructions to interpreters with room, the least loaded first.
    fn fire(&mut self, now: Duration) {
        while let Some(next) = self.repository.next() {
            let room = self.interpreters.iter().filter_map(|(id, it)| Some((it.room(next)?, *id)));
            let Some((_, id)) = room.min() else { return };
            let (runs, programs) = (&self.runs, &self.programs);
            let batch = |work: &Work| programs[&runs[&work.run].program].paces[usize::from(work.instruction)].batch();
            // An estimate that is off by less than two is not worth cutting for.
            let Some(work) = self.repository.take(|work| match batch(work) {
                batch if work.count > batch.saturating_mul(2) => batch,
                _ => work.count,
            }) else {
                return;
            };
            if self.runs[&work.run].groups.is_none() {
                self.fire_at(now, id, work, VecDeque::new());
            } else if let Some((work, more)) = self.collect(work) {
                self.fire_at(now, id, work, more);
            }
        }
    }

    fn fire_at(&mut self, now: Duration, id: InterpreterId, work: Work, more: VecDeque<Work>) -> FiringId {
        let program_id = self.runs[&work.run].program;
        let program = &self.programs[&program_id];
        let interpreter = self.interpreters.get_mut(&id).expect("chosen among the interpreters");
        let stages = interpreter.staged.insert(program_id);
        if stages {
            let message = ToInterpreter::Stage { program: program_id, mark: program.marks.of_code() };
            self.commands.push_back(Command::Send { to: id, message, body: vec![program.code.clone()] });
        }
        let marked = program.marks.of(work.instruction);
        // What may end its interpreter is fired one instruction at a time.
        let follow = if work.is_suspect() { Vec::new() } else { program.graph.follow(work.instruction) };
        let mark =
            |number: &u16| Follow { instruction: *number, gives: marks::of_tokens(program.marks.of(*number).gives) };
        let firing = FiringId(self.next_firing);
        self.next_firing += 1;
        let Bulk { tokens, first, count, groups, ahead } = match program.graph.is_chain() {
            true => Bulk::of_chain(&work),
            false => Bulk::of_graph(&work, &more),
        };
        let bytes = tokens.bytes() + ahead.iter().map(Tokens::bytes).sum::<u64>();
        for tokens in ahead {
            let takes = marks::of_tokens(marked.takes);
            let message = ToInterpreter::Ahead { firing, shape: tokens.shape().clone(), takes };
            self.commands.push_back(Command::Send { to: id, message, body: tokens.body() });
        }
        self.commands.push_back(Command::Send {
            to: id,
            message: ToInterpreter::Fire {
                firing,
                program: program_id,
                instruction: work.instruction,
                shape: tokens.shape().clone(),
                first,
                count,
                slice: SLICE.as_nanos() as u64,
                groups,
                takes: marks::of_tokens(marked.takes),
                gives: marks::of_tokens(marked.gives),
                follow: follow.iter().map(mark).collect(),
            },
            body: tokens.body(),
        });
        let (run, instruction) = (work.run, work.instruction);
        let tasks = work.count + more.iter().map(|work| work.count).sum::<u32>();
        interpreter.add(Firing {
            id: firing,
            more,
            follow,
            ahead: Vec::new(),
            bytes,
            // How long the code's imports take is unknown, and tells nothing of the network.
            estimate: program.estimate(instruction, tasks).filter(|_| !stages),
            sent: now,
            busy: Duration::ZERO,
            alone: interpreter.in_flight.is_empty() && !stages,
            stages,
            race: Race::Alone,
            work,
        });
        self.record(Fact::Fired { interpreter: id, run, instruction, tasks, bytes });
        firing
    }

    fn settle(&mut self, run_id: RunId, first: u64, outcome: Outcome) {
        let Some(run) = self.runs.get_mut(&run_id) else { return };
        let commands = &mut self.commands;
        run.settle(first, outcome, |outcome| {
            commands.push_back(Command::Record(Fact::Delivered { run: run_id, tasks: outcome.tasks() }));
            commands.push_back(Command::Deliver { run: run_id, outcome });
        });
        self.end_if_done(run_id);
    }

    fn end_if_done(&mut self, run: RunId) {
        if self.runs.get_mut(&run).is_some_and(Run::take_end) {
            self.conclude(run);
            self.commands.push_back(Command::Deliver { run, outcome: Outcome::Ended });
        }
    }

    fn recruit_missing(&mut self, now: Duration) {
        self.last_recruit = now;
        let have = self.staff() + self.recruiting;
        for _ in have..self.wanted() {
            if self.keep_one() {
                self.fire(now);
                continue;
            }
            self.recruiting += 1;
            self.commands.push_back(Command::Recruit);
        }
    }

    /// Without any interpreter, and without hope of one, open runs end with an error.
    fn abandon_if_alone(&mut self) {
        if !self.interpreters.is_empty() || self.recruiting > 0 {
            return;
        }
        let losses: Vec<String> = self.losses.iter().cloned().collect();
        let abandoned: Vec<RunId> = self.runs.iter_mut().filter_map(|(id, run)| run.abandon().then_some(*id)).collect();
        for run in abandoned {
            self.repository.drop_run(run);
            let outcome = Outcome::Abandoned { losses: losses.clone(), recruited: self.recruited };
            self.commands.push_back(Command::Deliver { run, outcome });
        }
    }

    fn remember_loss(&mut self, loss: String) {
        self.losses.push_back(loss);
        while self.losses.len() > MOST_LOSSES {
            self.losses.pop_front();
        }
    }

    fn run_and_program(&self, run: RunId) -> Option<(&Run, &Program)> {
        let run = self.runs.get(&run)?;
        if run.has_ended() { None } else { Some((run, &self.programs[&run.program])) }
    }

    fn new_name(&mut self) -> u32 {
        self.next_name += 1;
        self.next_name
    }

    fn record(&mut self, fact: Fact) {
        self.commands.push_back(Command::Record(fact));
    }
}
