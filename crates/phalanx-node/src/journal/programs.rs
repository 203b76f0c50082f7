//! What the journal keeps for a page that shows programs: the totals of each run, and the latest losses and recoveries. Both are
//! bounded, whatever a program does.

use super::Summary;
use phalanx_core::event::Fact;
use phalanx_core::ids::{InterpreterId, RunId};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Runs whose totals are kept. A program that opens more forgets those in which nothing has happened for the longest time.
const MOST_RUNS: usize = 64;
/// Moments that are kept. They are a page of the browser, and 300 KB at most.
const MOST_MOMENTS: usize = 500;
/// Longest text of a moment in bytes. Other machines write causes.
const LONGEST: usize = 500;

/// The totals of one run. Times are in seconds.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RunTotals {
    /// When its first work was sent, since the journal began.
    pub began: f64,
    /// When something happened last, since the journal began.
    pub last: f64,
    /// Number of tasks whose outcome was delivered.
    pub delivered: u64,
    /// Number of tasks that raised an exception.
    pub raised: u64,
    /// Number of tasks that were fired again after a failure.
    pub retried: u64,
    /// Number of tasks that were also fired at a second interpreter.
    pub doubled: u64,
    /// Number of firings that were answered: tasks, parts and groups.
    pub answered: u64,
    /// Bytes of tokens to the interpreters.
    pub bytes_in: u64,
    /// Bytes of tokens from them.
    pub bytes_out: u64,
    /// Compute time at all interpreters.
    pub busy: f64,
    /// Of `answered`, the part of each interpreter.
    #[serde(serialize_with = "pairs")]
    pub shares: BTreeMap<InterpreterId, u64>,
}

/// A loss, a recovery, or another change of the interpreters.
#[derive(Debug, Clone, Serialize)]
pub struct Moment {
    /// Its number, from 0.
    pub number: u64,
    /// Seconds since the journal began.
    pub at: f64,
    /// The fact, in a word.
    pub what: &'static str,
    /// The name of the interpreter; empty for facts about none.
    pub interpreter: String,
    /// Why, or how many.
    pub text: String,
    /// How often it has happened without anything else between.
    pub times: u32,
}

/// What is kept.
#[derive(Debug, Default)]
pub struct Programs {
    runs: BTreeMap<RunId, RunTotals>,
    moments: VecDeque<Moment>,
    next: u64,
    was_met: Option<bool>,
}

/// What is kept, in a form that can be sent.
#[derive(Debug, Clone, Serialize)]
pub struct Kept {
    /// The runs, the oldest first.
    pub runs: Vec<(RunId, RunTotals)>,
    /// The latest moments, the oldest first.
    pub moments: Vec<Moment>,
    /// The names of all interpreters.
    pub names: Vec<(InterpreterId, String)>,
}

impl Programs {
    pub(super) fn add(&mut self, at: f64, fact: &Fact, summary: &Summary) {
        match fact {
            Fact::Fired { run, bytes, .. } => self.of(*run, at, |it| it.bytes_in += bytes),
            Fact::Answered { interpreter, run, tasks, bytes, busy, .. } => self.of(*run, at, |it| {
                it.answered += u64::from(*tasks);
                it.bytes_out += bytes;
                it.busy += Duration::from_nanos(*busy).as_secs_f64();
                *it.shares.entry(*interpreter).or_default() += u64::from(*tasks);
            }),
            Fact::Stayed { run, busy, .. } => {
                self.of(*run, at, |it| it.busy += Duration::from_nanos(*busy).as_secs_f64());
            }
            Fact::Dropped { run, bytes, busy, .. } => self.of(*run, at, |it| {
                it.bytes_out += bytes;
                it.busy += Duration::from_nanos(*busy).as_secs_f64();
            }),
            Fact::Raised { run, .. } => self.of(*run, at, |it| it.raised += 1),
            Fact::Retried { run, .. } => self.of(*run, at, |it| it.retried += 1),
            Fact::Delivered { run, tasks } => self.of(*run, at, |it| it.delivered += u64::from(*tasks)),
            Fact::Doubled { interpreter, of, run, tasks } => {
                self.of(*run, at, |it| it.doubled += u64::from(*tasks));
                let text = format!("{tasks} tasks of {} were also fired here", name(summary, *of));
                self.note(at, "doubled", name(summary, *interpreter), &text);
            }
            Fact::Recruited { interpreter, machine, .. } => {
                self.note(at, "recruited", name(summary, *interpreter), machine);
            }
            Fact::Lost { interpreter, cause, tasks } => {
                let text = format!("{cause}; {tasks} tasks were in flight");
                self.note(at, "lost", name(summary, *interpreter), &text);
            }
            Fact::Released { interpreter } => self.note(at, "released", name(summary, *interpreter), ""),
            Fact::RecruitFailed { reason } => self.note(at, "recruit_failed", "", reason),
            Fact::Wanted { interpreters } => self.note(at, "wanted", "", &format!("{interpreters} interpreters")),
            Fact::AskedBack { interpreters } => {
                self.note(at, "asked_back", "", &format!("{interpreters} interpreters, for another user"));
            }
            Fact::Contract { met, why, .. } if self.was_met != Some(*met) => {
                self.was_met = Some(*met);
                self.note(at, if *met { "met" } else { "unmet" }, "", why.as_deref().unwrap_or_default());
            }
            Fact::Contract { .. }
            | Fact::Protected { .. }
            | Fact::Delegated { .. }
            | Fact::Returned { .. }
            | Fact::Spent { .. }
            | Fact::Dismissed { .. } => {}
        }
    }

