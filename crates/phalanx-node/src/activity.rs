//! What an executor runs, counted for its hub: by user, by what it is, and by the kind of its links.

use phalanx_core::level::Level;
use phalanx_core::wire::hub::{LONGEST_FACT, MOST_RUNNING, OTHER_USERS, Running, Status, What};
use phalanx_net::dial::RELAYED;
use phalanx_net::sync::lock;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Instant;

/// Rates below this many bytes a second are those of beats, and count as 0.
const LEAST_RATE: u64 = 1000;

/// The user, what it is, the level of its links, and whether they are relayed.
type Kind = (String, What, Option<Level>, bool);

/// How many there are of each kind, and how many bytes have moved over their links.
#[derive(Debug, Default)]
pub struct Tally(BTreeMap<Kind, (u32, u64)>);

impl Tally {
    /// Adds `count` of a kind. Their links come from the address in `link`.
    pub fn add(&mut self, user: &str, what: What, link: (Option<Level>, Option<IpAddr>), count: u32, bytes: u64) {
        let (level, from) = link;
        let kind = (user.to_owned(), what, level, from == Some(RELAYED));
        let entry = self.0.entry(kind).or_default();
        *entry = (entry.0.saturating_add(count), entry.1.saturating_add(bytes));
    }
}

/// The state between two looks: the bytes at the last look, and the losses.
#[derive(Debug, Default)]
pub struct Activity {
    before: Mutex<Option<(Instant, BTreeMap<Kind, u64>)>>,
    losses: Mutex<(u64, String)>,
}

impl Activity {
    /// Notes how an interpreter has ended, if the end was a loss. An interpreter whose manager is gone ends itself by SIGKILL.
    pub fn note_end(&self, user: &str, how: &str) {
        let usual = ["exited with status 0", "killed by signal 9", "killed, ", "killed"]; // Windows has no signals
        let is_usual = usual[..3].iter().any(|usual| how.starts_with(usual)) || how == usual[3];
        if is_usual && !how.contains("out of memory") {
            return;
        }
        self.note_loss(format!("an interpreter of {user} was {how}").replace("was exited", "exited"));
    }

    /// Notes that a signal has ended a rank. The signals by which launchers end programs are no losses.
    #[cfg(target_os = "linux")]
    pub fn note_signal(&self, user: &str, signal: i32) {
        if ![libc::SIGHUP, libc::SIGINT, libc::SIGKILL, libc::SIGTERM].contains(&signal) {
            let signal = phalanx_core::launch::signal_name(signal);
            self.note_loss(format!("a rank of {user} was killed by signal {signal}"));
        }
    }

    fn note_loss(&self, mut last: String) {
        let most = LONGEST_FACT.min(last.len());
        last.truncate((0..=most).rev().find(|at| last.is_char_boundary(*at)).unwrap_or_default());
        let mut losses = lock(&self.losses);
        *losses = (losses.0 + 1, last);
    }

    /// The state for the hub.
    pub fn status(&self, now: Instant, (capacity, used): (u32, u32), tally: Tally) -> Status {
        let rates = self.rates(now, &tally);
        let entry = |((kind, (count, _)), rate): ((Kind, (u32, u64)), u64)| {
            let (user, what, level, is_relayed) = kind;
            Running { user, what, level, is_relayed, count, rate }
        };
        let mut running: Vec<Running> = tally.0.into_iter().zip(rates).map(entry).collect();
        let more = running.len().saturating_sub(MOST_RUNNING) as u32;
        running.truncate(MOST_RUNNING);
        let (lost, last_loss) = lock(&self.losses).clone();
        Status { capacity, used, running, more, lost, last_loss, closed: String::new() }
    }

    /// The bytes a second of each kind since the last look.
    fn rates(&self, now: Instant, tally: &Tally) -> Vec<u64> {
        let mut before = lock(&self.before);
        let seconds = before.as_ref().map_or(0.0, |(when, _)| now.saturating_duration_since(*when).as_secs_f64());
        let moved = |kind: &Kind, bytes: u64| {
            let known = before.as_ref().and_then(|(_, all)| all.get(kind)).copied();
            known.map_or(0, |known| bytes.saturating_sub(known))
        };
        let rate = |(kind, (_, bytes)): (&Kind, &(u32, u64))| match seconds > 0.0 {
            true => rounded((moved(kind, *bytes) as f64 / seconds) as u64),
            false => 0,
        };
        let rates = tally.0.iter().map(rate).collect();
        let all = tally.0.iter().map(|(kind, (_, bytes))| (kind.clone(), *bytes)).collect();
        *before = Some((now, all));
        rates
    }
}

/// What a user may know of an executor without a hub: the user's own programs, and those of all others under one name.
pub fn for_user(status: Status, own: &str) -> Status {
    let mut merged: BTreeMap<Kind, (u32, u64)> = BTreeMap::new();
    for Running { user, what, level, is_relayed, count, rate } in status.running {
        let user = if user == own { user } else { OTHER_USERS.to_owned() };
        let entry = merged.entry((user, what, level, is_relayed)).or_default();
        *entry = (entry.0.saturating_add(count), entry.1.saturating_add(rate));
    }
    let entry =
        |((user, what, level, is_relayed), (count, rate))| Running { user, what, level, is_relayed, count, rate };
    let running = merged.into_iter().map(entry).collect();
    // The words name the user of the last process that was lost.
    let is_own = status.last_loss.contains(&format!(" of {own} was "));
    let last_loss = if is_own || status.lost == 0 { status.last_loss } else { format!("one of {OTHER_USERS}") };
    Status { running, last_loss, ..status }
}

