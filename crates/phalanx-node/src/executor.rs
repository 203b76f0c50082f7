//! The executor's driver: the service on a donated machine. It starts interpreters for the users it accepts. It ends them when
//! they are released, when their user is gone, and when the service itself ends.
//!
//! An executor that is lent has a second service, for the users of another grid, with another identity and behind another door
//! ([`guests`]). Both have the same places, and whatever else the machine has for all of its users.

mod guests;
#[cfg(target_os = "linux")]
mod jobs;
mod owner;

pub use crate::metering::Use;
pub use guests::Lendable;

use crate::activity::{Activity, Tally, for_user};
use crate::cage::{Bars, Cage, Way, means_same};
use crate::confined::Confined;
use crate::control::{self, Pulse, tell, tell_with, turn_away};
use crate::delegated::Papers;
use crate::door::{Door, Peer, Wanted, check_accepted, refused};
use crate::gpus::Gpus;
use crate::hub::Hub;
use crate::interpreter::{Begin, Process, Secrets};
use crate::lan::Announcing;
use crate::learned::log_learned;
use crate::log::{Log, Severity};
use crate::membership::{AtHub, HubsFile, Resident, Stay, Telling};
use crate::metering::{Meter, Metered};
use crate::places::{Given, Holder, Overdue, Places, Request, SHARE_PATIENCE, known_as};
use crate::quota::{Entered, Quota};
#[cfg(target_os = "linux")]
use crate::ranks::serve::{Folders, Terms, serve as serve_program};
use crate::recruit::GPUS;
use crate::space::{ServerOptions, Service as Spaces, listen_at_path};
use crate::threads::{THREADS, most_links};
use crate::transfer::{Exports, Service as Transfers, most_open};
use crate::worked::Work;
use guests::Guests;
use owner::Owner;
use phalanx_core::event::Cause;
use phalanx_core::hub::are_words;
use phalanx_core::level::{Level, LevelSet, Levels, Mark, Policy};
use phalanx_core::voluntary::Rules;
use phalanx_core::wire::hub::{Facts, GuestState, Status, Terms as GuestTerms, What, Worked};
use phalanx_core::wire::jobs::FromHubJobs;
use phalanx_core::wire::machines::Usage;
use phalanx_core::wire::machines::{FromMachine, MOST_PIECE};
use phalanx_core::wire::{FromExecutor, MAX_CONTROL_BODY, ToExecutor, Version, decode, encode};
use phalanx_net::address::Address;
use phalanx_net::frames::Frame;
use phalanx_net::identity::{IdentityError, KeyedCertificate, Member, Role, random_token};
use phalanx_net::link::Link;
use phalanx_net::news::Exchange;
use phalanx_net::preamble::Preamble;
use phalanx_net::runtime::Place as Path;
use phalanx_net::socket::{Listener, Socket};
use phalanx_net::sync::lock;
use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Time for programs to end when the executor ends.
const END_PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(100);
/// Each control link and each program takes several descriptors. All together take at most 1 in so many of those that the executor
/// may have, and one user's a quarter of these.
const DESCRIPTORS: usize = 16;
/// Most control links, and most programs, of all users.
const MOST_LINKS: usize = 1024;
/// How long the addresses of the grid are used before they are asked for again, and if no hub has answered.
const LEARN_AGAIN: Duration = Duration::from_secs(60);
const LEARN_SOON: Duration = Duration::from_secs(2);
/// Most addresses of the grid to which users' processes may connect.
const MOST_WAYS: usize = 10_000;
/// Least time between two messages that tell a manager who holds the places that it waits for.
const BETWEEN_WAITS: Duration = Duration::from_secs(1);
/// A user may have at least so many requests that wait for a place.
const LEAST_REQUESTS: usize = 64;

type Token = [u8; 16];
/// The address that a data link without a handshake must come from, and the interpreter that waits for it.
type Expected = (Option<IpAddr>, Arc<Mutex<Process>>);

/// What an executor offers, and to which users.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Most interpreters at a time, over all users.
    pub capacity: u32,
    /// Names of the users that may run code here; empty: every user of the grid.
    pub accepted: Vec<String>,
    /// How many places users get, when places are shared, for each place of a user that is not named. At least 1.
    pub weights: HashMap<String, u32>,
    /// The command that starts an interpreter.
    pub command: Vec<String>,
    /// Python's version, like `3.11`.
    pub python: String,
    /// The version of phalanx that it tells its users.
    pub phalanx: Version,
    /// The levels that data links may have.
    pub policy: Policy,
    /// The options for serving spaces as well. `None`: no spaces are served.
    pub spaces: Option<ServerOptions>,
    /// The folders that users may copy from and to.
    pub exports: Exports,
    /// Extra environment variables for the processes of message passing programs, beside those of the cage.
    pub environment: Vec<(String, String)>,
    /// What users' processes may touch.
    pub cage: Cage,
    /// The hub behind the same door. `None`: this machine is none.
    pub hub: Option<Arc<Hub>>,
    /// What the owners of its grid may lend to other grids. `None`: nothing.
    pub lendable: Option<Lendable>,
    /// Whether it refuses jobs.
    pub refuses_jobs: bool,
    /// When it works for users.
    pub rules: Rules,
    /// By how much users' processes are nicer than the executor, from 0 to 19.
    pub nice: u8,
    /// What the machine has for users' processes, as needs ask for it.
    pub facts: Facts,
}

