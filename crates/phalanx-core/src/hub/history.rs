//! History: daily sums of each executor's work for each user.
//!
//! An executor reports its sums since its start at intervals. The hub adds their growth to the day on which it receives the report. So a
//! lost or repeated message changes nothing. Work that an executor did without a hub counts on the day of its return.

use super::{Change, Hub, Who};
use crate::wire::hub::{DayRow, MOST_ROWS, MOST_USES, Sums, UsedBy, What, Worked};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Most days that the hub keeps one by one, over all executors. It adds older days to the sums of day 0.
const MOST_DAYS: usize = 100_000;
/// Least time in seconds between two accepted reports of an executor. The next report contains the growth of the skipped ones too.
const PAUSE: u64 = 10;
/// The user of all entries beyond [`MOST_USES`]. No user has this name.
const OTHERS: &str = "(others)";
/// Seconds of a day.
const DAY: u64 = 24 * 3600;

/// The work of an executor on one day.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Day {
    /// The sums of this day.
    sums: Worked,
    /// The sums of the executor's latest report.
    told: Worked,
}

/// The days, by number since 1970 (UTC) and by executor.
#[derive(Debug, Default)]
pub(super) struct History {
    days: BTreeMap<(u32, String), Day>,
    /// The number of entries for day 0.
    sums: usize,
    /// The time of each executor's latest accepted report, in seconds since 1970.
    heard: BTreeMap<String, u64>,
    /// The newest day of each executor.
    newest: BTreeMap<String, u32>,
}

impl History {
    pub(super) fn fill(&mut self, day: u32, executor: String, found: Option<Day>) {
        let Some(found) = found else {
            self.days.remove(&(day, executor));
            return;
        };
        let newest = self.newest.entry(executor.clone()).or_default();
        *newest = day.max(*newest);
        let had = self.days.insert((day, executor), found);
        self.sums += usize::from(had.is_none() && day == 0);
    }

    /// Adds the sums of the oldest days to those of day 0 while there are more than `MOST_DAYS`.
    fn shrink(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        while self.days.len() - self.sums > MOST_DAYS {
            let Some(((day, executor), old)) = self.days.range((1, String::new())..).next() else { break };
            let (day, executor, old) = (*day, executor.clone(), old.clone());
            let mut before = self.days.get(&(0, executor.clone())).cloned().unwrap_or_default();
            before.sums.add(&old.sums);
            for (day, found) in [(day, None), (0, Some(before))] {
                self.fill(day, executor.clone(), found.clone());
                changes.push(Change::Day(day, executor.clone(), found.map(Box::new)));
            }
        }
        changes
    }
}

impl Hub {
    /// An executor reports its sums since its start over its link.
    pub fn worked(&mut self, now: u64, link: u64, who: &Who, told: Worked) -> Vec<Change> {
        if self.present.get(who).is_none_or(|it| it.link != link) {
            return Vec::new();
        }
        if self.history.heard.get(&who.name).is_some_and(|heard| now.saturating_sub(*heard) < PAUSE) {
            return Vec::new();
        }
        self.history.heard.insert(who.name.clone(), now);
        let (today, executor) = ((now / DAY) as u32, who.name.clone());
        let newest = self.history.newest.get(&executor).copied();
        let last = newest.and_then(|day| self.history.days.get(&(day, executor.clone())));
        let before = last.filter(|last| last.told.run == told.run).map(|last| &last.told);
        let grown = before.map_or_else(|| told.clone(), |before| told.since(before));
        if grown.is_nothing() {
            return Vec::new();
        }
        let day = today.max(newest.unwrap_or_default()); // the newest day never goes back, even if the clock does
        let mut found = last.filter(|_| newest == Some(day)).cloned().unwrap_or_default();
        found.sums.add(&grown);
        found.told = told;
        self.history.fill(day, executor.clone(), Some(found.clone()));
        let mut changes = vec![Change::Day(day, executor, Some(Box::new(found)))];
        changes.extend(self.history.shrink());
        changes
    }

