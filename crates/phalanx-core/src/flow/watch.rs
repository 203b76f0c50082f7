//! What the last seconds of one computation showed.

use crate::ids::RunId;
use std::collections::VecDeque;
use std::time::Duration;

/// How far back one looks.
const WINDOW: Duration = Duration::from_secs(3);

/// What keeps a computation from going faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    Interpreters,
    /// They wait for its tasks.
    Stream,
    /// They wait for its results to be read.
    Reader,
}

/// How one computation stands at one moment. Times are seconds.
#[derive(Debug, Clone, Copy)]
pub struct Sight {
    pub run: RunId,
    /// Since the first task came.
    pub age: f64,
    /// All tasks of the stream, where that is known.
    pub size: Option<u64>,
    pub fed: u64,
    pub settled: u64,
    /// Service times of everything so far, together.
    pub spent: f64,
    /// Tasks in flight, interpreters that have some, how long these have been at it, and the longest of that for a task.
    pub in_flight: u64,
    pub busy: u32,
    pub under_way: f64,
    pub longest: f64,
    /// Something waits for an interpreter.
    pub fireable: bool,
    pub limit: Limit,
}

#[derive(Debug)]
struct Sample {
    at: Duration,
    settled: u64,
    spent: f64,
    limit: Limit,
}

#[derive(Debug, Default)]
pub struct Watch {
    samples: VecDeque<Sample>,
    /// Since when the contract looks hopeless.
    pub hopeless: Option<Duration>,
    /// Its reader was told so.
    pub warned: bool,
    /// When there was a report last.
    pub reported: Option<Duration>,
}

impl Watch {
    /// Takes what is seen now.
    pub fn look(&mut self, now: Duration, sight: &Sight) {
        let Sight { settled, spent, limit, .. } = *sight;
        self.samples.push_back(Sample { at: now, settled, spent, limit });
        while self.samples.get(1).is_some_and(|second| second.at + WINDOW <= now) {
            self.samples.pop_front();
        }
    }

    /// Forgets what was seen.
    pub fn look_anew(&mut self) {
        self.samples.clear();
        self.hopeless = None;
    }

    /// Whether it was looked at for long enough to judge.
    pub fn is_full(&self, now: Duration) -> bool {
        self.samples.front().is_some_and(|first| first.at + WINDOW <= now)
    }

    /// Seconds that a task takes of one interpreter. Before the first result, what is known to be too little.
    pub fn service(&self, sight: &Sight) -> f64 {
        let first = self.samples.front().map_or((0, 0.0), |first| (first.settled, first.spent));
        let (tasks, spent) = (sight.settled.saturating_sub(first.0), sight.spent - first.1);
        match (tasks, sight.settled) {
            (0, 0) => (sight.spent / sight.fed.max(1) as f64).max(sight.longest),
            (0, settled) => sight.spent / settled as f64,
            _ => spent / tasks as f64,
        }
    }

    /// Tasks settled a second; since its beginning where that is not longer ago.
    pub fn rate(&self, sight: &Sight) -> f64 {
        match (self.samples.front(), self.samples.back()) {
            (Some(first), Some(last)) if first.at + WINDOW <= last.at => {
                (last.settled - first.settled) as f64 / (last.at - first.at).as_secs_f64()
            }
            _ => sight.settled as f64 / sight.age.max(1e-9),
        }
    }

    /// What mostly kept it from going faster.
    pub fn limit(&self) -> Limit {
        let share = |limit| self.samples.iter().filter(|sample| sample.limit == limit).count() * 2 > self.samples.len();
        [Limit::Stream, Limit::Reader].into_iter().find(|limit| share(*limit)).unwrap_or(Limit::Interpreters)
    }
}