    pub(super) fn kept(&self, summary: &Summary) -> Kept {
        let runs = self.runs.iter().map(|(run, totals)| (*run, totals.clone())).collect();
        let names = summary.interpreters.iter().map(|(id, it)| (*id, it.name.clone())).collect();
        Kept { runs, moments: self.moments.iter().cloned().collect(), names }
    }

    fn of(&mut self, run: RunId, at: f64, change: impl FnOnce(&mut RunTotals)) {
        if !self.runs.contains_key(&run) && self.runs.len() >= MOST_RUNS {
            let quietest = self.runs.iter().min_by(|(_, one), (_, other)| one.last.total_cmp(&other.last));
            quietest.map(|(run, _)| *run).and_then(|run| self.runs.remove(&run));
        }
        let totals = self.runs.entry(run).or_insert_with(|| RunTotals { began: at, ..RunTotals::default() });
        totals.last = at;
        change(totals);
    }

    /// Notes a moment. A failure that repeats, as while every machine is away, is noted once.
    fn note(&mut self, at: f64, what: &'static str, interpreter: &str, text: &str) {
        let end = (0..=text.len().min(LONGEST)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        let text = &text[..end];
        let is_same = |it: &&mut Moment| it.what == what && it.text == text && it.interpreter == interpreter;
        if let Some(last) = self.moments.back_mut().filter(is_same) {
            (last.at, last.times) = (at, last.times.saturating_add(1));
            return;
        }
        if self.moments.len() >= MOST_MOMENTS {
            self.moments.pop_front();
        }
        let (interpreter, text) = (interpreter.to_owned(), text.to_owned());
        self.moments.push_back(Moment { number: self.next, at, what, interpreter, text, times: 1 });
        self.next += 1;
    }
}

fn name(summary: &Summary, interpreter: InterpreterId) -> &str {
    summary.interpreters.get(&interpreter).map_or("", |it| it.name.as_str())
}

/// Keys of JSON are texts, so that a map of numbers goes as pairs.
fn pairs<S: serde::Serializer>(shares: &BTreeMap<InterpreterId, u64>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fired(run: u32) -> Fact {
        Fact::Fired { interpreter: InterpreterId(1), run: RunId(run), instruction: 0, tasks: 1, bytes: 10 }
    }

    #[test]
    fn runs_and_moments_are_bounded() {
        let (mut programs, summary) = (Programs::default(), Summary::default());
        for number in 0..2000 {
            programs.add(f64::from(number), &fired(number), &summary);
            programs.add(f64::from(number), &fired(0), &summary); // a run that goes on is kept, old as it is
            programs.add(f64::from(number), &Fact::Wanted { interpreters: number }, &summary);
        }
        let kept = programs.kept(&summary);
        assert_eq!((kept.runs.len(), kept.moments.len()), (MOST_RUNS, MOST_MOMENTS));
        assert_eq!((kept.runs[0].0, kept.runs[0].1.bytes_in), (RunId(0), 20_010));
        assert_eq!(kept.moments.last().map(|it| it.number), Some(1999));
    }

    #[test]
    fn a_failure_that_repeats_is_one_moment_and_its_text_is_cut() {
        let (mut programs, summary) = (Programs::default(), Summary::default());
        for second in 0..5 {
            let reason = "é".repeat(LONGEST);
            programs.add(f64::from(second), &Fact::RecruitFailed { reason }, &summary);
        }
        let moments = programs.kept(&summary).moments;
        assert_eq!((moments.len(), moments[0].times, moments[0].at), (1, 5, 4.0));
        assert_eq!(moments[0].text.len(), LONGEST);
    }

    #[test]
    fn shares_add_up_to_what_was_answered() {
        let (mut programs, summary) = (Programs::default(), Summary::default());
        for (interpreter, tasks) in [(1, 3), (2, 4), (1, 5)] {
            let (interpreter, run) = (InterpreterId(interpreter), RunId(7));
            let (busy, protection) = (500_000_000, 0);
            let fact = Fact::Answered { interpreter, run, instruction: 0, tasks, bytes: 2, busy, protection };
            programs.add(1.0, &fact, &summary);
        }
        let (run, totals) = &programs.kept(&summary).runs[0];
        assert_eq!((*run, totals.answered, totals.bytes_out, totals.busy), (RunId(7), 12, 6, 1.5));
        assert_eq!(totals.shares.values().copied().collect::<Vec<_>>(), [8, 4]);
    }
}
