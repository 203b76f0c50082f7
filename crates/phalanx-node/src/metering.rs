//! What users' processes use of a machine, for its owner: processor time and memory, by user.
//!
//! The kernel tells the processor time of a process, and that of its children once they have ended and were waited for. So a look at the
//! processes that live, just before they are ended, misses only what a process uses after its last look and before it ends by itself.
//! The time of all users together misses nothing: it is that of all children of this process.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

pub use system::of_ticks;

use phalanx_core::wire::hub::What;
use phalanx_net::sync::lock;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Most sums that are kept, by user and kind of work. Beyond it, the least one is forgotten.
const MOST_SUMS: usize = 1000;
/// Longest look at the processes of one program. A process with many threads has a list of children for each of them.
const LONGEST_LOOK: Duration = Duration::from_millis(20);

/// Counts what users' processes use.
#[derive(Debug, Default)]
pub struct Meter(Mutex<Ledger>);

#[derive(Debug, Default)]
struct Ledger {
    /// What processes that have ended have used, by user and kind.
    ended: BTreeMap<(String, What), Sum>,
    live: HashMap<u64, Live>,
    next: u64,
}

/// Sums over processes.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Sum {
    processor: Duration,
    places: Duration,
    count: u64,
}

/// Processes of one user that were started together.
#[derive(Debug)]
struct Live {
    user: String,
    what: What,
    processes: Vec<Process>,
    /// How many places they have.
    places: u32,
    since: Instant,
    /// In bytes.
    resident: u64,
}

/// A process, and what was seen of its processor time, with that of all that it has started.
#[derive(Debug, Clone, Copy)]
struct Process {
    number: u32,
    /// When it was started, in ticks since the machine was: another process may get its number after its end. 0: it had ended before the
    /// first look.
    start: u64,
    ticks: u64,
}

/// What a user has used since the start of the executor, and uses now.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Use {
    /// The user.
    pub user: String,
    /// Processor time.
    pub processor: Duration,
    /// Time of places: two interpreters for a second are two seconds.
    pub places: Duration,
    /// How many interpreters and ranks were started.
    pub started: u64,
    /// How many live now, with the word of their kind, and how long ago the oldest of them was started.
    pub live: Vec<(&'static str, u32, Duration)>,
    /// Memory of those that live, in bytes. Memory that several share counts for each.
    pub resident: u64,
}

/// The resources that a user has used by one kind of work since the start of the executor.
#[derive(Debug, Clone, PartialEq)]
pub struct Total {
    /// The user.
    pub user: String,
    /// The kind of work.
    pub what: What,
    /// As in [`Use`].
    pub processor: Duration,
    /// As in [`Use`].
    pub places: Duration,
    /// As in [`Use`].
    pub started: u64,
}

/// Processes that are counted until this is dropped.
#[derive(Debug)]
pub struct Metered {
    meter: Arc<Meter>,
    number: u64,
}

impl Metered {
    /// Looks at the processes. Call it just before they are ended.
    pub fn look(&self) {
        lock(&self.meter.0).live.get_mut(&self.number).into_iter().for_each(Live::look);
    }

    /// The first of the processes has ended, and has used this processor time.
    #[cfg(target_os = "linux")]
    pub fn tell(&self, processor: Duration) {
        let ticks = processor.as_millis() as u64 * system::ticks_a_second() / 1000;
        let mut ledger = lock(&self.meter.0);
        let first = ledger.live.get_mut(&self.number).and_then(|live| live.processes.first_mut());
        first.into_iter().for_each(|process| process.ticks = process.ticks.max(ticks));
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        lock(&self.meter.0).end(self.number);
    }
}

impl Meter {
    /// Counts processes of a user from now on.
    pub fn begin(self: &Arc<Meter>, user: &str, what: What, processes: Vec<u32>) -> Metered {
        let places = processes.len() as u32;
        self.begin_at(user, what, processes, places)
    }

    /// Counts processes of a user that have so many places.
    pub fn begin_at(self: &Arc<Meter>, user: &str, what: What, processes: Vec<u32>, places: u32) -> Metered {
        let mut ledger = lock(&self.0);
        let number = ledger.next;
        ledger.next += 1;
        let (user, since) = (user.to_owned(), Instant::now());
        let start = |number: u32| Process { number, start: system::start(number), ticks: 0 };
        let processes = processes.into_iter().map(start).collect();
        ledger.live.insert(number, Live { user, what, processes, places, since, resident: 0 });
        Metered { meter: self.clone(), number }
    }

    /// What each user uses and has used.
    pub fn used(&self) -> Vec<Use> {
        lock(&self.0).used()
    }

    /// The resources that each user has used, by kinds of work.
    pub fn totals(&self) -> Vec<Total> {
        lock(&self.0).totals()
    }

    /// The processor time of all processes that this process has started, also those that have ended.
    pub fn all(&self) -> Duration {
        let ledger = lock(&self.0);
        let live = ledger.live.values().map(Live::processor).sum::<Duration>();
        let looked_at = || ledger.ended.values().map(|sum| sum.processor).sum();
        live + system::of_ended_children().unwrap_or_else(looked_at)
    }
}

