//! Stragglers (backup tasks). Near the end of a stream, or when its window waits for it, a firing that takes far too
//! long is fired a second time at another interpreter.
//!
//! The first answer wins the race, whatever it holds. The other firing has lost: its answer is dropped whenever it
//! comes, and its interpreter is asked to give up what it has not begun. So every task has one owner at any time: a
//! single firing, or both of a race until one of them answers. (J. Dean and S. Ghemawat, *MapReduce*, OSDI 2004,
//! section 3.6.)

use super::Engine;
use super::interpreter::{Firing, Interpreter, Race};
use super::pace::SLICE;
use super::repository::Work;
use crate::event::{Command, Fact};
use crate::ids::{FiringId, InterpreterId, RunId};
use crate::wire::ToInterpreter;
use std::collections::VecDeque;
use std::time::Duration;

/// A firing is late when it takes more than this many times its estimate.
const LATE: u32 = 2;

/// A firing that takes far too long.
struct Straggler {
    holder: InterpreterId,
    firing: FiringId,
    work: Work,
    /// How long its interpreter has had it, or a firing before it, at the head of the queue.
    waited: Duration,
    /// The time by which the interpreter should have returned the tasks that it has not begun; `None`: it was not asked
    /// to.
    answers: Option<Duration>,
}

impl Interpreter {
    /// The firings that another interpreter could begin sooner: everything behind late work (also in the same firing),
    /// and firings that, by the estimates, do not begin for more than a time slice and two round trips.
    fn waiting(&self, now: Duration, estimate: impl Fn(&Work) -> Option<Duration>) -> Vec<(FiringId, u16)> {
        let estimate = |firing: &Firing| firing.estimate.or_else(|| estimate(&firing.work)).unwrap_or_default();
        let (waited, mut before) = (self.waited(now), Duration::ZERO);
        let is_late = self.in_flight.front().is_some_and(|head| self.is_late(waited, estimate(head)));
        let waiting = self.in_flight.iter().enumerate().filter(|(place, firing)| {
            let begins_late = before > waited + self.round_trip() * 2 + SLICE;
            before += estimate(firing);
            if *place == 0 { is_late && firing.tasks() > 1 } else { is_late || begins_late }
        });
        let may =
            |firing: &Firing| firing.race == Race::Alone && firing.asked_back.is_none() && !firing.work.is_suspect();
        waiting.filter(|(_, firing)| may(firing)).map(|(_, firing)| (firing.id, firing.work.needs)).collect()
    }

    /// Whether `waited` is far more than expected, and more than a time slice.
    pub(super) fn is_late(&self, waited: Duration, expected: Duration) -> bool {
        waited > expected * LATE + self.round_trip() + SLICE
    }

    /// The firings in flight that take longer than `estimate` and the round trip allow. Stops at the first unknown
    /// estimate.
    fn late(&self, now: Duration, estimate: impl Fn(&Work) -> Option<Duration>) -> Vec<(&Firing, Duration)> {
        let waited = self.waited(now);
        // Until a time slice is over, the interpreter may still return tasks on its own.
        let (mut expected, on_the_way) = (Duration::ZERO, self.round_trip() + SLICE);
        let late = self.in_flight.iter().map_while(|firing| {
            expected += estimate(&firing.work)?;
            (waited > expected * LATE + on_the_way).then_some((firing, waited))
        });
        late.collect()
    }
}

impl Engine {
    /// Whether some interpreter is idle while all remaining work is in flight elsewhere.
    pub fn has_idle_beside_work(&self) -> bool {
        self.interpreters.values().any(|it| self.has_nothing_to_fire(it)) && self.is_computing()
    }

    /// Whether an interpreter is idle, and no work is fireable there.
    fn has_nothing_to_fire(&self, it: &Interpreter) -> bool {
        it.in_flight.is_empty() && !it.leaving && !self.repository.firsts().any(|work| it.suits(work.needs))
    }

    /// Whether any firing is in flight.
    pub fn is_computing(&self) -> bool {
        self.interpreters.values().any(|it| !it.in_flight.is_empty())
    }

