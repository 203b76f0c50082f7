//! Lost interpreters: their work is fired elsewhere, and replacements are recruited.

use super::interpreter::Race;
use super::repository::Work;
use super::{Engine, KILLS, LOSSES};
use crate::event::{Cause, Command, Fact, Outcome};
use crate::ids::InterpreterId;
use std::time::Duration;

/// Limit on the losses that one error lists.
const MOST_LOSSES: usize = 16;

impl Engine {
    /// Handles the loss of an interpreter: its work goes back into the repository, and another interpreter is
    /// recruited.
    pub(super) fn on_lost(&mut self, now: Duration, id: InterpreterId, cause: Cause) {
        let Some(mut interpreter) = self.interpreters.remove(&id) else { return };
        let loss = format!("{} {cause}", interpreter.name);
        self.record(Fact::Lost { interpreter: id, cause: cause.to_string(), tasks: interpreter.tasks() });
        self.remember_loss(loss.clone());
        if let Some(head) = interpreter.in_flight.front_mut().filter(|_| !cause.is_taken()) {
            // Firings run in order, so only the first one can be at fault.
            for work in std::iter::once(&mut head.work).chain(&mut head.more) {
                work.killed.push(loss.clone());
                work.deaths += usize::from(cause.accuses());
            }
        }
        for firing in interpreter.in_flight.into_iter().rev() {
            let works = std::iter::once(firing.work).chain(firing.more);
            self.hand_back(firing.race, works, Engine::put_back);
        }
        self.recruit_missing(now);
        self.fire(now);
    }

    /// The works of a firing were not done at an interpreter. They are put `back` (the first one to the front), unless
    /// another interpreter has them in flight or has done them.
    pub(super) fn hand_back(
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

    /// Puts work back into the repository, unless it has killed too often or its run is closed.
    pub(super) fn put_back(&mut self, work: Work) {
        if !self.runs.contains_key(&work.run) {
            return;
        }
        if work.deaths < KILLS && work.killed.len() < LOSSES * (work.failures as usize + 1) {
            return self.put_aside_cancelled(work, |engine, work| engine.repository.prepend(work));
        }
        if !self.tried_enough(&work) {
            return; // it is tried again
        }
        let Some(task) = self.task_of(&work) else { return };
        let (tokens, _) = work.tokens.slice(work.start, work.tokens.count().min(1));
        let bytes = tokens.bytes() / u64::from(tokens.count().max(1)); // tokens that share one pickle: their average size
        self.settle(work.run, task, Outcome::Culprit { task, bytes, killed: work.killed });
    }

    /// No interpreter can be recruited now. `is_closed`: machines of which one could be had open again.
    pub(super) fn on_recruit_failed(&mut self, now: Duration, reason: String, is_closed: bool) {
        self.recruiting = self.recruiting.saturating_sub(1);
        self.record(Fact::RecruitFailed { reason: reason.clone() });
        self.last_failure = Some(reason.clone());
        self.remember_loss(reason);
        self.note_closed(now, is_closed);
        self.wait_if_alone(now);
    }

    pub(super) fn recruit_missing(&mut self, now: Duration) {
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

    pub(super) fn remember_loss(&mut self, loss: String) {
        self.losses.push_back(loss);
        while self.losses.len() > MOST_LOSSES {
            self.losses.pop_front();
        }
    }
}
