//! The flow engine: macro data flow on remote interpreters (paper 000).
//!
//! Each task instantiates its own copy of the program's graph. Instructions with all their tokens are in the
//! repository, and an interpreter with room takes the next one. The engine decides; the manager's driver in
//! `phalanx-node` acts. Consecutive tasks travel together (one `Work`), so that a fine grain costs one decision per
//! batch and not one per task.

mod answers;
mod contract;
mod firing;
mod forward;
mod gather;
mod graph;
mod groups;
mod interpreter;
mod losses;
mod marks;
mod needing;
mod options;
mod pace;
mod program;
mod repository;
mod run;
mod share;
mod silence;
mod staff;
mod stopping;
mod straggler;
#[cfg(test)]
mod tests;
mod view;
mod waiting;
mod watch;

pub use contract::Goal;
pub use graph::{Graph, GraphError, Instruction, Takes, Target};
pub use marks::{MarkedData, Marks};
pub use options::Options;
pub use run::RunOptions;
pub use view::{InterpreterView, RunView, View};

use crate::error::WireError;
use crate::event::{Command, Event, Fact, Outcome};
use crate::ids::{InterpreterId, ProgramId, RunId};
use crate::wire::{ToInterpreter, Tokens};
use bytes::Bytes;
use contract::Contract;
use groups::Groups;
use interpreter::Interpreter;
use needing::Need;
use pace::Pace;
use program::Program;
use repository::Repository;
use run::Run;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;
use waiting::Waiting;

/// A task is reported as the culprit after this many interpreters died firing it.
pub const KILLS: usize = 3;
/// A task is also the culprit after this many were lost firing it, dead or silent, because it may freeze the processes
/// that fire it.
pub const LOSSES: usize = 6;
/// Interval of the heartbeats to interpreters, which say that the manager lives.
const BEAT: Duration = Duration::from_millis(400);
/// Interval between attempts to recruit missing interpreters.
const RECRUIT_AGAIN: Duration = Duration::from_secs(1);

/// The user's contract and timeouts.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// The number of interpreters to keep; with a goal, the maximum.
    pub interpreters: u32,
    /// A contract on time, if there is one.
    pub goal: Option<Goal>,
    /// An interpreter is lost after this time without a message.
    pub silence: Duration,
    /// How long open runs wait for machines to come back when no interpreter is left.
    pub patience: Duration,
}

/// The state of one manager's computations. Times are measured from any fixed moment, the same in all calls.
#[derive(Debug, Clone)]
pub struct Engine {
    config: Config,
    contract: Contract,
    programs: HashMap<ProgramId, Program>,
    runs: BTreeMap<RunId, Run>,
    repository: Repository,
    interpreters: BTreeMap<InterpreterId, Interpreter>,
    recruiting: u32,
    waiting: Waiting,
    /// Whether an interpreter was ever recruited.
    recruited: bool,
    losses: VecDeque<String>,
    /// The needs of instructions. The first one has the number 1.
    needs: Vec<Need>,
    /// Why the last attempt to recruit failed; `None` if it succeeded.
    last_failure: Option<String>,
    /// The time of the last event.
    now: Duration,
    last_tick: Duration,
    last_beat: Duration,
    last_recruit: Duration,
    next_firing: u64,
    next_name: u32,
    commands: VecDeque<Command>,
}

