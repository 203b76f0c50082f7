//! Performance contracts: how many interpreters a contract on time needs, as measured, and whether it is met.
//!
//! The measure is the *service time* of a task: how long it is the only business of some interpreter, averaged over the
//! last seconds. It includes everything (network, neighbours) except the first imports. A rate of tasks times the
//! service time is a number of interpreters. There is no model of machines, so a wrong guess is corrected by the next
//! look.

use super::watch::{Limit, Sight, Watch};
use crate::ids::RunId;
use std::collections::BTreeMap;
use std::time::Duration;

/// Spare interpreters, as a factor on the computed number, because service times vary.
const HEADROOM: f64 = 1.1;
/// Hysteresis: interpreters are released only if fewer would suffice even for this many times the work.
const SLACK: f64 = 1.15;
/// The surplus must last for this many seconds, and for two service times, before interpreters are released.
const HOLD: f64 = 2.0;
/// A rate counts as met if this part of it is reached.
const TOLERANCE: f64 = 0.95;
/// A contract must look hopeless for this long before a warning.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause between two reports of one computation.
const REPORT: Duration = Duration::from_secs(1);

/// A contract on time: a goal for every computation, instead of a number of interpreters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// Tasks a second.
    Throughput(f64),
    /// Seconds from the first task to the last result.
    Deadline(f64),
}

/// A report on one computation.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub run: RunId,
    pub asked: f64,
    pub reached: f64,
    pub met: bool,
    /// Why it is not met.
    pub why: Option<String>,
    /// Whether to warn the reader of the results.
    pub warns: bool,
}

/// The interpreters available now.
#[derive(Debug, Clone, Copy)]
pub struct Staff<'a> {
    pub ready: u32,
    /// Why the last attempt to recruit failed, if it did.
    pub failure: Option<&'a str>,
}

/// A contract and the measurements for it.
#[derive(Debug, Clone)]
pub struct Contract {
    goal: Option<Goal>,
    most: u32,
    wanted: u32,
    watches: BTreeMap<RunId, Watch>,
    /// Since when fewer interpreters would suffice, and the highest number needed at any moment since then.
    surplus: Option<(Duration, u32)>,
}

impl Contract {
    /// A contract without a goal wants `most` interpreters all the time. One with a goal wants 1 at first.
    pub fn new(goal: Option<Goal>, most: u32) -> Contract {
        let wanted = if goal.is_some() { 1 } else { most };
        Contract { goal, most, wanted, watches: BTreeMap::new(), surplus: None }
    }

    /// So many interpreters can be had now.
    pub fn offer(&mut self, most: u32) {
        self.most = most;
        self.wanted = if self.goal.is_some() { self.wanted.min(most) } else { most };
    }

    /// The number of interpreters to keep now.
    pub fn wanted(&self) -> u32 {
        self.wanted
    }

    /// Whether the number of interpreters depends on measurements.
    pub fn has_goal(&self) -> bool {
        self.goal.is_some()
    }

    /// Drops the measured rates after a while in which no look was taken.
    pub fn look_anew(&mut self) {
        self.watches.values_mut().for_each(Watch::look_anew);
        self.surplus = None;
    }

    /// Looks at the open computations that have begun. Adapts the wanted number of interpreters and returns the reports
    /// that are due.
    pub fn look(&mut self, now: Duration, sights: &[Sight], staff: Staff) -> Vec<Report> {
        let Some(goal) = self.goal.filter(|_| !sights.is_empty()) else { return Vec::new() };
        let (mut need, mut service): (f64, f64) = (0.0, 0.0);
        for sight in sights {
            let watch = self.watches.entry(sight.run).or_default();
            watch.look(now, sight);
            need += needed(goal, sight, watch.service(sight)).unwrap_or(f64::from(self.most));
            service = service.max(watch.service(sight));
        }
        self.adapt(now, need, service);
        let reports = sights.iter().filter_map(|sight| self.report(now, goal, sight, staff));
        reports.collect()
    }

    /// The last report of a computation that has ended; `None` without a goal.
    pub fn conclude(&mut self, now: Duration, sight: &Sight, staff: Staff) -> Option<Report> {
        let goal = self.goal?;
        let mut watch = self.watches.remove(&sight.run).unwrap_or_default();
        watch.look(now, sight);
        let (asked, reached) = match goal {
            Goal::Throughput(rate) => (rate, watch.rate(sight)),
            Goal::Deadline(seconds) => (seconds, sight.age),
        };
        let met = is_met(goal, reached);
        // A rate is only reported, not judged, if there was no time to recruit.
        let brief = matches!(goal, Goal::Throughput(_)) && !watch.is_full(now);
        let why = (!met).then(|| match brief {
            true => "it was over before there was time to recruit".to_owned(),
            false => self.why(&watch, staff, true),
        });
        Some(Report { run: sight.run, asked, reached, met, why, warns: !met && !watch.warned && !brief })
    }

