//! The manager's state for one interpreter.

use super::pace::Load;
use super::repository::Work;
use crate::ids::{FiringId, InterpreterId, ProgramId};
use crate::needs::Facts;
use crate::wire::Tokens;
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Assumed until one is measured: a local round trip with two wake-ups.
const FIRST_ROUND_TRIP: Duration = Duration::from_micros(200);

/// The relation of a firing to another firing of the same work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Race {
    /// There is no other.
    Alone,
    /// This other firing is in flight too, and neither has answered.
    Against(InterpreterId, FiringId),
    /// The other one answered first.
    Lost,
}

/// A firing in flight. `work` shrinks from the front as answers arrive.
#[derive(Debug, Clone)]
pub struct Firing {
    pub id: FiringId,
    pub work: Work,
    /// Further work of the same graph instruction that travels with it, in order.
    pub more: VecDeque<Work>,
    /// The instructions that may be fired on output that stays.
    pub follow: Vec<u16>,
    /// Parts of the first token's output that arrived ahead of the answer.
    pub ahead: Vec<Tokens>,
    pub bytes: u64,
    pub estimate: Option<Duration>,
    pub sent: Duration,
    /// Compute time reported by its answers.
    pub busy: Duration,
    /// The number of tasks answered.
    pub answered: u32,
    /// The interpreter had nothing else in flight when this was sent, so its time shows the round trip.
    pub alone: bool,
    /// The code was sent with it, so its time includes the code's imports.
    pub stages: bool,
    pub race: Race,
    /// When the interpreter was asked to return the tasks that it has not begun.
    pub asked_back: Option<Duration>,
    /// Its run was closed: when its interpreter is ended with it, if it is still being fired.
    pub stop_at: Option<Duration>,
}

impl Firing {
    /// The number of tasks without an answer.
    pub fn tasks(&self) -> u32 {
        self.work.count + self.more.iter().map(|work| work.count).sum::<u32>()
    }

    /// Removes and returns all but the first `tasks` tasks.
    pub fn split_off_behind(&mut self, tasks: u32) -> Vec<Work> {
        let all = self.tasks();
        let mut works = self.split_off(all);
        let (mut kept, mut left) = (Vec::new(), tasks);
        works.retain_mut(|work| {
            let count = left.min(work.count);
            left -= count;
            kept.extend((count > 0).then(|| work.split_off(count)));
            work.count > 0
        });
        let mut kept = kept.into_iter();
        if let Some(work) = kept.next() {
            (self.work, self.more) = (work, kept.collect());
        }
        self.estimate = self.estimate.map(|estimate| estimate.mul_f64(f64::from(tasks) / f64::from(all.max(1))));
        works
    }

    /// Removes and returns the first `tasks` tasks. There must be that many.
    pub fn split_off(&mut self, mut tasks: u32) -> Vec<Work> {
        let mut works = Vec::with_capacity(1);
        while tasks > 0 {
            let work = self.work.split_off(tasks.min(self.work.count));
            tasks -= work.count;
            works.push(work);
            if self.work.count == 0 {
                let Some(next) = self.more.pop_front() else { break };
                self.work = next;
            }
        }
        works
    }
}

#[derive(Debug, Clone)]
pub struct Interpreter {
    pub name: String,
    pub heard: Duration,
    /// Whether its process was seen to live since the last tick.
    pub alive: bool,
    pub staged: HashSet<ProgramId>,
    pub in_flight: VecDeque<Firing>,
    /// How many times longer it takes than the average interpreter.
    pub slowness: f64,
    /// Whether it is released as soon as nothing is in flight.
    pub leaving: bool,
    /// Whether it leaves because its executor asked for it.
    pub asked_back: bool,
    /// When it last completed a firing and began the next.
    pub turned: Duration,
    /// When it was recruited.
    pub since: Duration,
    /// Its facts, and those of its machine.
    pub has: [Arc<Facts>; 2],
    /// The needs that it meets.
    pub meets: BTreeSet<u16>,
    load: Load,
    round_trip: Option<Duration>,
}

