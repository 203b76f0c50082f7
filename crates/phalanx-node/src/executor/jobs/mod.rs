//! Jobs at an executor: it takes runs from the hub by whose link it stays, runs them in cages, and tells what became of them.
//!
//! A result is kept until the hub has counted it, and told again over each new link. So neither a hub that starts again nor a link that
//! ends loses one. Runs go on while no hub is there.

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

/// Most bytes of inputs that are kept for later runs.
const MOST_CACHED: u64 = 20_000_000_000;
/// How long a run waits for its places before it is given back to the hub.
const PLACE_PATIENCE: Duration = Duration::from_secs(3);
/// Results that the hub has not counted are told again after so long.
const REPEAT: Duration = Duration::from_secs(5);
/// Most encoded bytes of the results in one message.
const AT_ONCE: usize = 256 << 10;

/// What an executor needs to run jobs.
pub struct Settings {
    pub member: Member,
    pub cage: Cage,
    /// The users that it accepts. Empty: all.
    pub accepted: Vec<String>,
    /// The program that the words `python` and `python3` stand for here.
    pub python: String,
    /// Environment variables for each process, beside those of the cage.
    pub environment: Vec<(String, String)>,
    pub capacity: u32,
    pub places: Arc<Places>,
    pub meter: Arc<Meter>,
}

/// The jobs of an executor. They end when this is closed.
#[derive(Clone)]
pub struct Jobs(Arc<Shared>);

struct Shared {
    settings: Settings,
    /// The token under which the places of jobs are taken.
    program: [u8; 16],
    /// Inputs that were fetched from the hub, and their folder. It is made for the first of them, and removed at the end, or by the next
    /// executor if this one is killed.
    cache: Mutex<Option<(Folder, Arc<Store>)>>,
    /// The inputs that are being fetched, so that each is fetched once.
    fetching: Mutex<HashMap<[u8; 32], Arc<Mutex<()>>>>,
    /// Links for contents that rest.
    links: Mutex<Vec<(Address, Contents)>>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The link to the hub, and where the hub is.
    hub: Option<(Arc<Link>, Address)>,
    /// Runs that wait for their places.
    waiting: VecDeque<Task>,
    running: HashMap<Run, Arc<Running>>,
    /// Results that the hub has not counted yet.
    ended: BTreeMap<Run, Outcome>,
    /// How many places for jobs the hub was told of.
    room: u32,
    /// When results were told again that the hub has not counted.
    repeated: Option<Instant>,
    workers: u32,
    idle: u32,
    is_closed: bool,
}

/// A run that is to begin.
struct Task {
    run: Run,
    user: String,
    spec: Arc<Spec>,
}

impl Jobs {
    /// Takes no jobs before a hub is there.
    pub fn new(settings: Settings) -> Jobs {
        let (program, cache) = (random_token(), Mutex::default());
        let (fetching, links, state, changed) = Default::default();
        Jobs(Arc::new(Shared { settings, program, cache, fetching, links, state, changed }))
    }

    /// A hub has let the executor in over this link. It hears what the executor has.
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

    /// The link to the hub has ended.
    pub fn without_hub(&self) {
        lock(&self.0.state).hub = None;
        lock(&self.0.links).clear();
    }

    /// Does what the hub says.
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

    /// Tells the hub how many places there are for jobs, if that has changed. Once a second.
    pub fn tell_room(&self) {
        let room = self.0.room();
        self.0.tell_room(room);
        self.0.repeat();
    }

    /// How many places the runs of each user take, in what all grids share.
    pub fn count(&self) -> BTreeMap<String, u32> {
        let mut counts = BTreeMap::new();
        for running in lock(&self.0.state).running.values().filter(|it| it.is_placed.load(Ordering::Acquire)) {
            *counts.entry(running.user.clone()).or_default() += running.places;
        }
        counts
    }

    /// Ends all runs, and gives them back to the hub, which has them run elsewhere: the machine is its owner's now.
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

    /// Whether nothing runs any more.
    pub fn have_ended(&self) -> bool {
        lock(&self.0.state).running.is_empty()
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
        self.0.changed.notify_all(); // the next one that waits may need fewer places
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
    /// The inputs that were fetched from the hub.
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

    /// The places that jobs of a user take.
    fn share(&self, user: &str) -> Share {
        let holder = Holder { user: user.to_owned(), program: self.program };
        self.settings.places.share(holder, Model::Ranks)
    }

    /// How many places there are for jobs, with those that their runs take.
    fn room(&self) -> u32 {
        if self.settings.places.closed().is_some() {
            return 0;
        }
        // The places themselves say what jobs have: a run that is just getting its places would count as one of another program.
        self.settings.capacity.saturating_sub(self.settings.places.in_use_beside(&self.program))
    }

    fn tell_room(&self, room: u32) {
        let mut state = lock(&self.state);
        if state.room != room {
            state.room = room;
            state.hub.iter().for_each(|(link, _)| tell(link, &ToHub::Jobs(ToHubJobs::Room { room })));
        }
    }

    /// Tells results again that the hub has not counted: its disk was full, for example.
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

    /// The hub does not have the contents of these results. They are gone here, too, so that their runs have failed.
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

/// Tells results, as many in a message as fit.
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
