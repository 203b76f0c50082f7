//! Waiting: a moment at full attention, then asleep until the bell rings.
//!
//! Spinning gives the shortest latency, but takes a core from whoever could use it: the process that is waited for, or
//! the owner of the machine. So nobody spins where there are more processes than cores, or for more than 2 ms, or time after time in vain.

use crate::process::transport::Woken;
use phalanx_net::sync::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a process spins that may.
const SPIN: Duration = Duration::from_micros(30);
/// The same of one that has slept briefly so many times in a row: its messages come at a pace at which to be woken for each, on a core that
/// has gone to sleep too, costs more than it saves.
const LONG_SPIN: Duration = Duration::from_millis(2);
const BRIEF_SLEEPS: u32 = 8;
/// The same of one whose messages come over sockets: longer than it takes to wake who is to answer.
const SPIN_AT_SOCKET: Duration = Duration::from_micros(100);
/// The same of one whose data is to be copied by another: as long as 1 MB takes that is in no cache, so that it need not be woken.
const SPIN_BESIDE_COPY: Duration = Duration::from_micros(300);
/// How often it lets others of this machine's ranks have the core before it sleeps: to be woken costs more than all of these.
const YIELDS: u32 = 16;
/// Looks at a channel for a short message before anything else is looked at: some microseconds.
const TRIES: u32 = 1000;
/// Looks between two looks at the clock.
const LOOKS: u32 = 32;
/// A look at the clock that comes this late shows that somebody else had the core.
const LATE: Duration = Duration::from_micros(200);
/// How long nobody spins after that; twice as long each time when a try soon after shows the same, up to a second. Once may be chance, after
/// which a rank that sleeps costs the others several µs in each operation; a neighbour that computes is found out in a few tries.
const CALM: Duration = Duration::from_millis(2);
const SOON: Duration = Duration::from_millis(50);
const MOST_CALM: Duration = Duration::from_secs(1);

/// Spins in a row that were in vain, after which who waits for sockets sleeps at once.
const IN_VAIN: u32 = 4;
/// A sleep of whoever sleeps at once that took longer might have been a spin.
const INSTANT: Duration = Duration::from_micros(15);
/// So many of those in a row, after which it spins again: more than the other end needs to stop.
const AT_LENGTH: u32 = 4 * IN_VAIN;
/// Of so many waits that sleep at once one spins: the system may have moved one of the two meanwhile, or does so when it sees them both
/// want this core.
const TRIAL: u32 = 64;

/// What to do after another look that found nothing.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    Look,
    /// Let others have the core, and look.
    Yield,
    Sleep,
}

/// One wait, from its first look on.
#[derive(Debug)]
pub struct Wait {
    looks: u32,
    begun: Option<Instant>,
    last: Option<Instant>,
    yields: u32,
    spin: Duration,
    /// Requests that it waits for.
    most: u64,
    /// Sleeps at once.
    rests: bool,
}

/// How a process has fared at spinning.
#[derive(Debug, Default)]
pub struct Manners {
    /// There are more processes than cores.
    crowded: bool,
    /// All messages come over sockets: a sleep ends as soon as one is there, and whoever is let have the core keeps it longer.
    at_sockets: bool,
    calm: Mutex<Calm>,
    was_calm: AtomicBool,
    /// So many sleeps in a row have been brief.
    brief_sleeps: AtomicU32,
    luck: Mutex<Luck>,
}

/// How long nobody spins or yields, since others compute.
#[derive(Debug, Default)]
struct Calm {
    until: Option<Instant>,
    length: Duration,
}

/// Whether spinning pays for who waits for sockets. It does where who is to answer runs on another core, and does not where that one
/// shares this core: it cannot answer before this one sleeps.
#[derive(Debug, Default)]
struct Luck {
    rests: bool,
    /// Spins, or sleeps at once, in a row that have shown that the other would have been better.
    against: u32,
    slept: bool,
    waits: u32,
}