/// A running service.
pub struct Executor {
    service: Arc<Service>,
    door: Arc<Door>,
    address: SocketAddr,
    /// The unix path by which this machine's processes reach the spaces. It is removed when the executor ends.
    path: Mutex<Option<Path>>,
    told: Mutex<Told>,
    /// The stay at a hub.
    stay: Mutex<Option<Stay>>,
    /// The executor as a guest of another grid. `None`: its owner does not let it be lent, or it has no hub.
    guests: Mutex<Option<Arc<Guests>>>,
    /// The announcement on the local network.
    announcing: Mutex<Option<Announcing>>,
}

/// The last warning in the log about the end of the executor's certificate, with that end in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Nothing,
    NearEnd(u64),
    Over(u64),
}

/// What the machine has for its users, of whatever grid. Users are named as [`known_as`] says.
struct Common {
    /// Interpreters that wait for their data link. The link's levels were agreed for the address it must come from.
    expecting: Mutex<HashMap<Token, Expected>>,
    sessions: Mutex<HashMap<u64, Arc<Session>>>,
    places: Arc<Places>,
    /// The control links of managers.
    controls: Arc<Quota>,
    /// The links of launchers.
    launchers: Arc<Quota>,
    /// Requests for interpreters that wait for a place.
    requests: Arc<Quota>,
    owner: Owner,
    /// The graphics processors that interpreters may have for themselves.
    gpus: Arc<Gpus>,
    /// What users' processes use of the machine.
    meter: Arc<Meter>,
    /// The sums of it that hubs are told.
    work: Work,
    #[cfg(target_os = "linux")]
    folders: Folders,
}

impl Common {
    fn new(capacity: u32, weights: HashMap<String, u32>, rules: Rules, gpus: Gpus) -> Common {
        let most = most_links((most_open() / DESCRIPTORS).min(MOST_LINKS), THREADS);
        let quota = |what| Quota::new(what, most, most.div_ceil(4));
        let requests = requests_of_a_user(capacity);
        let (places, owner) = (Places::new(capacity, weights), Owner::new(rules));
        places.close(owner.closed());
        let meter = Arc::<Meter>::default();
        Common {
            expecting: Mutex::default(),
            sessions: Mutex::default(),
            places,
            owner,
            work: Work::new(meter.clone()),
            gpus: Arc::new(gpus),
            meter,
            controls: quota("links of managers"),
            launchers: quota("message passing programs"),
            requests: Quota::new("requests that wait for a place", requests.saturating_mul(4), requests),
            #[cfg(target_os = "linux")]
            folders: Folders::default(),
        }
    }
}

/// The service for the users of one grid.
struct Service {
    member: Member,
    options: Options,
    common: Arc<Common>,
    /// The grid of which the executor is a guest with this service. `None`: its own.
    guest_of: Option<String>,
    /// Number of message passing programs that have processes here.
    programs: AtomicU32,
    closed: AtomicBool,
    spaces: Option<Spaces>,
    /// `None`: no files are served.
    transfers: Option<Transfers>,
    /// `None`: it takes no jobs.
    #[cfg(target_os = "linux")]
    jobs: Option<jobs::Jobs>,
    activity: Arc<Activity>,
    log: Log,
}

/// The executor as its hub sees it.
struct AsResident {
    service: Arc<Service>,
    door: Arc<Door>,
    /// `None`: it is not lent. A guest is not lent further.
    guests: Option<Arc<Guests>>,
}

impl Resident for AsResident {
    fn come(&self, socket: Socket) {
        self.door.clone().bring(socket);
    }

    fn finds(&self, program: &str) -> bool {
        self.service.options.cage.finds(program)
    }

    fn status(&self) -> Status {
        self.service.status()
    }

    fn worked(&self) -> Worked {
        self.service.worked()
    }

    fn be_guest(&self, terms: Option<GuestTerms>) {
        match (&self.guests, terms) {
            (Some(guests), terms) if guests.may_be_lent() => guests.be(terms),
            (_, Some(_)) => {
                let what = "the hub lends this machine, and its owner does not let it (--may-lend): it is not lent";
                self.service.log.limited(Severity::Warning, what, what);
            }
            (_, None) => {}
        }
    }

    fn at_hub(&self, hub: Option<(&Arc<Link>, &Address)>) {
        if hub.is_none() && self.service.guest_of.is_none() {
            self.service.common.work.rest();
        }
        #[cfg(target_os = "linux")]
        if let Some(jobs) = &self.service.jobs {
            match hub {
                Some((link, hub)) => jobs.at_hub(link, hub),
                None => jobs.without_hub(),
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = hub;
    }

    fn hear_of_jobs(&self, message: FromHubJobs) {
        #[cfg(target_os = "linux")]
        self.service.jobs.iter().for_each(|jobs| jobs.hear(message.clone()));
        #[cfg(not(target_os = "linux"))]
        let _ = message;
    }

    fn is_at_hub(&self) -> bool {
        self.service.options.hub.is_some()
    }

    fn guest(&self) -> Option<GuestState> {
        self.guests.as_ref().map(|guests| guests.state())
    }
}

/// Ends whatever a session started, however its serving ends.
struct Leaving<'a> {
    service: &'a Service,
    number: u64,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let Some(session) = lock(&self.service.common.sessions).remove(&self.number) else { return };
        session.link.close();
        self.service.common.places.leave(self.number);
        let left: Vec<u32> = lock(&session.interpreters).keys().copied().collect();
        left.into_iter().for_each(|request| self.service.release(&session, request));
        self.service.log.visit(&session.known, format!("{} is gone", session.known));
    }
}