impl Interpreter {
    pub fn new(name: String, now: Duration) -> Interpreter {
        Interpreter {
            name,
            heard: now,
            alive: false,
            staged: HashSet::new(),
            in_flight: VecDeque::new(),
            slowness: 1.0,
            leaving: false,
            asked_back: false,
            turned: now,
            since: now,
            has: Default::default(),
            meets: BTreeSet::new(),
            load: Load::default(),
            round_trip: None,
        }
    }

    /// Whether it has what is needed.
    pub fn suits(&self, needs: u16) -> bool {
        needs == 0 || self.meets.contains(&needs)
    }

    /// Whether to feed it `work` now, and if so, for how long it is already busy. The least busy interpreter is fed
    /// first.
    pub fn room(&self, now: Duration, work: &Work) -> Option<Duration> {
        let head = self.in_flight.front();
        let keeps_alone = |head: &Firing| work.is_suspect() || head.work.is_suspect() || head.race == Race::Lost;
        if self.leaving || !self.suits(work.needs) || head.is_some_and(keeps_alone) {
            return None;
        }
        let (waited, time) = (self.waited(now), self.load.time.unwrap_or_default());
        let has_room = self.load.has_room(self.round_trip()) && !self.is_late(waited, time);
        has_room.then(|| time.saturating_sub(waited))
    }

    /// How long it has been at the first firing in flight, as far as the manager can know.
    pub fn waited(&self, now: Duration) -> Duration {
        self.in_flight.front().map_or(Duration::ZERO, |head| now.saturating_sub(head.sent.max(self.turned)))
    }

    /// The time for a message there and back.
    pub fn round_trip(&self) -> Duration {
        self.round_trip.unwrap_or(FIRST_ROUND_TRIP)
    }

    /// It took `ratio` times as long as the average interpreter.
    pub fn compared(&mut self, ratio: f64) {
        self.slowness = (self.slowness * 3.0 + ratio.clamp(0.01, 100.0)) / 4.0;
    }

    /// Adds a firing in flight.
    pub fn add(&mut self, firing: Firing) {
        self.in_flight.push_back(firing);
        self.weigh();
    }

    /// Completes the first firing in flight. Returns how long it was this interpreter's only business, without imports.
    pub fn complete(&mut self, now: Duration) -> Duration {
        let Some(firing) = self.in_flight.pop_front() else { return Duration::ZERO };
        self.weigh();
        let began = firing.sent.max(std::mem::replace(&mut self.turned, now));
        if firing.alone {
            let sample = now.saturating_sub(firing.sent).saturating_sub(firing.busy);
            self.round_trip = Some(self.round_trip.map_or(sample, |round_trip| (round_trip * 3 + sample) / 4));
        }
        if firing.stages { firing.busy } else { now.saturating_sub(began) }
    }

    /// Removes a returned firing that was behind others.
    pub fn take_back(&mut self, place: usize) -> Option<(Vec<Work>, Race)> {
        let mut firing = self.in_flight.remove(place)?;
        self.weigh();
        Some((firing.split_off(firing.tasks()), firing.race))
    }

    /// Removes all but the first `kept` tasks from the first firing in flight, because they were returned.
    pub fn take_back_behind(&mut self, kept: u32) -> Vec<Work> {
        let works = self.in_flight.front_mut().map(|head| head.split_off_behind(kept));
        self.weigh();
        works.unwrap_or_default()
    }

    /// Adds up the firings in flight. Done only when they change, because scheduling looks at every load for every
    /// firing.
    fn weigh(&mut self) {
        self.load = Load {
            firings: self.in_flight.len(),
            bytes: self.in_flight.iter().map(|firing| firing.bytes).sum(),
            time: self.in_flight.iter().map(|firing| firing.estimate).sum(),
        };
    }

    /// Tasks in flight.
    pub fn tasks(&self) -> u32 {
        self.in_flight.iter().map(Firing::tasks).sum()
    }
}