    /// Drops the measurements of a computation that was closed.
    pub fn forget(&mut self, run: RunId) {
        self.watches.remove(&run);
    }

    fn adapt(&mut self, now: Duration, need: f64, service: f64) {
        let whole = |need: f64| (need.ceil() as u32).clamp(1, self.most);
        let (least, enough) = (whole(need), whole(need * SLACK));
        if least > self.wanted {
            (self.wanted, self.surplus) = (least, None);
        } else if enough < self.wanted {
            let (since, highest) = self.surplus.unwrap_or((now, enough));
            let highest = highest.max(enough);
            let hold = Duration::from_secs_f64(HOLD.max(service * 2.0));
            let over = now.saturating_sub(since) >= hold;
            self.surplus = (!over).then_some((since, highest));
            if over {
                self.wanted = highest;
            }
        } else {
            self.surplus = None;
        }
    }

    /// A report, if one is due or if the contract has turned out to be hopeless.
    fn report(&mut self, now: Duration, goal: Goal, sight: &Sight, staff: Staff) -> Option<Report> {
        let watch = &self.watches[&sight.run];
        let refused = staff.failure.is_some() && staff.ready < self.wanted;
        let hands = if refused { staff.ready } else { self.wanted };
        let (asked, reached) = match goal {
            Goal::Throughput(rate) => (rate, watch.rate(sight)),
            Goal::Deadline(seconds) => (seconds, expected(sight, watch.service(sight), hands)),
        };
        let met = is_met(goal, reached);
        let overdue = matches!(goal, Goal::Deadline(seconds) if sight.age > seconds);
        let exhausted = self.wanted == self.most || refused || watch.limit() != Limit::Interpreters;
        let hopeless = !met && (overdue || exhausted && watch.is_full(now));
        let why = (!met).then(|| self.why(watch, staff, false));
        let watch = self.watches.get_mut(&sight.run)?;
        let since = *watch.hopeless.get_or_insert(now);
        if !hopeless {
            watch.hopeless = None;
        }
        let patient = now.saturating_sub(since) < PATIENCE && !overdue;
        let warns = hopeless && !patient && !watch.warned;
        watch.warned |= warns;
        let due = watch.reported.is_none_or(|reported| now.saturating_sub(reported) >= REPORT);
        if !warns && !due {
            return None;
        }
        watch.reported = Some(now);
        Some(Report { run: sight.run, asked, reached, met, why, warns })
    }

    fn why(&self, watch: &Watch, staff: Staff, ended: bool) -> String {
        match (watch.limit(), staff.failure) {
            (Limit::Stream, _) => "its stream gives the tasks no faster".to_owned(),
            (Limit::Reader, _) => "its results are read no faster".to_owned(),
            (_, Some(failure)) if staff.ready < self.wanted => {
                format!("only {} of {} interpreters can be had: {failure}", staff.ready, self.wanted)
            }
            _ if ended && (self.wanted < self.most || staff.ready < self.wanted) => {
                "it ended before more interpreters were ready".to_owned()
            }
            _ if self.wanted < self.most => format!("{} interpreters were too few", self.wanted),
            _ => format!("more interpreters than {} are not offered", self.most),
        }
    }
}

/// The number of interpreters that keeps the goal for a computation whose tasks take `service`. `None`: all that there
/// are.
fn needed(goal: Goal, sight: &Sight, service: f64) -> Option<f64> {
    let left = sight.size.map(|size| size.saturating_sub(sight.settled));
    let waiting = left.map(|left| left.saturating_sub(sight.in_flight));
    if waiting == Some(0) && !sight.fireable {
        return Some(f64::from(sight.busy)); // all remaining tasks are in flight, so more interpreters would not help
    }
    match goal {
        Goal::Throughput(rate) => Some(rate * service * HEADROOM),
        Goal::Deadline(seconds) => {
            // List scheduling takes no longer than all work shared equally, plus one task (R. L. Graham, 1966).
            let (work, time) = (work_left(sight, service)?, seconds - sight.age - service);
            let useful = if sight.fireable { f64::INFINITY } else { f64::from(sight.busy) + waiting? as f64 };
            (time > 0.0).then(|| (work * HEADROOM / time).min(useful))
        }
    }
}

/// Seconds of interpreter time still needed; `None` if the number of tasks is unknown.
fn work_left(sight: &Sight, service: f64) -> Option<f64> {
    let left = sight.size?.saturating_sub(sight.settled) as f64;
    let done = if sight.settled == 0 { 0.0 } else { sight.under_way }; // unknown before the first result
    Some((left * service - done).max(0.0))
}

/// Expected seconds from the first task to the last result, at the present pace.
fn expected(sight: &Sight, service: f64, hands: u32) -> f64 {
    sight.age + work_left(sight, service).unwrap_or(0.0) / f64::from(hands.max(1))
}

fn is_met(goal: Goal, reached: f64) -> bool {
    match goal {
        Goal::Throughput(rate) => reached >= rate * TOLERANCE,
        Goal::Deadline(seconds) => reached <= seconds,
    }
}
