//! Jobs at an executor. It receives runs from the hub to which it is linked, runs them in cages, and reports their results.
//!
//! The executor keeps a result until the hub has counted it, and repeats it over each new link. So neither a restarted hub nor a closed
//! link loses a result. Runs continue while there is no hub.

mod bringing;
mod captured;
mod outputs;
mod running;
mod staging;
mod worker;

use crate::cage::Cage;
use crate::contents::{Contents, Store};
use crate::control::{tell, tell_with};
use crate::metering::Meter;
use crate::places::{Holder, Model, Places, Share};
use crate::scratch::Folder;
use phalanx_core::wire::hub::ToHub;
use phalanx_core::wire::jobs::{Exit, FromHubJobs, MOST_TAIL, Outcome, Run, Spec, Stream, ToHubJobs};
use phalanx_net::address::Address;
use phalanx_net::identity::{Member, random_token};
use phalanx_net::link::Link;
use phalanx_net::sync::lock;
use running::Running;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Capacity of the cache of inputs, in bytes.
const MOST_CACHED: u64 = 20_000_000_000;
/// Timeout for the places of a run. Afterwards the executor returns the run to the hub.
const PLACE_PATIENCE: Duration = Duration::from_secs(3);
/// Retry interval for results that the hub has not counted.
const REPEAT: Duration = Duration::from_secs(5);
/// Most encoded bytes of the results in one message.
const AT_ONCE: usize = 256 << 10;

/// Settings with which an executor runs jobs.
pub struct Settings {
    pub member: Member,
    pub cage: Cage,
    /// The users that the executor accepts. Empty: all users.
    pub accepted: Vec<String>,
    /// The program that replaces the words `python` and `python3`.
    pub python: String,
    /// Environment variables for each process, beside those of the cage.
    pub environment: Vec<(String, String)>,
    pub capacity: u32,
    pub places: Arc<Places>,
    pub meter: Arc<Meter>,
}

/// The jobs of an executor.
#[derive(Clone)]
pub struct Jobs(Arc<Shared>);

struct Shared {
    settings: Settings,
    /// The token under which jobs take places.
    program: [u8; 16],
    /// The cache of inputs, and its folder. The folder is created with the first input, and removed at the end. If this executor is killed,
    /// the next one removes the folder.
    cache: Mutex<Option<(Folder, Arc<Store>)>>,
    /// A lock for each input that is being fetched, so that each is fetched once.
    fetching: Mutex<HashMap<[u8; 32], Arc<Mutex<()>>>>,
    /// Idle links for contents.
    links: Mutex<Vec<(Address, Contents)>>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The link to the hub, and the hub's address.
    hub: Option<(Arc<Link>, Address)>,
    /// The queue of runs that wait for places.
    waiting: VecDeque<Task>,
    running: HashMap<Run, Arc<Running>>,
    /// Results that the hub has not counted yet.
    ended: BTreeMap<Run, Outcome>,
    /// The number of places for jobs that the hub knows.
    room: u32,
    /// The time of the latest retry of uncounted results.
    repeated: Option<Instant>,
    workers: u32,
    idle: u32,
    is_closed: bool,
}

/// A run in the queue.
struct Task {
    run: Run,
    user: String,
    spec: Arc<Spec>,
}

impl Jobs {
    /// Creates the jobs of an executor. They begin with the first hub.
    pub fn new(settings: Settings) -> Jobs {
        let (program, cache) = (random_token(), Mutex::default());
        let (fetching, links, state, changed) = Default::default();
        Jobs(Arc::new(Shared { settings, program, cache, fetching, links, state, changed }))
    }

    /// A hub has admitted the executor over this link. Reports the executor's places, runs and results to the hub.
    pub fn at_hub(&self, link: &Arc<Link>, hub: &Address) {
        let room = self.0.room();
        let mut state = lock(&self.0.state);
        state.hub = Some((link.clone(), hub.clone()));
        state.room = room;
        let waiting = state.waiting.iter().map(|it| it.run);
        let runs: Vec<Run> = waiting.chain(state.running.keys().copied()).chain(state.ended.keys().copied()).collect();
        tell(link, &ToHub::Jobs(ToHubJobs::Here { room, runs }));
        let ended: Vec<(Run, Outcome)> = state.ended.iter().map(|(run, outcome)| (*run, outcome.clone())).collect();
        tell_ended(link, ended);
        self.0.changed.notify_all();
    }

