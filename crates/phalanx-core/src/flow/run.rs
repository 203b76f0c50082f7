//! A run: one stream of tasks through a program, and the order in which its results leave.

use super::groups::Groups;
use super::pace::Pace;
use crate::event::Outcome;
use crate::ids::{ProgramId, TaskId};
use std::collections::BTreeMap;
use std::time::Duration;

/// Most tasks of a run between being taken from the stream and their results being read, unless the spare batches
/// are more.
const MOST_AHEAD: f64 = 131_072.0;
/// Bytes of such tasks beyond which no more are taken, once every interpreter has something.
const BYTES_AHEAD: f64 = (64 << 20) as f64;

/// How a run wants to be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunOptions {
    /// Results leave in the order of the tasks.
    pub ordered: bool,
    /// Time for which tasks are taken from the stream ahead of the results being read.
    pub ahead: Duration,
    /// Batches for each interpreter that are taken ahead in any case.
    pub spare: u32,
    /// Near the end of the stream, what one interpreter holds for far too long is fired a second time elsewhere.
    pub stragglers: bool,
    /// The manager's contract on time holds for it.
    pub contract: bool,
    /// How many tasks the stream says that it has.
    pub size: Option<u64>,
}

/// Whether so many parts, of so many bytes, are enough: parts count as tasks do.
fn is_much((parts, bytes): (u64, u64)) -> bool {
    parts as f64 >= MOST_AHEAD || bytes as f64 >= BYTES_AHEAD
}

#[derive(Debug)]
pub struct Run {
    pub program: ProgramId,
    /// What waits for other tokens; a chain has nothing that does.
    pub groups: Option<Groups>,
    options: RunOptions,
    pub opened: Duration,
    fed: TaskId,
    settled: u64,
    read: u64,
    stream_ended: bool,
    ended: bool,
    /// Outcomes that wait for an earlier task's, by their first task.
    early: BTreeMap<TaskId, Outcome>,
    next: TaskId,
    /// When its first task came.
    began: Option<Duration>,
    /// How long its firings were their interpreters' only business, together.
    pub spent: Duration,
}

impl Run {
    pub fn new(program: ProgramId, groups: Option<Groups>, options: RunOptions, opened: Duration) -> Run {
        Run {
            program,
            groups,
            options,
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

    /// How many tasks may be taken from the stream now, of which the first instruction takes `batch` at once and which
    /// need `whole`; 0 when enough are under way.
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

    /// The next `count` tasks of the stream came; the first one's number.
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

    /// The reader took outcomes of `count` tasks.
    pub fn read(&mut self, count: u64) {
        self.read += count;
    }

    /// Since when a contract on time holds for it: its first task.
    pub fn contract_since(&self) -> Option<Duration> {
        self.began.filter(|_| self.options.contract)
    }

    /// All tasks of the stream, if that is known.
    pub fn size(&self) -> Option<u64> {
        if self.stream_ended { Some(self.fed) } else { self.options.size.map(|size| size.max(self.fed)) }
    }

    /// Tasks that came.
    pub fn fed(&self) -> u64 {
        self.fed
    }

    /// Tasks that have come to something.
    pub fn settled(&self) -> u64 {
        self.settled
    }

    /// Whether no more tasks come.
    pub fn stream_has_ended(&self) -> bool {
        self.stream_ended
    }

    /// Whether most of what is under way is only waiting to be read.
    pub fn waits_for_reader(&self) -> bool {
        let delivered = if self.options.ordered { self.next } else { self.settled };
        delivered.saturating_sub(self.read) * 2 > self.fed - self.read
    }

    /// Whether what takes too long may be fired a second time, if nothing else is fireable and so there are `room` more
    /// tasks to come from the stream: none because it has ended, or because the window is full of what waits for it.
    pub fn doubles_stragglers(&self, room: impl FnOnce() -> u32) -> bool {
        self.options.stragglers && !self.ended && (self.stream_ended || room() == 0)
    }

    /// Whether nothing more will come from this run.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// An outcome of the tasks from `first` on; `deliver` gets what can leave now.
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

    /// Says once, when the stream has ended and everything was settled, that the run has ended.
    pub fn take_end(&mut self) -> bool {
        let ends = self.stream_ended && self.settled == self.fed && !self.ended;
        self.ended |= ends;
        ends
    }

    /// Whether it has ended with all its results, for tests.
    #[cfg(test)]
    pub fn is_done(&self) -> bool {
        self.ended && self.stream_ended && self.settled == self.fed
    }

    /// Ends the run without its results.
    pub fn abandon(&mut self) -> bool {
        !std::mem::replace(&mut self.ended, true)
    }
}
