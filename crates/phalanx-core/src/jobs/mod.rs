//! The engine of jobs. It schedules processes, counts their results, retries them, and ends jobs.
//!
//! The driver authenticates users, stores changes before it answers, and tells the time in milliseconds since 1970. A process may run more
//! than once, because a machine may be lost with it. The result of one run counts: that of the latest attempt.

mod assigning;
mod check;
mod executors;
mod keeping;
mod listing;
mod results;
#[cfg(test)]
mod tests;

pub use crate::wire::job_records::{End, JobChange, Process, Record, Stage};
pub use crate::wire::jobs::is_inside;
pub use check::{HIGHEST, MOST_COUNT, MOST_PLACES};
pub use executors::LOST_AFTER;
pub use listing::Written;
pub use results::explain;

use crate::needs::Needs;
use crate::wire::jobs::{Content, Counts, Digest, MOST_RUNS, Run, Spec, State};
use executors::Executor;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use thiserror::Error;

/// Most jobs of all users together, and of one user.
pub const MOST_JOBS: (usize, usize) = (50_000, 20_000);
/// Limits of different kinds of jobs: pairs of needs and places among one user's jobs that have not ended, and different needs of all jobs
/// since the hub has led. The first limit is low, because each decision looks at the first job of every kind that waits.
const MOST_KINDS: usize = 64;
const MOST_CLASSES: usize = 4096;
/// Most processes of all jobs together, and of one user's jobs.
pub const MOST_PROCESSES: (u64, u64) = (500_000, 200_000);
/// Time in milliseconds for which the hub keeps an ended job: 14 days.
pub const KEPT_FOR: u64 = 14 * 24 * 3600 * 1000;
/// Most records that one decision removes, so that no other change waits for long.
const FORGOTTEN_AT_ONCE: usize = 2000;

/// Why a hub refuses a request about jobs.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JobRefusal {
    /// The job does not exist, or belongs to another user.
    #[error("you have no job {0}; yours are shown by: phalanx jobs")]
    NoJob(u64),
    /// The job has no process with this index.
    #[error("the job {0} has no process {1}; its processes are shown by: phalanx jobs {0}")]
    NoProcess(u64, u32),
    /// The specification is invalid.
    #[error("{0}")]
    Wrong(String),
    /// The job waits for another job that has failed or was canceled.
    #[error("the job {0}, after which this one is to run, has failed or was canceled")]
    Hopeless(u64),
    /// A limit is reached.
    #[error("the hub has {0} already; forget some that have ended: phalanx jobs --forget ID")]
    Full(&'static str),
    /// The job has not ended.
    #[error("the job {0} has not ended; cancel it first: phalanx cancel {0}")]
    Goes(u64),
}

/// A command that the driver sends to a connected executor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Run these processes of a job, by index and attempt.
    Run {
        /// The executor.
        executor: String,
        /// The job.
        job: u64,
        /// Index and attempt of each.
        runs: Vec<(u32, u32)>,
    },
    /// End these runs.
    Stop {
        /// The executor.
        executor: String,
        /// The runs.
        runs: Vec<Run>,
    },
    /// Forget these runs, once all changes up to now are stored.
    Counted {
        /// The executor.
        executor: String,
        /// The runs.
        runs: Vec<Run>,
    },
}

/// Decisions of the engine: changes to store, in order, and commands to send.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Decided {
    /// The changes.
    pub changes: Vec<JobChange>,
    /// The commands.
    pub commands: Vec<Command>,
}

/// The user who asks about jobs.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// The user.
    pub user: &'a str,
    /// Whether the user is an owner of the grid. Owners see and cancel all jobs.
    pub is_owner: bool,
}

/// A job: its stored record, and the state that the engine derives from its records.
#[derive(Debug)]
struct Job {
    record: Record,
    /// The lowest index that may never have been started.
    fresh: u32,
    /// Indices to retry. Some may have left the queue since.
    again: VecDeque<u32>,
    processes: BTreeMap<u32, Process>,
    /// The processes that the executor has reported as begun.
    begun: HashSet<u32>,
    counts: Counts,
    /// The jobs that this job still waits for.
    waits: BTreeSet<u64>,
    /// Duration of a run in milliseconds, as a moving average. `None`: no run has ended yet.
    pace: Option<u64>,
    /// The number of its needs in `Jobs::classes`.
    class: u32,
    /// Start of the time in which the job was passed over, because no machine had enough free places. `None`: its turn has not come, or a
    /// process of it was started since.
    blocked: Option<u64>,
    /// The job's lane in its user's queue. `None`: no process of it may start.
    lane: Option<Lane>,
    is_forgotten: bool,
}

