//! Tasks that are stopped while they run, because of their timeout or because they were cancelled, and tasks that are
//! tried again.
//!
//! The interpreter says which token it is at ([`FromInterpreter::Stop`](crate::wire::FromInterpreter::Stop)). It is then
//! ended and replaced, because nothing less stops a function for certain. Its tokens without a sent result are fired
//! elsewhere, and are under no suspicion.

use super::Engine;
use super::interpreter::{Firing, Race};
use super::repository::Work;
use crate::error::WireError;
use crate::event::{Cause, Command, Fact, Outcome};
use crate::ids::{FiringId, InterpreterId, RunId, TaskId};
use crate::wire::ToInterpreter;
use std::time::Duration;

/// How long a token of a closed run may go on before its interpreter is ended. It is about the time that another
/// interpreter needs to start: ending sooner would cost more than it saves.
const GRACE: Duration = Duration::from_millis(100);

impl Engine {
    /// Cancels a task of a chain. Its outcome is [`Outcome::Cancelled`], unless it is done first. Returns false if the
    /// task has an outcome already.
    pub fn cancel(&mut self, now: Duration, run_id: RunId, task: TaskId) -> bool {
        self.now = now;
        if !self.runs.get(&run_id).is_some_and(|run| !run.has_ended() && run.groups.is_none()) {
            return false;
        }
        if self.repository.take_task(run_id, task).is_some() {
            self.settle(run_id, task, Outcome::Cancelled { task });
            return true;
        }
        let held = self.holders(run_id, task);
        if let Some(run) = self.runs.get_mut(&run_id).filter(|_| !held.is_empty()) {
            run.cancelled.insert(task);
        }
        for (to, firing, token) in &held {
            self.ask_to_stop(*to, *firing, *token);
        }
        !held.is_empty()
    }

    /// Closes a run, and ends the interpreters that are still firing its tasks after a moment.
    pub fn stop(&mut self, now: Duration, run: RunId) {
        self.now = now;
        let mut firings = Vec::new();
        for (id, interpreter) in &mut self.interpreters {
            let own = interpreter.in_flight.iter_mut().filter(|it| it.work.run == run);
            for firing in own {
                firing.stop_at = Some(now + GRACE);
                firings.push((*id, firing.id));
            }
        }
        firings.into_iter().for_each(|(id, firing)| self.ask_back(id, firing));
        self.close(run);
    }

    /// Asks the interpreters that are still at a token of a closed run to end.
    pub(super) fn stop_what_is_closed(&mut self, now: Duration) {
        let late = self.interpreters.iter_mut().filter_map(|(id, interpreter)| {
            let head = interpreter.in_flight.front_mut().filter(|head| head.stop_at.is_some_and(|at| at <= now))?;
            head.stop_at = Some(now + GRACE); // the request may come just before the token begins
            Some((*id, head.id))
        });
        let late: Vec<_> = late.collect();
        late.into_iter().for_each(|(id, firing)| self.ask_to_stop(id, firing, u32::MAX));
    }

    /// An interpreter is at this token and cannot leave it: it is ended, and the token has failed. If the token was
    /// answered meanwhile, nothing happens.
    pub(super) fn on_stop(
        &mut self,
        now: Duration,
        id: InterpreterId,
        firing: FiringId,
        token: u32,
    ) -> Result<(), WireError> {
        let Some(head) = self.interpreters.get(&id).and_then(|it| it.in_flight.front()) else { return Ok(()) };
        let place = token.checked_sub(head.answered).filter(|place| head.id == firing && *place < head.tasks());
        let Some(place) = place else { return Ok(()) };
        let is_lost = head.race == Race::Lost; // another interpreter was faster, so this one may stop
        let why = self.why(head, place).or_else(|| is_lost.then(|| "its task was done elsewhere".to_owned()));
        let why = why.ok_or(WireError::UnexpectedAnswer)?;
        let Some(mut interpreter) = self.interpreters.remove(&id) else { return Ok(()) };
        let tasks = interpreter.tasks();
        let Some(mut head) = interpreter.in_flight.pop_front() else { return Ok(()) };
        let (computed, race, name) = (head.split_off(place), head.race, interpreter.name.clone());
        let mut stopped = head.split_off(1);
        stopped.iter_mut().for_each(|work| work.was_late = true);
        self.record(Fact::Lost { interpreter: id, cause: Cause::Stopped { why }.to_string(), tasks });
        self.commands.push_back(Command::Dismiss { id });
        for firing in interpreter.in_flight.into_iter().rev() {
            let works = std::iter::once(firing.work).chain(firing.more);
            self.hand_back(firing.race, works, Engine::put_back);
        }
        match race {
            Race::Alone => {
                let behind = std::iter::once(head.work).chain(head.more).filter(|work| work.count > 0);
                behind.rev().for_each(|work| self.put_back(work));
                stopped.drain(..).for_each(|work| self.has_stopped(work, name.clone()));
                computed.into_iter().rev().for_each(|work| self.put_back(work));
            }
            Race::Against(..) => self.withdraw(race, stopped.remove(0)), // the other firing has all of it
            Race::Lost => {}
        }
        self.recruit_missing(now);
        self.fire(now);
        Ok(())
    }

