//! The needs of instructions, and the search for interpreters that meet them.
//!
//! An instruction with needs is fired only where an interpreter has what it needs. If too few have it, another one is
//! released for one that has it, so that the contract's number is kept.

use super::Engine;
use super::interpreter::Interpreter;
use crate::event::{Command, Fact, Lack, Outcome};
use crate::ids::{InterpreterId, RunId};
use crate::needs::{Facts, Needs};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Backoff between attempts to find an interpreter for the same needs: the pause doubles from `FIRST_PAUSE` to
/// `LONGEST_PAUSE`. Each attempt may release an idle interpreter in vain.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// An interpreter that is at work stays for at least this long. So each one completes a task, even where the
/// contract has too few interpreters for all needs of a program.
const STAY: Duration = Duration::from_secs(1);

/// Needs of instructions, and the state of the search for interpreters that meet them.
#[derive(Debug, Clone)]
pub struct Need {
    needs: Arc<Needs>,
    /// When the next attempt is due.
    again: Duration,
    pause: Duration,
    /// Since when machines that may have it are out of reach.
    away: Option<Duration>,
}

impl Engine {
    /// The number of these needs, for [`Options::needs`](super::Options::needs). 0: nothing is needed. `None`: there are
    /// too many different ones.
    pub fn need(&mut self, needs: Needs) -> Option<u16> {
        if needs.is_empty() {
            return Some(0);
        }
        if let Some(place) = self.needs.iter().position(|it| *it.needs == needs) {
            return Some(place as u16 + 1);
        }
        let number = u16::try_from(self.needs.len() + 1).ok()?;
        for interpreter in self.interpreters.values_mut().filter(|it| needs.are_met(&it.has[0])) {
            interpreter.meets.insert(number);
        }
        self.needs.push(Need { needs: Arc::new(needs), again: self.now, pause: Duration::ZERO, away: None });
        Some(number)
    }

    /// Notes what an interpreter has.
    pub(super) fn on_has(&mut self, now: Duration, id: InterpreterId, has: [Arc<Facts>; 2]) {
        let Some(interpreter) = self.interpreters.get_mut(&id) else { return };
        interpreter.meets.clear();
        for (need, number) in self.needs.iter_mut().zip(1..).filter(|(need, _)| need.needs.are_met(&has[0])) {
            interpreter.meets.insert(number);
            (need.again, need.pause, need.away) = (now, Duration::ZERO, None);
        }
        interpreter.has = has;
        self.fire(now);
        self.exchange(now);
    }

    /// No interpreter with what is needed can be had now. If that stays so, the runs that need it end with the reason.
    pub(super) fn on_lacking(&mut self, now: Duration, needs: &Needs, reason: String, lack: Lack) {
        self.recruiting = self.recruiting.saturating_sub(1);
        self.record(Fact::RecruitFailed { reason: reason.clone() });
        if let Some((need, number)) = self.needs.iter_mut().zip(1..).find(|(need, _)| *need.needs == *needs) {
            let away = need.away.filter(|_| lack == Lack::Away).unwrap_or(now);
            need.away = Some(away);
            let is_hopeless = lack == Lack::Never
                || lack == Lack::Away && now.saturating_sub(away) >= self.config.patience.max(FIRST_PAUSE);
            if is_hopeless && !self.interpreters.values().any(|it| it.suits(number)) {
                self.abandon_for(number, &reason, lack != Lack::Never);
            }
        }
        self.recruit_missing(now);
        self.wait_if_alone(now);
    }

    /// Ends the runs with work that nothing can fire.
    fn abandon_for(&mut self, needs: u16, reason: &str, recruited: bool) {
        let waiting: BTreeSet<RunId> = self.repository.runs_with(needs).collect();
        for id in waiting {
            let is_open = self.runs.get_mut(&id).is_some_and(|run| run.abandon());
            self.repository.drop_run(id);
            if is_open {
                let outcome = Outcome::Abandoned { losses: vec![reason.to_owned()], recruited };
                self.commands.push_back(Command::Deliver { run: id, outcome });
            }
        }
    }

    /// Looks for interpreters with what waiting work needs, if no one that has it has room.
    pub(super) fn exchange(&mut self, now: Duration) {
        let waits = self
            .repository
            .firsts()
            .filter(|work| work.needs > 0 && !self.interpreters.values().any(|it| it.room(now, work).is_some()));
        let short: BTreeSet<u16> = waits.map(|work| work.needs).collect();
        short.into_iter().for_each(|needs| self.seek(now, needs));
    }

    /// Recruits an interpreter with what is needed. If the contract has all its interpreters, one of them makes room.
    fn seek(&mut self, now: Duration, number: u16) {
        let place = usize::from(number) - 1;
        if self.needs[place].again > now {
            return;
        }
        if self.staff() + self.recruiting >= self.wanted() {
            let Some(id) = self.dispensable(now, number) else { return };
            self.begin_leaving(id);
        }
        let need = &mut self.needs[place];
        need.pause = (need.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        need.again = now + need.pause;
        let needs = need.needs.clone();
        self.recruiting += 1;
        self.release_idle_leavers();
        self.commands.push_back(Command::RecruitFor { needs });
    }

    /// The interpreter that makes room for one with what is needed. Where machines have it, it is one of theirs. It is idle,
    /// unless no interpreter has what is needed.
    fn dispensable(&self, now: Duration, number: u16) -> Option<InterpreterId> {
        let needs = &self.needs[usize::from(number) - 1].needs;
        let is_there = |it: &Interpreter| needs.are_met(&it.has[1]);
        let staying = || self.interpreters.iter().filter(|(_, it)| !it.leaving);
        let (has_one, are_there) =
            (staying().any(|(_, it)| it.suits(number)), staying().any(|(_, it)| !it.suits(number) && is_there(it)));
        let others = staying().filter(|(_, it)| !it.suits(number) && (is_there(it) || !are_there));
        let least = others.min_by_key(|(id, it)| (it.tasks(), it.meets.len(), **id));
        let may = |it: &Interpreter| it.tasks() == 0 || !has_one && now.saturating_sub(it.since) >= STAY;
        least.filter(|(_, it)| may(it)).map(|(id, _)| *id)
    }
}
