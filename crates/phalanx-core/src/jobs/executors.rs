//! Executors that take jobs, their runs, and the loss of both.

use super::{Decided, JobChange, Jobs, Process, Stage};
use crate::hub::Needs;
use crate::wire::hub::Facts;
use crate::wire::jobs::{Run, State};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

/// Timeout in milliseconds: an executor that stays away for so long is lost with its runs. A restarted hub waits as long for executors that
/// have runs. Executors call a hub again within ten seconds.
pub const LOST_AFTER: u64 = 45_000;
/// Most losses of a process with its machine. One more loss ends the process, because it may itself crash the machines.
const MOST_LOSSES: u32 = 5;
/// The number of latest jobs whose inputs the engine assumes to be at an executor still.
const MOST_STAGED: usize = 64;

/// An executor that takes jobs, or an absent one that has runs.
#[derive(Debug, Default)]
pub(super) struct Executor {
    /// Start of the absence, in milliseconds since 1970. `None`: the executor is connected.
    pub away: Option<u64>,
    /// Places for jobs, including those that its runs take.
    pub room: u32,
    /// The executor's runs, and the places that each run takes.
    pub runs: BTreeMap<Run, u32>,
    /// Places that all its runs take together. The sum exceeds `room` if the hub has sent short runs ahead.
    pub taken: u64,
    pub facts: Facts,
    /// Whether the executor meets the needs of each class (a cache).
    pub meets: HashMap<u32, bool>,
    /// The users that the executor does not accept.
    pub refuses: HashSet<String>,
    /// The jobs whose inputs the executor has, the newest last.
    pub staged: VecDeque<u64>,
}

impl Executor {
    /// Whether the executor meets these needs.
    pub fn meets(&mut self, class: u32, needs: &Needs) -> bool {
        let facts = &self.facts;
        *self.meets.entry(class).or_insert_with(|| needs.are_met(facts))
    }

    /// The number of free places. It is negative if the hub has sent short runs ahead.
    pub fn free(&self) -> i64 {
        i64::from(self.room) - self.taken as i64
    }

    /// Adds a run that takes `places` places.
    pub fn add(&mut self, run: Run, places: u32) {
        if self.runs.insert(run, places).is_none() {
            self.taken += u64::from(places);
        }
    }

    /// Removes a run. Returns how many places it has taken, or `None` if there is no such run.
    pub fn remove(&mut self, run: &Run) -> Option<u32> {
        let places = self.runs.remove(run)?;
        self.taken -= u64::from(places);
        Some(places)
    }

    pub fn note_staged(&mut self, job: u64) {
        if self.staged.back() != Some(&job) {
            self.staged.retain(|other| *other != job);
            self.staged.push_back(job);
            if self.staged.len() > MOST_STAGED {
                self.staged.pop_front();
            }
        }
    }
}

impl Jobs {
    /// An executor has connected, takes jobs and reports its runs. The engine adopts the runs that it knows, and stops the others.
    pub fn enter(&mut self, now: u64, name: &str, room: u32, runs: &[Run], facts: Facts) -> Decided {
        let mut decided = Decided::default();
        let known = self.executors.remove(name).unwrap_or_default();
        let entered = Executor { room, facts, staged: known.staged, ..Executor::default() };
        self.executors.insert(name.to_owned(), entered);
        let has: BTreeSet<Run> = runs.iter().copied().collect();
        for run in &has {
            let known = known.runs.get(run).copied();
            let Some(places) = known.or_else(|| self.adopt(name, *run, &mut decided)) else {
                decided.stop(name.to_owned(), *run);
                continue;
            };
            self.executors.entry(name.to_owned()).or_default().add(*run, places);
        }
        for (run, places) in known.runs.iter().filter(|(run, _)| !has.contains(run)) {
            self.lose(now, name, (*run, *places), "was started again", &mut decided);
        }
        decided
    }

    /// An executor's link has closed.
    pub fn leave(&mut self, now: u64, name: &str) {
        match self.executors.get_mut(name) {
            Some(executor) if executor.runs.is_empty() => drop(self.executors.remove(name)),
            Some(executor) => executor.away = Some(now),
            None => {}
        }
    }

    /// An executor has `room` places for jobs, including those that its runs take.
    pub fn room(&mut self, name: &str, room: u32) {
        self.executors.get_mut(name).into_iter().for_each(|it| it.room = room);
    }

    /// An executor's facts have changed.
    pub fn tell_facts(&mut self, name: &str, facts: Facts) {
        if let Some(executor) = self.executors.get_mut(name).filter(|it| it.facts != facts) {
            (executor.facts, executor.meets) = (facts, HashMap::new());
        }
    }