/// A part of a user's queue: the number of needs, whether runs are short, and the places of a process. If the first job of a lane finds no
/// machine, no other job of the lane does.
type Lane = (u32, bool, u32);

/// The jobs of a user.
#[derive(Debug, Default)]
struct User {
    /// The jobs with processes that may start, in the order of their turns.
    queue: BTreeMap<Lane, BTreeSet<(Reverse<i32>, u64)>>,
    /// How many of the user's jobs have not ended, by the number of their needs and the places of a process.
    kinds: BTreeMap<(u32, u32), usize>,
    jobs: usize,
    processes: u64,
    /// Places that the user's runs take.
    places: u64,
}

impl User {
    fn note_unended(&mut self, kind: (u32, u32)) {
        *self.kinds.entry(kind).or_default() += 1;
    }

    fn note_ended(&mut self, kind: (u32, u32)) {
        if let Some(count) = self.kinds.get_mut(&kind) {
            *count -= 1;
            if *count == 0 {
                self.kinds.remove(&kind);
            }
        }
    }
}

/// The engine.
#[derive(Debug, Default)]
pub struct Jobs {
    last: u64,
    jobs: BTreeMap<u64, Job>,
    /// Processes that were filled in before their job.
    orphans: BTreeMap<u64, Vec<(u32, Process)>>,
    /// The numbers of jobs by the user and the key of the request.
    keys: HashMap<(String, [u8; 16]), u64>,
    users: BTreeMap<String, User>,
    processes: u64,
    /// The jobs that wait for each job.
    waiting: BTreeMap<u64, BTreeSet<u64>>,
    /// The jobs that have a deadline.
    deadlines: BTreeSet<(u64, u64)>,
    /// The jobs that have ended, by their end.
    ended: BTreeSet<(u64, u64)>,
    /// Jobs that have ended without a record of their end, because the hub's process ended in between.
    unended: Vec<(u64, State, String)>,
    /// The jobs whose records are being removed.
    forgotten: BTreeSet<u64>,
    executors: BTreeMap<String, Executor>,
    /// For each user, the machine that is kept free for a job of that user, and the job.
    kept: BTreeMap<String, (String, u64)>,
    /// The number of each distinct set of needs.
    classes: HashMap<Needs, u32>,
    /// The latest time that the driver has told, in milliseconds since 1970.
    now: u64,
}

impl Jobs {
    /// Applies a stored change while the engine is filled. [`Jobs::filled`] follows the last change.
    pub fn fill(&mut self, change: JobChange) {
        match change {
            JobChange::Job(id, Some(record)) => self.insert(id, *record),
            JobChange::Process(id, index, Some(process)) => match self.jobs.get_mut(&id) {
                Some(job) => drop(job.processes.insert(index, *process)),
                None => self.orphans.entry(id).or_default().push((index, *process)),
            },
            JobChange::Job(_, None) | JobChange::Process(_, _, None) => {}
        }
    }

    /// Ends the filling. Executors that have processes count as absent until they connect.
    pub fn filled(&mut self, now: u64) {
        self.now = now;
        self.orphans.clear();
        let ids: Vec<u64> = self.jobs.keys().copied().collect();
        for id in &ids {
            self.settle(now, *id);
        }
        for id in ids {
            self.look_for_start(id);
        }
    }

