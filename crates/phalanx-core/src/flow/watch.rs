//! Measurements of the last seconds of one computation.

use crate::ids::RunId;
use std::collections::VecDeque;
use std::time::Duration;

/// The length of the measuring window.
const WINDOW: Duration = Duration::from_secs(3);

/// The bottleneck of a computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    Interpreters,
    /// The interpreters wait for tasks from the stream.
    Stream,
    /// The interpreters wait because results are not read.
    Reader,
}

/// A snapshot of one computation. Times are in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Sight {
    pub run: RunId,
    /// The time since the first task.
    pub age: f64,
    /// The length of the stream in tasks, if known.
    pub size: Option<u64>,
    pub fed: u64,
    pub settled: u64,
    /// The sum of all service times so far.
    pub spent: f64,
    /// Tasks in flight, the number of interpreters that have some, how long these have been computing, and the longest
    /// of these times per task.
    pub in_flight: u64,
    pub busy: u32,
    pub under_way: f64,
    pub longest: f64,
    /// Whether work waits for an interpreter.
    pub fireable: bool,
    pub limit: Limit,
}

#[derive(Debug, Clone)]
struct Sample {
    at: Duration,
    settled: u64,
    spent: f64,
    limit: Limit,
}

#[derive(Debug, Clone, Default)]
pub struct Watch {
    samples: VecDeque<Sample>,
    /// Since when the contract has looked hopeless.
    pub hopeless: Option<Duration>,
    /// Whether the reader of the results was warned.
    pub warned: bool,
    /// When the last report was made.
    pub reported: Option<Duration>,
}

impl Watch {
    /// Adds a snapshot.
    pub fn look(&mut self, now: Duration, sight: &Sight) {
        let Sight { settled, spent, limit, .. } = *sight;
        self.samples.push_back(Sample { at: now, settled, spent, limit });
        while self.samples.get(1).is_some_and(|second| second.at + WINDOW <= now) {
            self.samples.pop_front();
        }
    }

    /// Drops all snapshots.
    pub fn look_anew(&mut self) {
        self.samples.clear();
        self.hopeless = None;
    }

    /// Whether the window is full, so that a judgement is possible.
    pub fn is_full(&self, now: Duration) -> bool {
        self.samples.front().is_some_and(|first| first.at + WINDOW <= now)
    }

    /// The service time of a task, in seconds. Before the first result, a lower bound.
    pub fn service(&self, sight: &Sight) -> f64 {
        let first = self.samples.front().map_or((0, 0.0), |first| (first.settled, first.spent));
        let (tasks, spent) = (sight.settled.saturating_sub(first.0), sight.spent - first.1);
        match (tasks, sight.settled) {
            (0, 0) => (sight.spent / sight.fed.max(1) as f64).max(sight.longest),
            (0, settled) => sight.spent / settled as f64,
            _ => spent / tasks as f64,
        }
    }

    /// Tasks settled per second, over the window, or since the start of the computation if that is shorter ago.
    pub fn rate(&self, sight: &Sight) -> f64 {
        match (self.samples.front(), self.samples.back()) {
            (Some(first), Some(last)) if first.at + WINDOW <= last.at => {
                (last.settled - first.settled) as f64 / (last.at - first.at).as_secs_f64()
            }
            _ => sight.settled as f64 / sight.age.max(1e-9),
        }
    }

    /// The bottleneck in most of the snapshots.
    pub fn limit(&self) -> Limit {
        let share = |limit| self.samples.iter().filter(|sample| sample.limit == limit).count() * 2 > self.samples.len();
        [Limit::Stream, Limit::Reader].into_iter().find(|limit| share(*limit)).unwrap_or(Limit::Interpreters)
    }
}
