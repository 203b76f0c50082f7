//! What a process knows of ranks that were lost, or may be, and when it has last looked after them.

use crate::process::engine::Ended;
use phalanx_net::sync::lock;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long the launcher has to say what has become of a process whose connection ended. It notices within 1.3 s that a
/// machine is silent; with the longest sleep, who waits hears of it within 2 s.
const DOUBT: Duration = Duration::from_millis(1500);

/// A program that calls seldom hears the launcher at least so often: it looks at the clock at one call of so many.
const SELDOM: Duration = Duration::from_millis(100);
const CALLS: u32 = 8;

/// Machines that do not answer are looked for so often.
const LOOK: Duration = Duration::from_millis(500);

/// What is known of them.
#[derive(Default)]
pub struct Losses {
    /// In the order in which this process heard of them.
    lost: Mutex<Vec<Lost>>,
    /// Since when the connections have ended of which the launcher has said nothing, by rank.
    unsure: Mutex<BTreeMap<u32, Instant>>,
    /// When the launcher was heard last.
    attended: Mutex<Option<Instant>>,
    /// When machines that do not answer were looked for last.
    looked: Mutex<Option<Instant>>,
    calls: AtomicU32,
}

/// A process that was lost, and why.
struct Lost {
    process: u32,
    text: String,
    /// The launcher has said so, and not only this process found it out of reach.
    told: bool,
}

impl Losses {
    /// A process was lost: the launcher has told so, or only this process has found it out of reach.
    pub(crate) fn note(&self, process: u32, text: String, told: bool) {
        let mut lost = lock(&self.lost);
        match lost.iter_mut().find(|it| it.process == process) {
            Some(known) => known.told |= told,
            None => lost.push(Lost { process, text, told }),
        }
    }

    /// The lost ones for which this is so, in the order in which this process heard of them.
    fn which(&self, is_it: impl Fn(&Lost) -> bool) -> Vec<u32> {
        lock(&self.lost).iter().filter(|it| is_it(it)).map(|it| it.process).collect()
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<u32> {
        self.which(|_| true)
    }

    /// Whether one of these was lost.
    pub(crate) fn has(&self, is_one: impl Fn(u32) -> bool) -> bool {
        lock(&self.lost).iter().any(|it| is_one(it.process))
    }

    /// Who was lost and why, for people; None if nobody was.
    pub(crate) fn told(&self) -> Option<String> {
        let lost = lock(&self.lost);
        let mut all: Vec<(u32, &str)> = lost.iter().map(|it| (it.process, it.text.as_str())).collect();
        all.sort_unstable();
        let texts: Vec<&str> = all.into_iter().map(|(_, text)| text).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }

    /// Why a process was lost.
    pub(crate) fn text_of(&self, process: u32) -> Option<String> {
        lock(&self.lost).iter().find(|it| it.process == process).map(|it| it.text.clone())
    }

    /// Those that only this process has found out of reach.
    pub(crate) fn out_of_reach(&self) -> Vec<u32> {
        self.which(|it| !it.told)
    }

    /// Whether it is time to attend, for programs that call so seldom that rounds do not count.
    pub(crate) fn is_due(&self) -> bool {
        let calls = self.calls.load(Ordering::Relaxed);
        self.calls.store(calls.wrapping_add(1), Ordering::Relaxed);
        calls % CALLS == 0 && lock(&self.attended).is_none_or(|last| last.elapsed() > SELDOM)
    }

    /// The launcher is heard now.
    pub(crate) fn note_attended(&self) {
        *lock(&self.attended) = Some(Instant::now());
    }

    /// Machines that do not answer are looked for now.
    pub(crate) fn note_looked(&self, now: Instant) {
        *lock(&self.looked) = Some(now);
    }

    /// Whether it is time to look for machines that do not answer.
    pub(crate) fn is_look_due(&self) -> bool {
        lock(&self.looked).is_none_or(|last| last.elapsed() > LOOK)
    }

    /// Those of which the launcher has said nothing for too long.
    pub(crate) fn overdue(&self, ended: Vec<Ended>, now: Instant) -> Vec<Ended> {
        let mut unsure = lock(&self.unsure);
        unsure.retain(|peer, _| ended.iter().any(|it| it.peer == *peer));
        let is_overdue = |it: &Ended| now - *unsure.entry(it.peer).or_insert(now) > DOUBT;
        ended.into_iter().filter(is_overdue).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_has_its_own_time() {
        let (losses, start) = (Losses::default(), Instant::now());
        let [one, other] = [1, 2].map(|peer| Ended { peer, left: false });
        let after = |millis| start + Duration::from_millis(millis);
        assert_eq!(losses.overdue(vec![one], start), []);
        assert_eq!(losses.overdue(vec![one, other], after(1400)), []);
        assert_eq!(losses.overdue(vec![one, other], after(1600)), [one]);
        assert_eq!(losses.overdue(vec![other], after(2800)), []);
        assert_eq!(losses.overdue(vec![other], after(3000)), [other]);
        assert_eq!(losses.overdue(vec![], after(3100)), []);
        assert_eq!(losses.overdue(vec![one], after(9000)), [], "the doubt begins again");
    }

    #[test]
    fn who_calls_seldom_attends_by_the_clock() {
        let losses = Losses::default();
        let due = |losses: &Losses| (0..CALLS).filter(|_| losses.is_due()).count();
        assert_eq!(due(&losses), 1, "never yet");
        *lock(&losses.attended) = Some(Instant::now() + Duration::from_secs(3600)); // whatever the calls take
        assert_eq!(due(&losses), 0, "not yet again");
        *lock(&losses.attended) = Instant::now().checked_sub(2 * SELDOM);
        assert_eq!(due(&losses), 1);
    }
}