    /// The next days, from `since` on or after a row, and whether there are more. Day 0 has the sums of all days that are not kept one by
    /// one.
    pub fn history(&self, since: u32, after: Option<(u32, String)>) -> (Vec<DayRow>, bool) {
        let from = after.map_or(Bound::Included((since, String::new())), Bound::Excluded);
        let mut days = self.history.days.range((from, Bound::Unbounded));
        let row = |((day, executor), found): (&(u32, String), &Day)| DayRow {
            day: *day,
            executor: executor.clone(),
            offered: found.sums.offered,
            uses: found.sums.uses.clone(),
        };
        let rows = days.by_ref().take(MOST_ROWS).map(row).collect();
        (rows, days.next().is_some())
    }
}

impl Worked {
    /// The growth of these sums since earlier sums of the same start.
    fn since(&self, before: &Worked) -> Worked {
        let grown = |used: &UsedBy| {
            let had = before.of(used).map(|it| it.sums).unwrap_or_default();
            UsedBy { sums: used.sums.less(had), ..used.clone() }
        };
        let uses = self.uses.iter().map(grown).filter(|it| it.sums != Sums::default()).collect();
        Worked { run: self.run, offered: self.offered.saturating_sub(before.offered), uses }
    }

    fn add(&mut self, other: &Worked) {
        self.offered = self.offered.saturating_add(other.offered);
        for used in &other.uses {
            let is_full = self.uses.len() >= MOST_USES;
            match self.uses.iter_mut().find(|it| it.is_of(used)) {
                Some(had) => had.sums = had.sums.plus(used.sums),
                None if is_full => self.add_to_others(used.sums),
                None => self.uses.push(used.clone()),
            }
        }
    }

    /// Adds sums to the entry of [`OTHERS`], because the day has no free entry.
    fn add_to_others(&mut self, sums: Sums) {
        let others = UsedBy { user: OTHERS.to_owned(), what: What::Jobs, sums };
        match self.uses.iter_mut().find(|it| it.is_of(&others)) {
            Some(had) => had.sums = had.sums.plus(sums),
            None => self.uses.push(others),
        }
    }

    fn of(&self, used: &UsedBy) -> Option<&UsedBy> {
        self.uses.iter().find(|it| it.is_of(used))
    }

    fn is_nothing(&self) -> bool {
        self.offered == 0 && self.uses.is_empty()
    }
}

impl UsedBy {
    fn is_of(&self, other: &UsedBy) -> bool {
        self.user == other.user && self.what == other.what
    }
}

impl Sums {
    fn plus(self, other: Sums) -> Sums {
        self.with(other, u64::saturating_add)
    }

    fn less(self, other: Sums) -> Sums {
        self.with(other, u64::saturating_sub)
    }

