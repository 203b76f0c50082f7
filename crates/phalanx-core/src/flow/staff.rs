//! Recruits and releases interpreters while programs run, as the contract requires.

use super::Engine;
use super::contract::{Report, Staff};
use super::interpreter::{Interpreter, Race};
use super::run::Run;
use super::watch::{Limit, Sight};
use crate::event::{Command, Fact, Outcome};
use crate::ids::{FiringId, InterpreterId, RunId};
use std::time::Duration;

/// Time allowed for the imports of a program. Anything longer counts as time of its tasks.
const IMPORTS: Duration = Duration::from_secs(1);

impl Engine {
    /// The number of interpreters that the contract wants now.
    pub fn wanted(&self) -> u32 {
        self.contract.wanted()
    }

    /// Checks the contract, recruits or releases interpreters, and reports.
    pub(super) fn keep_contract(&mut self, now: Duration) {
        if !self.contract.has_goal() {
            return;
        }
        let open = self.runs.iter().filter(|(_, run)| !run.has_ended());
        let sights: Vec<Sight> = open.filter_map(|(id, run)| self.sight(now, *id, run)).collect();
        let (before, staff) = (self.wanted(), self.staff());
        let failure = self.last_failure.clone();
        let reports = self.contract.look(now, &sights, Staff { failure: failure.as_deref(), ready: staff });
        reports.into_iter().for_each(|report| self.say(report));
        if self.wanted() != before {
            self.record(Fact::Wanted { interpreters: self.wanted() });
        }
        if self.wanted() > before {
            self.recruit_missing(now);
        }
        self.release_surplus();
    }

    /// Machines have come, or have gone for good. Interpreters of those that have gone are lost by themselves.
    pub(super) fn on_offered(&mut self, now: Duration, interpreters: u32) {
        let before = self.wanted();
        self.contract.offer(interpreters.max(1));
        if self.wanted() != before {
            self.record(Fact::Wanted { interpreters: self.wanted() });
        }
        if self.wanted() > before {
            self.recruit_missing(now);
        }
    }

    /// A run has ended: makes the last report on its contract.
    pub(super) fn conclude(&mut self, id: RunId) {
        let now = self.now;
        let Some(sight) = self.runs.get(&id).and_then(|run| self.sight(now, id, run)) else { return };
        let failure = self.last_failure.clone();
        let staff = Staff { ready: self.staff(), failure: failure.as_deref() };
        if let Some(report) = self.contract.conclude(now, &sight, staff) {
            self.say(report);
        }
    }

    fn say(&mut self, report: Report) {
        let Report { run, asked, reached, met, why, warns } = report;
        if let (true, Some(why)) = (warns, why.clone()) {
            self.commands.push_back(Command::Deliver { run, outcome: Outcome::Unmet { asked, reached, why } });
        }
        self.record(Fact::Contract { run, asked, reached, met, why });
    }

    /// A snapshot of a run that the contract covers; `None` before its first task.
    fn sight(&self, now: Duration, id: RunId, run: &Run) -> Option<Sight> {
        let began = run.contract_since()?;
        let mut sight = Sight {
            run: id,
            age: now.saturating_sub(began).as_secs_f64(),
            size: run.size(),
            fed: run.fed(),
            settled: run.settled(),
            spent: run.spent.as_secs_f64(),
            in_flight: 0,
            busy: 0,
            under_way: 0.0,
            longest: 0.0,
            fireable: self.repository.next().is_some(),
            limit: self.limit(id, run),
        };
        for interpreter in self.interpreters.values() {
            add_flight(&mut sight, now, interpreter);
        }
        Some(sight)
    }

    fn limit(&self, id: RunId, run: &Run) -> Limit {
        let idle = self.interpreters.values().any(|it| it.in_flight.is_empty() && !it.leaving);
        match idle && !run.stream_has_ended() {
            false => Limit::Interpreters,
            true if self.room(id) > 0 => Limit::Stream,
            true if run.waits_for_reader() => Limit::Reader,
            true => Limit::Interpreters, // results wait for an earlier one
        }
    }

    /// The number of interpreters that are not leaving.
    pub(super) fn staff(&self) -> u32 {
        self.interpreters.values().filter(|it| !it.leaving).count() as u32
    }

    /// Keeps one interpreter that was to leave, unless its executor asked for it. Returns whether there was one.
    pub(super) fn keep_one(&mut self) -> bool {
        let leaving = self.interpreters.values_mut().find(|it| it.leaving && !it.asked_back);
        leaving.map(|interpreter| interpreter.leaving = false).is_some()
    }

    /// Marks surplus interpreters as leaving, the slowest first, and releases those that have nothing in flight.
    fn release_surplus(&mut self) {
        for _ in self.wanted()..self.staff() {
            let staying = self.interpreters.iter().filter(|(_, it)| !it.leaving);
            let slowest = staying.max_by(|(_, one), (_, other)| one.slowness.total_cmp(&other.slowness));
            let Some(id) = slowest.map(|(id, _)| *id) else { break };
            self.begin_leaving(id);
        }
        self.release_idle_leavers();
    }

    /// Fires nothing more at the interpreter, and asks for the work that it has not begun.
    pub(super) fn begin_leaving(&mut self, id: InterpreterId) {
        let Some(interpreter) = self.interpreters.get_mut(&id) else { return };
        interpreter.leaving = true;
        let alone = interpreter.in_flight.iter().filter(|it| it.race == Race::Alone);
        let firings: Vec<FiringId> = alone.map(|it| it.id).collect();
        firings.into_iter().for_each(|firing| self.ask_back(id, firing));
    }

    /// Releases the leaving interpreters that have nothing in flight.
    pub(super) fn release_idle_leavers(&mut self) {
        let done = self.interpreters.iter().filter(|(_, it)| it.leaving && it.in_flight.is_empty());
        let done: Vec<InterpreterId> = done.map(|(id, _)| *id).collect();
        for id in done {
            self.interpreters.remove(&id);
            self.record(Fact::Released { interpreter: id });
            self.commands.push_back(Command::Dismiss { id });
        }
    }
}

/// Adds the run's work in flight at one interpreter.
fn add_flight(sight: &mut Sight, now: Duration, interpreter: &Interpreter) {
    let Some(head) = interpreter.in_flight.front() else { return };
    let own = interpreter.in_flight.iter().filter(|it| it.work.run == sight.run && it.race != Race::Lost);
    let tasks: u64 = own.map(|firing| u64::from(firing.work.count)).sum();
    if tasks == 0 {
        return;
    }
    sight.in_flight += tasks;
    sight.busy += 1;
    if head.work.run == sight.run {
        let imports = if head.stages { IMPORTS } else { Duration::ZERO };
        let waited = now.saturating_sub(head.sent.max(interpreter.turned)).saturating_sub(imports).as_secs_f64();
        sight.under_way += waited;
        sight.longest = sight.longest.max(waited / f64::from(head.work.count.max(1)));
    }
}
