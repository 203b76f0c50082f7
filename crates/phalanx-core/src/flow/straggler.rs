//! Stragglers: near the end of a stream, or where its window waits for it, what is held for far too long is fired a
//! second time elsewhere.
//!
//! The first answer wins the race, whatever it holds; the other firing has lost it: what it answers is dropped, whenever
//! that comes, and it is asked to give up what it has not begun. So every task has one owner at any time: a firing that
//! is alone, or both of a race until one of them answers. (Backup tasks: J. Dean and S. Ghemawat, *MapReduce*,
//! OSDI 2004, section 3.6.)

use super::Engine;
use super::interpreter::{Firing, Interpreter, Race};
use super::pace::SLICE;
use super::repository::Work;
use crate::event::{Command, Fact};
use crate::ids::{FiringId, InterpreterId, RunId};
use crate::wire::ToInterpreter;
use std::collections::VecDeque;
use std::time::Duration;

/// A firing is late when it took so many times what it was estimated to take.
const LATE: u32 = 2;

/// A firing that takes far too long.
struct Straggler {
    holder: InterpreterId,
    firing: FiringId,
    work: Work,
    /// Since it was its interpreter's turn to answer it, or one before it.
    waited: Duration,
}

impl Interpreter {
    /// Whether what it fires now takes far longer than estimated, or than a time slice.
    fn is_late(&self, now: Duration) -> bool {
        let Some(head) = self.in_flight.front() else { return false };
        let waited = now.saturating_sub(head.sent.max(self.turned));
        waited > head.estimate.unwrap_or_default() * LATE + self.round_trip() + SLICE
    }

    /// What is in flight for longer than `estimate` and the way allow; nothing where the estimate is unknown.
    fn late(&self, now: Duration, estimate: impl Fn(&Work) -> Option<Duration>) -> Vec<(&Firing, Duration)> {
        let Some(began) = self.in_flight.front().map(|head| head.sent.max(self.turned)) else { return Vec::new() };
        let waited = now.saturating_sub(began);
        // Before a time slice is over the interpreter may still give back by itself.
        let (mut expected, on_the_way) = (Duration::ZERO, self.round_trip() + SLICE);
        let late = self.in_flight.iter().map_while(|firing| {
            expected += estimate(&firing.work)?;
            (waited > expected * LATE + on_the_way).then_some((firing, waited))
        });
        late.collect()
    }
}

impl Engine {
    /// Asks back what waits behind late work, where somebody has nothing to do: it was not begun, and goes there instead.
    pub(super) fn ask_back_what_waits(&mut self, now: Duration) {
        let has_idle = self.interpreters.values().any(|it| it.in_flight.is_empty() && !it.leaving);
        if !has_idle || self.repository.next().is_some() {
            return;
        }
        let waiting = self.interpreters.iter_mut().filter(|(_, it)| it.in_flight.len() > 1 && it.is_late(now));
        let waiting = waiting.flat_map(|(id, it)| it.in_flight.iter_mut().skip(1).map(|firing| (*id, firing)));
        let may = |firing: &Firing| firing.race == Race::Alone && !firing.asked_back && !firing.work.is_suspect();
        let asked = waiting.filter(|(_, firing)| may(firing)).map(|(id, firing)| {
            firing.asked_back = true;
            (id, firing.id)
        });
        let asked: Vec<_> = asked.collect();
        asked.into_iter().for_each(|(id, firing)| self.ask_back(id, firing));
    }

    /// Fires late work a second time where somebody has nothing better to do, and no more comes to do.
    pub(super) fn double_stragglers(&mut self, now: Duration) {
        if self.repository.next().is_some() || self.interpreters.len() < 2 {
            return;
        }
        for straggler in self.stragglers(now) {
            let Some(helper) = self.helper(now, &straggler) else { continue };
            let Straggler { holder, firing, work, .. } = straggler;
            let (run, tasks) = (work.run, work.count);
            let copy = self.fire_at(now, helper, work, VecDeque::new());
            self.set_race(holder, firing, Race::Against(helper, copy));
            self.set_race(helper, copy, Race::Against(holder, firing));
            self.record(Fact::Doubled { interpreter: helper, of: holder, run, tasks });
        }
    }

    fn stragglers(&self, now: Duration) -> Vec<Straggler> {
        let late = self.interpreters.iter().flat_map(|(holder, it)| {
            let late = it.late(now, |work| self.estimate(work)).into_iter();
            late.map(|(firing, waited)| (*holder, firing, waited))
        });
        // What is under suspicion may end whoever fires it: one interpreter at a time is enough.
        let may = |firing: &Firing| {
            firing.race == Race::Alone && firing.more.is_empty() && !firing.work.is_group && !firing.work.is_suspect()
        };
        let late = late.filter(|(_, firing, _)| may(firing) && self.waits_for_stragglers(firing.work.run));
        late.map(|(holder, firing, waited)| Straggler { holder, firing: firing.id, work: firing.work.clone(), waited })
            .collect()
    }

    fn waits_for_stragglers(&self, id: RunId) -> bool {
        self.runs.get(&id).is_some_and(|run| run.doubles_stragglers(|| self.room(id)))
    }

    /// Who would have done the work in less time than its holder already took; who has its code goes first.
    fn helper(&self, now: Duration, straggler: &Straggler) -> Option<InterpreterId> {
        let (work, estimate) = (&straggler.work, self.estimate(&straggler.work)?);
        let program = self.runs.get(&work.run)?.program;
        let candidates = self.interpreters.iter().filter(|(id, _)| **id != straggler.holder);
        let times = candidates.filter_map(|(id, it)| {
            let time = it.room(work)? + estimate.mul_f64(it.slowness) + it.round_trip();
            let fit = time < straggler.waited && it.late(now, |work| self.estimate(work)).is_empty();
            fit.then_some((!it.staged.contains(&program), time, *id))
        });
        times.min().map(|(_, _, id)| id)
    }

    /// How long the work takes at an interpreter like the others; unknown before the first answer.
    fn estimate(&self, work: &Work) -> Option<Duration> {
        let program = &self.programs.get(&self.runs.get(&work.run)?.program)?;
        program.estimate(work.instruction, work.count)
    }

    /// A firing answered: if another one of the same work is in flight, that one has lost.
    pub(super) fn win(&mut self, race: Race) {
        let Race::Against(other, firing) = race else { return };
        self.set_race(other, firing, Race::Lost);
        self.ask_back(other, firing);
    }

    /// A firing ended without an answer while another one of the same work is in flight, which now is alone, and under
    /// the suspicion that this one was under.
    pub(super) fn withdraw(&mut self, race: Race, work: Work) {
        let Race::Against(other, firing) = race else { return };
        self.set_race(other, firing, Race::Alone);
        if let Some(firing) = self.firing_mut(other, firing) {
            firing.work.deaths += work.deaths;
            firing.work.killed.extend(work.killed);
        }
    }

    /// Asks an interpreter to give up a firing if it has not begun it.
    pub(super) fn ask_back(&mut self, id: InterpreterId, firing: FiringId) {
        let message = ToInterpreter::GiveUp { firing };
        self.commands.push_back(Command::Send { to: id, message, body: Vec::new() });
    }

    fn set_race(&mut self, id: InterpreterId, firing: FiringId, race: Race) {
        if let Some(firing) = self.firing_mut(id, firing) {
            firing.race = race;
        }
    }

    fn firing_mut(&mut self, id: InterpreterId, firing: FiringId) -> Option<&mut Firing> {
        self.interpreters.get_mut(&id)?.in_flight.iter_mut().find(|other| other.id == firing)
    }
}
