//! Decides when a voluntary machine works for others.
//!
//! The owner of a desktop sets rules: only while the machine is idle, only at certain hours, never on battery. Sensors observe the machine.
//! The engine decides whether the machine is *open* or *closed*, with the reason. It closes the machine at once. It opens the machine with
//! hysteresis: unsteady observations must be steady for a while first, so that places do not flap.

#[cfg(test)]
mod tests;

use core::fmt;
use core::time::Duration;

/// Timeout of the sensors: the engine closes a machine without reports for this long. Sensors report a few times a second while the machine
/// is open.
pub const STALE: Duration = Duration::from_secs(10);
/// Time for which a machine must be off battery, and off a metered network, before it opens. So a loose plug closes it once.
pub const SETTLE: Duration = Duration::from_secs(30);
/// Time for which the owner's programs must be busy before they close the machine. A short cron job does not close it.
pub const BUSY: Duration = Duration::from_secs(5);
/// Time for which the owner's programs must be calm before the machine opens, unless the rules set another.
pub const CALM: Duration = Duration::from_secs(300);
/// The most load of the owner's programs, in cores. It applies if no sensor reports keyboard and mouse and the rules set no limit.
pub const MOST_LOAD: f64 = 0.3;
/// Minutes of a day.
pub const DAY: u16 = 24 * 60;

/// A part of the day, in minutes since midnight, local time. It may pass midnight. It includes `from` and excludes `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hours {
    /// The first minute.
    pub from: u16,
    /// The minute after the last minute. If it equals `from`, the part is the whole day.
    pub to: u16,
}

impl Hours {
    /// Whether these hours contain a minute of the day.
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

/// The owner's rules. By default, the machine always works for others.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Work only after this time without keyboard and mouse input. `None`: work also while the machine is in use.
    pub idle_after: Option<Duration>,
    /// Work only while the owner's programs use at most this number of cores.
    pub most_load: Option<f64>,
    /// Work only at these hours. Empty: at any hour.
    pub hours: Vec<Hours>,
    /// Work also on battery.
    pub on_battery: bool,
    /// Work also on a metered network.
    pub on_metered: bool,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { idle_after: None, most_load: None, hours: Vec::new(), on_battery: true, on_metered: true }
    }
}

impl Rules {
    /// Whether the rules need observations of the machine.
    pub fn observe(&self) -> bool {
        *self != Rules::default()
    }

    /// Time for which the owner's programs must be calm before the machine opens.
    fn calm(&self) -> Duration {
        self.idle_after.unwrap_or(CALM)
    }
}

/// An observation of the sensors.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    /// The time since the last keyboard or mouse input. `None`: no sensor reports it.
    pub idle: Option<Duration>,
    /// Cores that the owner's programs have used recently. `None`: no sensor reports it.
    pub load: Option<f64>,
    /// The minute of the day, local time.
    pub minute: u16,
    /// Whether the machine runs on battery.
    pub on_battery: bool,
    /// Whether the machine's network is metered.
    pub is_metered: bool,
    /// Whether the owner has paused the machine.
    pub is_paused: bool,
}

/// Why a machine is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The owner has paused it.
    Paused,
    /// The machine's keyboard or mouse is in use.
    Used,
    /// The owner's programs use its processors.
    Busy,
    /// It runs on battery.
    Battery,
    /// Its network is metered.
    Metered,
    /// The time is outside these hours.
    Hours(Vec<Hours>),
    /// The sensors that the rules need report nothing.
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
    /// The time of the latest report of the sensors.
    seen: Option<Duration>,
    /// Start of the period in which the owner's programs have been busy without a break.
    busy: Option<Duration>,
    /// The latest unsteady reason, and the time until which it closes the machine.
    unsteady: Option<(Reason, Duration)>,
}

impl Voluntary {
    /// Creates the engine. A machine with rules is closed until its first observation.
    pub fn new(rules: Rules) -> Voluntary {
        let closed = rules.observe().then_some(Reason::Blind);
        Voluntary { rules, closed, seen: None, busy: None, unsteady: None }
    }

    /// The reason for which the machine is closed. `None`: it is open.
    pub fn closed(&self) -> Option<&Reason> {
        self.closed.as_ref()
    }

    /// The sensors report an observation. Returns whether the machine opens, closes, or changes its reason.
    pub fn on_seen(&mut self, now: Duration, seen: &Seen) -> bool {
        self.seen = Some(now);
        self.note_unsteady(now, seen);
        let unsteady = self.unsteady.as_ref().filter(|(_, until)| now < *until).map(|(reason, _)| reason.clone());
        let reason = seen.is_paused.then_some(Reason::Paused);
        let reason = reason.or_else(|| self.steady(seen)).or(unsteady);
        self.become_closed(reason)
    }

    /// Applies the timeout of the sensors. Returns the same as [`Voluntary::on_seen`].
    pub fn on_time(&mut self, now: Duration) -> bool {
        let is_stale = self.seen.is_some_and(|seen| now.saturating_sub(seen) >= STALE);
        let reason = if is_stale && self.rules.observe() { Some(Reason::Blind) } else { self.closed.clone() };
        self.become_closed(reason)
    }

    fn become_closed(&mut self, reason: Option<Reason>) -> bool {
        std::mem::replace(&mut self.closed, reason) != self.closed
    }

    /// Notes an unsteady reason. It closes the machine for a while longer than it lasts.
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

    /// Whether the owner's programs have been busy for long enough to close the machine, or are still busy while they keep it closed.
    fn is_busy(&mut self, now: Duration, seen: &Seen) -> bool {
        let most =
            self.rules.most_load.or((self.rules.idle_after.is_some() && seen.idle.is_none()).then_some(MOST_LOAD));
        let is_above = most.zip(seen.load).is_some_and(|(most, load)| load > most);
        let since = is_above.then(|| *self.busy.get_or_insert(now));
        self.busy = since;
        let has_closed = matches!(&self.unsteady, Some((Reason::Busy, until)) if now < *until);
        since.is_some_and(|since| has_closed || now.saturating_sub(since) >= BUSY)
    }

    /// The steady reason, if there is one.
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