    /// Runs have begun.
    pub fn began(&mut self, name: &str, runs: &[Run]) {
        for run in runs {
            let is_there = self.executors.get(name).is_some_and(|it| it.runs.contains_key(run));
            if let Some(job) = self.jobs.get_mut(&run.job).filter(|_| is_there) {
                job.begun.insert(run.index);
            }
        }
    }

    /// An executor gives back runs that it has not begun.
    pub fn back(&mut self, name: &str, runs: &[Run], refuses: bool) -> Decided {
        let mut decided = Decided::default();
        for run in runs {
            if !self.take_away(name, *run) {
                continue;
            }
            let Some(job) = self.jobs.get_mut(&run.job) else { continue };
            if let Some(executor) = self.executors.get_mut(name).filter(|_| refuses) {
                executor.refuses.insert(job.record.user.clone());
            }
            if let Some(process) = job.processes.get(&run.index).cloned() {
                self.queue_again(run.job, run.index, Process { executor: None, ..process }, &mut decided);
            }
        }
        decided
    }

    /// Removes a run from an executor. Returns whether the executor had it.
    pub(super) fn take_away(&mut self, name: &str, run: Run) -> bool {
        let Some(places) = self.executors.get_mut(name).and_then(|it| it.remove(&run)) else { return false };
        if let Some(user) = self.jobs.get(&run.job).and_then(|job| self.users.get_mut(&job.record.user)) {
            user.places -= u64::from(places);
        }
        true
    }

    /// Adopts a run that was lost with this executor, unless the process was started again since. Returns the places that the run takes.
    fn adopt(&mut self, name: &str, run: Run, decided: &mut Decided) -> Option<u32> {
        let job = self.jobs.get_mut(&run.job).filter(|job| job.record.end.is_none())?;
        let places = job.record.spec.places_each();
        let process = job.processes.get_mut(&run.index)?;
        let is_its = process.executor.as_deref() == Some(name) && process.attempts == run.attempt;
        if process.stage != Stage::Queued || !is_its {
            return None;
        }
        process.stage = Stage::There;
        (job.counts.queued, job.counts.running) = (job.counts.queued - 1, job.counts.running + 1);
        self.users.entry(job.record.user.clone()).or_default().places += u64::from(places);
        decided.changes.push(JobChange::Process(run.job, run.index, Some(Box::new(process.clone()))));
        self.look_for_start(run.job);
        Some(places)
    }

    /// Drops the executors that have stayed away for `LOST_AFTER`, with their runs.
    pub(super) fn lose_executors(&mut self, now: u64, decided: &mut Decided) {
        let is_lost = |since: &Option<u64>| since.is_some_and(|since| since + LOST_AFTER <= now);
        let lost: Vec<String> =
            self.executors.iter().filter(|(_, it)| is_lost(&it.away)).map(|(name, _)| name.clone()).collect();
        for name in lost {
            let runs = self.executors.remove(&name).map(|it| it.runs).unwrap_or_default();
            for run in runs {
                self.lose(now, &name, run, "was lost", decided);
            }
        }
    }

    /// A run is lost with its machine. The loss does not count as a failure of the command. Too many losses end the process with a system
    /// error.
    pub(super) fn lose(&mut self, now: u64, name: &str, (run, places): (Run, u32), how: &str, decided: &mut Decided) {
        let Some(job) = self.jobs.get_mut(&run.job) else { return };
        if let Some(user) = self.users.get_mut(&job.record.user) {
            user.places -= u64::from(places);
        }
        let Some(process) = job.processes.get(&run.index).filter(|it| it.stage == Stage::There) else { return };
        let process = Process { losses: process.losses + 1, ..process.clone() };
        self.again_unless_hopeless(now, run, process, format!("{name} {how}"), decided);
    }

    /// Queues a process again after its machine has failed, unless that has happened too often.
    pub(super) fn again_unless_hopeless(
        &mut self,
        now: u64,
        run: Run,
        process: Process,
        why: String,
        decided: &mut Decided,
    ) {
        match process.losses > MOST_LOSSES {
            true => {
                let why = format!("{} machines failed with it, the last one so: {why}", process.losses);
                self.end_process(now, run.job, run.index, process, (State::SystemError, None, why), decided);
            }
            false => self.queue_again(run.job, run.index, process, decided),
        }
    }

    /// Puts a process into the queue again. A late result of its last run still counts until the process is started again.
    pub(super) fn queue_again(&mut self, id: u64, index: u32, process: Process, decided: &mut Decided) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let process = Process { stage: Stage::Queued, ..process };
        (job.counts.running, job.counts.queued) = (job.counts.running - 1, job.counts.queued + 1);
        job.begun.remove(&index);
        job.again.push_back(index);
        job.processes.insert(index, process.clone());
        decided.changes.push(JobChange::Process(id, index, Some(Box::new(process))));
        self.look_for_start(id);
    }
}
