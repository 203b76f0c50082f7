//! When every interpreter is gone, open runs wait for machines to come back. A supervisor may restart them.

use super::Engine;
use crate::event::{Command, Outcome};
use crate::ids::RunId;
use std::time::Duration;

/// Backoff between attempts to recruit: the pause doubles from `FIRST_PAUSE` to `LONGEST_PAUSE`.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The wait for an interpreter after the last one was lost.
#[derive(Debug, Clone, Default)]
pub struct Waiting {
    /// Since when there has been no interpreter, and none being recruited.
    since: Option<Duration>,
    /// When to recruit again.
    again: Duration,
    pause: Duration,
    /// Whether the last attempt failed because owners have closed machines for a while.
    is_closed: bool,
    /// Whether any attempt has failed for that, so that the address is right.
    was_closed: bool,
}

impl Waiting {
    /// Whether the next attempt is due. If so, schedules the one after it.
    fn is_due(&mut self, now: Duration) -> bool {
        let due = self.again <= now;
        if due {
            self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
            self.again = now + self.pause;
        }
        due
    }
}

impl Engine {
    /// Without any interpreter, recruiting is retried until `patience` is over. Then the open runs end with an error.
    /// If there never was an interpreter, the address is wrong, and they end at once. While owners have closed machines, runs wait.
    pub(super) fn wait_if_alone(&mut self, now: Duration) {
        if !self.interpreters.is_empty() || self.recruiting > 0 {
            return;
        }
        let first = self.waiting.since.is_none();
        let since = *self.waiting.since.get_or_insert(now);
        if first {
            self.waiting.again = now + FIRST_PAUSE;
        }
        let patience = if self.recruited || self.waiting.was_closed { self.config.patience } else { Duration::ZERO };
        if !self.waiting.is_closed {
            self.abandon(now, since, patience);
        }
        let waits = now.saturating_sub(since) < patience || self.runs.values().any(|run| !run.has_ended());
        if waits && self.waiting.is_due(now) {
            self.recruit_missing(now);
        }
    }

    /// Notes whether machines are closed for a while. The patience begins when none is closed any more.
    pub(super) fn note_closed(&mut self, now: Duration, is_closed: bool) {
        if is_closed || self.waiting.is_closed {
            self.waiting.since = Some(now);
        }
        self.waiting.is_closed = is_closed;
        self.waiting.was_closed |= is_closed;
    }

    /// Whether recruiting will be retried although no interpreter is there now. For tests.
    #[cfg(test)]
    pub fn waits_for_machines(&self) -> bool {
        self.interpreters.is_empty() && self.waiting.since.is_some()
    }

    /// Ends the runs that have waited at least for `patience`.
    fn abandon(&mut self, now: Duration, since: Duration, patience: Duration) {
        let losses: Vec<String> = self.losses.iter().cloned().collect();
        let waited = |opened: Duration| now.saturating_sub(since.max(opened));
        let hopeless = self.runs.iter_mut().filter(|(_, run)| waited(run.opened) >= patience);
        let abandoned: Vec<RunId> = hopeless.filter_map(|(id, run)| run.abandon().then_some(*id)).collect();
        for run in abandoned {
            self.repository.drop_run(run);
            let outcome = Outcome::Abandoned { losses: losses.clone(), recruited: self.recruited };
            self.commands.push_back(Command::Deliver { run, outcome });
        }
    }
}
