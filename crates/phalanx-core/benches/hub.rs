//! What the hub's engine takes for an event, in grids of 10 to 100 000 members.
//!
//! `cargo bench -p phalanx-core --bench hub` prints one JSON object: for each number of members, the nanoseconds of each kind of event and of a
//! day's mix of them, in this thread's time, each the median of several turns. With `-- --profile` it only runs the mix with
//! 100 000 members, for a profiler.
//!
//! The mix is what one executor and its share of the users cause in a day. Beats are not in it: the driver answers them, and the engine does not
//! hear of them.
#![expect(clippy::unwrap_used, reason = "a benchmark that fails says so")]

use phalanx_core::hub::{Asking, Good, Hub, Id, Who};
use phalanx_core::level::Level;
use phalanx_core::wire::hub::{Facts, Running, Status, What};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::env;
use std::hint::black_box;
use std::time::Duration;

/// Members of the grids. A page has 200 rows, so the smallest grid has no full one.
const SIZES: [usize; 4] = [10, 1000, 10_000, 100_000];
const TURNS: usize = 5;
/// Events of a turn of the mix.
const EVENTS: usize = 10_000;
/// Events that are made ready before they are timed together.
const BATCH: usize = 500;
const DAY: f64 = 24.0 * 3600.0;
/// Life of a certificate in seconds, as in the driver.
const LASTS: u64 = 24 * 3600;
/// Age in seconds at which a certificate is renewed: a third of its life is left.
const AGE: f64 = LASTS as f64 * 2.0 / 3.0;
/// Part of the members that was expelled of late: their certificates are still to be revoked.
const EXPELLED: f64 = 0.01;
const OWNER: &str = "ada";
const PROGRAM: &str = "ffmpeg";

/// A kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An executor tells what it runs.
    Tell,
    /// A user asks for one executor.
    Find,
    /// A user asks for a way through the hub to one executor.
    Reach,
    /// A manager recruits: it asks for a page of the members.
    Page,
    /// A manager that needs a program recruits: it asks for a page, and one executor answers.
    Seek,
    /// A user looks at a page of what runs.
    Look,
    /// A certificate is renewed.
    Renew,
    /// A link is lost, and the executor enters again.
    Lose,
    /// An owner invites one machine. It joins and enters.
    Join,
    /// A machine leaves for good.
    Leave,
    /// An owner expels a machine.
    Expel,
    /// The driver completes the list of revoked certificates. This follows each expelling.
    List,
}

use Kind::{Expel, Find, Join, Leave, List, Look, Lose, Page, Reach, Renew, Seek, Tell};

/// Events that a thousand executors and their users cause in a day. A certificate of a day is renewed when a third of it is left: 1.5
/// times a day. The others are assumed. An executor serves 20 managers a day, tells four changes of each, is looked for by 16 of them and
/// reached through the hub by 4. Ten executors have one user, who starts 20 programs, of which 5 need software, and looks at the status
/// 5 times. A link is lost twice a day. A machine stays for 50 days, and half of those that go are expelled.
const MIX: [(Kind, usize); 12] = [
    (Tell, 80_000),
    (Find, 16_000),
    (Reach, 4_000),
    (Page, 1_500),
    (Seek, 500),
    (Look, 500),
    (Renew, 1_500),
    (Lose, 2_000),
    (Join, 20),
    (Leave, 10),
    (Expel, 10),
    (List, 10),
];
/// The kinds that are measured alone, each with the kind that brings the grid back to its size, and the events of a turn.
const ALONE: [(&str, Kind, Option<Kind>, usize); 12] = [
    ("status told", Tell, None, 5000),
    ("executor found", Find, None, 5000),
    ("relay asked for", Reach, None, 5000),
    ("page of members", Page, None, 100),
    ("page of members, software needed", Seek, None, 100),
    ("page of statuses", Look, None, 100),
    ("certificate renewed", Renew, None, 2000),
    ("link lost and entered again", Lose, None, 5000),
    ("joined", Join, Some(Leave), 500),
    ("left", Leave, Some(Join), 500),
    ("expelled", Expel, Some(Join), 100),
    ("list of revoked certificates", List, None, 20),
];

/// An executor, as the driver knows it.
#[derive(Clone)]
struct Executor {
    name: String,
    link: u64,
    /// When its certificate was made.
    renewed: u64,
}