impl Luck {
    /// Whether a wait that begins is to sleep at once.
    fn begin(&mut self) -> bool {
        self.waits += 1;
        let is_trial = self.waits % TRIAL == 0;
        if !std::mem::take(&mut self.slept) {
            self.against = 0;
            self.rests &= self.waits % TRIAL != 1; // the trial found what it looked for
        }
        self.rests && !is_trial
    }

    fn has_slept(&mut self, slept: Duration) {
        self.slept = true;
        let (is_against, most) = if self.rests { (slept > INSTANT, AT_LENGTH) } else { (true, IN_VAIN) };
        self.against = if is_against { self.against + 1 } else { 0 };
        if self.against == most {
            (self.rests, self.against) = (!self.rests, 0);
        }
    }
}

impl Manners {
    pub fn new(crowded: bool, at_sockets: bool) -> Manners {
        Manners { crowded, at_sockets, ..Manners::default() }
    }

    /// Whether looks need no look at the clock between them: reading that would cost more than they do.
    #[inline]
    pub fn looks_often(&self) -> bool {
        !self.crowded && !self.at_sockets
    }

    /// The number of looks at one channel for the next message, before a round of progress on all channels. With more processes than
    /// cores, the caller yields between two looks. Messages of other senders stay in their channels meanwhile.
    #[inline]
    pub fn tries(&self) -> u32 {
        match (self.looks_often(), self.was_calm() || self.at_sockets) {
            (_, true) => 1,
            (true, false) => TRIES,
            (false, false) => YIELDS,
        }
    }

    /// Yields the core. Returns whether this process should stop yielding for now, because the yield took long.
    pub fn yield_once(&self) -> bool {
        let begun = Instant::now();
        std::thread::yield_now();
        let now = Instant::now();
        self.is_calm(now, now - begun > LATE)
    }

    /// Whether nobody is to spin or yield now; `late`: somebody else had the core.
    fn is_calm(&self, now: Instant, late: bool) -> bool {
        let mut calm = lock(&self.calm);
        if late {
            let again = calm.until.is_some_and(|until| now < until + SOON);
            calm.length = if again { (2 * calm.length).min(MOST_CALM) } else { CALM };
            calm.until = Some(now + calm.length);
        }
        let is_calm = calm.until.is_some_and(|until| now < until);
        self.was_calm.store(is_calm, Ordering::Relaxed);
        is_calm
    }

    /// A process has slept for so long, until a process of this machine has woken it, or until a socket was ready.
    pub fn has_slept(&self, slept: Duration, woken: Woken) {
        if !self.at_sockets {
            let is_brief = woken.bell && slept < LONG_SPIN && !self.was_calm();
            let so_far = self.brief_sleeps.load(Ordering::Relaxed);
            self.brief_sleeps.store(if is_brief { so_far.saturating_add(1) } else { 0 }, Ordering::Relaxed);
        } else if woken.socket {
            lock(&self.luck).has_slept(slept);
        } else {
            lock(&self.luck).slept = true; // for another reason
        }
    }

    /// Whether nobody was to spin or yield when it was asked last.
    #[inline]
    pub fn was_calm(&self) -> bool {
        self.was_calm.load(Ordering::Relaxed)
    }
}

impl Default for Wait {
    fn default() -> Wait {
        Wait { looks: 0, begun: None, last: None, yields: 0, spin: SPIN, most: 1, rests: false }
    }
}

impl Wait {
    /// For another one to copy data of this one.
    pub fn beside_copy() -> Wait {
        Wait { spin: SPIN_BESIDE_COPY, ..Wait::default() }
    }

    /// For so many requests.
    pub fn for_all(self, requests: usize) -> Wait {
        Wait { most: (requests as u64).max(1), ..self }
    }

    /// How many requests are still to be completed, as far as is known.
    #[inline]
    pub fn most(&self) -> u64 {
        self.most
    }

    /// So many requests were completed, of those waited for or others.
    #[inline]
    pub fn completed(&mut self, requests: u64) {
        self.most = self.most.saturating_sub(requests).max(1);
    }

    /// Something was found, but not what is waited for.
    pub fn found(&mut self) {
        *self = Wait { spin: self.spin, most: self.most, ..Wait::default() };
    }

