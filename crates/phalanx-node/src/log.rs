//! A service's log for the machine's owner.

mod limits;

use limits::{By, Hidden, Limits};
use phalanx_core::text::escaped;
use phalanx_net::sync::lock;
use std::io::Write;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// The period for which the lines of a cause are limited.
const MINUTE: Duration = Duration::from_secs(60);

/// The severity of a line, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Ordinary and frequent.
    Debug,
    /// Users that come and go, and what for.
    Info,
    /// A peer was rejected, or something does not work as it should.
    Warning,
}

/// Where log lines go.
#[derive(Clone)]
pub struct Log(Arc<Shared>);

type Take = dyn Fn(Severity, &str) + Send + Sync;

struct Shared {
    take: Box<Take>,
    limits: Mutex<Limits>,
    /// Whether a thread waits for the end of a period to say what was not shown in it.
    is_awaited: AtomicBool,
}

impl Log {
    /// A log that hands its lines to a function.
    pub fn new(take: impl Fn(Severity, &str) + Send + Sync + 'static) -> Log {
        Log::limited_to(MINUTE, take)
    }

    fn limited_to(period: Duration, take: impl Fn(Severity, &str) + Send + Sync + 'static) -> Log {
        let (limits, is_awaited) = (Mutex::new(Limits::new(period)), AtomicBool::new(false));
        Log(Arc::new(Shared { take: Box::new(take), limits, is_awaited }))
    }

    /// A log that discards its lines.
    pub fn nowhere() -> Log {
        Log::new(|_, _| ())
    }

    /// A log to standard error. Lines have at least this severity, and begin with the local time.
    pub fn to_standard_error(least: Severity) -> Log {
        Log::new(move |severity, text| {
            if severity >= least {
                let line = format!("{} {} {text}\n", local_time(), severity.word());
                let _ = std::io::stderr().write_all(line.as_bytes());
            }
        })
    }

    /// Logs a line for those who look for a mistake.
    pub fn debug(&self, text: impl AsRef<str>) {
        self.log(Severity::Debug, text.as_ref());
    }

    /// Logs a line about what happened.
    pub fn info(&self, text: impl AsRef<str>) {
        self.log(Severity::Info, text.as_ref());
    }

    /// Logs a line about what does not work as it should.
    pub fn warning(&self, text: impl AsRef<str>) {
        self.log(Severity::Warning, text.as_ref());
    }

    /// Logs a line that any peer can cause, as often as it likes. Of each cause, the first lines in a minute are shown,
    /// and then how many there were.
    pub fn limited(&self, severity: Severity, cause: &str, text: impl AsRef<str>) {
        self.bounded(By::Peer, severity, cause, text.as_ref());
    }

    fn bounded(&self, by: By, severity: Severity, cause: &str, text: &str) {
        let now = Instant::now();
        let (hidden, is_shown) = {
            let mut limits = lock(&self.0.limits);
            (limits.end(now), limits.admit(by, severity, cause, now))
        };
        hidden.into_iter().for_each(|hidden| self.0.summarize(hidden));
        match is_shown {
            true => self.log(severity, text),
            false => self.await_end(),
        }
    }

    /// Logs a line about what a user does, who is served and can cause it often. Of each user more is shown than of a peer.
    pub fn visit(&self, user: &str, text: impl AsRef<str>) {
        self.bounded(By::User, Severity::Info, &format!("from {user}"), text.as_ref());
    }

    /// Starts a thread that says what was not shown, even if nothing is logged any more. There is one at a time.
    fn await_end(&self) {
        if !self.0.is_awaited.swap(true, Ordering::AcqRel) {
            let lines = Arc::downgrade(&self.0);
            let started =
                thread::Builder::new().name("phalanx-log".into()).spawn(move || Shared::summarize_all(&lines));
            if started.is_err() {
                self.0.is_awaited.store(false, Ordering::Release);
            }
        }
    }

    fn log(&self, severity: Severity, text: &str) {
        self.0.log(severity, text);
    }
}

impl Shared {
    /// Parts of the text may come from a peer, so that it is escaped here, whatever it is about.
    fn log(&self, severity: Severity, text: &str) {
        (self.take)(severity, &escaped(text));
    }

    fn summarize(&self, Hidden { severity, cause, count }: Hidden) {
        self.log(severity, &format!("and {count} more in the last minute: {cause}"));
    }

