//! How many lines a cause may have in a log, so that no peer fills the disk of the log's owner.

use super::Severity;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Lines of one cause in a period that are shown. The further ones are counted.
const SHOWN: u64 = 5;
/// Causes that are told apart at a time. A peer that makes up new ones shares one limit for all of them. Together with
/// `SHOWN`, this keeps a log below 100 lines a minute, whatever refused peers do.
const CAUSES: usize = 15;
/// The cause that stands for all others.
const OTHERS: &str = "for other reasons";
/// Longest name of a cause, in characters.
const MOST_CAUSE: usize = 300;

/// The lines of the causes in their current periods.
#[derive(Debug)]
pub(super) struct Limits {
    period: Duration,
    causes: HashMap<String, Lines>,
}

#[derive(Debug)]
struct Lines {
    severity: Severity,
    ends: Instant,
    count: u64,
}

/// Lines that were not shown in a period that is over.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hidden {
    pub severity: Severity,
    pub cause: String,
    pub count: u64,
}

impl Limits {
    pub fn new(period: Duration) -> Limits {
        Limits { period, causes: HashMap::new() }
    }

    /// Counts a line. Returns whether it is shown.
    pub fn admit(&mut self, severity: Severity, cause: &str, now: Instant) -> bool {
        let cause: String = cause.chars().take(MOST_CAUSE).collect();
        let is_known = self.causes.contains_key(&cause) || self.causes.len() < CAUSES;
        let cause = if is_known { cause } else { OTHERS.to_owned() };
        let lines = Lines { severity, ends: now + self.period, count: 0 };
        let lines = self.causes.entry(cause).or_insert(lines);
        lines.count += 1;
        lines.count <= SHOWN
    }

    /// Ends the periods that are over. Returns what was not shown in them.
    pub fn end(&mut self, now: Instant) -> Vec<Hidden> {
        let mut hidden = Vec::new();
        self.causes.retain(|cause, lines| {
            let Lines { severity, ends, count } = *lines;
            if ends <= now && count > SHOWN {
                hidden.push(Hidden { severity, cause: cause.clone(), count: count - SHOWN });
            }
            ends > now
        });
        hidden
    }

    /// When the first period ends in which something was not shown.
    pub fn next_end(&self) -> Option<Instant> {
        self.causes.values().filter(|lines| lines.count > SHOWN).map(|lines| lines.ends).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn shown(limits: &mut Limits, cause: &str, count: u64, now: Instant) -> usize {
        (0..count).filter(|_| limits.admit(Severity::Warning, cause, now)).count()
    }

    #[test]
    fn the_first_lines_of_a_cause_are_shown_and_the_others_counted() {
        let (mut limits, now) = (Limits::new(MINUTE), Instant::now());
        assert_eq!(shown(&mut limits, "one", 1_000_000, now), 5);
        assert_eq!(shown(&mut limits, "other", 3, now + MINUTE / 2), 3);
        assert_eq!((limits.end(now + MINUTE / 2), limits.next_end()), (Vec::new(), Some(now + MINUTE)));
        let hidden = Hidden { severity: Severity::Warning, cause: "one".to_owned(), count: 999_995 };
        assert_eq!(limits.end(now + MINUTE), [hidden]);
        assert_eq!(limits.next_end(), None);
        assert_eq!(shown(&mut limits, "one", 9, now + MINUTE), 5, "a new period");
    }

    #[test]
    fn causes_that_a_peer_makes_up_share_one_limit() {
        let (mut limits, now) = (Limits::new(MINUTE), Instant::now());
        let lines: usize = (0..10_000).map(|number| shown(&mut limits, &format!("cause {number}"), 10, now)).sum();
        assert!(lines <= (CAUSES + 1) * SHOWN as usize, "{lines}");
        let hidden = limits.end(now + MINUTE);
        assert_eq!(hidden.iter().map(|it| it.count).sum::<u64>() + lines as u64, 100_000);
        assert!(hidden.len() <= CAUSES + 1 && hidden.iter().any(|it| it.cause == OTHERS));
    }
}