/// One user's control link and the interpreters started over it.
struct Session {
    number: u64,
    link: Arc<Link>,
    user: String,
    /// The user's name in what all grids share.
    known: String,
    /// The grid of the user, if it is not the executor's own.
    guest_of: Option<String>,
    /// What the hub of the user's grid is told.
    activity: Arc<Activity>,
    /// The user's certificate. The session's interpreters accept no other peer.
    certificate: Vec<u8>,
    /// The executor with the certificate that it has shown to the user.
    shown: Member,
    from: IpAddr,
    /// The levels that data links may have, for each mark.
    levels: [LevelSet; 3],
    interpreters: Mutex<HashMap<u32, Started>>,
    /// The cage of its interpreters, made for the first of them.
    confined: Mutex<Option<Confined>>,
    /// How many interpreters the manager was last told to keep.
    told: Mutex<Option<u32>>,
    /// What the manager was last told about its requests that wait, and when.
    waits: Mutex<(Option<Usage>, Option<Instant>)>,
}

impl Session {
    /// Tells the manager who holds the places that its requests wait for, once a second at most.
    fn tell_waits(&self, usage: Option<Usage>) {
        let mut told = lock(&self.waits);
        let is_soon = told.1.is_some_and(|when| when.elapsed() < BETWEEN_WAITS);
        if told.0 == usage || (is_soon && usage.is_some()) {
            return;
        }
        *told = (usage, Some(Instant::now()));
        tell(&self.link, &FromExecutor::Waits { usage });
    }

    /// The cage of this session's interpreters. They share a folder.
    ///
    /// # Errors
    ///
    /// The user gets no account, or the folder cannot be made.
    fn bars(&self, cage: &Cage) -> io::Result<Bars> {
        let mut confined = lock(&self.confined);
        let made = match confined.take() {
            Some(made) => made,
            None => Confined::new(cage, &self.user)?,
        };
        Ok(confined.insert(made).bars.clone())
    }

    /// Checks a request for an interpreter with a data link of these levels.
    fn check(&self, request: u32, levels: Levels) -> io::Result<()> {
        let too_weak = |mark: &Mark| !self.levels[*mark as usize].contains(levels.of(*mark));
        if let Some(mark) = Mark::ALL.into_iter().find(too_weak) {
            let (asked, taken) = (levels.of(mark), self.levels[mark as usize]);
            return Err(io::Error::other(format!("a data link is to be {asked}, but this machine takes {taken}")));
        }
        match lock(&self.interpreters).contains_key(&request) {
            true => Err(made_before()),
            false => Ok(()),
        }
    }

    /// The interpreters that are stopped (by a signal) and therefore silent.
    fn stopped(&self) -> Vec<u32> {
        let interpreters = lock(&self.interpreters);
        let stopped = interpreters.iter().filter(|(_, it)| it.process.try_lock().is_ok_and(|it| it.is_stopped()));
        stopped.map(|(request, _)| *request).collect()
    }
}

/// The error for a request whose number was used before.
fn made_before() -> io::Error {
    io::Error::other("this request was made before")
}

fn refuse(session: &Session, request: u32, reason: String) {
    tell(&session.link, &FromExecutor::Refused { request, reason });
}

/// Why a machine that its owner has closed refuses a request.
fn closed(why: &str) -> String {
    format!("it is closed: {why}")
}

/// The most requests of one user that wait for a place. A few managers that ask for all places stay below it.
fn requests_of_a_user(capacity: u32) -> usize {
    (capacity as usize).saturating_mul(4).max(LEAST_REQUESTS)
}

struct Started {
    process: Arc<Mutex<Process>>,
    metered: Metered,
    token: Token,
    /// The level of its data link, for what is not marked.
    level: Level,
    /// The place, given back when this is dropped.
    _place: Box<dyn Any + Send>,
}

/// How an interpreter has ended, in words that go on a sentence about it.
fn how(cause: Cause) -> String {
    match cause {
        Cause::Died { how } => how,
        Cause::Exceeded { why } => format!("ended: {why}"),
        cause => cause.to_string(),
    }
}

/// The advice for a certificate that ends soon or has ended.
fn how_to_renew(name: &str) -> String {
    format!("on the machine of the grid's authority: phalanx grid renew {name}; a manager brings the new one here")
}

