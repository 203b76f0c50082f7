//! Waiting: a moment at full attention, then asleep until the bell rings.
//!
//! Spinning gives the shortest latency, but takes a core from whoever could use it: the process that is waited for, or
//! the owner of the machine. So nobody spins where there are more processes than cores, or for long.

use std::time::{Duration, Instant};

/// How long a process spins that may.
const SPIN: Duration = Duration::from_micros(30);
/// Looks between two looks at the clock.
const LOOKS: u32 = 32;
/// A look at the clock that comes this late shows that somebody else had the core.
const LATE: Duration = Duration::from_micros(200);
/// How long nobody spins after that.
const CALM: Duration = Duration::from_millis(50);

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
}

/// How a process has fared at spinning.
#[derive(Debug, Default)]
pub struct Manners {
    /// There are more processes than cores.
    crowded: bool,
    calm_until: Option<Instant>,
}

impl Manners {
    pub fn new(crowded: bool) -> Manners {
        Manners { crowded, calm_until: None }
    }
}

impl Wait {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Wait {
        Wait { looks: 0, begun: None, last: None, yields: 0 }
    }

    /// Something was found, but not what is waited for.
    pub fn found(&mut self) {
        *self = Wait::new();
    }

    #[inline]
    pub fn next(&mut self, manners: &mut Manners) -> Next {
        self.looks += 1;
        if self.looks % LOOKS != 0 && !manners.crowded {
            return Next::Look;
        }
        self.think(manners)
    }

    #[cold]
    fn think(&mut self, manners: &mut Manners) -> Next {
        let now = Instant::now();
        let begun = *self.begun.get_or_insert(now);
        let late = self.last.replace(now).is_some_and(|last| now - last > LATE);
        if late {
            manners.calm_until = Some(now + CALM);
        }
        let calm = manners.crowded || manners.calm_until.is_some_and(|until| now < until);
        if !calm && now - begun < SPIN {
            return Next::Look;
        }
        self.yields += 1;
        if self.yields <= 2 { Next::Yield } else { Next::Sleep }
    }
}