    /// Whether to look once more before [`Wait::next`].
    #[inline]
    pub fn looks_again(&mut self, manners: &Manners) -> bool {
        self.looks += 1;
        self.looks % LOOKS != 0 && manners.looks_often()
    }

    #[inline]
    pub fn next(&mut self, manners: &Manners) -> Next {
        if self.looks % LOOKS != 0 && manners.looks_often() { Next::Look } else { self.think(manners, Instant::now()) }
    }

    /// Whether it has just spun in vain, as processes do that have a core each.
    pub fn has_spun(&self, manners: &Manners) -> bool {
        self.yields == 1 && !manners.crowded
    }

    #[cold]
    fn think(&mut self, manners: &Manners, now: Instant) -> Next {
        if manners.at_sockets {
            return self.think_at_sockets(manners, now);
        }
        let begun = *self.begun.get_or_insert(now);
        let late = self.last.replace(now).is_some_and(|last| now - last > LATE);
        let calm = manners.is_calm(now, late);
        let long = manners.brief_sleeps.load(Ordering::Relaxed) >= BRIEF_SLEEPS;
        let spin = if long { LONG_SPIN } else { self.spin };
        if !calm && !manners.crowded && now - begun < spin {
            return Next::Look;
        }
        if long {
            manners.brief_sleeps.store(0, Ordering::Relaxed); // in vain
        }
        if !calm && self.yields < YIELDS {
            self.yields += 1;
            return Next::Yield;
        }
        self.last = None; // a look after a sleep is not late
        Next::Sleep
    }

