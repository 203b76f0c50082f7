//! Waiting: a moment at full attention, then asleep until the bell rings.
//!
//! Spinning gives the shortest latency, but takes a core from whoever could use it: the process that is waited for, or
//! the owner of the machine. So nobody spins where there are more processes than cores, or for long.

use phalanx_net::sync::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a process spins that may.
const SPIN: Duration = Duration::from_micros(30);
/// The same of one whose data is to be copied by another: as long as 1 MB takes, so that it need not be woken.
const SPIN_BESIDE_COPY: Duration = Duration::from_micros(150);
/// Looks between two looks at the clock.
const LOOKS: u32 = 32;
/// A look at the clock that comes this late shows that somebody else had the core.
const LATE: Duration = Duration::from_micros(200);
/// How long nobody spins after that; twice as long each time when the next try shows the same, up to a second.
const CALM: Duration = Duration::from_millis(50);
const MOST_CALM: Duration = Duration::from_secs(1);

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
}

/// How a process has fared at spinning.
#[derive(Debug, Default)]
pub struct Manners {
    /// There are more processes than cores.
    crowded: bool,
    /// All messages come over sockets: a sleep ends as soon as one is there, and whoever is let have the core keeps it longer.
    never_yields: bool,
    calm: Mutex<Calm>,
    was_calm: AtomicBool,
}

/// How long nobody spins.
#[derive(Debug, Default)]
struct Calm {
    until: Option<Instant>,
    length: Duration,
}

impl Manners {
    pub fn new(crowded: bool, never_yields: bool) -> Manners {
        Manners { crowded, never_yields, ..Manners::default() }
    }

    /// Whether looks need no look at the clock between them: reading that would cost more than they do.
    #[inline]
    pub fn looks_often(&self) -> bool {
        !self.crowded && !self.never_yields
    }

    /// Whether nobody is to spin now; `late`: somebody else had the core.
    fn is_calm(&self, now: Instant, late: bool) -> bool {
        let mut calm = lock(&self.calm);
        if late {
            let again = calm.until.is_some_and(|until| now < until + CALM);
            calm.length = if again { (2 * calm.length).min(MOST_CALM) } else { CALM };
            calm.until = Some(now + calm.length);
        }
        let is_calm = self.crowded || calm.until.is_some_and(|until| now < until);
        self.was_calm.store(is_calm, Ordering::Relaxed);
        is_calm
    }

    /// Whether nobody was to spin when it was asked last.
    #[inline]
    pub fn was_calm(&self) -> bool {
        self.was_calm.load(Ordering::Relaxed)
    }
}

impl Default for Wait {
    fn default() -> Wait {
        Wait { looks: 0, begun: None, last: None, yields: 0, spin: SPIN }
    }
}

impl Wait {
    /// For another one to copy data of this one.
    pub fn beside_copy() -> Wait {
        Wait { spin: SPIN_BESIDE_COPY, ..Wait::default() }
    }

    /// Something was found, but not what is waited for.
    pub fn found(&mut self) {
        *self = Wait { spin: self.spin, ..Wait::default() };
    }

    /// Whether to look once more before [`Wait::next`].
    #[inline]
    pub fn looks_again(&mut self, manners: &Manners) -> bool {
        self.looks += 1;
        self.looks % LOOKS != 0 && manners.looks_often()
    }

    #[inline]
    pub fn next(&mut self, manners: &Manners) -> Next {
        if self.looks % LOOKS != 0 && manners.looks_often() { Next::Look } else { self.think(manners) }
    }

    #[cold]
    fn think(&mut self, manners: &Manners) -> Next {
        let now = Instant::now();
        let begun = *self.begun.get_or_insert(now);
        let late = self.last.replace(now).is_some_and(|last| now - last > LATE);
        let calm = manners.is_calm(now, late);
        if !calm && now - begun < self.spin {
            return Next::Look;
        }
        if self.yields < 2 && !manners.never_yields {
            self.yields += 1;
            return Next::Yield;
        }
        self.last = None; // a look after a sleep is not late
        Next::Sleep
    }
}
