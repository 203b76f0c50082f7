//! Whether a voluntary machine works for others now.
//!
//! The owner of a desktop gives rules: only while nobody uses the machine, only at these hours, never on battery. Sensors observe the
//! machine, and this engine decides whether it is *open* or *closed*, with the reason. Closing is immediate. Opening waits until what
//! may change back soon has been steady for a while, so that places do not come and go every few seconds.

#[cfg(test)]
mod tests;

use core::fmt;
use core::time::Duration;

/// A machine whose sensors say nothing for this long is closed. Sensors report a few times a second while it is open.
pub const STALE: Duration = Duration::from_secs(10);
/// How long a machine must be off battery, or off a metered network, before it opens. A loose plug closes it once.
pub const SETTLE: Duration = Duration::from_secs(30);
/// How long the owner's programs must be at work before they close the machine. A job of cron that takes a moment does not.
pub const BUSY: Duration = Duration::from_secs(5);
/// How long the owner's programs must be calm before the machine opens, where the rules do not say so.
pub const CALM: Duration = Duration::from_secs(300);
/// The most load of the owner's programs, in cores, where nothing tells about keys and mice and the rules do not say so.
pub const MOST_LOAD: f64 = 0.3;
/// Minutes of a day.
pub const DAY: u16 = 24 * 60;

/// A part of the day, in minutes since midnight, local time. It may pass midnight. `from` belongs to it, and `to` does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hours {
    /// The first minute.
    pub from: u16,
    /// The minute after the last one. Equal to `from`: the whole day.
    pub to: u16,
}

impl Hours {
    /// Whether a minute of the day is in it.
    pub fn contains(&self, minute: u16) -> bool {
        match self.from < self.to {
            true => (self.from..self.to).contains(&minute),
            false => minute >= self.from || minute < self.to,
        }
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Hours { from, to } = self;
        write!(f, "{:02}:{:02}-{:02}:{:02}", from / 60, from % 60, to / 60, to % 60)
    }
}

/// When the machine may work for others. The default is always.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Only while no key was pressed and no mouse was moved for so long. `None`: also while somebody uses the machine.
    pub idle_after: Option<Duration>,
    /// Only while the owner's programs use at most so many cores.
    pub most_load: Option<f64>,
    /// Only at these hours. Empty: at any.
    pub hours: Vec<Hours>,
    /// Also on battery.
    pub on_battery: bool,
    /// Also on a metered network.
    pub on_metered: bool,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { idle_after: None, most_load: None, hours: Vec::new(), on_battery: true, on_metered: true }
    }
}

impl Rules {
    /// Whether the machine must be observed.
    pub fn observe(&self) -> bool {
        *self != Rules::default()
    }

    /// How long the owner's programs must be calm before the machine opens.
    fn calm(&self) -> Duration {
        self.idle_after.unwrap_or(CALM)
    }
}

/// What the sensors see.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    /// The time since the last key or movement of the mouse. `None`: no sensor can tell.
    pub idle: Option<Duration>,
    /// The cores that the owner's programs use, of late. `None`: no sensor can tell.
    pub load: Option<f64>,
    /// The minute of the day, local time.
    pub minute: u16,
    /// Whether the machine runs on battery.
    pub on_battery: bool,
    /// Whether its network is metered.
    pub is_metered: bool,
    /// Whether the owner has paused it.
    pub is_paused: bool,
}

/// Why a machine is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The owner has paused it.
    Paused,
    /// Somebody uses its keyboard or mouse.
    Used,
    /// The owner's programs use its processors.
    Busy,
    /// It runs on battery.
    Battery,
    /// Its network is metered.
    Metered,
    /// It is not one of its hours.
    Hours(Vec<Hours>),
    /// No sensor tells whether somebody uses it.
    Blind,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Paused => f.write_str("its owner has paused it"),
            Reason::Used => f.write_str("its owner uses it"),
            Reason::Busy => f.write_str("its owner's programs use it"),
            Reason::Battery => f.write_str("it runs on battery"),
            Reason::Metered => f.write_str("its network is metered"),
            Reason::Hours(hours) => {
                f.write_str("it works only at")?;
                hours.iter().try_for_each(|one| write!(f, " {one}"))
            }
            Reason::Blind => f.write_str("nothing tells whether its owner uses it"),
        }
    }
}