impl Executor {
    /// Listens at `address` (`host:port`, port 0 for any) and serves from threads of its own. Whom it serves is the caller's to
    /// check: [`Cage::check_users`] says whether it keeps them apart.
    pub fn start(address: &str, member: Member, mut options: Options, log: Log) -> io::Result<Executor> {
        #[cfg(target_os = "linux")]
        {
            crate::cage::hide_memory()?;
            crate::keeper::niceness::set(options.nice.into());
        }
        member.check_own()?;
        let listener = Listener::bind(address)?;
        // In a thread, because killed executors may have left gigabytes, and a starter does not wait that long.
        #[cfg(target_os = "linux")]
        let _ = thread::Builder::new().name("phalanx-clean".into()).spawn(crate::scratch::clean);
        let address = listener.address()?;
        options.hub.iter().for_each(|hub| hub.listens_at(address.port()));
        let (mut listeners, mut path) = (vec![listener], None);
        let serve_spaces = |spaces| Spaces::new(Some(member.clone()), spaces, log.clone());
        let spaces = options.spaces.clone().map(serve_spaces).transpose()?;
        if spaces.is_some() && !options.cage.tells_owner_apart() {
            log.warning("this machine's processes reach spaces over the network only: no_new_privs is set here");
        } else if spaces.is_some() {
            path = listen_at_path(&address, &mut listeners, &log);
        }
        let gpus = if options.facts.contains_key(GPUS) { Gpus::here() } else { Gpus::default() };
        options.facts.entry(GPUS.to_owned()).and_modify(|it| *it = gpus.count().to_string());
        let common = Arc::new(Common::new(options.capacity, options.weights.clone(), options.rules.clone(), gpus));
        let Options { policy, accepted, exports, phalanx, .. } = options.clone();
        let transfers = Transfers::new(member.clone(), policy, accepted, exports, phalanx, log.clone());
        #[cfg(target_os = "linux")]
        let take_jobs = || {
            jobs::Jobs::new(jobs::Settings {
                meter: common.meter.clone(),
                member: member.clone(),
                cage: options.cage.clone(),
                accepted: options.accepted.clone(),
                python: options.command.first().cloned().unwrap_or_else(|| "python3".to_owned()),
                environment: options.environment.clone(),
                capacity: options.capacity,
                places: common.places.clone(),
            })
        };
        #[cfg(target_os = "linux")]
        let jobs = if options.refuses_jobs { None } else { Some(take_jobs()) };
        transfers.pause(common.places.closed());
        let own = member.clone();
        let service = Arc::new(Service {
            member,
            options,
            common,
            guest_of: None,
            programs: AtomicU32::new(0),
            closed: AtomicBool::new(false),
            spaces,
            transfers: Some(transfers),
            #[cfg(target_os = "linux")]
            jobs,
            activity: Arc::default(),
            log: log.clone(),
        });
        let serving = service.clone();
        let door = Door::open(listeners, Some(own), Box::new(move |peer, wanted| serving.serve(peer, wanted)), log)?;
        let (path, told) = (Mutex::new(path), Mutex::new(Told::Nothing));
        let (stay, guests, announcing) = (Mutex::default(), Mutex::default(), Mutex::default());
        Ok(Executor { service, door, address, path, told, stay, guests, announcing })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Warns in the log, once for each certificate, when it is near its end, and once more when it has ended. It looks for a newer one
    /// before. Call it from time to time.
    pub fn look_at_certificate(&self) {
        let Ok(validity) = self.service.member.validity() else { return };
        let told = match (validity.is_over(), validity.is_near_end()) {
            (true, _) => Told::Over(validity.until),
            (false, true) => Told::NearEnd(validity.until),
            (false, false) => Told::Nothing,
        };
        let ends = match (std::mem::replace(&mut *lock(&self.told), told) == told, told) {
            (true, _) | (false, Told::Nothing) => return,
            (false, Told::NearEnd(_)) => "ends",
            (false, Told::Over(_)) => "ended",
        };
        let (name, end) = (&self.service.member.name, validity.end());
        self.service.log.warning(format!("the certificate of {name} {ends} on {end}; {}", how_to_renew(name)));
    }

    /// Stays at the first hub that answers from now on: one of `hubs`, or of the file `kept`. Members then reach the executor by its name.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn stay(&self, hubs: Vec<String>, kept: Option<HubsFile>, telling: Telling) -> io::Result<()> {
        let mut telling = Telling { port: self.address.port(), ..telling };
        telling.facts.extend(self.service.options.cage.facts());
        let lendable = self.service.options.lendable.clone();
        let begin = |lendable| Guests::begin(lendable, self.service.clone(), self.address.ip(), telling.facts.clone());
        let guests = lendable.map(begin).transpose()?;
        let before = std::mem::replace(&mut *lock(&self.guests), guests.clone());
        before.iter().for_each(|guests| guests.end());
        let resident = AsResident { service: self.service.clone(), door: self.door.clone(), guests };
        let (member, log) = (self.service.member.clone(), self.service.log.clone());
        if self.service.options.cage.awaits_grid() {
            learn_grid(&self.service, &hubs)?;
        }
        let stay = Stay::begin(member, hubs, kept, telling, Box::new(resident), log)?;
        drop(lock(&self.stay).replace(stay));
        Ok(())
    }

    /// Announces the executor on the local network until it is closed.
    ///
    /// # Errors
    /// The local network does not reach the address at which the executor listens, or another program of this machine does not share
    /// the port of multicast DNS.
    pub fn announce(&self) -> io::Result<()> {
        let announcing = Announcing::begin(self.address, self.service.log.clone())?;
        drop(lock(&self.announcing).replace(announcing));
        Ok(())
    }

    /// How the executor and its hub are, for people. `None`: it has no hub.
    pub fn hub_status(&self) -> Option<String> {
        lock(&self.stay).as_ref().map(Stay::status)
    }

    /// Why the executor is no member of its grid any more. `None`: it is one, or it has no hub.
    pub fn expelled(&self) -> Option<String> {
        lock(&self.stay).as_ref().and_then(Stay::expelled)
    }

    /// Waits until a hub has let the executor in, or for so long. Whether one has.
    pub fn wait_for_hub(&self, patience: Duration) -> bool {
        let waiting = lock(&self.stay).as_ref().map(Stay::waiting);
        waiting.is_some_and(|waiting| waiting.until_in(patience))
    }

    /// Ends every interpreter and stops serving.
    pub fn close(&self) {
        drop(lock(&self.announcing).take());
        drop(lock(&self.stay).take());
        lock(&self.guests).take().iter().for_each(|guests| guests.end());
        self.service.closed.store(true, Ordering::Release);
        self.door.close();
        self.service.spaces.iter().for_each(Spaces::close);
        self.service.transfers.iter().for_each(Transfers::close);
        self.service.options.hub.iter().for_each(|hub| hub.close());
        lock(&self.path).take();
        self.service.end_all();
        self.service.options.cage.close();
    }
}