    /// Accepts a job. Returns its number.
    ///
    /// # Errors
    /// The specification is invalid, a job that it waits for has failed, or a limit is reached.
    pub fn submit(&mut self, now: u64, user: &str, spec: Spec) -> Result<(u64, Decided), JobRefusal> {
        check::check(&spec)?;
        self.now = now;
        if let Some(id) = self.keys.get(&(user.to_owned(), spec.key)) {
            return Ok((*id, Decided::default()));
        }
        let count = u64::from(spec.count());
        let own = self.users.entry(user.to_owned()).or_default();
        if self.jobs.len() >= MOST_JOBS.0 || own.jobs >= MOST_JOBS.1 {
            return Err(JobRefusal::Full("as many jobs as it keeps"));
        }
        if self.processes + count > MOST_PROCESSES.0 || own.processes + count > MOST_PROCESSES.1 {
            return Err(JobRefusal::Full("as many processes of jobs as it keeps"));
        }
        let class = self.classes.get(&spec.needs);
        let is_known = class.is_some_and(|class| own.kinds.contains_key(&(*class, spec.places_each())));
        let is_full = own.kinds.len() >= MOST_KINDS || (class.is_none() && self.classes.len() >= MOST_CLASSES);
        if is_full && !is_known {
            return Err(JobRefusal::Full("jobs with as many different needs as it compares"));
        }
        for id in &spec.after {
            let job = self.jobs.get(id).filter(|it| it.record.user == user).ok_or(JobRefusal::NoJob(*id))?;
            if job.record.end.as_ref().is_some_and(|end| end.state != State::Complete) {
                return Err(JobRefusal::Hopeless(*id));
            }
        }
        let id = self.last + 1;
        let record = Record { user: user.to_owned(), spec, submitted: now, end: None };
        let changes = vec![JobChange::Job(id, Some(Box::new(record.clone())))];
        self.insert(id, record);
        self.settle(now, id);
        self.look_for_start(id);
        Ok((id, Decided { changes, ..Decided::default() }))
    }

    /// Cancels a job, or one process of it. Returns the number of canceled processes.
    ///
    /// # Errors
    /// There is no such job or process.
    pub fn cancel(
        &mut self,
        now: u64,
        asker: Asker<'_>,
        id: u64,
        index: Option<u32>,
    ) -> Result<(u32, Decided), JobRefusal> {
        let counts = self.visible(asker, id)?.counts;
        let why = format!("{} has canceled it", asker.user);
        let Some(index) = index else {
            return Ok((counts.queued + counts.running, self.end_job(now, id, State::Canceled, why)));
        };
        let job = self.jobs.get(&id).expect("was found");
        if !(job.record.spec.first..=job.record.spec.last).contains(&index) {
            return Err(JobRefusal::NoProcess(id, index));
        }
        if job.record.end.is_some() || job.state_of(index).is_over() {
            return Ok((0, Decided::default()));
        }
        let mut decided = Decided::default();
        let process = job.processes.get(&index).cloned().unwrap_or_default();
        if process.stage == Stage::There {
            let executor = process.executor.clone().expect("it is there");
            let run = Run { job: id, index, attempt: process.attempts };
            self.take_away(&executor, run);
            decided.stop(executor, run);
        }
        self.end_process(now, id, index, process, (State::Canceled, None, why), &mut decided);
        Ok((1, decided))
    }

    /// Forgets a job that has ended.
    ///
    /// # Errors
    /// There is no such job, or it has not ended.
    pub fn forget(&mut self, asker: Asker<'_>, id: u64) -> Result<Decided, JobRefusal> {
        match self.visible(asker, id)?.record.end {
            None => Err(JobRefusal::Goes(id)),
            Some(_) => {
                self.begin_to_forget(id);
                Ok(self.forget_more())
            }
        }
    }

    /// Applies timeouts: drops absent executors, cancels jobs at their deadlines, and forgets old jobs. The driver calls it once a second.
    pub fn tick(&mut self, now: u64) -> Decided {
        self.now = now;
        let mut decided = Decided::default();
        for (id, state, why) in std::mem::take(&mut self.unended) {
            decided.add(self.end_job(now, id, state, why));
        }
        self.lose_executors(now, &mut decided);
        while let Some((when, id)) = self.deadlines.first().copied().filter(|(when, _)| *when <= now) {
            self.deadlines.remove(&(when, id));
            decided.add(self.end_job(now, id, State::Canceled, "its deadline has passed".to_owned()));
        }
        while let Some((when, id)) = self.ended.first().copied().filter(|(when, _)| when + KEPT_FOR <= now) {
            self.ended.remove(&(when, id));
            self.begin_to_forget(id);
        }
        decided.add(self.forget_more());
        decided
    }