/// An event with everything that the driver has read from the wire, or has made.
struct Step {
    kind: Kind,
    now: u64,
    asking: Asking,
    link: u64,
    next_link: u64,
    id: Id,
    good: Good,
    facts: Facts,
    addresses: Vec<String>,
    status: Status,
}

struct Grid {
    hub: Hub,
    executors: Vec<Executor>,
    /// The place of the executor that renews next.
    next: usize,
    seconds: f64,
    random: u64,
    made: u64,
}

impl Grid {
    /// A grid that has run for a while: certificates of all ages, and some executors that were expelled.
    fn of(size: usize) -> Grid {
        let executors = Vec::with_capacity(size * 2);
        let mut grid = Grid { hub: Hub::default(), executors, next: 0, seconds: 10.0 * DAY, random: 7, made: 0 };
        let owner = Asking { who: Who::user(OWNER), key: digest(0) };
        grid.hub.found(0, owner, Good { fingerprint: digest(1), until: u64::MAX / 2 }, true);
        let gone = (size as f64 * EXPELLED) as usize;
        for _ in 0..size + gone {
            grid.seconds += AGE / (size + gone) as f64;
            grid.ready(Join).run(&mut grid.hub);
        }
        (0..gone).for_each(|_| grid.ready(Expel).run(&mut grid.hub));
        grid
    }

    fn random(&mut self, below: usize) -> usize {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.random >> 33) as usize) % below
    }

    /// Makes an event ready.
    fn ready(&mut self, kind: Kind) -> Step {
        self.made += 1;
        let (now, made) = (self.seconds as u64, self.made);
        let (kind, executor) = self.choose(kind, now, made);
        let facts = [
            ("cores", "16"),
            ("memory", "67108864000"),
            ("python", "3.13.5"),
            ("system", "Linux 6.12.0-amd64"),
            ("labels", "lab quiet"),
        ];
        let (user, what, level) = ("eve".to_owned(), What::Interpreters, Some(Level::Clear));
        let running = vec![Running { user, what, level, is_relayed: false, count: 4, rate: 0 }];
        let mut id = [0; 32];
        id[..8].copy_from_slice(&made.to_be_bytes());
        Step {
            kind,
            now,
            asking: Asking { key: format!("{:064}", executor.name), who: Who::new("executor", &executor.name) },
            link: executor.link,
            next_link: made,
            id,
            good: Good { fingerprint: digest(made), until: now + LASTS },
            facts: facts.map(|(name, fact)| (name.to_owned(), fact.to_owned())).into(),
            addresses: vec!["192.168.17.23:7400".to_owned(), "10.0.3.23:7400".to_owned()],
            status: Status { capacity: 16, used: 4, running, ..Status::default() },
        }
    }

    /// The executor that an event is about. When none is due to renew, another one tells its status.
    fn choose(&mut self, kind: Kind, now: u64, made: u64) -> (Kind, Executor) {
        if kind == Join {
            self.executors.push(Executor { name: format!("ws{made}"), link: made, renewed: now });
            return (kind, self.executors[self.executors.len() - 1].clone());
        }
        let place = self.random(self.executors.len());
        match kind {
            Leave | Expel => (kind, self.executors.swap_remove(place)),
            Lose => {
                let before = self.executors[place].clone();
                self.executors[place].link = made;
                (kind, before)
            }
            Renew => {
                self.next = (self.next + 1) % self.executors.len();
                let next = &mut self.executors[self.next];
                let is_due = now >= next.renewed + LASTS / 2;
                next.renewed = if is_due { now } else { next.renewed };
                (if is_due { Renew } else { Tell }, next.clone())
            }
            _ => (kind, self.executors[place].clone()),
        }
    }

    /// Nanoseconds of this thread's time for one of `count` events of a kind.
    fn alone(&mut self, kind: Kind, back: Option<Kind>, count: usize) -> f64 {
        let mut spent = Duration::ZERO;
        for _ in 0..count.div_ceil(BATCH) {
            let size = count.min(BATCH).min(if back.is_some() { self.executors.len() / 2 } else { BATCH });
            let rounds = count.min(BATCH) / size;
            for _ in 0..rounds {
                spent += self.timed(|_| kind, AGE / self.executors.len() as f64, size);
                if let Some(back) = back {
                    self.timed(|_| back, 0.0, size);
                }
            }
        }
        spent.as_nanos() as f64 / count as f64
    }

    /// Nanoseconds for one event of the mix.
    fn mixed(&mut self) -> f64 {
        let all: usize = MIX.iter().map(|(_, share)| share).sum();
        let each = DAY / (all as f64 * self.executors.len() as f64 / 1000.0);
        let any = |number: usize| {
            let below = |shares: &mut usize, share: usize| {
                *shares += share;
                number < *shares
            };
            let mut shares = 0;
            MIX.iter().find(|(_, share)| below(&mut shares, *share)).unwrap().0
        };
        let mut spent = Duration::ZERO;
        for _ in 0..EVENTS / BATCH {
            spent += self.timed(|grid| any(grid.random(all)), each, BATCH);
        }
        spent.as_nanos() as f64 / EVENTS as f64
    }

    /// This thread's time for so many events, which were made ready before. What else the machine does does not count.
    fn timed(&mut self, kind: impl Fn(&mut Grid) -> Kind, each: f64, count: usize) -> Duration {
        let ready = |_| {
            self.seconds += each;
            let kind = kind(self);
            self.ready(kind)
        };
        let steps: Vec<Step> = (0..count).map(ready).collect();
        let start = clock();
        steps.into_iter().for_each(|step| step.run(&mut self.hub));
        clock() - start
    }
}

