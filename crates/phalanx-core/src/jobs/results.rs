//! Results of runs, and the end of jobs.

use super::{Decided, End, Job, JobChange, Jobs, Process, Stage};
use crate::wire::jobs::{Counts, Exit, Outcome, Run, State};

/// The end of a process: its state, the result of its last run, and the reason in words.
pub(super) type Ending = (State, Option<Box<Outcome>>, String);

impl Jobs {
    /// A run has ended at an executor. The executor repeats the message until the run is counted. So runs that the engine does not know any
    /// more are counted too.
    pub fn ran(&mut self, now: u64, name: &str, run: Run, outcome: Outcome) -> Decided {
        let mut decided = Decided::default();
        decided.counted(name, run);
        let was_there = self.take_away(name, run);
        let Some(job) = self.jobs.get_mut(&run.job).filter(|job| job.record.end.is_none()) else { return decided };
        let Some(mut process) = job.processes.get(&run.index).cloned() else { return decided };
        let is_its = process.executor.as_deref() == Some(name) && process.attempts == run.attempt;
        match process.stage {
            Stage::There if was_there => {}
            // The run was lost, and the process was not started again since.
            Stage::Queued if is_its => {
                (job.counts.queued, job.counts.running) = (job.counts.queued - 1, job.counts.running + 1);
                process.stage = Stage::There;
                job.processes.insert(run.index, process.clone());
            }
            _ => return decided,
        }
        let took = outcome.ended.saturating_sub(outcome.began);
        job.pace = Some(job.pace.map_or(took, |pace| (pace * 7 + took) / 8));
        let retries = job.record.spec.retries;
        match (&outcome.exit, explain(&outcome.exit)) {
            (Exit::Code(0), _) => {
                let ending = (State::Complete, Some(Box::new(outcome)), String::new());
                self.end_process(now, run.job, run.index, process, ending, &mut decided);
            }
            (Exit::Broken(why), _) => {
                let process = Process { losses: process.losses + 1, ..process };
                self.again_unless_hopeless(now, run, process, format!("{name}: {why}"), &mut decided);
            }
            (_, why) => {
                let process = Process { failures: process.failures + 1, ..process };
                match process.failures > retries {
                    true => {
                        let ending = (State::ExecutorError, Some(Box::new(outcome)), why);
                        self.end_process(now, run.job, run.index, process, ending, &mut decided);
                    }
                    false => {
                        let process = Process { executor: None, ..process };
                        self.queue_again(run.job, run.index, process, &mut decided);
                    }
                }
            }
        }
        decided
    }

    /// Ends a process that was in the queue or at a machine. The job ends with its last process.
    pub(super) fn end_process(
        &mut self,
        now: u64,
        id: u64,
        index: u32,
        process: Process,
        (state, outcome, why): Ending,
        decided: &mut Decided,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let was_there = job.processes.get(&index).is_some_and(|it| it.stage == Stage::There);
        let from = if was_there { &mut job.counts.running } else { &mut job.counts.queued };
        *from -= 1;
        let process = Process { stage: Stage::Ended { state, outcome, why }, ..process };
        *job.counts.of(&process.stage) += 1;
        job.begun.remove(&index);
        job.processes.insert(index, process.clone());
        decided.changes.push(JobChange::Process(id, index, Some(Box::new(process))));
        match job.counts.queued + job.counts.running {
            0 => {
                let (state, why) = job.counts.summary();
                decided.add(self.end_job(now, id, state, why));
            }
            _ => self.look_for_start(id),
        }
    }

    /// Ends a job with its remaining processes. If it is not complete, ends the jobs that wait for it, too.
    pub(super) fn end_job(&mut self, now: u64, id: u64, state: State, why: String) -> Decided {
        let mut decided = Decided::default();
        let mut ending = vec![(id, state, why)];
        while let Some((id, state, why)) = ending.pop() {
            let Some(job) = self.jobs.get_mut(&id).filter(|job| job.record.end.is_none()) else { continue };
            let there = job.processes.iter().filter(|(_, it)| it.stage == Stage::There);
            let there: Vec<(String, Run)> = there
                .filter_map(|(index, it)| {
                    Some((it.executor.clone()?, Run { job: id, index: *index, attempt: it.attempts }))
                })
                .collect();
            let counts = &mut job.counts;
            counts.canceled += std::mem::take(&mut counts.queued) + std::mem::take(&mut counts.running);
            job.record.end = Some(End { when: now, state, why });
            job.begun.clear();
            self.users.entry(job.record.user.clone()).or_default().note_ended(job.kind());
            decided.changes.push(JobChange::Job(id, Some(Box::new(job.record.clone()))));
            if let Some(when) = job.record.spec.deadline {
                self.deadlines.remove(&(when, id));
            }
            self.ended.insert((now, id));
            for (executor, run) in there {
                self.take_away(&executor, run);
                decided.stop(executor, run);
            }
            self.look_for_start(id);
            for later in self.waiting.remove(&id).unwrap_or_default() {
                let Some(job) = self.jobs.get_mut(&later) else { continue };
                job.waits.remove(&id);
                match state {
                    State::Complete => self.look_for_start(later),
                    _ => {
                        ending.push((later, State::Canceled, in_vain(id)));
                    }
                }
            }
        }
        decided
    }
}

impl Counts {
    /// The counter to which a process of this stage belongs.
    pub(super) fn of(&mut self, stage: &Stage) -> &mut u32 {
        match stage {
            Stage::Queued => &mut self.queued,
            Stage::There => &mut self.running,
            Stage::Ended { state: State::Complete, .. } => &mut self.complete,
            Stage::Ended { state: State::ExecutorError, .. } => &mut self.failed,
            Stage::Ended { state: State::SystemError, .. } => &mut self.lost,
            Stage::Ended { .. } => &mut self.canceled,
        }
    }

    /// The state of a job after the end of all its processes, and the reason in words.
    pub(super) fn summary(&self) -> (State, String) {
        let Counts { complete, failed, lost, canceled, .. } = *self;
        let all = complete + failed + lost + canceled;
        match (failed, lost, canceled) {
            (0, 0, 0) => (State::Complete, String::new()),
            (0, 0, _) => (State::Canceled, format!("{canceled} of {all} processes were canceled")),
            (0, ..) => (State::SystemError, format!("machines failed with {lost} of {all} processes")),
            _ if all == 1 => (State::ExecutorError, String::new()),
            _ => (State::ExecutorError, format!("{failed} of {all} processes have failed")),
        }
    }
}

impl Job {
    /// The state of a process.
    pub(super) fn state_of(&self, index: u32) -> State {
        match (self.processes.get(&index).map(|it| &it.stage), &self.record.end) {
            (Some(Stage::Ended { state, .. }), _) => *state,
            (_, Some(_)) => State::Canceled,
            (Some(Stage::There), None) if self.begun.contains(&index) => State::Running,
            (Some(Stage::There), None) => State::Initializing,
            _ => State::Queued,
        }
    }
}

/// The reason for which a job is canceled that waited for another job.
pub(super) fn in_vain(before: u64) -> String {
    format!("the job {before}, after which it was to run, has failed or was canceled")
}

/// The end of a run, in words.
pub fn explain(exit: &Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit status {code}"),
        Exit::Signal(number) => format!("ended by the signal {number}"),
        Exit::Late => "it took longer than its time limit".to_owned(),
        Exit::Unstarted(why) | Exit::Broken(why) => why.clone(),
    }
}