    /// Whether this executor runs a job of a user. If so, it may read and write contents of that user.
    pub fn serves(&self, executor: &str, user: &str) -> bool {
        let runs = self.executors.get(executor).map(|it| &it.runs);
        let of_user = |run: &Run| self.jobs.get(&run.job).is_some_and(|job| job.record.user == user);
        runs.is_some_and(|runs| runs.keys().any(of_user))
    }

    /// The user of a job, and the specification.
    pub fn job(&self, id: u64) -> Option<(&str, &Spec)> {
        self.jobs.get(&id).map(|job| (job.record.user.as_str(), &job.record.spec))
    }

    /// The contents that jobs refer to, with their users.
    pub fn contents(&self) -> HashSet<(&str, Digest)> {
        let mut all = HashSet::new();
        for job in self.jobs.values().filter(|job| !job.is_forgotten) {
            let user = job.record.user.as_str();
            let outcomes = job.processes.values().filter_map(|process| match &process.stage {
                Stage::Ended { outcome: Some(outcome), .. } => Some(outcome.contents()),
                _ => None,
            });
            let inputs = job.record.spec.inputs.iter().map(|it| &it.content);
            all.extend(outcomes.flatten().chain(inputs).filter_map(|content| match content {
                Content::Kept { digest, .. } => Some((user, *digest)),
                Content::Here(_) => None,
            }));
        }
        all
    }

    /// A job that a user may see.
    fn visible(&self, asker: Asker<'_>, id: u64) -> Result<&Job, JobRefusal> {
        let job = self.jobs.get(&id).filter(|job| !job.is_forgotten);
        job.filter(|job| asker.is_owner || job.record.user == asker.user).ok_or(JobRefusal::NoJob(id))
    }

    /// Adds a job without its processes.
    fn insert(&mut self, id: u64, record: Record) {
        self.last = self.last.max(id);
        let count = u64::from(record.spec.count());
        let own = self.users.entry(record.user.clone()).or_default();
        (own.jobs, own.processes) = (own.jobs + 1, own.processes + count);
        self.processes += count;
        self.keys.insert((record.user.clone(), record.spec.key), id);
        let next = self.classes.len() as u32;
        let class = *self.classes.entry(record.spec.needs.clone()).or_insert(next);
        let processes = self.orphans.remove(&id).unwrap_or_default().into_iter().collect();
        let fresh = record.spec.first;
        self.jobs.insert(
            id,
            Job {
                record,
                fresh,
                again: VecDeque::new(),
                processes,
                begun: HashSet::new(),
                counts: Counts::default(),
                waits: BTreeSet::new(),
                pace: None,
                class,
                blocked: None,
                lane: None,
                is_forgotten: false,
            },
        );
    }