impl Engine {
    /// An engine that at once commands to recruit the interpreters of the contract.
    pub fn new(config: Config) -> Engine {
        let mut engine = Engine {
            config,
            contract: Contract::new(config.goal, config.interpreters),
            programs: HashMap::new(),
            runs: BTreeMap::new(),
            repository: Repository::default(),
            interpreters: BTreeMap::new(),
            recruiting: 0,
            waiting: Waiting::default(),
            recruited: false,
            losses: VecDeque::new(),
            needs: Vec::new(),
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

    /// The next command. Commands must be carried out in order.
    pub fn next_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// Adds a program: a graph, and the pickled tuple of its instructions' functions.
    pub fn stage(&mut self, graph: Graph, code: Bytes) -> ProgramId {
        let id = ProgramId(self.new_name());
        let (paces, parts) = (vec![Pace::default(); graph.len()], vec![0.0; graph.fans()]);
        self.programs.insert(id, Program { graph, code, marks: Marks::default(), options: Vec::new(), paces, parts });
        id
    }

    /// Sets the marks of a program, before it is run.
    pub fn mark(&mut self, program: ProgramId, marks: Marks) {
        if let Some(program) = self.programs.get_mut(&program) {
            program.marks = marks;
        }
    }

    /// Sets the options of a program's instructions, before it is run.
    pub fn set_options(&mut self, program: ProgramId, options: Vec<Options>) {
        if let Some(program) = self.programs.get_mut(&program) {
            program.options = options;
        }
    }

    /// Drops a program here and where it is staged. Its runs must be closed.
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
        self.runs.insert(id, Run::new(program, groups, options, now));
        if self.interpreters.is_empty() {
            self.waiting = Waiting::default(); // an earlier wait may have been in vain
            self.recruit_missing(now);
        }
        id
    }

    /// The number of tasks that the run can take from its stream now. 0: none until more results are read.
    pub fn room(&self, run: RunId) -> u32 {
        let Some((run, program)) = self.run_and_program(run) else { return 0 };
        let interpreters = (self.interpreters.len() as u32).max(self.recruiting).max(1);
        run.room(program.batch(0), &program.whole(), interpreters)
    }

    /// Feeds the next tasks of a run's stream. Tasks of a graph must be separate tokens; others are refused.
    pub fn feed(&mut self, now: Duration, run_id: RunId, tasks: Tokens) -> Result<(), WireError> {
        let Some(run) = self.runs.get_mut(&run_id).filter(|run| !run.has_ended()) else { return Ok(()) };
        self.now = now;
        if run.groups.is_some() {
            self.feed_graph(now, run_id, tasks)?;
        } else {
            let program = self.programs.get_mut(&run.program).expect("programs outlive their runs");
            program.paces[0].weighed(tasks.count(), tasks.bytes());
            let first = run.feed(now, tasks.count());
            self.repository.append(program.work(run_id, 0, first, tasks));
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

    /// The run's reader has read the outcomes of `tasks` tasks, which makes room.
    pub fn read(&mut self, run: RunId, tasks: u64) {
        if let Some(run) = self.runs.get_mut(&run) {
            run.read(tasks);
        }
    }

    /// Closes a run that is no longer read. Its remaining work is not fired.
    pub fn close(&mut self, run: RunId) {
        self.runs.remove(&run);
        self.contract.forget(run);
        self.repository.drop_run(run);
    }

    /// Handles an event.
    pub fn on(&mut self, now: Duration, event: Event) {
        self.now = now;
        match event {
            Event::Recruited { id, name, machine, pid, level } => {
                self.recruiting = self.recruiting.saturating_sub(1);
                self.recruited = true;
                self.last_failure = None;
                self.waiting = Waiting::default();
                self.record(Fact::Recruited { interpreter: id, name: name.clone(), machine, pid, level });
                self.interpreters.insert(id, Interpreter::new(name, now));
                self.fire(now);
            }
            Event::RecruitFailed { reason } => self.on_recruit_failed(now, reason, false),
            Event::Closed { reason } => self.on_recruit_failed(now, reason, true),
            Event::Has { id, own, machine } => self.on_has(now, id, [own, machine]),
            Event::Lacking { needs, reason, lack } => self.on_lacking(now, &needs, reason, lack),
            Event::Message { id, message, body } => self.on_message(now, id, message, body),
            Event::Heard { id } => self.on_heard(now, id),
            Event::Alive { id } => self.on_alive(id),
            Event::Share { among, keep } => self.on_share(now, &among, keep),
            Event::Offered { interpreters } => self.on_offered(now, interpreters),
            Event::Lost { id, cause } => self.on_lost(now, id, cause),
            // A manager that was suspended cannot tell which firings are late.
            Event::Look if now.saturating_sub(self.last_tick) > self.config.silence / 2 => {}
            Event::Look => self.look(now),
            Event::Tick => self.on_tick(now),
        }
    }

    fn on_tick(&mut self, now: Duration) {
        let since = now.saturating_sub(self.last_tick);
        self.last_tick = now;
        let slept = since > self.config.silence / 2; // then the measurements are meaningless
        self.excuse_silence(now, since);
        self.drop_silent(now);
        if slept {
            self.contract.look_anew();
        } else {
            self.look(now);
            self.keep_contract(now);
        }
        self.stop_what_is_closed(now);
        self.release_idle_leavers();
        self.exchange(now);
        if now.saturating_sub(self.last_beat) >= BEAT {
            self.last_beat = now;
            for id in self.interpreters.keys() {
                let message = ToInterpreter::Beat;
                self.commands.push_back(Command::Send { to: *id, message, body: Vec::new() });
            }
        }
        if self.interpreters.is_empty() {
            self.wait_if_alone(now);
        } else if now.saturating_sub(self.last_recruit) >= RECRUIT_AGAIN {
            self.recruit_missing(now);
        }
    }

    fn settle(&mut self, run_id: RunId, first: u64, outcome: Outcome) {
        let Some(run) = self.runs.get_mut(&run_id) else { return };
        run.cancelled.retain(|task| !(first..first + u64::from(outcome.tasks())).contains(task));
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
