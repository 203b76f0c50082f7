//! Lists, states and output of jobs, as users see them.

use super::results::explain;
use super::{Asker, Job, JobRefusal, Jobs, Stage};
use crate::wire::jobs::{Content, JobRow, ProcessRow, Run, Spec, State};
use std::cmp::Reverse;

/// Most jobs and processes in a page.
const PAGE: usize = 100;
/// Most bytes of the results in a page of processes.
const MOST_RESULTS: usize = 300 << 10;
/// Most words of a command in a list, and most bytes of each.
const WORDS: (usize, usize) = (12, 60);

/// The output of a process, or the executor that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// The process runs at this executor.
    There {
        /// The executor.
        executor: String,
        /// The run.
        run: Run,
    },
    /// The process has ended: its whole standard output, and its whole standard error.
    All([Content; 2]),
    /// The process has no output, because it was not started, was canceled, or was lost.
    Nothing {
        /// Whether the process may still begin.
        may_begin: bool,
    },
}

impl Jobs {
    /// The jobs of a user before the job `before`, the newest first, and whether there are more. `all`: an owner asks for the jobs of all
    /// users.
    pub fn list(&self, asker: Asker<'_>, before: Option<u64>, all: bool) -> (Vec<JobRow>, bool) {
        let is_seen = |job: &Job| !job.is_forgotten && (job.record.user == asker.user || (all && asker.is_owner));
        let below = self.jobs.range(..before.unwrap_or(u64::MAX)).rev();
        let mut seen = below.filter(|(_, job)| is_seen(job));
        let rows = seen.by_ref().take(PAGE).map(|(id, job)| row(*id, job)).collect();
        (rows, seen.next().is_some())
    }

    /// A job, and its specification.
    ///
    /// # Errors
    /// There is no such job.
    pub fn show(&self, asker: Asker<'_>, id: u64) -> Result<(JobRow, Spec), JobRefusal> {
        let job = self.visible(asker, id)?;
        let mut row = row(id, job);
        if row.why.is_empty() && row.state == State::Queued {
            row.why = self.why_queued(job);
        }
        Ok((row, job.record.spec.clone()))
    }

    /// The processes of a job after the one with this index, and whether there are more.
    ///
    /// # Errors
    /// There is no such job.
    pub fn processes(
        &self,
        asker: Asker<'_>,
        id: u64,
        after: Option<u32>,
    ) -> Result<(Vec<ProcessRow>, bool), JobRefusal> {
        let job = self.visible(asker, id)?;
        let Spec { first, last, .. } = job.record.spec;
        let from = after.map_or(first, |after| after.saturating_add(1).max(first));
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for index in from..=last {
            if rows.len() >= PAGE || bytes > MOST_RESULTS {
                return Ok((rows, true));
            }
            let row = process_row(job, index);
            let outcome = row.outcome.as_ref();
            bytes += outcome.map_or(0, |it| {
                it.contents().map(|it| it.bytes().min(600) as usize).sum::<usize>()
                    + it.outputs.iter().map(|it| it.name.len() + 64).sum::<usize>()
            });
            rows.push(row);
        }
        Ok((rows, false))
    }

    /// The output of a process.
    ///
    /// # Errors
    /// There is no such job or process.
    pub fn written(&self, asker: Asker<'_>, id: u64, index: u32) -> Result<Written, JobRefusal> {
        let job = self.visible(asker, id)?;
        if !(job.record.spec.first..=job.record.spec.last).contains(&index) {
            return Err(JobRefusal::NoProcess(id, index));
        }
        let process = job.processes.get(&index);
        Ok(match process.map(|it| (&it.stage, it)) {
            Some((Stage::Ended { outcome: Some(outcome), .. }, _)) => {
                Written::All([outcome.stdout.clone(), outcome.stderr.clone()])
            }
            Some((Stage::There, it)) if job.record.end.is_none() => Written::There {
                executor: it.executor.clone().unwrap_or_default(),
                run: Run { job: id, index, attempt: it.attempts },
            },
            _ => Written::Nothing { may_begin: !job.state_of(index).is_over() },
        })
    }

    /// The programs that queued jobs need, each with a user who needs it. The driver asks executors whether they have these programs.
    pub fn sought(&self) -> Vec<(String, Vec<String>)> {
        let mut sought: Vec<(String, Vec<String>)> = Vec::new();
        for (needed, _) in self.classes.iter().filter(|(needed, _)| !needed.software.is_empty()) {
            let of_class = |job: &&Job| job.record.spec.needs == *needed && job.counts.queued > 0;
            let user = self.users.iter().find_map(|(name, user)| {
                let mut jobs = user.queue.values().filter_map(|it| self.jobs.get(&it.first()?.1));
                jobs.find(of_class).map(|_| name.clone())
            });
            sought.extend(user.map(|user| (user, needed.software.clone())));
        }
        sought
    }