    /// Derives the state of a job from its stored records.
    fn settle(&mut self, now: u64, id: u64) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.counts = Counts { queued: job.record.spec.count(), ..Counts::default() };
        for (index, process) in &job.processes {
            job.counts.queued -= 1;
            *job.counts.of(&process.stage) += 1;
            match (&process.stage, &process.executor) {
                (Stage::Queued, _) => job.again.push_back(*index),
                (Stage::There, Some(executor)) if job.record.end.is_none() => {
                    let run = Run { job: id, index: *index, attempt: process.attempts };
                    let away = || Executor { away: Some(now), ..Executor::default() };
                    let places = job.record.spec.places_each();
                    self.executors.entry(executor.clone()).or_insert_with(away).add(run, places);
                    self.users.entry(job.record.user.clone()).or_default().places += u64::from(places);
                }
                _ => {}
            }
        }
        if let Some(end) = &job.record.end {
            let counts = &mut job.counts;
            counts.canceled += std::mem::take(&mut counts.queued) + std::mem::take(&mut counts.running);
            self.ended.insert((end.when, id));
            return;
        }
        self.users.entry(job.record.user.clone()).or_default().note_unended(job.kind());
        if let Some(deadline) = job.record.spec.deadline {
            self.deadlines.insert((deadline, id));
        }
        if job.counts.queued + job.counts.running == 0 {
            let (state, why) = job.counts.summary();
            return self.unended.push((id, state, why));
        }
        let waits: Vec<u64> = job.record.spec.after.clone();
        for before in waits {
            let end = self.jobs.get(&before).map(|it| it.record.end.as_ref().map(|end| end.state));
            if matches!(end, Some(Some(state)) if state != State::Complete) {
                self.unended.push((id, State::Canceled, results::in_vain(before)));
            }
            if matches!(end, Some(None)) || matches!(end, Some(Some(state)) if state != State::Complete) {
                self.waiting.entry(before).or_default().insert(id);
                let job = self.jobs.get_mut(&id).expect("was found");
                job.waits.insert(before);
            }
        }
    }

    /// Puts a job into its user's queue if processes of it may start, and removes it otherwise.
    fn look_for_start(&mut self, id: u64) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let may_start = job.record.end.is_none() && job.waits.is_empty() && job.counts.queued > 0;
        let lane = may_start.then(|| (job.class, job.is_quick(), job.record.spec.places_each()));
        let before = std::mem::replace(&mut job.lane, lane);
        if before == lane {
            return;
        }
        let user = self.users.entry(job.record.user.clone()).or_default();
        let key = (Reverse(job.record.spec.priority), id);
        if let Some((lane, queue)) = before.and_then(|lane| Some((lane, user.queue.get_mut(&lane)?))) {
            queue.remove(&key);
            if queue.is_empty() {
                user.queue.remove(&lane);
            }
        }
        if let Some(lane) = lane {
            user.queue.entry(lane).or_default().insert(key);
        }
    }

    fn begin_to_forget(&mut self, id: u64) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| !job.is_forgotten) else { return };
        job.is_forgotten = true;
        self.keys.remove(&(job.record.user.clone(), job.record.spec.key));
        if let Some(end) = &job.record.end {
            self.ended.remove(&(end.when, id));
        }
        self.forgotten.insert(id);
    }

    /// Removes records of forgotten jobs, the record of the job itself last. If the hub restarts in between, the job counts as an old ended
    /// job.
    fn forget_more(&mut self) -> Decided {
        let mut decided = Decided::default();
        while let Some(id) = self.forgotten.first().copied() {
            let Some(job) = self.jobs.get_mut(&id) else { break };
            while let Some((index, _)) = job.processes.pop_first() {
                decided.changes.push(JobChange::Process(id, index, None));
                if decided.changes.len() >= FORGOTTEN_AT_ONCE {
                    return decided;
                }
            }
            decided.changes.push(JobChange::Job(id, None));
            self.forgotten.remove(&id);
            let job = self.jobs.remove(&id).expect("was found");
            let count = u64::from(job.record.spec.count());
            self.processes -= count;
            if let Some(own) = self.users.get_mut(&job.record.user) {
                (own.jobs, own.processes) = (own.jobs - 1, own.processes - count);
                if own.jobs == 0 {
                    self.users.remove(&job.record.user);
                }
            }
        }
        decided
    }
}

impl Decided {
    /// Appends later decisions.
    pub fn add(&mut self, later: Decided) {
        self.changes.extend(later.changes);
        later.commands.into_iter().for_each(|command| self.command(command));
    }

    fn stop(&mut self, executor: String, run: Run) {
        self.command(Command::Stop { executor, runs: vec![run] });
    }

    fn counted(&mut self, executor: &str, run: Run) {
        self.command(Command::Counted { executor: executor.to_owned(), runs: vec![run] });
    }

    /// Adds a command. It is merged into the last command if both are for the same executor and job.
    fn command(&mut self, command: Command) {
        match (self.commands.last_mut(), command) {
            (Some(Command::Stop { executor, runs }), Command::Stop { executor: same, runs: more })
                if *executor == same && runs.len() < MOST_RUNS =>
            {
                runs.extend(more)
            }
            (Some(Command::Counted { executor, runs }), Command::Counted { executor: same, runs: more })
                if *executor == same && runs.len() < MOST_RUNS =>
            {
                runs.extend(more)
            }
            (Some(Command::Run { executor, job, runs }), Command::Run { executor: same, job: again, runs: more })
                if *executor == same && *job == again && runs.len() < MOST_RUNS =>
            {
                runs.extend(more)
            }
            (_, command) => self.commands.push(command),
        }
    }
}
