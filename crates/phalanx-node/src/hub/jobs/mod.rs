//! Jobs at the leading hub. It runs the engine of jobs, stores the engine's decisions, and talks to users and executors.
//!
//! The hub sends starts of processes before they are on disk. If it ends in between, the next hub does not know these runs, and stops them.
//! Answers to users, and commands to forget results, follow only after the write. Threads that receive results do not wait for the disk, so
//! that several results share one write (group commit).

mod contents;
mod counting;
mod for_users;
mod logs;

pub(super) use contents::contents_of;

use super::serving::Linked;
use super::store::{Kept, Store};
use super::{Hub, HubError};
use crate::control::tell;
use crate::log::Severity;
use counting::Counting;
use logs::Tails;
use phalanx_core::hub::{Change, Refusal, Who};
use phalanx_core::jobs::{Asker, Command, Decided, JobChange, JobRefusal, Jobs};
use phalanx_core::wire::encode_body;
use phalanx_core::wire::hub::{Facts, FromHub};
use phalanx_core::wire::jobs::{FromHubJobs, MOST_RUNS, Outcome, Run, ToHubJobs};
use phalanx_net::identity::Role;
use phalanx_net::sync::lock;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Most encoded bytes of changes in one write. A single change may be larger.
const MOST_WRITTEN: usize = 2 << 20;
/// Interval of the garbage collection of contents.
const COLLECT: Duration = Duration::from_secs(600);

/// A hub's state for jobs.
#[derive(Default)]
pub(super) struct AtHub {
    /// The engine of jobs. Lock order: the hub's engine, this engine, the store.
    engine: Mutex<Jobs>,
    /// The links of executors that take jobs, by their names.
    executors: Mutex<HashMap<String, u64>>,
    counting: Counting,
    tails: Tails,
    collected: Mutex<Option<Instant>>,
}

/// Milliseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// The answer to a message about jobs. `None`: the message needs no answer, or an executor's answer follows later.
type Answer = Result<Option<(FromHub, Vec<u8>)>, HubError>;