    fn think_at_sockets(&mut self, manners: &Manners, now: Instant) -> Next {
        let begun = match self.begun {
            Some(begun) => begun,
            None => {
                self.rests = manners.crowded || lock(&manners.luck).begin();
                *self.begun.insert(now)
            }
        };
        if !self.rests && now - begun < self.spin.max(SPIN_AT_SOCKET) { Next::Look } else { Next::Sleep }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WOKEN: Duration = Duration::from_micros(40);
    const BELL: Woken = Woken { bell: true, socket: false, control: false };

    /// Waits at sockets, of which each sleeps so long: whether each slept at once.
    fn rest(luck: &mut Luck, sleeps: impl IntoIterator<Item = Option<Duration>>) -> Vec<bool> {
        let wait = |sleep: Option<Duration>| {
            let rests = luck.begin();
            sleep.into_iter().for_each(|sleep| luck.has_slept(sleep));
            rests
        };
        sleeps.into_iter().map(wait).collect()
    }

    #[test]
    fn spins_that_find_go_on() {
        let mut luck = Luck::default();
        let mostly = (0..1000).map(|wait| (wait % 3 > 0).then_some(WOKEN)); // two of three in vain
        assert!(rest(&mut luck, mostly).iter().all(|rests| !rests));
    }

    /// Each of two processes on one core hears of the other only when that sleeps.
    #[test]
    fn two_on_one_core_stop_to_spin() {
        let [mut one, mut other] = [Luck::default(), Luck::default()];
        let mut spin = SPIN_AT_SOCKET;
        for _ in 0..10 {
            // How long one sleeps is how long the other one spins.
            let rests = rest(&mut other, [Some(spin)])[0];
            spin = if rests { Duration::from_micros(5) } else { SPIN_AT_SOCKET };
            let rests = rest(&mut one, [Some(spin)])[0];
            spin = if rests { Duration::from_micros(5) } else { SPIN_AT_SOCKET };
        }
        let few = Duration::from_micros(5);
        for luck in [&mut one, &mut other] {
            let spun = rest(luck, [Some(few); 10 * TRIAL as usize]).iter().filter(|rests| !**rests).count();
            assert_eq!(spun, 10, "now and then it tries");
        }
    }

    #[test]
    fn sleeps_that_take_long_make_it_spin_again() {
        let mut luck = Luck::default();
        rest(&mut luck, [Some(WOKEN); IN_VAIN as usize]);
        let rested = rest(&mut luck, [Some(WOKEN); AT_LENGTH as usize]);
        assert_eq!(rested, [true; AT_LENGTH as usize]);
        assert_eq!(rest(&mut luck, [None]), [false]);
    }

    #[test]
    fn a_trial_that_finds_ends_the_rest() {
        let mut luck = Luck { rests: true, waits: TRIAL - 2, ..Luck::default() };
        let few = Some(Duration::from_micros(5));
        assert_eq!(rest(&mut luck, [few, None, None]), [true, false, false]);
        let mut luck = Luck { rests: true, waits: TRIAL - 2, ..Luck::default() };
        assert_eq!(rest(&mut luck, [few, few, few]), [true, false, true]);
    }

    /// Until it has slept once, or spun for so long without going to sleep.
    fn spins(manners: &Manners, most: Duration) -> Duration {
        let (begun, step) = (Instant::now(), SPIN / 3);
        let mut wait = Wait::default();
        let looks = (0..).map(|look| step * look).take_while(|after| *after < most);
        looks.take_while(|after| wait.think(manners, begun + *after) == Next::Look).count() as u32 * step
    }

    #[test]
    fn who_has_slept_briefly_time_after_time_spins_as_long() {
        let (manners, brief) = (Manners::new(false, false), LONG_SPIN / 2);
        let sleep = |slept| {
            assert!(spins(&manners, 2 * LONG_SPIN) <= SPIN);
            manners.has_slept(slept, BELL);
        };
        (1..BRIEF_SLEEPS).for_each(|_| sleep(brief));
        sleep(2 * LONG_SPIN);
        (1..BRIEF_SLEEPS).for_each(|_| sleep(brief));
        manners.has_slept(brief, Woken { bell: false, ..BELL }); // nobody had anything
        (0..BRIEF_SLEEPS).for_each(|_| sleep(brief));
        assert!(spins(&manners, brief) >= brief);
        assert!(spins(&manners, brief) >= brief, "as long as what it waits for comes");
        assert!(spins(&manners, 2 * LONG_SPIN) >= LONG_SPIN);
        assert!(spins(&manners, 2 * LONG_SPIN) <= SPIN, "that was in vain");
    }

    #[test]
    fn who_sleeps_while_others_compute_learns_nothing_from_that() {
        let (manners, now) = (Manners::new(false, false), Instant::now());
        assert!(manners.is_calm(now, true));
        (0..2 * BRIEF_SLEEPS).for_each(|_| manners.has_slept(LONG_SPIN / 2, BELL));
        assert!(!manners.is_calm(now + CALM, false));
        assert!(spins(&manners, LONG_SPIN) <= SPIN);
    }

    /// One look that comes late may be chance, and is soon forgotten; each further one in a row keeps others calm for twice as long.
    #[test]
    fn who_is_late_time_after_time_is_calm_for_ever_longer() {
        let (manners, mut now) = (Manners::new(true, false), Instant::now());
        for length in (0..12).map(|times| (CALM * (1 << times)).min(MOST_CALM)) {
            assert!(manners.is_calm(now, true));
            assert!(manners.is_calm(now + length * 9 / 10, false) && !manners.is_calm(now + length, false));
            now += length;
        }
        assert!(manners.is_calm(now + SOON, true) && !manners.is_calm(now + SOON + CALM, false), "that was long ago");
    }

    /// Where a core is shared others are let have it, unless they have kept it for long.
    #[test]
    fn who_is_let_have_the_core_and_keeps_it_is_not_asked_again() {
        let (manners, begun) = (Manners::new(true, false), Instant::now());
        let mut wait = Wait::default();
        for yields in 0..YIELDS {
            assert_eq!(wait.think(&manners, begun + yields * LATE), Next::Yield);
        }
        let last = begun + YIELDS * LATE;
        assert_eq!(wait.think(&manners, last), Next::Sleep);
        let mut wait = Wait::default();
        assert_eq!(wait.think(&manners, last), Next::Yield);
        let late = last + 2 * LATE;
        assert_eq!(wait.think(&manners, late), Next::Sleep);
        assert_eq!(Wait::default().think(&manners, late + CALM / 2), Next::Sleep);
        assert_eq!(Wait::default().think(&manners, late + CALM), Next::Yield);
    }
}
