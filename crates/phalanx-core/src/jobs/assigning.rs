//! The scheduler: it chooses the process that gets a free place, and the executor.
//!
//! The job with the highest priority comes first. Among jobs of equal priority, the user whose runs take the fewest places comes first
//! (fairness). Among the jobs of one user, the oldest comes first. The scheduler passes over a job if no machine with room meets its needs,
//! and the job keeps its turn. A job of several places that is passed over for long gets a machine kept free ([`super::keeping`]), because
//! it would starve otherwise.

use super::executors::Executor;
use super::{Command, Decided, Job, JobChange, Jobs, Lane, Stage, User};
use crate::wire::jobs::Run;

/// Threshold in milliseconds: the hub sends shorter runs ahead of free places (prefetching). Otherwise the machine would wait longer for
/// the next run than the run takes.
const QUICK: u64 = 300;
/// Runs that are sent ahead for each place. The hub never sends a run of several places ahead, because it would wait behind runs of one
/// place while another machine becomes free.
const AHEAD: u32 = 4;

impl Jobs {
    /// Gives processes to executors that have room.
    pub fn assign(&mut self) -> Decided {
        let mut decided = Decided::default();
        self.release();
        let mut open: Vec<String> =
            self.executors.iter().filter(|(_, it)| it.is_open()).map(|(name, _)| name.clone()).collect();
        let lanes = |(name, user): (&String, &User)| -> Vec<(String, Lane)> {
            user.queue.keys().map(|lane| (name.clone(), *lane)).collect()
        };
        let mut lanes: Vec<(String, Lane)> =
            if open.is_empty() { Vec::new() } else { self.users.iter().flat_map(lanes).collect() };
        while !open.is_empty() {
            let Some((number, id)) = self.next(&lanes) else { break };
            match self.executor_for(id, &lanes[number].0, &open) {
                Some(executor) => {
                    self.start(id, &executor, &mut decided);
                    open.retain(|name| *name != executor || self.executors[name].is_open());
                }
                None => {
                    self.note_blocked(id);
                    lanes.swap_remove(number);
                }
            }
        }
        decided
    }

    /// The next job in the order of the queue, and the number of its lane.
    fn next(&self, lanes: &[(String, Lane)]) -> Option<(usize, u64)> {
        let head = |(number, (name, lane)): (usize, &(String, Lane))| {
            let user = self.users.get(name)?;
            let (priority, id) = user.queue.get(lane)?.first()?;
            Some(((*priority, user.places, *id), number))
        };
        let ((_, _, id), number) = lanes.iter().enumerate().filter_map(head).min()?;
        Some((number, id))
    }

    /// The executor that gets a process of a job. Executors with enough free places come first, then those that have the job's inputs, then
    /// those with the most room.
    fn executor_for(&mut self, id: u64, user: &str, open: &[String]) -> Option<String> {
        let kept = self.kept_from(id);
        let job = self.jobs.get(&id)?;
        let places = i64::from(job.record.spec.places_each());
        let ahead = if job.is_quick() && places == 1 { AHEAD } else { 0 };
        let (class, needs) = (job.class, &job.record.spec.needs);
        let mut best = None;
        for name in open.iter().filter(|name| !kept.contains(*name)) {
            let Some(executor) = self.executors.get_mut(name) else { continue };
            let free = executor.free();
            let has_room = free + i64::from(executor.room) * i64::from(ahead) >= places;
            if !has_room || executor.refuses.contains(user) || !executor.meets(class, needs) {
                continue;
            }
            let is_staged = executor.staged.contains(&id);
            let rank = (free >= places, is_staged, free);
            if best.as_ref().is_none_or(|(other, _)| rank > *other) {
                best = Some((rank, name));
            }
        }
        best.map(|(_, name)| name.clone())
    }

    fn start(&mut self, id: u64, name: &str, decided: &mut Decided) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(index) = job.take_queued() else {
            debug_assert!(false, "a job counts processes in its queue and has none");
            job.counts.queued = 0;
            return self.look_for_start(id);
        };
        let process = job.processes.entry(index).or_default();
        process.attempts += 1;
        (process.executor, process.stage) = (Some(name.to_owned()), Stage::There);
        decided.changes.push(JobChange::Process(id, index, Some(Box::new(process.clone()))));
        let attempt = process.attempts;
        (job.counts.queued, job.counts.running) = (job.counts.queued - 1, job.counts.running + 1);
        job.blocked = None;
        let places = job.record.spec.places_each();
        self.users.entry(job.record.user.clone()).or_default().places += u64::from(places);
        if let Some(executor) = self.executors.get_mut(name) {
            executor.add(Run { job: id, index, attempt }, places);
            executor.note_staged(id);
        }
        decided.command(Command::Run { executor: name.to_owned(), job: id, runs: vec![(index, attempt)] });
        if self.jobs[&id].counts.queued == 0 {
            self.look_for_start(id);
        }
    }
}

impl Executor {
    /// Whether the executor takes another process now, at least one whose runs are short.
    fn is_open(&self) -> bool {
        self.away.is_none() && (u64::from(self.room) * u64::from(AHEAD + 1)) > self.taken
    }
}

impl Job {
    /// The number of its needs, and the places of a process.
    pub(super) fn kind(&self) -> (u32, u32) {
        (self.class, self.record.spec.places_each())
    }

    /// Whether the job's runs are short, by their moving average.
    pub(super) fn is_quick(&self) -> bool {
        self.pace.is_some_and(|pace| pace < QUICK)
    }

    /// Takes the next index out of the job's queue.
    fn take_queued(&mut self) -> Option<u32> {
        while let Some(index) = self.again.pop_front() {
            if self.processes.get(&index).is_some_and(|it| it.stage == Stage::Queued) {
                return Some(index);
            }
        }
        while self.fresh <= self.record.spec.last {
            let index = self.fresh;
            self.fresh += 1;
            if !self.processes.contains_key(&index) {
                return Some(index);
            }
        }
        None
    }
}