    /// If exactly one task is in flight and none waits in the repository: the interpreter that fires it.
    pub fn only_call(&self) -> Option<InterpreterId> {
        let mut busy = self.interpreters.iter().filter(|(_, it)| !it.in_flight.is_empty());
        let (id, interpreter) = busy.next()?;
        let is_only = busy.next().is_none() && interpreter.in_flight.len() == 1 && self.repository.next().is_none();
        (is_only && interpreter.in_flight[0].tasks() == 1).then_some(*id)
    }

    /// Looks for work that would finish sooner at another interpreter.
    pub(super) fn look(&mut self, now: Duration) {
        self.ask_back_what_waits(now);
        self.double_stragglers(now);
    }

    /// If an interpreter is idle, asks the others to return work that has waited long and has not begun. It is then
    /// fired at the idle one.
    fn ask_back_what_waits(&mut self, now: Duration) {
        if !self.has_idle_beside_work() {
            return;
        }
        let waiting = self.interpreters.iter().flat_map(|(id, it)| {
            let waiting = it.waiting(now, |work| self.estimate(work)).into_iter();
            waiting.map(|(firing, needs)| (*id, firing, needs))
        });
        let idle_for = |needs| self.interpreters.values().any(|it| it.suits(needs) && self.has_nothing_to_fire(it));
        let waiting: Vec<_> = waiting.filter(|(.., needs)| idle_for(*needs)).collect();
        for (id, firing, _) in waiting {
            self.learn_from_waiting(now, id, firing);
            self.ask_back(id, firing);
        }
    }

    /// Corrects the estimate when one of several tasks in a firing is late. The returned tasks are then batched by the
    /// new estimate.
    fn learn_from_waiting(&mut self, now: Duration, id: InterpreterId, firing: FiringId) {
        let interpreter = &self.interpreters[&id];
        let head = interpreter.in_flight.front().filter(|head| head.id == firing && !head.stages);
        let Some((run, instruction)) = head.map(|head| (head.work.run, head.work.instruction)) else { return };
        let waited = interpreter.waited(now);
        if let Some(program) = self.runs.get(&run).and_then(|run| self.programs.get_mut(&run.program)) {
            program.paces[usize::from(instruction)].waits(waited);
        }
    }

    /// Whether another interpreter that has what is needed should be idle before this one, which is `busy` for so long.
    pub(super) fn is_another_free_before(&self, now: Duration, id: InterpreterId, busy: Duration, needs: u16) -> bool {
        let others = self.interpreters.iter().filter(|(other, it)| **other != id && !it.leaving && it.suits(needs));
        others.map(|(_, it)| it).any(|it| {
            let expected: Option<Duration> = it.in_flight.iter().map(|firing| self.estimate(&firing.work)).sum();
            let waited = it.waited(now);
            expected.is_some_and(|expected| expected < waited + busy && !it.is_late(waited, expected))
        })
    }

    /// Fires late work a second time at an interpreter that is otherwise idle, once no work is fireable there. Tasks that
    /// have not begun are asked back first. They are fired only once, provided that their interpreter responds.
    fn double_stragglers(&mut self, now: Duration) {
        if self.interpreters.len() < 2 {
            return;
        }
        for straggler in self.stragglers(now) {
            let Some(helper) = self.helper(now, &straggler) else { continue };
            let Straggler { holder, firing, work, answers, .. } = straggler;
            match answers {
                Some(answers) if answers > now => continue,
                Some(_) => {}
                None => {
                    self.ask_back(holder, firing);
                    continue;
                }
            }
            let (run, tasks) = (work.run, work.count);
            let copy = self.fire_at(now, helper, work, VecDeque::new());
            self.set_race(holder, firing, Race::Against(helper, copy));
            self.set_race(helper, copy, Race::Against(holder, firing));
            self.record(Fact::Doubled { interpreter: helper, of: holder, run, tasks });
        }
    }