    /// Waits for the ends of periods, until one has passed in which everything was shown.
    fn summarize_all(lines: &Weak<Shared>) {
        loop {
            let Some(this) = lines.upgrade() else { return };
            let mut limits = lock(&this.limits);
            let Some(end) = limits.next_end() else {
                // under the lock, so that a line that is counted later starts another thread
                return this.is_awaited.store(false, Ordering::Release);
            };
            let hidden = limits.end(Instant::now());
            drop(limits);
            hidden.into_iter().for_each(|hidden| this.summarize(hidden));
            drop(this); // a log that nobody uses any more ends meanwhile
            thread::sleep(end.saturating_duration_since(Instant::now()));
        }
    }
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Severity::Debug => "DEBUG",
            Severity::Info => "INFO",
            Severity::Warning => "WARNING",
        }
    }
}

impl FromStr for Severity {
    type Err = String;

    fn from_str(word: &str) -> Result<Severity, String> {
        let all = [Severity::Debug, Severity::Info, Severity::Warning];
        let found = all.into_iter().find(|severity| severity.word().eq_ignore_ascii_case(word));
        found.ok_or_else(|| format!("{word:?} is no level of a log: write debug, info or warning"))
    }
}

/// Local time, like `2026-11-23 18:26:03.120`.
#[cfg(unix)]
fn local_time() -> String {
    use std::time::{SystemTime, UNIX_EPOCH};
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = now.as_secs() as libc::time_t;
    // SAFETY: all zeroes is a value of this plain structure, which the system fills in; both live as long as the call.
    let mut at: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    unsafe { libc::localtime_r(&raw const seconds, &raw mut at) };
    let (year, month) = (at.tm_year + 1900, at.tm_mon + 1);
    let (day, hour, minute, second, part) = (at.tm_mday, at.tm_hour, at.tm_min, at.tm_sec, now.subsec_millis());
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{part:03}")
}

/// Seconds since 1970, on systems without `localtime_r`.
#[cfg(windows)]
fn local_time() -> String {
    use windows_sys::Win32::Foundation::SYSTEMTIME;
    let mut at = SYSTEMTIME::default();
    // SAFETY: the structure lives as long as the call.
    unsafe { windows_sys::Win32::System::SystemInformation::GetLocalTime(&raw mut at) };
    let SYSTEMTIME { wYear: year, wMonth: month, wDay: day, wHour: hour, wMinute: minute, .. } = at;
    let (second, part) = (at.wSecond, at.wMilliseconds);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{part:03}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_ordered_and_read_by_their_names() {
        assert!(Severity::Debug < Severity::Info && Severity::Info < Severity::Warning);
        assert_eq!("info".parse(), Ok(Severity::Info));
        assert!("loud".parse::<Severity>().unwrap_err().contains("debug, info or warning"));
    }

    #[test]
    fn no_peer_forges_a_line_or_steers_the_owners_terminal() {
        let (sender, lines) = std::sync::mpsc::channel();
        let log = Log::new(move |severity, text| drop(sender.send((severity, text.to_owned()))));
        log.info("serving ada, who copies /x\n2026-01-01 INFO forged\x1b]0;title\x07");
        let (severity, text) = lines.recv().unwrap();
        assert_eq!(severity, Severity::Info);
        assert_eq!(text, "serving ada, who copies /x\\x0a2026-01-01 INFO forged\\x1b]0;title\\x07");
    }

    #[test]
    fn a_flood_of_refusals_is_a_few_lines_and_a_count() {
        let (sender, lines) = std::sync::mpsc::channel();
        let log = Log::limited_to(Duration::from_millis(500), move |_, text| drop(sender.send(text.to_owned())));
        for port in 0..1000 {
            log.limited(Severity::Warning, "no TLS", format!("refused 1.2.3.4:{port}: no TLS"));
        }
        let (mut shown, mut hidden) = (0, 0);
        while shown + hidden < 1000 {
            // nothing is logged any more: the last count comes by itself
            let text = lines.recv_timeout(Duration::from_secs(60)).unwrap();
            match text.strip_prefix("and ").and_then(|rest| rest.strip_suffix(" more in the last minute: no TLS")) {
                Some(count) => hidden += count.parse::<u64>().unwrap(),
                None => shown += 1,
            }
        }
        assert_eq!(shown + hidden, 1000, "every refusal is shown or counted");
        assert!(hidden > 0, "{shown}");
    }

    #[test]
    fn times_have_one_length_and_sort_as_text() {
        let (one, other) = (local_time(), local_time());
        assert!(one.len() == "2026-11-23 18:26:03.120".len() && one <= other, "{one} {other}");
    }
}