/// Decides whether a machine is open.
#[derive(Debug)]
pub struct Voluntary {
    rules: Rules,
    closed: Option<Reason>,
    /// When the sensors said something last.
    seen: Option<Duration>,
    /// Since when the owner's programs are at work without a break.
    busy: Option<Duration>,
    /// The last unsteady reason, and until when it closes the machine.
    unsteady: Option<(Reason, Duration)>,
}

impl Voluntary {
    /// A machine with rules is closed until it was observed.
    pub fn new(rules: Rules) -> Voluntary {
        let closed = rules.observe().then_some(Reason::Blind);
        Voluntary { rules, closed, seen: None, busy: None, unsteady: None }
    }

    /// Why the machine is closed. `None`: it is open.
    pub fn closed(&self) -> Option<&Reason> {
        self.closed.as_ref()
    }

    /// The sensors have seen this. Returns whether the machine opens or closes, or is closed for another reason than before.
    pub fn on_seen(&mut self, now: Duration, seen: &Seen) -> bool {
        self.seen = Some(now);
        self.note_unsteady(now, seen);
        let unsteady = self.unsteady.as_ref().filter(|(_, until)| now < *until).map(|(reason, _)| reason.clone());
        let reason = seen.is_paused.then_some(Reason::Paused);
        let reason = reason.or_else(|| self.steady(seen)).or(unsteady);
        self.become_closed(reason)
    }

    /// Time has passed. Returns the same as [`Voluntary::on_seen`].
    pub fn on_time(&mut self, now: Duration) -> bool {
        let is_stale = self.seen.is_some_and(|seen| now.saturating_sub(seen) >= STALE);
        let reason = if is_stale && self.rules.observe() { Some(Reason::Blind) } else { self.closed.clone() };
        self.become_closed(reason)
    }

    fn become_closed(&mut self, reason: Option<Reason>) -> bool {
        std::mem::replace(&mut self.closed, reason) != self.closed
    }

    /// Notes a reason that may change back soon. It closes the machine for a while longer than it lasts.
    fn note_unsteady(&mut self, now: Duration, seen: &Seen) {
        let is_busy = self.is_busy(now, seen);
        let unsteady = match () {
            () if !self.rules.on_battery && seen.on_battery => Some((Reason::Battery, SETTLE)),
            () if !self.rules.on_metered && seen.is_metered => Some((Reason::Metered, SETTLE)),
            () if is_busy => Some((Reason::Busy, self.rules.calm())),
            () => None,
        };
        if let Some((reason, lasts)) = unsteady {
            self.unsteady = Some((reason, now + lasts));
        }
    }

    /// Whether the owner's programs are at work for long enough to close the machine, or still at work while it is closed for that.
    fn is_busy(&mut self, now: Duration, seen: &Seen) -> bool {
        let most =
            self.rules.most_load.or((self.rules.idle_after.is_some() && seen.idle.is_none()).then_some(MOST_LOAD));
        let is_above = most.zip(seen.load).is_some_and(|(most, load)| load > most);
        let since = is_above.then(|| *self.busy.get_or_insert(now));
        self.busy = since;
        let has_closed = matches!(&self.unsteady, Some((Reason::Busy, until)) if now < *until);
        since.is_some_and(|since| has_closed || now.saturating_sub(since) >= BUSY)
    }

    /// The reasons that do not change back within a moment.
    fn steady(&self, seen: &Seen) -> Option<Reason> {
        let rules = &self.rules;
        match (rules.idle_after, seen.idle, seen.load) {
            (Some(after), Some(idle), _) if idle < after => return Some(Reason::Used),
            (Some(_), None, None) => return Some(Reason::Blind),
            _ => {}
        }
        let is_blind = rules.most_load.is_some() && seen.load.is_none();
        let is_out = !rules.hours.is_empty() && !rules.hours.iter().any(|hours| hours.contains(seen.minute));
        let hours = is_out.then(|| Reason::Hours(rules.hours.clone()));
        hours.or(is_blind.then_some(Reason::Blind))
    }
}