impl Step {
    /// Does what the driver does with the engine.
    fn run(self, hub: &mut Hub) {
        let Step { kind, now, asking, link, next_link, id, good, facts, addresses, status } = self;
        let who = &asking.who;
        let after = Some(who);
        match kind {
            Join => {
                black_box(hub.invite(now, OWNER, (id, "executor"), 1, 3600).unwrap());
                hub.check_join(now, &id, &asking).unwrap();
                black_box(hub.join(now, id, asking.clone(), good).unwrap());
                return hub.enter(now, link, &asking.who, addresses, facts).unwrap();
            }
            Expel => return drop(black_box(hub.expel(now, OWNER, &who.name).unwrap())),
            List => return drop(black_box(hub.to_revoke(now))),
            _ => hub.check_member(&asking).unwrap(), // the driver checks it for each request
        }
        match kind {
            Tell => hub.runs(link, who, status),
            Find => drop(black_box(hub.row_of(who).unwrap())),
            Reach => drop(black_box(hub.link_of(who).unwrap())),
            Page => drop(black_box(hub.rows(after))),
            Seek => {
                let found = hub.seek(now, OWNER, &[PROGRAM.to_owned()], after).unwrap();
                black_box(&found);
                hub.answered(link, who, &BTreeMap::from([(PROGRAM.to_owned(), true)]));
            }
            Look => drop(black_box(hub.statuses(Some(&who.name)))),
            Renew => {
                hub.check_renew(now, &asking, now, LASTS).unwrap();
                black_box(hub.renew(now, &asking, now, good).unwrap());
            }
            Lose => {
                hub.go(now, link, who);
                hub.enter(now, next_link, who, addresses, facts).unwrap();
            }
            Leave => drop(black_box(hub.leave(now, who).unwrap())),
            Join | Expel | List => unreachable!("were done before"),
        }
    }
}

/// A digest of a number, as text.
fn digest(number: u64) -> String {
    format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).repeat(4)
}

fn clock() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    if env::args().any(|argument| argument == "--profile") {
        let mut grid = Grid::of(SIZES[SIZES.len() - 1]);
        return (0..20).for_each(|_| assert!(black_box(grid.mixed()) > 0.0));
    }
    let sizes = SIZES.map(|size| {
        eprintln!("{size} members");
        let mut grid = Grid::of(size);
        let mixed = median((0..TURNS).map(|_| grid.mixed()).collect());
        let mut rows = vec![format!("    \"mix of a day\": {mixed:.1}")];
        for (name, kind, back, count) in ALONE {
            let value = median((0..TURNS).map(|_| grid.alone(kind, back, count)).collect());
            rows.push(format!("    {name:?}: {value:.1}"));
        }
        format!("  \"{size}\": {{\n{}\n  }}", rows.join(",\n"))
    });
    println!("{{\n{}\n}}", sizes.join(",\n"));
}