    fn stragglers(&self, now: Duration) -> Vec<Straggler> {
        let late = self.interpreters.iter().flat_map(|(holder, it)| {
            let late = it.late(now, |work| self.estimate(work)).into_iter().enumerate();
            late.map(move |(place, (firing, waited))| {
                let is_begun = place == 0 && firing.tasks() == 1;
                let answers = firing.asked_back.map(|at| at + it.round_trip() * 2 + SLICE);
                (*holder, firing, waited, if is_begun { Some(now) } else { answers })
            })
        });
        // Suspect work may kill any interpreter that fires it, so only one fires it at a time.
        let may = |firing: &Firing| {
            firing.race == Race::Alone
                && firing.more.is_empty()
                && !firing.work.is_group
                && !firing.work.is_suspect()
                && !firing.work.was_late
        };
        let late = late.filter(|(_, firing, ..)| may(firing) && self.waits_for_stragglers(firing.work.run));
        let straggler = |(holder, firing, waited, answers): (InterpreterId, &Firing, Duration, Option<Duration>)| {
            Straggler { holder, firing: firing.id, work: firing.work.clone(), waited, answers }
        };
        late.map(straggler).collect()
    }

    fn waits_for_stragglers(&self, id: RunId) -> bool {
        self.runs.get(&id).is_some_and(|run| run.doubles_stragglers(|| self.room(id)))
    }

    /// An interpreter that would finish the work in less time than its holder has already taken. One that has the code
    /// staged is preferred.
    fn helper(&self, now: Duration, straggler: &Straggler) -> Option<InterpreterId> {
        let (work, estimate) = (&straggler.work, self.estimate(&straggler.work)?);
        let program = self.runs.get(&work.run)?.program;
        let candidates = self.interpreters.iter().filter(|(id, _)| **id != straggler.holder);
        let may = |it: &Interpreter| !self.repository.firsts().any(|work| it.suits(work.needs));
        let times = candidates.filter(|(_, it)| may(it)).filter_map(|(id, it)| {
            let time = it.room(now, work)? + estimate.mul_f64(it.slowness) + it.round_trip();
            let fit = time < straggler.waited && it.late(now, |work| self.estimate(work)).is_empty();
            fit.then_some((!it.staged.contains(&program), time, *id))
        });
        times.min().map(|(_, _, id)| id)
    }

    /// Estimated time for the work at an average interpreter; `None` before the first answer.
    fn estimate(&self, work: &Work) -> Option<Duration> {
        let program = &self.programs.get(&self.runs.get(&work.run)?.program)?;
        program.estimate(work.instruction, work.count)
    }

    /// A firing of a race has answered: the other firing has lost.
    pub(super) fn win(&mut self, race: Race) {
        let Race::Against(other, firing) = race else { return };
        self.set_race(other, firing, Race::Lost);
        self.ask_back(other, firing);
    }

    /// A firing of a race ended without an answer. The other one is now alone, and inherits the suspicion that this one
    /// was under.
    pub(super) fn withdraw(&mut self, race: Race, work: Work) {
        let Race::Against(other, firing) = race else { return };
        self.set_race(other, firing, Race::Alone);
        if let Some(firing) = self.firing_mut(other, firing) {
            firing.work.was_late |= work.was_late;
            firing.work.deaths += work.deaths;
            firing.work.killed.extend(work.killed);
        }
    }

    /// Asks an interpreter to return the tasks of a firing that it has not begun.
    pub(super) fn ask_back(&mut self, id: InterpreterId, firing: FiringId) {
        let now = self.now;
        if let Some(firing) = self.firing_mut(id, firing) {
            firing.asked_back = Some(now);
        }
        let message = ToInterpreter::GiveUp { firing };
        self.commands.push_back(Command::Send { to: id, message, body: Vec::new() });
    }

    pub(super) fn set_race(&mut self, id: InterpreterId, firing: FiringId, race: Race) {
        if let Some(firing) = self.firing_mut(id, firing) {
            firing.race = race;
        }
    }

    fn firing_mut(&mut self, id: InterpreterId, firing: FiringId) -> Option<&mut Firing> {
        self.interpreters.get_mut(&id)?.in_flight.iter_mut().find(|other| other.id == firing)
    }
}