/// Starts a thread that asks the hub for the addresses of the grid: users' processes may connect to those, or at least to the other machines
/// of their program, which must be among them.
fn learn_grid(service: &Arc<Service>, hubs: &[String]) -> io::Result<()> {
    let (service, hubs) = (Arc::downgrade(service), hubs.to_vec());
    let learn = move || {
        while let Some(service) = service.upgrade().filter(|it| !it.closed.load(Ordering::Acquire)) {
            let asked = AtHub::open(&service.member, &hubs).and_then(|mut at_hub| at_hub.members());
            let pause = match asked {
                Ok((rows, known)) => {
                    let resolve = |it: &String| it.to_socket_addrs().into_iter().flatten();
                    let of_hubs: Vec<IpAddr> = hubs.iter().flat_map(resolve).map(|it| it.ip()).collect();
                    let is_kept = |it: &SocketAddr| means_same(it.ip(), &of_hubs);
                    let way = |it: SocketAddr| Way { ip: it.ip(), port: Some(it.port()) };
                    let executors = rows.iter().filter(|row| row.role == Role::Executor.name());
                    let members = executors.flat_map(|row| &row.addresses).flat_map(resolve).filter(is_kept);
                    let members = members.map(|it| it.ip()).take(MOST_WAYS).collect();
                    let addresses = rows.iter().flat_map(|row| &row.addresses).chain(&known).chain(&hubs);
                    let ways = addresses.flat_map(resolve).filter(is_kept).map(way).take(MOST_WAYS).collect();
                    service.options.cage.learn_grid(ways, members);
                    LEARN_AGAIN
                }
                Err(_) => LEARN_SOON, // the hub is called by others too, who say why it does not answer
            };
            let asked = Instant::now();
            let is_over = || {
                let pause = if service.options.cage.misses_members() { LEARN_SOON.min(pause) } else { pause };
                asked.elapsed() >= pause || service.closed.load(Ordering::Acquire)
            };
            while !is_over() {
                thread::sleep(PAUSE);
            }
        }
    };
    thread::Builder::new().name("phalanx-grid".into()).spawn(learn).map(drop)
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.close();
    }
}

