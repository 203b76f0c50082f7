//! The energy that the processors of this machine use, where the kernel tells it: Intel's and AMD's counters by powercap (RAPL). Most kernels
//! tell root only.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where Linux has the counters.
const COUNTERS: &str = "/sys/class/powercap";

/// The counters of all processors, and what was read last.
#[derive(Debug)]
pub struct Energy {
    counters: Vec<Counter>,
    stat: PathBuf,
    /// The processor time of all that runs on this machine, in ticks.
    busy: u64,
}

#[derive(Debug)]
struct Counter {
    file: PathBuf,
    /// The counter begins at 0 again after this value, in microjoules.
    most: u64,
    last: u64,
}

impl Energy {
    /// The counters of this machine. `None`: it tells none to this account.
    pub fn here() -> Option<Energy> {
        Energy::of(Path::new(COUNTERS), Path::new("/proc/stat"))
    }

    fn of(folder: &Path, stat: &Path) -> Option<Energy> {
        let zones = fs::read_dir(folder).ok()?.filter_map(Result::ok).map(|entry| entry.path());
        // A package is a whole processor. Other zones are parts of it, or have it in them.
        let is_package = |zone: &PathBuf| text(&zone.join("name")).is_some_and(|name| name.starts_with("package-"));
        let counter = |zone: PathBuf| {
            let (file, most) = (zone.join("energy_uj"), number(&zone.join("max_energy_range_uj"))?);
            Some(Counter { last: number(&file)?, file, most })
        };
        let counters: Vec<Counter> = zones.filter(is_package).filter_map(counter).collect();
        let busy = busy(stat)?;
        (!counters.is_empty()).then(|| Energy { counters, stat: stat.to_owned(), busy })
    }

    /// The energy since the last call, in millijoules, and the processor time of all that has run meanwhile.
    pub fn spent(&mut self) -> (u64, Duration) {
        let spent: u64 = self.counters.iter_mut().map(Counter::spent).sum();
        let busy = busy(&self.stat).unwrap_or(self.busy);
        let ticks = busy.saturating_sub(self.busy);
        self.busy = busy;
        (spent / 1000, crate::metering::of_ticks(ticks))
    }
}

impl Counter {
    fn spent(&mut self) -> u64 {
        let Some(now) = number(&self.file) else { return 0 };
        let spent = if now >= self.last { now - self.last } else { (self.most - self.last.min(self.most)) + now };
        self.last = now;
        spent
    }
}

/// The ticks that all processors have worked: the first line of `/proc/stat` without its idle columns, guests counted once (proc(5)).
fn busy(stat: &Path) -> Option<u64> {
    let all = fs::read_to_string(stat).ok()?;
    let columns: Vec<u64> = all.lines().next()?.split_whitespace().skip(1).map_while(|it| it.parse().ok()).collect();
    let is_idle = |column: &usize| matches!(column, 3 | 4);
    (columns.len() >= 8).then(|| (0..8).filter(|column| !is_idle(column)).map(|column| columns[column]).sum())
}

fn text(file: &Path) -> Option<String> {
    fs::read_to_string(file).ok()
}

fn number(file: &Path) -> Option<u64> {
    text(file)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_added_up_and_a_counter_that_begins_again_goes_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |zone: &str, name: &str, text: &str| {
            let zone = folder.path().join(zone);
            fs::create_dir_all(&zone).and_then(|()| fs::write(zone.join(name), text)).expect("is written");
        };
        let stat = folder.path().join("stat");
        let works = |ticks: u64| fs::write(&stat, format!("cpu  {ticks} 0 0 999 99 0 0 0 0 0\n")).expect("is written");
        works(100);
        assert!(Energy::of(folder.path(), &stat).is_none(), "no counter");
        for (zone, name) in [("intel-rapl:0", "package-0"), ("intel-rapl:1", "package-1"), ("intel-rapl:0:0", "core")] {
            for (file, text) in [("name", name), ("max_energy_range_uj", "10000"), ("energy_uj", "9000")] {
                write(zone, file, text);
            }
        }
        let mut energy = Energy::of(folder.path(), &stat).expect("two packages");
        write("intel-rapl:0", "energy_uj", "10000");
        write("intel-rapl:1", "energy_uj", "4000\n");
        works(150);
        let (spent, busy) = energy.spent();
        assert_eq!((spent, busy), (6, crate::metering::of_ticks(50)));
        assert_eq!(energy.spent(), (0, Duration::ZERO));
    }
}