impl Hub {
    /// Locks the engine of jobs. Lock the hub's engine first, if both are needed.
    pub(super) fn jobs(&self) -> MutexGuard<'_, Jobs> {
        lock(&self.at_jobs.engine)
    }

    /// Answers a user or an executor.
    pub(super) fn answer_about_jobs(&self, linked: &Linked, asked: ToHubJobs, body: &[u8]) -> Answer {
        match linked.role() {
            Role::User => match asked {
                ToHubJobs::Log { job, index, stream, from } => self.log_of(linked, (job, index), stream, from),
                asked => Ok(Some((FromHub::Jobs(self.answer_user(&linked.who().name, asked)?), Vec::new()))),
            },
            Role::Executor => self.hear_executor(linked, asked, body).map(|()| None),
            _ => Err(HubError::Refused(Refusal::NoUser(linked.who().name.clone()))),
        }
    }

    /// Answers a request of a user, except requests for logs.
    fn answer_user(&self, user: &str, asked: ToHubJobs) -> Result<FromHubJobs, HubError> {
        let is_owner = self.engine().check_owner(user).is_ok();
        let asker = Asker { user, is_owner };
        Ok(match asked {
            ToHubJobs::Submit { spec } => {
                if spec.priority > 0 && !is_owner {
                    let why =
                        "a priority above 0 is before the jobs of all other users: only owners of the grid give it";
                    return Err(HubError::Other(why.to_owned()));
                }
                self.check_contents(user, &spec)?;
                let job = self.decide(|jobs| jobs.submit(now(), user, *spec))?;
                self.log.info(format!("{user} submits the job {job}"));
                FromHubJobs::Submitted { job }
            }
            ToHubJobs::List { before, all } => {
                let (rows, goes_on) = self.jobs().list(asker, before, all);
                FromHubJobs::List { rows, goes_on }
            }
            ToHubJobs::Show { job } => {
                let (row, spec) = self.jobs().show(asker, job)?;
                FromHubJobs::Shown { row: Box::new(row), spec: Box::new(spec) }
            }
            ToHubJobs::Processes { job, after } => {
                let (rows, goes_on) = self.jobs().processes(asker, job, after)?;
                FromHubJobs::Processes { rows, goes_on }
            }
            ToHubJobs::Cancel { job, index } => {
                let processes = self.decide(|jobs| jobs.cancel(now(), asker, job, index))?;
                self.log.info(format!("{user} cancels the job {job}"));
                FromHubJobs::Canceled { processes }
            }
            ToHubJobs::Forget { job } => {
                self.decide(|jobs| jobs.forget(asker, job).map(|decided| ((), decided)))?;
                *lock(&self.at_jobs.collected) = None; // so that the next collection removes its contents soon
                FromHubJobs::Forgotten
            }
            _ => return Err(HubError::Other("only executors say so".to_owned())),
        })
    }

    fn hear_executor(&self, linked: &Linked, asked: ToHubJobs, body: &[u8]) -> Result<(), HubError> {
        let name = linked.who().name.clone();
        if let ToHubJobs::Here { room, runs } = asked {
            return self.executor_takes_jobs(linked, room, &runs);
        }
        if lock(&self.at_jobs.executors).get(&name) != Some(&linked.number()) {
            return Ok(()); // an old message, from before a change of leaders or over an older link
        }
        match asked {
            ToHubJobs::Room { room } => self.decide_later(|jobs| {
                jobs.room(&name, room);
                Decided::default()
            }),
            ToHubJobs::Began { runs } => {
                self.jobs().began(&name, &runs);
                Ok(())
            }
            ToHubJobs::Ran { ends } => self.take_results(linked, ends),
            ToHubJobs::Back { runs, refuses } => self.decide_later(|jobs| jobs.back(&name, &runs, refuses)),
            ToHubJobs::Tail { ticket, is_running } => {
                self.pass_tail(&name, ticket, is_running, body);
                Ok(())
            }
            _ => Err(HubError::Refused(Refusal::NoUser(name))),
        }
    }

    fn executor_takes_jobs(&self, linked: &Linked, room: u32, runs: &[Run]) -> Result<(), HubError> {
        let who = linked.who();
        let row = self.engine().row_of(who)?;
        if !row.is_here || runs.len() > MOST_RUNS {
            return Err(HubError::Other("an executor enters before it takes jobs".to_owned()));
        }
        lock(&self.at_jobs.executors).insert(who.name.clone(), linked.number());
        self.decide_later(|jobs| jobs.enter(now(), &who.name, room, runs, row.facts))
    }

    /// Counts results whose contents the hub has, and asks for the contents of the others.
    fn take_results(&self, linked: &Linked, ends: Vec<(Run, Outcome)>) -> Result<(), HubError> {
        let name = &linked.who().name;
        let (mut whole, mut lacking) = (Vec::new(), Vec::new());
        for (run, outcome) in ends {
            if !outcome.is_short() {
                return Err(HubError::Other("the result of a run is too long".to_owned()));
            }
            match self.has_contents(&run, &outcome) {
                true => whole.push((run, outcome)),
                false => lacking.push(run),
            }
        }
        if !lacking.is_empty() {
            tell(linked.link(), &FromHub::Jobs(FromHubJobs::Lacks { runs: lacking }));
        }
        self.decide_later(|jobs| {
            let mut decided = Decided::default();
            whole.into_iter().for_each(|(run, outcome)| decided.add(jobs.ran(now(), name, run, outcome)));
            decided
        })
    }

    /// Starts the thread that waits for the disk and then tells executors which results are stored.
    pub(super) fn begin_counting(self: &Arc<Hub>) -> std::io::Result<()> {
        self.at_jobs.counting.begin(Arc::downgrade(self))
    }

    /// Ends that thread.
    pub(super) fn end_counting(&self) {
        self.at_jobs.counting.end();
    }

    /// A member's link has closed.
    pub(super) fn jobs_lose(&self, linked: &Linked) {
        let name = &linked.who().name;
        let mut executors = lock(&self.at_jobs.executors);
        if linked.role() == Role::Executor && executors.get(name) == Some(&linked.number()) {
            executors.remove(name);
            drop(executors);
            self.jobs().leave(now(), name);
        }
    }

    /// Forgets which executors take jobs, because this hub does not lead any more.
    pub(super) fn forget_executors(&self) {
        lock(&self.at_jobs.executors).clear();
    }

    /// Applies timeouts of jobs, and collects contents. It is called once a second.
    pub(super) fn look_after_jobs(&self) {
        self.look_for_programs();
        if let Err(error) = self.decide_later(|jobs| jobs.tick(now())) {
            let what = "jobs do not go on";
            self.log.limited(Severity::Warning, what, format!("{what}: {error}"));
        }
        let mut collected = lock(&self.at_jobs.collected);
        if collected.is_none_or(|when| when.elapsed() >= COLLECT) {
            *collected = Some(Instant::now());
            drop(collected);
            self.collect_contents();
        }
    }

    /// Asks executors for the programs that queued jobs need.
    fn look_for_programs(&self) {
        let sought = self.jobs().sought();
        let mut facts: BTreeMap<String, Facts> = BTreeMap::new();
        for (user, programs) in sought {
            let Ok(rows) = self.seek_all(&user, &programs) else { continue };
            for row in rows.into_iter().filter(|row| row.is_here && row.role == Role::Executor.name()) {
                facts.entry(row.name).or_default().extend(row.facts);
            }
        }
        let mut jobs = self.jobs();
        facts.into_iter().for_each(|(name, facts)| jobs.tell_facts(&name, facts));
    }

    /// Makes a decision, and waits until it is stored.
    fn decide<T>(&self, decide: impl FnOnce(&mut Jobs) -> Result<(T, Decided), JobRefusal>) -> Result<T, HubError> {
        let (done, store, kept, counted) = self.begin_to_decide(decide)?;
        if let Some(kept) = kept {
            self.stored(&store, kept.wait())?;
        }
        self.tell_counted(counted);
        Ok(done)
    }

    /// Makes a decision without waiting. After the write, a thread sends the commands that depend on it.
    fn decide_later(&self, decide: impl FnOnce(&mut Jobs) -> Decided) -> Result<(), HubError> {
        let (_, store, kept, counted) = self.begin_to_decide(|jobs| Ok(((), decide(jobs))))?;
        match kept {
            Some(kept) => self.at_jobs.counting.add(store, kept, counted),
            None => self.tell_counted(counted),
        }
        Ok(())
    }

    /// Makes a decision, assigns processes to executors, begins the write, and sends the commands that need not wait for it.
    #[expect(clippy::type_complexity)]
    fn begin_to_decide<T>(
        &self,
        decide: impl FnOnce(&mut Jobs) -> Result<(T, Decided), JobRefusal>,
    ) -> Result<(T, Arc<Store>, Option<Kept>, Vec<Command>), HubError> {
        if self.is_closed() {
            return Err(HubError::Elsewhere);
        }
        self.check_room()?;
        let mut jobs = self.jobs();
        let store = self.store().ok_or(HubError::Elsewhere)?;
        let (done, mut decided) = decide(&mut jobs)?;
        decided.add(jobs.assign());
        let changes = newest(decided.changes);
        let kept = match changes.is_empty() {
            true => None,
            false => Some(keep(&store, &changes)),
        };
        let (counted, at_once): (Vec<_>, Vec<_>) =
            decided.commands.into_iter().partition(|command| matches!(command, Command::Counted { .. }));
        if matches!(kept, None | Some(Ok(_))) {
            at_once.into_iter().for_each(|command| self.send(&jobs, command));
        }
        drop(jobs);
        let kept = kept.transpose();
        let kept = kept.inspect_err(|_| self.stop_leading(&store))?; // the engine is ahead of the store
        Ok((done, store, kept, counted))
    }

    /// Handles the outcome of a write: an error ends the lead of this hub.
    fn stored(&self, store: &Arc<Store>, stored: Result<(), phalanx_core::error::SpaceError>) -> Result<(), HubError> {
        stored.map_err(|error| {
            self.stop_leading(store);
            if self.group().replicated.is_full() {
                HubError::Full(super::room::full(&self.folder))
            } else {
                error.into()
            }
        })
    }

    fn tell_counted(&self, counted: Vec<Command>) {
        for command in counted {
            if let Command::Counted { executor, runs } = command {
                self.tell_executor(&executor, FromHubJobs::Counted { runs });
            }
        }
    }

    fn send(&self, jobs: &Jobs, command: Command) {
        match command {
            Command::Run { executor, job, runs } => {
                if let Some((user, spec)) = jobs.job(job) {
                    let (user, spec) = (user.to_owned(), Box::new(spec.clone()));
                    self.tell_executor(&executor, FromHubJobs::Run { user, job, spec, runs });
                }
            }
            Command::Stop { executor, runs } => self.tell_executor(&executor, FromHubJobs::Stop { runs }),
            Command::Counted { .. } => {}
        }
    }

    fn tell_executor(&self, name: &str, message: FromHubJobs) {
        let number = lock(&self.at_jobs.executors).get(name).copied();
        let linked = number.and_then(|number| lock(&self.linked).get(&number).cloned());
        linked.iter().for_each(|linked| tell(linked.link(), &FromHub::Jobs(message.clone())));
    }
}