    fn why_queued(&self, job: &Job) -> String {
        if let Some(before) = job.waits.first() {
            return format!("it waits for the job {before}");
        }
        let here: Vec<_> = self.executors.iter().filter(|(_, it)| it.away.is_none()).collect();
        let needs = &job.record.spec.needs;
        let accepting: Vec<_> = here.iter().filter(|(_, it)| !it.refuses.contains(&job.record.user)).collect();
        if here.is_empty() {
            "no machine that takes jobs is here: phalanx members".to_owned()
        } else if accepting.is_empty() {
            "no machine that is here accepts you".to_owned()
        } else if !accepting.iter().any(|(_, it)| needs.are_met(&it.facts)) {
            let lacking: Vec<String> = accepting
                .iter()
                .take(4)
                .map(|(name, it)| {
                    let lacks: Vec<String> = needs.lacks(&it.facts).into_iter().map(|(_, lack)| lack).collect();
                    format!("{name} lacks {}", lacks.join(", "))
                })
                .collect();
            format!("no machine that is here meets its needs: {}", lacking.join("; "))
        } else {
            let able = accepting.into_iter().filter(|(_, it)| needs.are_met(&it.facts));
            self.why_without_places(job, able.map(|(name, it)| (name.as_str(), it.room)).collect())
        }
    }

    /// The reason for which a job waits, given the machines that meet its needs and the places of each.
    fn why_without_places(&self, job: &Job, mut able: Vec<(&str, u32)>) -> String {
        let places = job.record.spec.places_each();
        if places == 1 {
            return "it waits for a place".to_owned();
        }
        able.sort_by_key(|(_, room)| Reverse(*room));
        let most = able.first().map_or(0, |(_, room)| *room);
        let kept = self.kept.get(&job.record.user).filter(|(executor, id)| {
            let is_there = self.executors.get(executor).is_some_and(|it| it.away.is_none());
            is_there && self.jobs.get(id).is_some_and(|other| std::ptr::eq(other, job))
        });
        match kept {
            _ if most < places => {
                let each: Vec<String> = able.iter().take(4).map(|(name, room)| format!("{name} has {room}")).collect();
                format!("no machine that is here has {places} places for each of its processes: {}", each.join(", "))
            }
            Some((executor, _)) => {
                format!("it waits for {places} places, and {executor} is kept free for it")
            }
            None => format!("it waits for {places} places at one machine"),
        }
    }
}

fn row(id: u64, job: &Job) -> JobRow {
    let spec = &job.record.spec;
    let shorten = |word: &String| word.chars().take(WORDS.1).collect::<String>();
    let words = spec.commands.first().map(|it| it.words.iter().take(WORDS.0).map(shorten).collect());
    let end = job.record.end.as_ref();
    let state = match end {
        Some(end) => end.state,
        None if !job.begun.is_empty() => State::Running,
        None if job.counts.running > 0 => State::Initializing,
        None if job.counts.queued < spec.count() => State::Running,
        None => State::Queued,
    };
    let mut why = end.map_or_else(String::new, |end| end.why.clone());
    if let (true, Some(Stage::Ended { why: own, .. })) =
        (why.is_empty(), job.processes.get(&spec.first).map(|it| &it.stage).filter(|_| spec.count() == 1))
    {
        own.clone_into(&mut why);
    }
    JobRow {
        id,
        user: job.record.user.clone(),
        name: spec.name.clone(),
        command: words.unwrap_or_default(),
        first: spec.first,
        last: spec.last,
        submitted: job.record.submitted,
        ended: end.map(|end| end.when),
        state,
        counts: job.counts,
        priority: spec.priority,
        why,
    }
}

fn process_row(job: &Job, index: u32) -> ProcessRow {
    let process = job.processes.get(&index).cloned().unwrap_or_default();
    let state = job.state_of(index);
    let (outcome, why) = match process.stage {
        Stage::Ended { outcome, why, .. } => (outcome.map(|it| *it), why),
        _ => (None, job.record.end.as_ref().map_or_else(String::new, |end| end.why.clone())),
    };
    let why = match &outcome {
        Some(outcome) if why.is_empty() && state != State::Complete => explain(&outcome.exit),
        _ => why,
    };
    let (attempts, losses, executor) = (process.attempts, process.losses, process.executor);
    ProcessRow { index, state, executor, attempts, losses, outcome, why }
}
