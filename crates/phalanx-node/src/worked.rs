//! The work of an executor since its start, for the history of its grid: the offered place time, and each user's usage by kind of work.

use crate::energy::Energy;
use crate::metering::Meter;
use phalanx_core::wire::hub::{MOST_USES, Sums, UsedBy, What, Worked};
use phalanx_net::identity::random_number;
use phalanx_net::sync::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Counts the work of an executor.
#[derive(Debug)]
pub struct Work {
    /// A random number that identifies this start.
    run: u64,
    meter: Arc<Meter>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The time of the latest observation, and whether the executor served users then.
    looked: Option<(Instant, bool)>,
    offered: Duration,
    energy: Option<Energy>,
    /// For each user and kind: the processor time at the latest division of energy, and the energy since the start in millijoules.
    divided: BTreeMap<(String, What), (Duration, u64)>,
}

impl Work {
    /// Creates the counter.
    pub fn new(meter: Arc<Meter>) -> Work {
        let state = State { looked: None, offered: Duration::ZERO, energy: Energy::here(), divided: BTreeMap::new() };
        Work { run: random_number() as u64, meter, state: Mutex::new(state) }
    }

    /// Notes whether the executor serves users, with `places` places. It is called once a second while a hub knows the executor.
    pub fn look(&self, now: Instant, is_open: bool, places: u32) {
        let mut state = lock(&self.state);
        if let Some((before, true)) = state.looked {
            state.offered += now.saturating_duration_since(before) * places;
        }
        state.looked = Some((now, is_open));
    }

    /// Pauses the count of offered places, because no hub knows the executor now.
    pub fn rest(&self) {
        lock(&self.state).looked = None;
    }

    /// The work since the start. `name` maps a user to the user's name in the grid, or to `None` for users of other grids.
    pub fn worked(&self, name: impl Fn(&str) -> Option<String>) -> Worked {
        let totals = self.meter.totals();
        let mut state = lock(&self.state);
        state.divide(&totals);
        let energy = |user: &str, what| state.divided.get(&(user.to_owned(), what)).map_or(0, |(_, energy)| *energy);
        let used = |it: &crate::metering::Total| {
            let sums = Sums {
                places: it.places.as_millis() as u64,
                processor: it.processor.as_millis() as u64,
                energy: energy(&it.user, it.what),
                started: it.started,
            };
            name(&it.user).map(|user| UsedBy { user, what: it.what, sums })
        };
        let mut uses: Vec<UsedBy> = totals.iter().filter_map(used).collect();
        uses.sort_by_key(|it| std::cmp::Reverse(it.sums.places));
        uses.truncate(MOST_USES);
        Worked { run: self.run, offered: state.offered.as_millis() as u64, uses }
    }
}

impl State {
    /// Divides the energy since the previous call among users, in proportion to processor time.
    fn divide(&mut self, totals: &[crate::metering::Total]) {
        let Some(energy) = &mut self.energy else { return };
        let (spent, busy) = energy.spent();
        for it in totals {
            let entry = self.divided.entry((it.user.clone(), it.what)).or_default();
            let used = it.processor.saturating_sub(entry.0);
            let part = used.as_secs_f64() / busy.max(used).as_secs_f64().max(f64::MIN_POSITIVE);
            *entry = (it.processor, entry.1 + (spent as f64 * part) as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_offered_while_users_are_served_and_a_hub_is_there() {
        let (work, start) = (Work::new(Arc::default()), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let look = |seconds, is_open| {
            work.look(at(seconds), is_open, 2);
            work.worked(|_| None).offered / 1000
        };
        assert_eq!([look(0, true), look(3, true), look(4, false), look(9, true)], [0, 6, 8, 8]);
        work.rest();
        assert_eq!([look(20, true), look(21, true)], [8, 10]);
        assert_eq!(work.worked(|_| None).run, work.worked(|_| None).run);
    }

    #[test]
    fn each_user_and_kind_of_work_is_told_apart() {
        let meter = Arc::new(Meter::default());
        let work = Work::new(meter.clone());
        for (user, what) in [("ada", What::Ranks), ("ada", What::Jobs), ("bob@lab", What::Jobs)] {
            drop(meter.begin(user, what, vec![u32::MAX]));
        }
        let own = |user: &str| (!user.contains('@')).then(|| user.to_owned());
        let mut told: Vec<_> =
            work.worked(own).uses.into_iter().map(|it| (it.user, it.what, it.sums.started)).collect();
        told.sort();
        assert_eq!(told, [("ada".into(), What::Ranks, 1), ("ada".into(), What::Jobs, 1)]);
    }
}