/// Stores changes in order, in several writes, because the size of a write is limited. If the hub ends in between, the engine derives the
/// missing changes at the next start.
fn keep(store: &Store, changes: &[Change]) -> Result<Kept, phalanx_core::error::SpaceError> {
    let mut from = 0;
    loop {
        let mut bytes = 0;
        let fits = |change: &&Change| {
            bytes += encode_body(*change).len();
            bytes <= MOST_WRITTEN
        };
        let count = changes[from..].iter().take_while(fits).count().max(1);
        let kept = store.keep(&changes[from..from + count])?;
        from += count;
        if from == changes.len() {
            return Ok(kept);
        }
    }
}

/// Fills an engine of jobs from what a hub has stored.
#[derive(Default)]
pub(super) struct Filling(Jobs);

impl Filling {
    pub fn fill(&mut self, change: JobChange) {
        self.0.fill(change);
    }

    pub fn filled(mut self) -> Jobs {
        self.0.filled(now());
        self.0
    }
}

/// The newest change of each job and process, in their order.
fn newest(changes: Vec<JobChange>) -> Vec<Change> {
    let key = |change: &JobChange| match change {
        JobChange::Job(id, _) => (*id, None),
        JobChange::Process(id, index, _) => (*id, Some(*index)),
    };
    let mut seen = HashSet::new();
    let mut newest: Vec<Change> =
        changes.into_iter().rev().filter(|change| seen.insert(key(change))).map(Change::Job).collect();
    newest.reverse();
    newest
}

impl From<JobRefusal> for HubError {
    fn from(refusal: JobRefusal) -> HubError {
        HubError::Job(refusal)
    }
}

impl Hub {
    /// All members, with the facts that are known about these programs.
    fn seek_all(&self, user: &str, programs: &[String]) -> Result<Vec<phalanx_core::wire::hub::Row>, HubError> {
        let (mut all, mut after): (Vec<phalanx_core::wire::hub::Row>, Option<Who>) = (Vec::new(), None);
        loop {
            let (rows, goes_on) = self.seek_rows(user, after.as_ref(), programs)?;
            let last = rows.last().map(|row| Who::new(&row.role, &row.name));
            all.extend(rows);
            match last.filter(|_| goes_on) {
                Some(last) => after = Some(last),
                None => return Ok(all),
            }
        }
    }
}
