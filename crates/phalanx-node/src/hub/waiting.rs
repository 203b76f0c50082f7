//! How a hub logs that it waits for other hubs: usual while hubs start, and a fault when it goes on.

use crate::log::{Log, Severity};
use std::fmt::Display;
use std::time::{Duration, Instant};

/// Longest usual wait. An election takes about one second, and a machine that starts again half a minute.
const UNUSUAL: Duration = Duration::from_secs(30);

/// A wait for other hubs.
#[derive(Default)]
pub struct Waiting {
    since: Option<Instant>,
    /// How long it has lasted when it is logged again.
    next: Duration,
}

impl Waiting {
    /// Logs that the hub waits: once at the beginning, without the error, which only says that hubs start. An unusually long wait is a
    /// warning, each time that it has doubled.
    pub fn log(&mut self, log: &Log, what: &str, error: impl Display) {
        if let Some((severity, text)) = self.line(Instant::now(), what, error) {
            match severity {
                Severity::Warning => log.warning(text),
                _ => log.info(text),
            }
        }
    }

    /// The wait has ended.
    pub fn end(&mut self) {
        self.since = None;
    }

    fn line(&mut self, now: Instant, what: &str, error: impl Display) -> Option<(Severity, String)> {
        let Some(since) = self.since else {
            *self = Waiting { since: Some(now), next: UNUSUAL };
            return Some((Severity::Info, what.to_owned()));
        };
        let waited = now - since;
        if waited < self.next {
            return None;
        }
        self.next *= 2;
        Some((Severity::Warning, format!("{what}, for {} s already: {error}", waited.as_secs())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_a_warning_only_when_it_is_unusually_long() {
        let (mut waiting, start) = (Waiting::default(), Instant::now());
        let mut after = |seconds| waiting.line(start + Duration::from_secs(seconds), "waits", "no answer");
        assert_eq!(after(0), Some((Severity::Info, "waits".to_owned())));
        assert_eq!((after(1), after(29)), (None, None));
        let late = |seconds| Some((Severity::Warning, format!("waits, for {seconds} s already: no answer")));
        assert_eq!((after(30), after(31), after(60), after(61)), (late(30), None, late(60), None));
        waiting.end();
        assert_eq!(waiting.line(start, "waits", "").map(|it| it.0), Some(Severity::Info));
    }
}
