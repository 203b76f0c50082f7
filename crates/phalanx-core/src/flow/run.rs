//! A run: one stream of tasks through a program, and the delivery of its results in order.

use super::groups::Groups;
use super::pace::Pace;
use crate::event::Outcome;
use crate::ids::{ProgramId, TaskId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Limit on the tasks of a run between being taken from the stream and having their results read, unless the spare
/// batches are more.
const MOST_AHEAD: f64 = 131_072.0;
/// Beyond this many bytes of such tasks, no more are taken, once every interpreter has work.
const BYTES_AHEAD: f64 = (64 << 20) as f64;

/// The options of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunOptions {
    /// Deliver results in the order of the tasks.
    pub ordered: bool,
    /// How far, in computing time, tasks are taken from the stream ahead of the reader of results.
    pub ahead: Duration,
    /// Batches for each interpreter that are taken ahead in any case.
    pub spare: u32,
    /// Near the end of the stream, fire work a second time elsewhere if one interpreter takes far too long.
    pub stragglers: bool,
    /// Whether the manager's contract on time covers this run.
    pub contract: bool,
    /// The length of the stream in tasks, if known.
    pub size: Option<u64>,
}

/// Whether so many waiting parts, with so many bytes, are enough. Parts count as tasks do.
fn is_much((parts, bytes): (u64, u64)) -> bool {
    parts as f64 >= MOST_AHEAD || bytes as f64 >= BYTES_AHEAD
}

#[derive(Debug, Clone)]
pub struct Run {
    pub program: ProgramId,
    /// Tokens that wait for others. A chain has none.
    pub groups: Option<Groups>,
    options: RunOptions,
    /// Tasks in flight that are not wanted any more and have no outcome yet.
    pub cancelled: BTreeSet<TaskId>,
    pub opened: Duration,
    fed: TaskId,
    settled: u64,
    read: u64,
    stream_ended: bool,
    ended: bool,
    /// Outcomes that wait for the outcome of an earlier task, by their first task.
    early: BTreeMap<TaskId, Outcome>,
    next: TaskId,
    /// When its first task arrived.
    began: Option<Duration>,
    /// Total service time: how long its firings were the only business of their interpreters.
    pub spent: Duration,
}

impl Run {
    pub fn new(program: ProgramId, groups: Option<Groups>, options: RunOptions, opened: Duration) -> Run {
        Run {
            program,
            groups,
            options,
            cancelled: BTreeSet::new(),
            opened,
            fed: 0,
            settled: 0,
            read: 0,
            stream_ended: false,
            ended: false,
            early: BTreeMap::new(),
            next: 0,
            began: None,
            spent: Duration::ZERO,
        }
    }

    /// How many tasks to take from the stream now; 0 if enough are under way. The first instruction fires `batch` tasks
    /// together, and a task needs `whole` in all.
    pub fn room(&self, batch: u32, whole: &Pace, interpreters: u32) -> u32 {
        if self.groups.as_ref().is_some_and(|groups| is_much(groups.held())) {
            return 0;
        }
        let under_way = (self.fed - self.read) as f64;
        let least = f64::from(self.options.spare.max(1)) * f64::from(interpreters) * f64::from(batch);
        let most = whole.tokens_in(self.options.ahead, interpreters).min(MOST_AHEAD).max(least);
        let too_heavy = under_way * whole.heaviest() >= BYTES_AHEAD && under_way >= 2.0 * f64::from(interpreters);
        if under_way > 0.0 && (too_heavy || under_way + f64::from(batch) > most) { 0 } else { batch }
    }

    /// Takes the next `count` tasks of the stream. Returns the number of the first one.
    pub fn feed(&mut self, now: Duration, count: u32) -> TaskId {
        self.began.get_or_insert(now);
        let first = self.fed;
        self.fed += u64::from(count);
        first
    }

    /// The stream has no more tasks.
    pub fn finish(&mut self) {
        self.stream_ended = true;
    }

    /// The reader has taken the outcomes of `count` tasks.
    pub fn read(&mut self, count: u64) {
        self.read += count;
    }

    /// The start of the contract on time, which is the run's first task; `None`: not begun, or not covered by a
    /// contract.
    pub fn contract_since(&self) -> Option<Duration> {
        self.began.filter(|_| self.options.contract)
    }

    /// The number of tasks in the stream, if known.
    pub fn size(&self) -> Option<u64> {
        if self.stream_ended { Some(self.fed) } else { self.options.size.map(|size| size.max(self.fed)) }
    }

    /// Tasks taken from the stream so far.
    pub fn fed(&self) -> u64 {
        self.fed
    }

    /// Tasks with an outcome.
    pub fn settled(&self) -> u64 {
        self.settled
    }

    /// Whether the stream has ended.
    pub fn stream_has_ended(&self) -> bool {
        self.stream_ended
    }

    /// Whether most of what is under way only waits for the reader.
    pub fn waits_for_reader(&self) -> bool {
        let delivered = if self.options.ordered { self.next } else { self.settled };
        delivered.saturating_sub(self.read) * 2 > self.fed - self.read
    }

    /// Whether stragglers may be fired a second time when nothing else is fireable. `room` is the number of further
    /// tasks that the stream may give: none if the stream has ended, or if the window is full of results that wait for
    /// the straggler.
    pub fn doubles_stragglers(&self, room: impl FnOnce() -> u32) -> bool {
        self.options.stragglers && !self.ended && (self.stream_ended || room() == 0)
    }

    /// Whether the run has ended.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Records the outcome of the tasks from `first` on. `deliver` gets every outcome that can now be delivered.
    pub fn settle(&mut self, first: TaskId, outcome: Outcome, mut deliver: impl FnMut(Outcome)) {
        self.settled += u64::from(outcome.tasks());
        if !self.options.ordered {
            return deliver(outcome);
        }
        self.early.insert(first, outcome);
        while let Some(entry) = self.early.first_entry().filter(|entry| *entry.key() == self.next) {
            let outcome = entry.remove();
            self.next += u64::from(outcome.tasks());
            deliver(outcome);
        }
    }

    /// Returns true once: when the stream has ended and every task has an outcome.
    pub fn take_end(&mut self) -> bool {
        let ends = self.stream_ended && self.settled == self.fed && !self.ended;
        self.ended |= ends;
        ends
    }

    /// Whether it has ended with all its results. For tests.
    #[cfg(test)]
    pub fn is_done(&self) -> bool {
        self.ended && self.stream_ended && self.settled == self.fed
    }

    /// Ends the run without its remaining results. Returns whether it was open until now.
    pub fn abandon(&mut self) -> bool {
        !std::mem::replace(&mut self.ended, true)
    }
}