    /// The link to the hub has closed.
    pub fn without_hub(&self) {
        lock(&self.0.state).hub = None;
        lock(&self.0.links).clear();
    }

    /// Carries out a message of the hub.
    pub fn hear(&self, message: FromHubJobs) {
        match message {
            FromHubJobs::Run { user, job, spec, runs } => self.begin(&user, job, *spec, runs),
            FromHubJobs::Stop { runs } => self.stop(&runs),
            FromHubJobs::Counted { runs } => {
                let mut state = lock(&self.0.state);
                runs.iter().for_each(|run| drop(state.ended.remove(run)));
            }
            FromHubJobs::Lacks { runs } => self.0.note_lacking(&runs),
            FromHubJobs::Tail { ticket, run, stream, from } => self.tell_tail(ticket, run, stream, from),
            _ => {}
        }
    }

    /// Reports the number of places for jobs to the hub if it has changed, and retries uncounted results. It is called once a second.
    pub fn tell_room(&self) {
        let room = self.0.room();
        self.0.tell_room(room);
        self.0.repeat();
    }

    /// The places that the runs of each user take, in the machine's pool that all grids share.
    pub fn count(&self) -> BTreeMap<String, u32> {
        let mut counts = BTreeMap::new();
        for running in lock(&self.0.state).running.values().filter(|it| it.is_placed.load(Ordering::Acquire)) {
            *counts.entry(running.user.clone()).or_default() += running.places;
        }
        counts
    }

    /// Stops all runs and returns them to the hub, because the owner needs the machine. The hub starts them at other machines.
    pub fn give_all_back(&self) {
        let mut state = lock(&self.0.state);
        let waiting: Vec<Run> = state.waiting.drain(..).map(|task| task.run).collect();
        let running: Vec<Arc<Running>> = state.running.drain().map(|(_, running)| running).collect();
        let runs: Vec<Run> = waiting.into_iter().chain(running.iter().map(|it| it.run)).collect();
        let hub = state.hub.clone();
        self.0.changed.notify_all();
        drop(state);
        running.iter().for_each(|running| running.stop());
        if let (Some((link, _)), false) = (hub, runs.is_empty()) {
            self.tell_room();
            tell(&link, &ToHub::Jobs(ToHubJobs::Back { runs, refuses: false }));
        }
    }

    /// Ends all runs.
    pub fn close(&self) {
        let mut state = lock(&self.0.state);
        (state.is_closed, state.hub) = (true, None);
        state.waiting.clear();
        state.running.values().for_each(|running| running.stop());
        self.0.changed.notify_all();
        drop(state);
        lock(&self.0.links).clear();
        lock(&self.0.cache).take();
    }

    /// Whether no run is left.
    pub fn have_ended(&self) -> bool {
        let state = lock(&self.0.state);
        state.workers == state.idle // runs that were given back are still being ended
    }

    fn begin(&self, user: &str, job: u64, spec: Spec, runs: Vec<(u32, u32)>) {
        let spec = Arc::new(spec);
        let mut state = lock(&self.0.state);
        for (index, attempt) in runs {
            let run = Run { job, index, attempt };
            let is_known = state.running.contains_key(&run) || state.ended.contains_key(&run);
            if !is_known && !state.waiting.iter().any(|task| task.run == run) {
                state.waiting.push_back(Task { run, user: user.to_owned(), spec: spec.clone() });
            }
        }
        worker::wake(&self.0, &mut state);
    }

    fn stop(&self, runs: &[Run]) {
        let mut state = lock(&self.0.state);
        state.waiting.retain(|task| !runs.contains(&task.run));
        self.0.changed.notify_all(); // the next run in the queue may need fewer places
        for run in runs {
            state.ended.remove(run);
            state.running.get(run).iter().for_each(|running| running.stop());
        }
    }

