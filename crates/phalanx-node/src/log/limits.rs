//! How many lines a cause may have in a log, so that no peer fills the disk of the log's owner.

use super::Severity;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Who causes lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum By {
    /// Any peer, also one that is refused.
    Peer,
    /// A user who is served. The owner of the log wants to know what users do.
    User,
}

impl By {
    /// Lines of one cause in a period that are shown. The further ones are counted.
    fn shown(self) -> u64 {
        match self {
            By::Peer => 5,
            By::User => 100,
        }
    }

    /// Causes of one severity that are told apart at a time. A peer that makes up new ones shares one limit for all of them. Together
    /// with `shown`, this keeps a log below 100 lines of each severity a minute, whatever refused peers do.
    fn causes(self) -> usize {
        match self {
            By::Peer => 15,
            By::User => 50,
        }
    }
}

/// The cause that stands for all others.
const OTHERS: &str = "for other reasons";
/// Longest name of a cause, in characters.
const MOST_CAUSE: usize = 300;

/// The lines of the causes in their current periods.
#[derive(Debug)]
pub(super) struct Limits {
    period: Duration,
    causes: HashMap<Cause, Lines>,
}

/// Lines that a log does not show hide no warnings of the same cause.
type Cause = (By, Severity, String);

#[derive(Debug)]
struct Lines {
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
    pub fn admit(&mut self, by: By, severity: Severity, cause: &str, now: Instant) -> bool {
        let mut cause = (by, severity, cause.chars().take(MOST_CAUSE).collect());
        let known = || self.causes.keys().filter(|(who, how, _)| (*who, *how) == (by, severity)).count();
        if !self.causes.contains_key(&cause) && known() >= by.causes() {
            cause.2 = OTHERS.to_owned();
        }
        let lines = self.causes.entry(cause).or_insert(Lines { ends: now + self.period, count: 0 });
        lines.count += 1;
        lines.count <= by.shown()
    }

    /// Ends the periods that are over. Returns what was not shown in them.
    pub fn end(&mut self, now: Instant) -> Vec<Hidden> {
        let mut hidden = Vec::new();
        self.causes.retain(|(by, severity, cause), lines| {
            let Lines { ends, count } = *lines;
            if ends <= now && count > by.shown() {
                hidden.push(Hidden { severity: *severity, cause: cause.clone(), count: count - by.shown() });
            }
            ends > now
        });
        hidden
    }

    /// When the first period ends in which something was not shown.
    pub fn next_end(&self) -> Option<Instant> {
        let is_hidden = |((by, ..), lines): &(&Cause, &Lines)| lines.count > by.shown();
        self.causes.iter().filter(is_hidden).map(|(_, lines)| lines.ends).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn shown(limits: &mut Limits, cause: &str, count: u64, now: Instant) -> usize {
        (0..count).filter(|_| limits.admit(By::Peer, Severity::Warning, cause, now)).count()
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
        assert_eq!((0..9).filter(|_| limits.admit(By::Peer, Severity::Info, "two", now)).count(), 5);
        assert_eq!(shown(&mut limits, "two", 9, now), 5, "lines of another severity do not count");
        assert_eq!(shown(&mut limits, "one", 9, now + MINUTE), 5, "a new period");
    }

    #[test]
    fn causes_that_a_peer_makes_up_share_one_limit() {
        let (mut limits, now) = (Limits::new(MINUTE), Instant::now());
        let lines: usize = (0..10_000).map(|number| shown(&mut limits, &format!("cause {number}"), 10, now)).sum();
        assert!(lines <= (By::Peer.causes() + 1) * By::Peer.shown() as usize, "{lines}");
        let hidden = limits.end(now + MINUTE);
        assert_eq!(hidden.iter().map(|it| it.count).sum::<u64>() + lines as u64, 100_000);
        assert!(limits.admit(By::User, Severity::Info, "ada", now), "users have limits of their own");
        assert!(hidden.len() <= By::Peer.causes() + 1 && hidden.iter().any(|it| it.cause == OTHERS));
    }
}