    fn with(self, other: Sums, work: impl Fn(u64, u64) -> u64) -> Sums {
        Sums {
            places: work(self.places, other.places),
            processor: work(self.processor, other.processor),
            energy: work(self.energy, other.energy),
            started: work(self.started, other.started),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{asking, good, hub};
    use super::*;
    use crate::hub::{Facts, Id};

    const TODAY: u64 = 20_000 * DAY;

    fn used(user: &str, places: u64) -> UsedBy {
        let sums = Sums { places, processor: places / 2, energy: 0, started: 1 };
        UsedBy { user: user.into(), what: What::Jobs, sums }
    }

    fn told(run: u64, offered: u64, uses: &[(&str, u64)]) -> Worked {
        Worked { run, offered, uses: uses.iter().map(|(user, places)| used(user, *places)).collect() }
    }

    /// A hub with the executor ws7, connected over link 7.
    fn with_executor() -> (Hub, Who) {
        let (mut hub, ws7, id) = (hub(), asking("executor", "ws7"), Id::default());
        hub.invite(TODAY, "ada", (id, "executor"), 1, 60).expect("is an owner");
        hub.join(TODAY, id, ws7.clone(), good("ws7", TODAY + 9999)).expect("is invited");
        hub.enter(TODAY, 7, &ws7.who, Vec::new(), Facts::new()).expect("is a member");
        (hub, ws7.who)
    }

    fn places(hub: &Hub, since: u32) -> Vec<(u32, u64, Vec<u64>)> {
        let row = |row: &DayRow| (row.day, row.offered, row.uses.iter().map(|it| it.sums.places).collect());
        hub.history(since, None).0.iter().map(row).collect()
    }

    #[test]
    fn what_is_told_again_counts_once_and_a_new_start_counts_beside_the_old_one() {
        let (mut hub, ws7) = with_executor();
        for second in 0..3 {
            hub.worked(TODAY + 10 * second, 7, &ws7, told(1, 100, &[("ada", 10)]));
        }
        hub.worked(TODAY + 29, 7, &ws7, told(1, 9999, &[]));
        hub.worked(TODAY + 30, 7, &ws7, told(1, 150, &[("ada", 25), ("bob", 4)]));
        assert_eq!(places(&hub, 0), [(20_000, 150, vec![25, 4])]);
        hub.worked(TODAY + 40, 7, &ws7, told(2, 5, &[("bob", 1)]));
        assert_eq!(places(&hub, 0), [(20_000, 155, vec![25, 5])]);
        hub.worked(TODAY + DAY, 7, &ws7, told(2, 8, &[("bob", 3)]));
        assert_eq!(places(&hub, 0), [(20_000, 155, vec![25, 5]), (20_001, 3, vec![2])]);
        assert_eq!(places(&hub, 20_001).len(), 1);
        assert_eq!(hub.worked(TODAY + DAY, 8, &ws7, told(2, 99, &[])), [], "another link");
    }

    #[test]
    fn a_hub_that_is_filled_again_goes_on_where_the_last_one_has_ended() {
        let (mut hub, ws7) = with_executor();
        let mut stored = hub.worked(TODAY, 7, &ws7, told(1, 100, &[("ada", 10)]));
        stored.extend(hub.worked(TODAY + 2 * DAY, 7, &ws7, told(1, 300, &[("ada", 30)])));
        let (mut next, ws7) = with_executor();
        stored.into_iter().for_each(|change| next.fill(change));
        next.worked(TODAY + 2 * DAY, 7, &ws7, told(1, 300, &[("ada", 31)]));
        assert_eq!(places(&next, 0), [(20_000, 100, vec![10]), (20_002, 200, vec![21])]);
    }

    #[test]
    fn a_day_has_a_bounded_number_of_entries() {
        let (mut hub, ws7) = with_executor();
        for run in 0..3 {
            let names: Vec<String> = (0..MOST_USES).map(|user| format!("user-{run}-{user}")).collect();
            let uses: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 2)).collect();
            hub.worked(TODAY + 10 * run, 7, &ws7, told(run, 1, &uses));
        }
        let (rows, _) = hub.history(0, None);
        assert_eq!(rows[0].uses.len(), MOST_USES + 1);
        assert_eq!(rows[0].uses[MOST_USES].sums.places, 2 * 2 * MOST_USES as u64);
    }

    #[test]
    fn the_oldest_days_are_kept_as_sums() {
        let (mut hub, ws7) = with_executor();
        for day in 0..MOST_DAYS as u64 {
            let day = day as u32 + 1;
            hub.history.fill(day, "ws8".into(), Some(Day { sums: told(0, 1, &[("ada", 1)]), told: Worked::default() }));
        }
        let changes = hub.worked(TODAY * 9, 7, &ws7, told(1, 2, &[]));
        assert_eq!(changes.len(), 3);
        assert_eq!(places(&hub, 0)[..2], [(0, 1, vec![1]), (2, 1, vec![1])]);
        let again = hub.worked(TODAY * 10, 7, &ws7, told(1, 4, &[]));
        assert_eq!((again.len(), places(&hub, 0)[0].1), (3, 2));
    }
}