    fn tell_tail(&self, ticket: u64, run: Run, stream: Stream, from: u64) {
        let (link, running) = {
            let state = lock(&self.0.state);
            (state.hub.clone().map(|(link, _)| link), state.running.get(&run).cloned())
        };
        let Some(link) = link else { return };
        let bytes = running.as_ref().map_or_else(Vec::new, |it| it.captured(stream).read(from, MOST_TAIL));
        let message = ToHub::Jobs(ToHubJobs::Tail { ticket, is_running: true });
        match bytes.is_empty() {
            true => tell(&link, &message),
            false => tell_with(&link, &message, bytes),
        }
    }
}

impl Shared {
    /// The cache of inputs, created if it is missing.
    fn cache(&self) -> io::Result<Arc<Store>> {
        let mut cache = lock(&self.cache);
        if let Some((_, store)) = &*cache {
            return Ok(store.clone());
        }
        let folder = Folder::new()?;
        let store = Arc::new(Store::open(folder.path().join("inputs"), (MOST_CACHED, MOST_CACHED)));
        *cache = Some((folder, store.clone()));
        Ok(store)
    }

    /// The share of places for a user's jobs.
    fn share(&self, user: &str) -> Share {
        let holder = Holder { user: user.to_owned(), program: self.program };
        self.settings.places.share(holder, Model::Ranks)
    }

    /// The number of places for jobs, including those that their runs take.
    fn room(&self) -> u32 {
        if self.settings.places.closed().is_some() {
            return 0;
        }
        // The count comes from the pool of places itself. Otherwise a run that is just taking its places would count as another program.
        self.settings.capacity.saturating_sub(self.settings.places.in_use_beside(&self.program))
    }

    fn tell_room(&self, room: u32) {
        let mut state = lock(&self.state);
        if state.room != room {
            state.room = room;
            state.hub.iter().for_each(|(link, _)| tell(link, &ToHub::Jobs(ToHubJobs::Room { room })));
        }
    }

    /// Retries results that the hub has not counted, for example because its disk was full.
    fn repeat(&self) {
        let mut state = lock(&self.state);
        if state.ended.is_empty() || state.repeated.is_some_and(|when| when.elapsed() < REPEAT) {
            return;
        }
        let is_first = state.repeated.replace(Instant::now()).is_none();
        let ended: Vec<(Run, Outcome)> = state.ended.iter().map(|(run, outcome)| (*run, outcome.clone())).collect();
        if let Some((link, _)) = state.hub.as_ref().filter(|_| !is_first) {
            tell_ended(link, ended);
        }
    }

    fn say(&self, message: ToHubJobs) {
        let hub = lock(&self.state).hub.clone();
        hub.iter().for_each(|(link, _)| tell(link, &ToHub::Jobs(message.clone())));
    }

    /// The hub lacks the contents of these results. The executor has removed them too, so that these runs have failed.
    fn note_lacking(&self, runs: &[Run]) {
        let mut state = lock(&self.state);
        let mut again = Vec::new();
        for run in runs {
            if let Some(outcome) = state.ended.get_mut(run) {
                outcome.exit = Exit::Broken("the hub has lost what it had written".to_owned());
                (outcome.stdout, outcome.stderr, outcome.outputs) = Default::default();
                again.push((*run, outcome.clone()));
            }
        }
        let hub = state.hub.clone();
        drop(state);
        hub.iter().for_each(|(link, _)| tell_ended(link, again.clone()));
    }

    fn is_closed(&self) -> bool {
        lock(&self.state).is_closed
    }
}

/// Sends results, as many in a message as fit.
fn tell_ended(link: &Link, ended: Vec<(Run, Outcome)>) {
    let (mut some, mut bytes) = (Vec::new(), 0);
    for (run, outcome) in ended {
        let own = phalanx_core::wire::encode_body(&outcome).len();
        if bytes + own > AT_ONCE && !some.is_empty() {
            tell(link, &ToHub::Jobs(ToHubJobs::Ran { ends: std::mem::take(&mut some) }));
            bytes = 0;
        }
        some.push((run, outcome));
        bytes += own;
    }
    if !some.is_empty() {
        tell(link, &ToHub::Jobs(ToHubJobs::Ran { ends: some }));
    }
}