    /// Whether the work, which has failed, is not tried again. Otherwise it is back in the repository.
    pub(super) fn tried_enough(&mut self, work: &Work) -> bool {
        let Some(run) = self.runs.get(&work.run).filter(|run| !run.has_ended()) else { return true };
        let most = self.programs[&run.program].options(work.instruction).retries;
        if work.failures >= most || run.cancelled.contains(&work.task) {
            return true;
        }
        let retry = work.failures + 1;
        self.record(Fact::Retried { run: work.run, task: work.task, retry });
        self.repository.prepend(Work { failures: retry, deaths: 0, ..work.clone() });
        false
    }

    /// Puts work where `put` says, without the tasks in it that were cancelled: these have their outcome now.
    pub(super) fn put_aside_cancelled(&mut self, mut work: Work, put: impl Fn(&mut Engine, Work)) {
        let all = work.task..work.task + u64::from(work.count);
        let cancelled: Vec<TaskId> = match self.runs.get(&work.run) {
            Some(run) if !run.cancelled.is_empty() => run.cancelled.range(all).copied().collect(),
            _ => return put(self, work),
        };
        let mut kept = Vec::new();
        for task in cancelled {
            kept.push(work.split_off((task - work.task) as u32));
            work.split_off(1);
            self.settle(work.run, task, Outcome::Cancelled { task });
        }
        kept.push(work);
        kept.into_iter().rev().filter(|work| work.count > 0).for_each(|work| put(self, work));
    }

    /// Work has ended with its interpreter, because it was cancelled or late, or because its run was closed.
    fn has_stopped(&mut self, work: Work, by: String) {
        let Some(run) = self.runs.get(&work.run) else { return };
        let (is_cancelled, attempts) = (run.cancelled.contains(&work.task), work.failures + 1);
        let timeout = self.programs[&run.program].options(work.instruction).timeout.unwrap_or_default();
        if !self.tried_enough(&work) {
            return;
        }
        let Some(task) = self.task_of(&work) else { return };
        let outcome = match is_cancelled {
            true => Outcome::Cancelled { task },
            false => Outcome::TimedOut { task, timeout, attempts, by },
        };
        self.settle(work.run, task, outcome);
    }

    /// Why the token at this place of a firing may be stopped, for people; `None`: there is no reason.
    fn why(&self, firing: &Firing, place: u32) -> Option<String> {
        let work = &firing.work; // all work of a firing is of one run and one instruction, and that of a chain is one piece
        let Some(run) = self.runs.get(&work.run) else { return Some("its computation was closed".to_owned()) };
        if run.cancelled.contains(&(work.task + u64::from(place))) {
            return Some("a task there was cancelled".to_owned());
        }
        let timeout = self.programs[&run.program].options(work.instruction).timeout?;
        Some(format!("a task there ran longer than its timeout of {} s", timeout.as_secs_f64()))
    }

    /// The firings that have the task, each with the number of its token there.
    fn holders(&self, run: RunId, task: TaskId) -> Vec<(InterpreterId, FiringId, u32)> {
        let firings = self.interpreters.iter().flat_map(|(id, it)| it.in_flight.iter().map(move |it| (*id, it)));
        let own = firings.filter(|(_, it)| it.work.run == run && it.race != Race::Lost);
        let token = own.filter_map(|(id, it)| {
            let place = task.checked_sub(it.work.task).filter(|place| *place < u64::from(it.work.count))?;
            Some((id, it.id, it.answered + place as u32))
        });
        token.collect()
    }

    fn ask_to_stop(&mut self, to: InterpreterId, firing: FiringId, token: u32) {
        let message = ToInterpreter::Cancel { firing, token };
        self.commands.push_back(Command::Send { to, message, body: Vec::new() });
    }
}