/// A rate with two digits, so that a steady one is told once.
fn rounded(rate: u64) -> u64 {
    if rate < LEAST_RATE {
        return 0;
    }
    let mut unit = 1;
    while rate / unit >= 100 {
        unit *= 10;
    }
    (rate / unit) * unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::wire::hub::is_short;
    use std::time::Duration;

    #[test]
    fn a_user_hears_of_others_without_their_names() {
        let row = |user: &str, count, rate| {
            let (what, level) = (What::Interpreters, Some(Level::Private));
            Running { user: user.into(), what, level, is_relayed: false, count, rate }
        };
        let running = vec![row("ada", 1, 10), row("bob", 2, 20), row("eve", 3, 30)];
        let last_loss = "an interpreter of bob was killed by signal 11".to_owned();
        let status =
            Status { capacity: 8, used: 6, running, lost: 1, last_loss: last_loss.clone(), ..Status::default() };
        let told = for_user(status.clone(), "ada");
        assert_eq!(told.running, [row("ada", 1, 10), row(OTHER_USERS, 5, 50)]);
        assert_eq!((told.capacity, told.used, told.lost, told.last_loss.as_str()), (8, 6, 1, "one of other users"));
        assert!(is_short(&told));
        let told = for_user(status, "bob");
        assert_eq!(told.running, [row("bob", 2, 20), row(OTHER_USERS, 4, 40)]);
        assert_eq!(told.last_loss, last_loss);
    }

    #[test]
    fn the_same_is_counted_together_and_other_links_apart() {
        let (activity, mut tally) = (Activity::default(), Tally::default());
        let private = Some(Level::Private);
        for from in [None, Some(RELAYED), Some(RELAYED)] {
            tally.add("ada", What::Interpreters, (private, from), 1, 0);
        }
        tally.add("ada", What::Ranks, (None, None), 3, 0);
        tally.add("bob", What::Copies, (Some(Level::Safe), None), 1, 0);
        let status = activity.status(Instant::now(), (8, 7), tally);
        let found: Vec<_> =
            status.running.iter().map(|it| (it.user.as_str(), it.what, it.is_relayed, it.count)).collect();
        assert_eq!(
            found,
            [
                ("ada", What::Interpreters, false, 1),
                ("ada", What::Interpreters, true, 2),
                ("ada", What::Ranks, false, 3),
                ("bob", What::Copies, false, 1)
            ]
        );
        assert_eq!((status.capacity, status.used, status.more, status.lost), (8, 7, 0, 0));
    }

    #[test]
    fn rates_are_of_the_time_between_two_looks_and_steady_ones_stay_equal() {
        let (activity, began) = (Activity::default(), Instant::now());
        let rate = |seconds: u64, bytes: u64| {
            let mut tally = Tally::default();
            tally.add("ada", What::Copies, (Some(Level::Private), None), 1, bytes);
            activity.status(began + Duration::from_secs(seconds), (1, 0), tally).running[0].rate
        };
        assert_eq!(rate(0, 5_000_000), 0, "nothing was known before");
        assert_eq!(rate(2, 25_678_000), 10_000_000);
        assert_eq!(rate(3, 35_999_000), 10_000_000);
        assert_eq!(rate(4, 35_999_900), 0, "beats");
        assert_eq!(rate(5, 1), 0, "another copy has begun");
    }

    #[test]
    fn what_is_told_is_short() {
        let (activity, mut tally) = (Activity::default(), Tally::default());
        for number in 0..MOST_RUNNING + 9 {
            tally.add(&format!("user{number:03}"), What::Spaces, (None, None), 1, 0);
        }
        activity.note_end("ada", &"é".repeat(LONGEST_FACT));
        let status = activity.status(Instant::now(), (1, 0), tally);
        assert!(is_short(&status), "{status:?}");
        assert_eq!(status.more, 9);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn ranks_are_lost_by_signals_that_end_no_program() {
        let activity = Activity::default();
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGKILL, libc::SIGTERM, libc::SIGSEGV] {
            activity.note_signal("ada", signal);
        }
        assert_eq!(*lock(&activity.losses), (1, "a rank of ada was killed by signal 11 (SIGSEGV)".into()));
    }

    #[test]
    fn losses_are_ends_that_nobody_asked_for() {
        let activity = Activity::default();
        for usual in [
            "exited with status 0",
            "killed by signal 9 (SIGKILL)",
            "killed by signal 9 (SIGKILL), at most 9 MiB resident",
        ] {
            activity.note_end("ada", usual);
        }
        assert_eq!(lock(&activity.losses).0, 0);
        for loss in
            ["exited with status 3", "killed by signal 11 (SIGSEGV)", "killed by signal 9 (SIGKILL), out of memory"]
        {
            activity.note_end("ada", loss);
        }
        assert_eq!(
            *lock(&activity.losses),
            (3, "an interpreter of ada was killed by signal 9 (SIGKILL), out of memory".into())
        );
    }
}