impl Service {
    /// Ends everything that users of this service have here.
    fn end_all(&self) {
        self.closed.store(true, Ordering::Release);
        #[cfg(target_os = "linux")]
        self.jobs.iter().for_each(jobs::Jobs::close);
        for session in lock(&self.common.sessions).values().filter(|session| session.guest_of == self.guest_of) {
            session.link.close();
            lock(&session.interpreters).values().for_each(|started| drop(lock(&started.process).end()));
        }
        let until = Instant::now() + END_PATIENCE;
        while (self.programs.load(Ordering::Acquire) > 0 || self.has_jobs()) && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether processes of jobs run.
    fn has_jobs(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.jobs.as_ref().is_some_and(|jobs| !jobs.have_ended());
        #[cfg(not(target_os = "linux"))]
        return false;
    }

    /// How many processes of jobs each user has, in what all grids share. The hub hears how much room there is for more.
    fn count_jobs(&self) -> BTreeMap<String, u32> {
        #[cfg(target_os = "linux")]
        if let Some(jobs) = &self.jobs {
            jobs.tell_room();
            return jobs.count();
        }
        BTreeMap::new()
    }

    /// The name of a user in what all grids share.
    fn known(&self, user: &str) -> String {
        known_as(user, self.guest_of.as_deref())
    }

    /// The name by which the grid of this service knows a user, from the name that all grids share. `None`: it is no user of that grid. The
    /// executor's own grid knows the users of others by the shared name.
    fn name_of(&self, known: &str) -> Option<String> {
        match &self.guest_of {
            None => Some(known.to_owned()),
            Some(grid) => known.split_once('@').filter(|(_, of)| of == grid).map(|(user, _)| user.to_owned()),
        }
    }

    /// The work here since the start. Places are offered by the executor's own grid only.
    fn worked(&self) -> Worked {
        let worked = self.common.work.worked(|known| self.name_of(known));
        if self.guest_of.is_some() { Worked { offered: 0, ..worked } } else { worked }
    }

    /// What runs here now, and for whom. The hub of the executor's own grid hears of users of another grid too, and the hub of that grid
    /// of its own users only.
    fn status(&self) -> Status {
        let mut tally = Tally::default();
        let name = |known: &str| self.name_of(known);
        if self.guest_of.is_none() {
            let is_open = self.common.places.closed().is_none();
            self.common.work.look(Instant::now(), is_open, self.options.capacity);
        }
        for session in lock(&self.common.sessions).values() {
            let Some(user) = name(&session.known) else { continue };
            for started in lock(&session.interpreters).values() {
                let link = (Some(started.level), Some(session.from));
                tally.add(&user, What::Interpreters, link, 1, 0);
            }
        }
        let (all, ranks) = self.common.places.in_use();
        let of_jobs = self.count_jobs();
        for (known, all) in &ranks {
            let Some(user) = name(known) else { continue };
            // The places of jobs are counted with those of ranks.
            let jobs = of_jobs.get(known).copied().unwrap_or_default().min(*all);
            for (what, count) in [(What::Ranks, all - jobs), (What::Jobs, jobs)] {
                if count > 0 {
                    tally.add(&user, what, (None, None), count, 0);
                }
            }
        }
        let used = self.guest_of.as_ref().map_or(all, |grid| self.common.places.in_use_by(grid));
        self.transfers.iter().for_each(|transfers| transfers.count(&mut tally));
        self.spaces.iter().for_each(|spaces| spaces.count(&mut tally));
        let status = self.activity.status(Instant::now(), (self.options.capacity, used), tally);
        Status { closed: self.common.places.closed().unwrap_or_default(), ..status }
    }

    fn serve(&self, peer: Peer, wanted: Wanted) -> io::Result<()> {
        match wanted {
            Wanted::Control => self.serve_user(peer),
            Wanted::Data { token } => self.pass_on(token, &peer),
            Wanted::Ranks => self.serve_ranks(peer),
            Wanted::Transfer => self.transfers()?.serve(peer),
            Wanted::Files => self.transfers()?.serve_files(peer),
            Wanted::Executor => self.transfers()?.serve_executor(peer),
            Wanted::Stream { token, number } => self.transfers()?.serve_stream(peer, token, number),
            Wanted::Replica => match &self.spaces {
                Some(spaces) => spaces.serve_replica(peer),
                None => Err(refused("no spaces are served here")),
            },
            Wanted::Join => self.hub()?.serve_joining(peer),
            Wanted::Hub => self.hub()?.serve(peer),
            Wanted::Hubs => self.hub()?.serve_hub(peer),
            Wanted::Relay { token } => self.hub()?.serve_relayed(peer, token),
            Wanted::Content => self.hub()?.serve_contents(peer),
            Wanted::Comm { .. } => Err(refused("this is an executor, and no process of Dask")),
            Wanted::Space { shakes } => match &self.spaces {
                Some(spaces) => spaces.serve(peer, shakes),
                None => Err(refused("no spaces are served here")),
            },
        }
    }

    fn transfers(&self) -> io::Result<&Transfers> {
        self.transfers.as_ref().ok_or_else(|| refused("this executor is lent: it has places, and no files"))
    }

    fn hub(&self) -> io::Result<&Arc<Hub>> {
        self.options.hub.as_ref().ok_or_else(|| refused("this executor is no hub"))
    }

    /// Serves a data link: passes its socket to the interpreter that was started under this token. The interpreter does the
    /// handshake.
    fn pass_on(&self, token: Token, peer: &Peer) -> io::Result<()> {
        let expected = lock(&self.common.expecting).remove(&token);
        let (from, process) = expected.ok_or_else(|| refused("an unknown token"))?;
        if from.is_some() && peer.from != from {
            return Err(refused("a token from another machine than it was given to"));
        }
        lock(&process).give(&peer.socket)
    }

    /// Serves a user's control link: authenticates the user, checks that they are accepted, and serves their requests until
    /// they are gone.
    fn serve_user(&self, mut peer: Peer) -> io::Result<()> {
        let shown = self.member.newest();
        let (shaken, user) = peer.shake_hands(&shown, control::LEVELS)?;
        let entered = self.admit(&peer, &user, &self.common.controls);
        let from = peer.from.ok_or_else(|| refused("control links come over the network"))?;
        let (levels, number, certificate) = (self.levels_for(from), peer.number, shaken.peer_certificate().clone());
        let (link, reader) = Link::new(peer.socket, Some(shaken), MAX_CONTROL_BODY)?;
        let _entered = match entered {
            Ok(entered) => entered,
            Err(why) => return Err(turn_away(&link, reader, &FromExecutor::Away { reason: why.to_string() }, why)),
        };
        let session = Arc::new(Session {
            number,
            link,
            known: self.known(&user),
            user,
            guest_of: self.guest_of.clone(),
            activity: self.activity.clone(),
            certificate: certificate.to_vec(),
            shown,
            from,
            levels,
            interpreters: Mutex::default(),
            confined: Mutex::default(),
            told: Mutex::default(),
            waits: Mutex::default(),
        });
        lock(&self.common.sessions).insert(number, session.clone());
        let _leaving = Leaving { service: self, number };
        self.log.visit(&session.known, format!("serving {}", session.known));
        let Options { capacity, python, phalanx: Version(phalanx), cage, mut facts, .. } = self.options.clone();
        facts.extend(cage.facts());
        let cage = cage.report().clone();
        tell(&session.link, &FromExecutor::Offer { capacity, python, phalanx, levels, cage, facts });
        if let Some(why) = self.common.places.closed() {
            tell(&session.link, &FromExecutor::Closed { why: Some(why) });
        }
        let news = RefCell::new(Exchange::new(self.member.news()));
        let mut pulse = Pulse::new();
        let on_frame = |frame: Frame| self.on_frame(&session, &mut news.borrow_mut(), frame);
        reader.run(PAUSE, on_frame, |link| {
            if let Some((message, body)) = news.borrow_mut().due() {
                tell_with(link, &FromExecutor::News(message), body);
            }
            pulse.pause_with(link, || FromExecutor::Beat { stopped: session.stopped() });
            self.reap(&session);
            self.look_at_places(&session);
            if self.closed.load(Ordering::Acquire) {
                link.close();
            }
        });
        Ok(())
    }

    /// Serves the launcher of a message passing program. The program can have ranks here until the launcher is gone.
    #[cfg(target_os = "linux")]
    fn serve_ranks(&self, mut peer: Peer) -> io::Result<()> {
        let shown = self.member.newest();
        let (shaken, user) = peer.shake_hands(&shown, control::LEVELS)?;
        let entered = self.admit(&peer, &user, &self.common.launchers);
        let (from, certificate) = (peer.from, shaken.peer_certificate().to_vec());
        let (link, reader) = Link::new(peer.socket, Some(shaken), MOST_PIECE as u64)?;
        let _entered = match entered {
            Ok(entered) => entered,
            Err(why) => return Err(turn_away(&link, reader, &FromMachine::Refused { reason: why.to_string() }, why)),
        };
        let known = &self.known(&user);
        self.log.visit(known, format!("serving {known}, who starts a message passing program"));
        self.programs.fetch_add(1, Ordering::AcqRel);
        let Options { capacity, phalanx, policy, command, environment, cage, .. } = &self.options;
        let terms = Terms {
            capacity: *capacity,
            phalanx,
            user: &user,
            known,
            from,
            certificate: &certificate,
            member: &shown,
            places: &self.common.places,
            policy,
            python: command.first().map_or("python3", String::as_str),
            environment,
            cage,
            folders: &self.common.folders,
            take_overdue: &|| self.common.places.overdue(Instant::now()).into_iter().for_each(|late| self.take(late)),
            closed: &self.closed,
            activity: &self.activity,
            meter: &self.common.meter,
        };
        serve_program(&link, reader, &terms);
        self.log.visit(known, format!("{known}'s message passing program is gone"));
        self.programs.fetch_sub(1, Ordering::AcqRel);
        Ok(())
    }

    /// Tells the launcher of a message passing program that none runs here.
    #[cfg(not(target_os = "linux"))]
    fn serve_ranks(&self, mut peer: Peer) -> io::Result<()> {
        let shown = self.member.newest();
        let (shaken, user) = peer.shake_hands(&shown, control::LEVELS)?;
        check_accepted(&self.options.accepted, &user)?;
        let (link, reader) = Link::new(peer.socket, Some(shaken), MOST_PIECE as u64)?;
        let why = refused("message passing programs run on Linux, and this executor is on another system");
        Err(turn_away(&link, reader, &FromMachine::Refused { reason: why.to_string() }, why))
    }

    /// Takes a place for a user that is accepted here. From then on no flood disconnects the user.
    fn admit(&self, peer: &Peer, user: &str, quota: &Arc<Quota>) -> io::Result<Entered> {
        check_accepted(&self.options.accepted, user)?;
        let entered = quota.enter(&self.known(user))?;
        peer.proved();
        Ok(entered)
    }

    /// The levels, for each mark, that this machine's owner allows for a user at this address.
    fn levels_for(&self, from: IpAddr) -> [LevelSet; 3] {
        let policy = &self.options.policy;
        let place = policy.place(Some(from), Role::User.name());
        Mark::ALL.map(|mark| policy.offered(&place, mark))
    }

    fn on_frame(&self, session: &Session, news: &mut Exchange, frame: Frame) {
        match decode(&frame.header) {
            Ok(ToExecutor::Recruit { request, levels, program, waits, memory, gpus }) => {
                self.recruit(session, request, levels, program, (memory, gpus), waits);
            }
            Ok(ToExecutor::Release { request }) => self.release(session, request),
            Ok(ToExecutor::News(message)) => match news.hear(message, &frame.body) {
                Ok(learned) => log_learned(&self.log, &learned, &session.user),
                Err(_) => session.link.close(),
            },
            Ok(ToExecutor::Find { programs }) => self.find(session, &programs),
            Ok(ToExecutor::Beat) => {}
            // A user that sends requests and reads no answers would fill the memory with them.
            Ok(ToExecutor::Status) if session.link.is_blocked() => session.link.close(),
            Ok(ToExecutor::Status) => {
                let own = self.name_of(&session.known).unwrap_or_default();
                tell(&session.link, &FromExecutor::Status(Box::new(for_user(self.status(), &own))));
            }
            Err(_) => session.link.close(),
        }
    }

    /// Tells a manager whether users' processes find programs here.
    fn find(&self, session: &Session, programs: &[String]) {
        if !are_words(programs) || session.link.is_blocked() {
            return session.link.close(); // a manager that reads no answers would fill the memory with them
        }
        for program in programs {
            let is_found = self.options.cage.finds(program);
            tell(&session.link, &FromExecutor::Found { program: program.clone(), is_found });
        }
    }

    /// Starts an interpreter, at once or as soon as a place is free.
    fn recruit(
        &self,
        session: &Session,
        number: u32,
        levels: Levels,
        program: [u8; 16],
        (memory, gpus): (Option<u64>, u32),
        waits: bool,
    ) {
        if let Some(why) = self.common.places.closed() {
            // A manager that sends requests and reads no answers would fill the memory with them.
            return if session.link.is_blocked() {
                session.link.close()
            } else {
                refuse(session, number, closed(&why))
            };
        }
        let holder = Holder { user: session.known.clone(), program };
        let checked =
            session.check(number, levels).and_then(|()| match self.common.places.is_open(session.number, number) {
                true => Err(made_before()),
                false => self.common.requests.enter(&session.known),
            });
        match checked {
            Ok(entered) => {
                let (session, since) = (session.number, Instant::now());
                self.common.places.request(Request {
                    session,
                    number,
                    holder,
                    levels,
                    memory,
                    gpus,
                    waits,
                    since,
                    entered,
                });
            }
            // A manager that sends requests and reads no answers would fill the memory with them.
            Err(_) if session.link.is_blocked() => return session.link.close(),
            Err(error) => return refuse(session, number, error.to_string()),
        }
        self.look_at_places(session);
    }

    /// Starts the session's interpreters that have a place now, and says what else became of its requests. Takes places that
    /// another session, of any user, did not give back in time: that session's own thread may be held up by its manager.
    fn look_at_places(&self, session: &Session) {
        if let Some(why) = self.common.places.closed() {
            let requests = self.common.places.shut(session.number);
            requests.into_iter().for_each(|number| refuse(session, number, closed(&why)));
        }
        let look = self.common.places.look(session.number, Instant::now());
        for late in look.overdue {
            self.take(late);
        }
        look.given.into_iter().for_each(|given| self.start(session, given));
        if !look.refused.is_empty() && session.link.is_blocked() {
            return session.link.close(); // the manager reads no answers, which would fill the memory
        }
        session.tell_waits(look.usage.filter(|_| look.waits));
        for request in look.refused {
            refuse(session, request.number, self.in_use(look.usage));
        }
        let told = std::mem::replace(&mut *lock(&session.told), look.keep);
        if told != look.keep {
            let (keep, patience) = (look.keep, SHARE_PATIENCE.as_millis() as u32);
            tell(&session.link, &FromExecutor::Share { keep, patience });
        }
    }

    /// Why a user gets no interpreter, with who holds the places, if that is known.
    fn in_use(&self, usage: Option<Usage>) -> String {
        let mut why = format!("all {} interpreters of this machine are in use", self.options.capacity);
        usage.and_then(|it| it.holders()).iter().for_each(|holders| why += &format!(", {holders}"));
        usage.and_then(|it| it.queue()).iter().for_each(|queue| why += &format!("; {queue}"));
        why
    }

    /// Takes places from a session for another user: those that it has not used yet, and its newest interpreters.
    fn take(&self, late: Overdue) {
        let Some(session) = lock(&self.common.sessions).get(&late.session).cloned() else { return };
        let session = &*session;
        late.unused.into_iter().for_each(|given| refuse(session, given.into_parts().0.number, self.in_use(None)));
        let mut newest: Vec<u32> = lock(&session.interpreters).keys().copied().collect();
        newest.sort_unstable_by_key(|request| std::cmp::Reverse(*request));
        let taken: Vec<u32> = newest.into_iter().take(late.interpreters as usize).collect();
        let what = format!("{} did not give interpreters back in time: they are taken for another user", session.user);
        self.log.limited(Severity::Info, &what, &what);
        for request in taken {
            // Said first, so that the manager knows why the data link ends.
            tell(&session.link, &FromExecutor::Taken { request });
            self.end(session, request);
        }
    }

    fn start(&self, session: &Session, given: Given) {
        let (request, place) = given.into_parts();
        match self.start_process(session, &request, place) {
            Ok((token, certificate)) => {
                let message = FromExecutor::Recruited { request: request.number, token };
                session.link.queue(Mark::None, encode(&message, certificate.len() as u64), vec![certificate.into()]);
                session.link.flush();
                // The machine may have been closed after the place was given, and before the interpreter was there to be ended.
                if self.common.places.closed().is_some() {
                    tell(&session.link, &FromExecutor::Taken { request: request.number });
                    self.end(session, request.number);
                }
            }
            Err(error) => refuse(session, request.number, error.to_string()),
        }
    }

    fn start_process(
        &self,
        session: &Session,
        &Request { number: request, levels, memory, gpus, .. }: &Request,
        place: Box<dyn Any + Send>,
    ) -> io::Result<(Token, Vec<u8>)> {
        if lock(&session.interpreters).contains_key(&request) {
            return Err(made_before());
        }
        let identity = |error: IdentityError| io::Error::other(error);
        let own = KeyedCertificate::ephemeral().map_err(identity)?;
        let secrets = levels.need_handshake().then(|| Secrets::new(&own, &session.certificate));
        let token = random_token();
        let (machine, said) = (self.member.name.clone(), Preamble::Data { token }.bound());
        let papers = Some(Papers::new(&own, &session.certificate, &session.shown));
        let bars = session.bars(&self.options.cage)?.with_memory(memory)?;
        let gpus = self.common.gpus.take(gpus).map_err(io::Error::other)?;
        let (opened, account) = (bars.opened(), bars.account());
        let begin = Begin { machine, path: Vec::new(), opened, account, levels, said, secrets, papers };
        let process = Process::start(&self.options.command, &begin, Some(&bars), gpus)?;
        let metered = self.common.meter.begin(&session.known, What::Interpreters, vec![process.number()]);
        let process = Arc::new(Mutex::new(process));
        // A handshake proves the user, whose links may come by different ways: one through a hub, and the next one directly.
        let from = (!levels.need_handshake()).then_some(session.from);
        lock(&self.common.expecting).insert(token, (from, process.clone()));
        lock(&session.interpreters)
            .insert(request, Started { process, metered, token, level: levels.base, _place: place });
        Ok((token, own.certificate.to_vec()))
    }

    /// Ends an interpreter, or withdraws the request for it. Does nothing if it has ended before.
    fn release(&self, session: &Session, request: u32) {
        match self.end(session, request) {
            Some(Cause::Exceeded { why }) => tell(&session.link, &FromExecutor::Exceeded { request, why }),
            Some(cause) => tell(&session.link, &FromExecutor::Ended { request, how: how(cause) }),
            None => drop(self.common.places.withdraw(session.number, request)),
        }
    }

    /// Ends an interpreter and gives its place back. Returns how it ended.
    fn end(&self, session: &Session, request: u32) -> Option<Cause> {
        let started = lock(&session.interpreters).remove(&request)?;
        lock(&self.common.expecting).remove(&started.token);
        started.metered.look();
        let cause = lock(&started.process).end();
        // A manager may release an interpreter that has died before this executor has noticed. So the way of the end tells losses apart.
        session.activity.note_end(&session.user, &how(cause.clone()));
        Some(cause)
    }

    /// Frees the places of interpreters that ended by themselves. Their user notices it on the data link.
    fn reap(&self, session: &Session) {
        let ended = |started: &Started| lock(&started.process).has_ended();
        let interpreters = lock(&session.interpreters);
        let gone: Vec<u32> = interpreters.iter().filter(|(_, it)| ended(it)).map(|(request, _)| *request).collect();
        drop(interpreters);
        gone.into_iter().for_each(|request| self.release(session, request));
    }
}