impl Ledger {
    fn used(&mut self) -> Vec<Use> {
        let mut all: BTreeMap<String, Use> = BTreeMap::new();
        for ((user, _), sum) in &self.ended {
            let it = all.entry(user.clone()).or_insert_with(|| Use { user: user.clone(), ..Use::default() });
            it.processor += sum.processor;
            it.places += sum.places;
            it.started += sum.count;
        }
        for live in self.live.values_mut() {
            live.look();
            let it = all.entry(live.user.clone()).or_insert_with(|| Use { user: live.user.clone(), ..Use::default() });
            let (count, lasts) = (live.processes.len() as u32, live.since.elapsed());
            it.processor += live.processor();
            it.places += lasts * live.places;
            it.started += u64::from(count);
            it.resident += live.resident;
            match it.live.iter_mut().find(|(what, ..)| *what == live.what.name()) {
                Some((_, had, oldest)) => (*had, *oldest) = (*had + count, lasts.max(*oldest)),
                None => it.live.push((live.what.name(), count, lasts)),
            }
        }
        all.into_values().collect()
    }

    fn totals(&mut self) -> Vec<Total> {
        let mut all = self.ended.clone();
        for live in self.live.values_mut() {
            live.look();
            let sum = all.entry((live.user.clone(), live.what)).or_default();
            sum.processor += live.processor();
            sum.places += live.since.elapsed() * live.places;
            sum.count += live.processes.len() as u64;
        }
        let total = |((user, what), sum): ((String, What), Sum)| {
            let Sum { processor, places, count: started } = sum;
            Total { user, what, processor, places, started }
        };
        all.into_iter().map(total).collect()
    }

    fn end(&mut self, number: u64) {
        let Some(mut live) = self.live.remove(&number) else { return };
        live.look();
        let (count, processor) = (live.processes.len(), live.processor());
        let key = (live.user, live.what);
        if self.ended.len() >= MOST_SUMS && !self.ended.contains_key(&key) {
            let least = self.ended.iter().min_by_key(|(_, sum)| sum.places).map(|(key, _)| key.clone());
            self.ended.retain(|key, _| Some(key) != least.as_ref());
        }
        let sum = self.ended.entry(key).or_default();
        sum.processor += processor;
        sum.places += live.since.elapsed() * live.places;
        sum.count += count as u64;
    }
}

impl Live {
    /// Looks at the processes that live. What was seen of others stays.
    fn look(&mut self) {
        self.resident = 0;
        let until = Instant::now() + LONGEST_LOOK;
        for process in &mut self.processes {
            let Some((ticks, resident)) = system::tree(process, until) else { continue };
            process.ticks = process.ticks.max(ticks);
            self.resident += resident;
        }
    }

    fn processor(&self) -> Duration {
        of_ticks(self.processes.iter().map(|it| it.ticks).sum())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::ending;
    use std::process::{Child, Command, Stdio};

    fn busy() -> Child {
        let command = "while :; do :; done";
        Command::new("sh").args(["-c", command]).stdin(Stdio::null()).spawn().expect("a shell starts")
    }

    fn until(what: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !what() {
            assert!(Instant::now() < end, "too late");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn processor_time_is_counted_by_user_while_processes_live_and_afterwards() {
        let meter = Arc::new(Meter::default());
        let mut child = busy();
        let metered = meter.begin("ada", What::Interpreters, vec![child.id()]);
        let other = meter.begin("bob", What::Ranks, vec![u32::MAX, u32::MAX]);
        let seen = Duration::from_millis(100);
        until(|| meter.used()[0].processor >= seen);
        let used = meter.used();
        assert_eq!((used[0].user.as_str(), used[0].live[0].0, used[0].live[0].1), ("ada", "interpreters", 1));
        assert!(used[0].resident > 0 && meter.all() >= seen);
        assert_eq!((used[1].live[0].1, used[1].processor, used[1].started), (2, Duration::ZERO, 2));
        metered.look();
        child.kill().and_then(|()| child.wait()).expect("it is ended");
        drop((metered, other));
        let after = meter.used();
        assert!(after[0].processor >= used[0].processor && after[0].live.is_empty(), "{after:?}");
        assert_eq!((after[0].started, after[0].resident, after.len()), (1, 0, 2));
    }

    #[test]
    fn the_time_of_children_counts_too() {
        let meter = Arc::new(Meter::default());
        let mut child =
            Command::new("sh").args(["-c", "(while :; do :; done) & wait"]).spawn().expect("a shell starts");
        let metered = meter.begin("ada", What::Ranks, vec![child.id()]);
        until(|| meter.used()[0].processor >= Duration::from_millis(100));
        let grandchildren: Vec<u32> = ending::children(child.id(), child.id()).collect();
        for process in grandchildren {
            // SAFETY: it is a child of our child, which has not waited for it.
            unsafe { libc::kill(process as i32, libc::SIGKILL) };
        }
        child.wait().expect("it ends");
        drop(metered);
        assert!(meter.used()[0].processor >= Duration::from_millis(100));
    }

    #[test]
    fn sums_are_kept_of_a_bounded_number_of_users() {
        let meter = Arc::new(Meter::default());
        for user in 0..MOST_SUMS + 9 {
            drop(meter.begin(&format!("user{user}"), What::Ranks, Vec::new()));
        }
        assert_eq!(meter.used().len(), MOST_SUMS);
    }
}
