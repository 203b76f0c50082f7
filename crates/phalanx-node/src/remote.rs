//! Interpreters on other machines, recruited through their executors.
//!
//! One control link to each executor requests and releases interpreters. Each interpreter has a data link of its own, and does
//! that link's handshake itself. No byte of a program passes through the executor.

use crate::control::{Pulse, tell, tell_with};
use crate::dial::{DIAL_PATIENCE, check_version, introduce, printable, unreachable};
use crate::dialler::{Dialler, is_unexpected};
use crate::recruit::{Has, Hold, LASTS, Missing, Recruit, RecruitError, Source};
use phalanx_core::event::{Cause, Lack};
use phalanx_core::hub::{HAS, Needs, answer, is_word};
use phalanx_core::ids::InterpreterId;
use phalanx_core::level::{Agreed, LevelSet, Levels, Policy};
use phalanx_core::wire::hub::Facts;
use phalanx_core::wire::machines::Usage;
use phalanx_core::wire::{FromExecutor, Given, MAX_BODY, MAX_CONTROL_BODY, ToExecutor, decode};
use phalanx_net::address::{Address, DEFAULT_PORT};
use phalanx_net::dial::{Expected, Introduced, Target, Watcher, called, dial, host_of, watch};
use phalanx_net::frames::Frame;
use phalanx_net::identity::{Client, IdentityError, Member, Role, Scope};
use phalanx_net::link::{Link, Reader};
use phalanx_net::news::{Exchange, note_unwritten};
use phalanx_net::preamble::Preamble;
use phalanx_net::socket::Socket;
use phalanx_net::sync::lock;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// Timeout for an executor to start an interpreter, and for the interpreter's handshake. It is long because Python starts
/// slowly on a busy machine. An executor that falls silent meanwhile is given up earlier.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// How long to wait for the executor to say how an interpreter ended.
const WORDS_PATIENCE: Duration = Duration::from_secs(1);
/// An executor heard from this recently vouches for its interpreters. It is a little more than two of its beats.
const VOUCHES: Duration = Duration::from_secs(1);
/// Pause before an executor that could not be reached is tried again. So several recruits at once fail after one attempt.
const REST: Duration = Duration::from_millis(90);
/// Most interpreters that one executor is believed to offer, and most that are recruited unless a contract asks for more.
const MOST: u32 = 4096;
const PAUSE: Duration = Duration::from_millis(200);
/// Interval at which a manager looks who is in its grid.
const DISCOVER: Duration = Duration::from_secs(1);
/// How long an executor is waited for that is to look for programs.
const FIND_PATIENCE: Duration = Duration::from_secs(2);
/// Most facts, and longest fact, that an executor is believed.
const MOST_FACTS: usize = 256;
const LONGEST_FACT: usize = 400;
/// An executor that could not be reached when it was new is tried again after this time.
const TRIED_AGAIN: Duration = Duration::from_secs(10);

/// The executors that the user named.
pub struct Executors {
    hosts: Arc<Hosts>,
    next_request: AtomicU32,
    asks: Asks,
    /// Held while a thread decides which executor to ask next.
    choosing: Mutex<()>,
}

/// What each request for an interpreter says.
#[derive(Debug, Clone, Copy)]
pub struct Asks {
    /// The token of the user's program.
    pub program: [u8; 16],
    /// The bytes of memory that the interpreter may use. `None`: what the machine gives.
    pub memory: Option<u64>,
    /// How many graphics processors are to be its own.
    pub gpus: u32,
}

/// The executors, which may come and go.
#[derive(Default)]
struct Hosts {
    all: Mutex<Vec<Arc<Host>>>,
    /// Why no executor of the grid is suitable, as was found out last.
    lack: Mutex<String>,
    is_closed: AtomicBool,
}

impl Hosts {
    fn all(&self) -> Vec<Arc<Host>> {
        lock(&self.all).clone()
    }
}

/// One executor, and what is known of it.
struct Host {
    address: Address,
    /// How messages name it: by the member's name, or by its address.
    called: String,
    /// Who this end is, and whom it expects here.
    dialler: Dialler,
    python: String,
    policy: Arc<Policy>,
    /// The capacity that it offered when it was first reached.
    capacity: AtomicU32,
    used: AtomicU32,
    /// Whether the last attempt to reach it failed. Other executors are asked before it.
    failed: AtomicBool,
    closed: AtomicBool,
    session: Mutex<SessionState>,
    /// Connections in progress, which closing the manager aborts.
    opening: Mutex<Vec<Arc<Socket>>>,
}

enum SessionState {
    Open(Arc<Session>),
    Closed { since: Instant, why: String },
}

impl SessionState {
    /// Ends the control link, and drops its socket before the manager is dropped.
    fn let_go(&mut self) {
        if let SessionState::Open(session) = &*self {
            session.link.close();
            *self = SessionState::Closed { since: Instant::now(), why: "the manager is closed".to_owned() };
        }
    }
}

/// An open control link.
struct Session {
    link: Arc<Link>,
    name: String,
    /// The user, with the certificate that was shown to the executor.
    shown: Member,
    /// The executor's certificate, in DER.
    certificate: Vec<u8>,
    /// Where the executor was reached. Data links go there too, even if its name resolves differently by then.
    target: Target,
    /// Set once the executor has said what it takes.
    agreed: OnceLock<Agreed>,
    /// The channel for answers about each interpreter, from the request until the interpreter has ended. `None` once the link
    /// has ended.
    waiting: Mutex<Option<Waiting>>,
    /// How many interpreters the executor lets this program keep. `None`: it has never asked for any.
    keep: Mutex<Option<u32>>,
    /// Who holds the places there, while requests wait.
    waits: Mutex<Option<Usage>>,
    /// Why the executor gives no interpreters now, and has taken those that it gave. `None`: it does.
    closed: Mutex<Option<String>>,
    /// The stopped interpreters among them, as the executor last reported.
    stopped: Mutex<HashSet<u32>>,
    /// Whether the executor was heard from a moment ago.
    heard: AtomicBool,
    /// What the machine has. Signalled when the executor has told more.
    facts: (Mutex<Facts>, Condvar),
}

/// A connection in progress.
struct Opening<'a> {
    host: &'a Host,
    socket: Arc<Socket>,
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        lock(&self.host.opening).retain(|socket| !Arc::ptr_eq(socket, &self.socket));
    }
}

/// What an executor offers.
struct Offer {
    capacity: u32,
    python: String,
    phalanx: String,
    levels: [LevelSet; 3],
    facts: Facts,
}

/// The interpreter of each request with the number of its own graphics processors, and the channel for its answers.
type Waiting = HashMap<u32, ((InterpreterId, u32), Sender<Answer>)>;

enum Answer {
    Recruited { token: [u8; 16], certificate: Vec<u8> },
    Refused { reason: String },
    Ended { how: String },
    Exceeded { why: String },
    Taken,
}

/// An interpreter that an executor runs for us. Dropping this releases it.
pub struct Requested {
    host: Arc<Host>,
    session: Arc<Session>,
    request: u32,
    /// The token of the user's program.
    program: [u8; 16],
    /// The interpreter's certificate, in DER.
    certificate: Vec<u8>,
    answer: Receiver<Answer>,
    released: bool,
}

impl Executors {
    /// Reaches all executors at once. With `grid`, they are those of the grid that are here and have what is needed, which is looked at again
    /// and again. Returns an error if they cannot meet the contract `asked`.
    pub fn connect(
        (addresses, grid): (Vec<Address>, Option<(String, Needs)>),
        (dialler, asks): (&Dialler, Asks),
        policy: Policy,
        python: String,
        asked: Option<u32>,
    ) -> Result<Executors, RecruitError> {
        let (dialler, policy) = (dialler.clone(), Arc::new(policy));
        let host = move |address| Arc::new(Host::new(address, &dialler, &python, &policy));
        let all: Vec<_> = addresses.into_iter().map(&host).collect();
        let reached: Vec<_> = thread::scope(|scope| {
            let reaching: Vec<_> = all.iter().map(|host| scope.spawn(|| host.open())).collect();
            reaching.into_iter().map(|thread| thread.join().expect("reaching a host does not panic")).collect()
        });
        let hosts = Arc::new(Hosts { all: Mutex::new(all), ..Hosts::default() });
        let executors = Executors { hosts, asks, next_request: AtomicU32::new(1), choosing: Mutex::new(()) };
        executors.check_contract(asked, &reached)?;
        if let Some((grid, needs)) = grid {
            let (hosts, watch) = (executors.hosts.clone(), watch(&grid, &needs)?);
            let discovering = move || discover(&hosts, (&grid, watch), host);
            thread::Builder::new().name("phalanx-discover".into()).spawn(discovering)?;
        }
        Ok(executors)
    }

    fn check_contract(
        &self,
        asked: Option<u32>,
        reached: &[Result<Arc<Session>, RecruitError>],
    ) -> Result<(), RecruitError> {
        // Not made up for by the other machines: somebody may have taken the place of one.
        if let Some(Err(RecruitError::Unexpected(why))) = reached.iter().find(|it| is_stranger(it)) {
            return Err(RecruitError::Unexpected(why.clone()));
        }
        let offer = |(host, outcome): (&Arc<Host>, &Result<_, RecruitError>)| match outcome {
            Ok(_) => format!("{} offers {}", host.called, host.capacity.load(Ordering::Relaxed)),
            Err(error) => error.to_string(),
        };
        let offers = self.hosts.all().iter().zip(reached).map(offer).collect::<Vec<_>>().join("; ");
        let offered = self.offered();
        if offered == 0 {
            return Err(RecruitError::Unreachable(offers));
        }
        match asked {
            Some(asked) if asked > offered => Err(RecruitError::Contract { asked, offered, offers }),
            _ => Ok(()),
        }
    }

    /// Removes the least loaded executor from `untried`. The interpreter is counted as used there in the same step, so that
    /// threads recruiting at the same time do not all choose the same executor.
    fn choose<'a>(&self, untried: &mut Vec<&'a Arc<Host>>) -> Option<&'a Arc<Host>> {
        let _alone = lock(&self.choosing);
        let (best, _) = untried.iter().enumerate().min_by_key(|(_, host)| {
            (host.failed.load(Ordering::Relaxed), host.closed().is_some(), host.share_used())
        })?;
        let host = untried.remove(best);
        host.used.fetch_add(1, Ordering::Relaxed);
        Some(host)
    }
}

/// Whether another member answered than the one that is expected.
fn is_stranger<T>(outcome: &Result<T, RecruitError>) -> bool {
    matches!(outcome, Err(RecruitError::Unexpected(_)))
}

impl Source for Executors {
    fn offered(&self) -> u32 {
        self.hosts.all().iter().fold(0, |sum, host| host.capacity.load(Ordering::Relaxed).saturating_add(sum)).min(MOST)
    }

    /// Recruits from the least loaded executor. If that fails, tries the next one. Waits for places of other users only if no
    /// executor has a free one.
    fn recruit(&self, id: InterpreterId) -> Result<Recruit, RecruitError> {
        let (mut failures, mut is_closed) = (Vec::new(), false);
        let hosts = self.hosts.all();
        let only_one = hosts.len() == 1;
        for waits in if only_one { &[true][..] } else { &[false, true] } {
            let answers = |host: &&Arc<Host>| !*waits || only_one || !host.failed.load(Ordering::Relaxed);
            let mut untried: Vec<_> = hosts.iter().filter(answers).collect();
            while let Some(host) = self.choose(&mut untried) {
                let request = self.next_request.fetch_add(1, Ordering::Relaxed);
                match host.recruit(id, request, self.asks, *waits) {
                    Ok(recruit) => return Ok(recruit),
                    Err(error) => {
                        is_closed |= matches!(error, RecruitError::Closed(_));
                        failures.push((host.address.to_string(), error.to_string()));
                    }
                }
            }
        }
        if hosts.is_empty() {
            return Err(RecruitError::Unreachable(lock(&self.hosts.lack).clone()));
        }
        let last: BTreeMap<String, String> = failures.into_iter().collect();
        let why = last.into_values().collect::<Vec<_>>().join("; ");
        Err(if is_closed { RecruitError::Closed(why) } else { RecruitError::Unreachable(why) })
    }

    fn recruit_for(&self, id: InterpreterId, needs: &Needs) -> Result<Recruit, Missing> {
        let (mut here, mut away) = (Vec::new(), Vec::new());
        let hosts = self.hosts.all();
        for host in &hosts {
            match host.open() {
                Ok(session) => {
                    session.learn(&needs.software);
                    here.push((host, session.facts()));
                }
                Err(error) => away.push(error.to_string()),
            }
        }
        let mut untried: Vec<_> =
            here.iter().filter(|(_, facts)| needs.are_met(facts)).map(|(host, _)| *host).collect();
        if untried.is_empty() {
            let members: Vec<_> = here.iter().map(|(host, facts)| (host.called.as_str(), facts)).collect();
            let why = needs.unmet_by("no machine of this program", &members);
            let lack = if away.is_empty() && !hosts.is_empty() { Lack::Never } else { Lack::Away };
            away.insert(0, why);
            return Err((lack, away.join("; ")));
        }
        let asks = Asks { gpus: needs.gpus.try_into().unwrap_or(u32::MAX), ..self.asks };
        let mut failures = Vec::new();
        while let Some(host) = self.choose(&mut untried) {
            match host.recruit(id, self.next_request.fetch_add(1, Ordering::Relaxed), asks, true) {
                Ok(recruit) => return Ok(recruit),
                Err(error) => failures.push(error.to_string()),
            }
        }
        Err((Lack::Busy, failures.join("; ")))
    }

    fn learn(&self, programs: &[String]) -> Vec<(InterpreterId, Has)> {
        let open = |host: &Arc<Host>| match host.session.try_lock().as_deref() {
            Ok(SessionState::Open(session)) => Some(session.clone()),
            _ => None,
        };
        let sessions: Vec<Arc<Session>> = self.hosts.all().iter().filter_map(open).collect();
        thread::scope(|scope| {
            sessions.iter().for_each(|session| drop(scope.spawn(move || session.learn(programs))));
        });
        sessions.iter().flat_map(|session| session.have()).collect()
    }

    fn shares(&self) -> Vec<(Vec<InterpreterId>, u32)> {
        let session = |host: &Arc<Host>| match host.session.try_lock().as_deref() {
            Ok(SessionState::Open(session)) => session.share(),
            _ => None,
        };
        self.hosts.all().iter().filter_map(session).collect()
    }

    fn waits(&self) -> Option<String> {
        let wait = |host: &Arc<Host>| match host.session.try_lock().as_deref() {
            Ok(SessionState::Open(session)) => (*lock(&session.waits)).map(|usage| format!("{}: {usage}", host.called)),
            _ => None,
        };
        let wait = |host: &Arc<Host>| {
            let closed = host.closed().map(|why| format!("{} is closed: {why}", host.called));
            closed.or_else(|| wait(host))
        };
        let waits: Vec<String> = self.hosts.all().iter().filter_map(wait).collect();
        (!waits.is_empty()).then(|| waits.join("; "))
    }

    fn close(&self) {
        self.hosts.is_closed.store(true, Ordering::Release);
        self.hosts.all().iter().for_each(|host| host.close());
    }
}

impl Drop for Executors {
    fn drop(&mut self) {
        self.close();
    }
}

/// What an executor tells, as far as it is not too much.
fn bounded(facts: Facts) -> Facts {
    let is_short = |fact: &(String, String)| fact.0.len() + fact.1.len() <= LONGEST_FACT && !fact.0.starts_with(HAS);
    facts.into_iter().filter(is_short).take(MOST_FACTS / 2).collect()
}

/// Looks who is in the grid, as long as the manager is open. Executors that have come are added once they were reached. Those that have
/// gone are left out once their control link has ended.
fn discover(hosts: &Hosts, (grid, mut watch): (&str, Watcher), host: impl Fn(Address) -> Arc<Host>) {
    let mut failed: HashMap<String, Instant> = HashMap::new();
    loop {
        let until = Instant::now() + DISCOVER;
        while Instant::now() < until {
            if hosts.is_closed.load(Ordering::Acquire) {
                return;
            }
            thread::sleep(PAUSE);
        }
        let here = match watch() {
            Ok(here) if here.is_empty() => {
                *lock(&hosts.lack) = format!("no executor of the grid {grid} runs");
                here
            }
            Ok(here) => here,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                *lock(&hosts.lack) = error.to_string();
                Vec::new()
            }
            Err(_) => continue, // the hub is away; what is known stays
        };
        let here: Vec<Address> =
            here.iter().map(|name| Address { host: host_of(name, grid), port: DEFAULT_PORT }).collect();
        let (known, gone): (Vec<_>, Vec<_>) = hosts.all().into_iter().partition(|it| here.contains(&it.address));
        let gone = gone.iter().filter(|it| !it.is_open());
        gone.for_each(|gone| lock(&hosts.all).retain(|it| !Arc::ptr_eq(it, gone)));
        failed.retain(|_, when| when.elapsed() < TRIED_AGAIN);
        for address in here.into_iter().filter(|it| known.iter().all(|known| known.address != *it)) {
            if failed.contains_key(&address.host) {
                continue;
            }
            let new = host(address.clone());
            match new.open() {
                Ok(_) => lock(&hosts.all).push(new.clone()),
                Err(_) => drop(failed.insert(address.host, Instant::now())),
            }
            if hosts.is_closed.load(Ordering::Acquire) {
                return new.close();
            }
        }
    }
}

impl Host {
    fn new(address: Address, dialler: &Dialler, python: &str, policy: &Arc<Policy>) -> Host {
        Host {
            called: called(&address),
            address,
            dialler: dialler.clone(),
            python: python.to_owned(),
            policy: policy.clone(),
            capacity: AtomicU32::new(0),
            used: AtomicU32::new(0),
            failed: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            session: Mutex::new(SessionState::Closed { since: Instant::now(), why: String::new() }),
            opening: Mutex::default(),
        }
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        lock(&self.opening).iter().for_each(|socket| socket.shut_down());
        // A connection in progress is released once it is open.
        if let Ok(mut state) = self.session.try_lock() {
            state.let_go();
        }
    }

    /// Whether its control link is open, or is being opened.
    fn is_open(&self) -> bool {
        match self.session.try_lock().as_deref() {
            Ok(SessionState::Open(session)) => !session.link.is_closed(),
            Ok(SessionState::Closed { .. }) => false,
            Err(_) => true,
        }
    }

    /// Why its owner has closed it, as far as is known. `None`: it is open.
    fn closed(&self) -> Option<String> {
        match self.session.try_lock().as_deref() {
            Ok(SessionState::Open(session)) => lock(&session.closed).clone(),
            _ => None,
        }
    }

    /// The used part of the offer, in thousandths. The largest value if nothing is offered.
    fn share_used(&self) -> u32 {
        let capacity = self.capacity.load(Ordering::Relaxed);
        (self.used.load(Ordering::Relaxed) * 1000).checked_div(capacity).unwrap_or(u32::MAX)
    }

    /// The caller has already counted the interpreter as used. If recruiting fails, it is counted back here.
    fn recruit(
        self: &Arc<Host>,
        id: InterpreterId,
        request: u32,
        Asks { program, memory, gpus }: Asks,
        waits: bool,
    ) -> Result<Recruit, RecruitError> {
        let session = self.open().inspect_err(|_| self.count_back())?;
        if let Some(error) = self.closed_error(&session) {
            self.count_back();
            return Err(error);
        }
        let agreed = session.agreed.get().expect("an open session has heard the offer").clone();
        let Some(answer) = session.expect((id, gpus), request) else {
            self.count_back();
            return Err(RecruitError::Unreachable(format!("the connection to {} has just ended", self.called)));
        };
        let (host, certificate) = (self.clone(), Vec::new());
        let mut requested =
            Requested { host, session: session.clone(), request, program, certificate, answer, released: false };
        tell(&session.link, &ToExecutor::Recruit { request, levels: agreed.levels, program, waits, memory, gpus });
        let answer = self.await_answer(&requested.answer);
        let (token, certificate) = answer.map_err(|error| self.closed_error(&session).unwrap_or(error))?;
        let (link, reader) = self.data_link(&session, agreed.levels, token, &certificate).map_err(|error| {
            // An interpreter that is ended before its data link is there answers nothing.
            self.closed_error(&session).unwrap_or_else(|| self.unreachable(&error))
        })?;
        requested.certificate = certificate;
        let name = format!("{}/{}", session.name, id.0);
        let has = Has::new(session.facts(), gpus);
        Ok(Recruit { link, reader, name, machine: self.called.clone(), agreed, hold: Box::new(requested), has })
    }

    /// The error of a request to an executor whose owner has closed it. `None`: it is open.
    fn closed_error(&self, session: &Session) -> Option<RecruitError> {
        let why = lock(&session.closed).clone()?;
        Some(RecruitError::Closed(format!("{} is closed: {why}", self.called)))
    }

    fn await_answer(&self, answer: &Receiver<Answer>) -> Result<([u8; 16], Vec<u8>), RecruitError> {
        match answer.recv_timeout(START_PATIENCE) {
            Ok(Answer::Recruited { token, certificate }) => Ok((token, certificate)),
            Ok(Answer::Ended { how }) => {
                Err(RecruitError::Unreachable(format!("an interpreter of {} did not start: {how}", self.called)))
            }
            Ok(Answer::Exceeded { why }) => Err(RecruitError::Unreachable(format!(
                "an interpreter of {} did not start, and was ended: {why}",
                self.called
            ))),
            Ok(Answer::Refused { reason }) => {
                Err(RecruitError::Unreachable(format!("{} gives no interpreter: {}", self.called, printable(&reason))))
            }
            Ok(Answer::Taken) => {
                Err(RecruitError::Unreachable(format!("{} needs its interpreter for another user", self.called)))
            }
            Err(_) => Err(RecruitError::Unreachable(format!("{} does not answer", self.called))),
        }
    }

    fn data_link(
        &self,
        session: &Session,
        levels: Levels,
        token: [u8; 16],
        certificate: &[u8],
    ) -> io::Result<(Arc<Link>, Reader)> {
        let dialled = dial(&session.target, DIAL_PATIENCE)?;
        let _opening = self.opens(&dialled.socket)?;
        let preamble = Preamble::Data { token };
        let introduced = match levels.need_handshake() {
            true => dialled.introduce(
                preamble,
                Expected::Holder(session.shown.own(), certificate),
                levels,
                START_PATIENCE,
            )?,
            false => dialled.introduce_in_clear(preamble, START_PATIENCE)?,
        };
        introduced.link(MAX_BODY)
    }

    /// Registers a connection in progress, so that closing the manager aborts it. This holds as long as the returned value
    /// lives.
    fn opens(&self, socket: &Socket) -> io::Result<Opening<'_>> {
        let socket = Arc::new(socket.try_clone()?);
        lock(&self.opening).push(socket.clone());
        if self.closed.load(Ordering::Acquire) {
            socket.shut_down(); // the manager was closed before it could see this connection
        }
        Ok(Opening { host: self, socket })
    }

    /// Returns the control link, and opens it if there is none. An executor that was out of reach a moment ago is not tried.
    fn open(self: &Arc<Host>) -> Result<Arc<Session>, RecruitError> {
        let mut state = lock(&self.session);
        if self.closed.load(Ordering::Acquire) {
            return Err(RecruitError::Unreachable("the manager is closed".to_owned()));
        }
        let first = self.capacity.load(Ordering::Relaxed) == 0;
        match &*state {
            SessionState::Open(session) if !session.link.is_closed() => return Ok(session.clone()),
            SessionState::Closed { since, why } if !first && since.elapsed() < REST => {
                return Err(RecruitError::Unreachable(why.clone()));
            }
            _ => {}
        }
        let reached = self.reach();
        self.failed.store(reached.is_err(), Ordering::Relaxed);
        *state = match &reached {
            Ok(session) => SessionState::Open(session.clone()),
            Err(error) => SessionState::Closed { since: Instant::now(), why: error.to_string() },
        };
        if self.closed.load(Ordering::Acquire) {
            state.let_go();
        }
        reached
    }

    fn reach(self: &Arc<Host>) -> Result<Arc<Session>, RecruitError> {
        let shown = self.dialler.member().newest();
        let called = self.call_control(&shown.client_of(Role::Executor)?).map_err(|error| self.unreachable(&error))?;
        let (name, address, target) = (called.name()?, called.address()?, called.again.clone());
        let certificate = called.certificate();
        let (link, reader) = called.link(MAX_CONTROL_BODY)?;
        let (agreed, waiting) = (OnceLock::new(), Mutex::new(Some(HashMap::new())));
        let (stopped, heard, keep, waits, closed) =
            (Mutex::default(), AtomicBool::new(true), Mutex::default(), Mutex::default(), Mutex::default());
        let session = Arc::new(Session {
            link,
            name,
            shown,
            certificate,
            target,
            agreed,
            waiting,
            keep,
            waits,
            closed,
            stopped,
            heard,
            facts: Default::default(),
        });
        let (sender, offer) = channel::<Result<Offer, String>>();
        let (host, reading) = (self.clone(), session.clone());
        thread::Builder::new()
            .name(format!("phalanx-executor-{}", self.address))
            .spawn(move || host.read(reader, &reading, &sender))?;
        let refused = match offer.recv_timeout(DIAL_PATIENCE) {
            Ok(Err(reason)) => format!("{} refused this user: {}", self.called, printable(&reason)),
            Ok(Ok(offer)) => match self.accept(&offer, &address) {
                Ok(agreed) => {
                    self.capacity.store(offer.capacity.min(MOST), Ordering::Relaxed);
                    self.used.store(0, Ordering::Relaxed);
                    *lock(&session.facts.0) = bounded(offer.facts);
                    let _ = session.agreed.set(agreed);
                    return Ok(session);
                }
                Err(why) => why,
            },
            Err(_) => format!("{} ended the connection (its executor's own output says why)", self.called),
        };
        session.link.close();
        Err(RecruitError::Unreachable(refused))
    }

    fn call_control(&self, client: &Client) -> io::Result<Introduced> {
        let dialled = dial(&(&self.address).into(), DIAL_PATIENCE)?;
        let _opening = self.opens(&dialled.socket)?;
        let expected = self.dialler.at(&self.address);
        introduce(dialled, Expected::Judged(client, &expected), Preamble::Control)
    }

    /// Agrees on the levels of data links to the executor at `address`, if its versions are those of this program.
    fn accept(&self, offer: &Offer, address: &SocketAddr) -> Result<Agreed, String> {
        check_version(&self.called, &offer.phalanx)?;
        if offer.python != self.python {
            let theirs = printable(&offer.python);
            return Err(format!(
                "{} runs Python {theirs}, this program Python {}; code travels between equal versions only",
                self.called, self.python
            ));
        }
        let place = self.policy.place(Some(address.ip()), Role::Executor.name());
        self.policy.agree(&place, offer.levels).map_err(|conflict| format!("{}: {conflict}", self.called))
    }

    /// Reads the control link until it ends.
    fn read(&self, reader: Reader, session: &Session, offer: &Sender<Result<Offer, String>>) {
        let news = RefCell::new(Exchange::new(self.dialler.member().news()));
        let mut pulse = Pulse::new();
        let on_frame = |frame: Frame| match decode(&frame.header) {
            Ok(FromExecutor::Offer { capacity, python, phalanx, levels, cage: _, facts }) => {
                drop(offer.send(Ok(Offer { capacity, python, phalanx, levels, facts })));
            }
            Ok(FromExecutor::Away { reason }) => drop(offer.send(Err(reason))),
            Ok(FromExecutor::Recruited { request, token }) => {
                session.answer(request, Answer::Recruited { token, certificate: frame.body.to_vec() });
            }
            Ok(FromExecutor::Refused { request, reason }) => session.answer(request, Answer::Refused { reason }),
            Ok(FromExecutor::Ended { request, how }) => session.answer(request, Answer::Ended { how: printable(&how) }),
            Ok(FromExecutor::Exceeded { request, why }) => {
                session.answer(request, Answer::Exceeded { why: printable(&why) });
            }
            Ok(FromExecutor::Found { program, is_found }) => session.found(&program, is_found),
            Ok(FromExecutor::News(message)) => match news.borrow_mut().hear(message, &frame.body) {
                Ok(learned) => note_unwritten(&learned),
                Err(_) => session.link.close(),
            },
            Ok(FromExecutor::Share { keep, patience: _ }) => *lock(&session.keep) = Some(keep.unwrap_or(u32::MAX)),
            Ok(FromExecutor::Waits { usage }) => *lock(&session.waits) = usage,
            Ok(FromExecutor::Closed { why }) => *lock(&session.closed) = why.as_deref().map(printable),
            Ok(FromExecutor::Status(_)) => {} // a manager does not ask for it
            Ok(FromExecutor::Taken { request }) => session.answer(request, Answer::Taken),
            Ok(FromExecutor::Beat { stopped }) => *lock(&session.stopped) = stopped.into_iter().collect(),
            Err(_) => session.link.close(),
        };
        reader.run(PAUSE, on_frame, |link| {
            if let Some((message, body)) = news.borrow_mut().due() {
                tell_with(link, &ToExecutor::News(message), body);
            }
            pulse.pause(link, &ToExecutor::Beat);
            session.heard.store(pulse.is_heard(VOUCHES), Ordering::Relaxed);
            if self.closed.load(Ordering::Acquire) {
                link.close();
            }
        });
        session.end();
    }

    fn unreachable(&self, error: &io::Error) -> RecruitError {
        let why = unreachable(&self.address, error);
        if is_unexpected(error) { RecruitError::Unexpected(why) } else { RecruitError::Unreachable(why) }
    }

    /// Counts one interpreter of this session fewer as used. If the executor was reached anew, its count began anew too.
    fn give_back(&self, of: &Arc<Session>) {
        let is_current = match self.session.try_lock().as_deref() {
            Ok(SessionState::Open(session)) => Arc::ptr_eq(session, of),
            _ => false, // it was reached anew
        };
        if is_current {
            self.count_back();
        }
    }

    fn count_back(&self) {
        let _ = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| used.checked_sub(1));
    }
}

impl Session {
    /// Registers a request that is about to be sent, and returns the receiver of its answers. `None`: the link has ended, so no
    /// answer can come.
    fn expect(&self, id: (InterpreterId, u32), request: u32) -> Option<Receiver<Answer>> {
        let (sender, answer) = channel();
        lock(&self.waiting).as_mut()?.insert(request, (id, sender));
        Some(answer)
    }

    /// The interpreters that were requested here, and how many of them may stay. `None`: the executor has never asked for any.
    fn share(&self) -> Option<(Vec<InterpreterId>, u32)> {
        let keep = (*lock(&self.keep))?;
        let waiting = lock(&self.waiting);
        Some((waiting.as_ref()?.values().map(|((id, _), _)| *id).collect(), keep))
    }

    /// Ends all waiting for answers, because the link has ended.
    fn end(&self) {
        (*lock(&self.waiting), *lock(&self.waits)) = (None, None);
    }

    /// What the machine has.
    fn facts(&self) -> Facts {
        lock(&self.facts.0).clone()
    }

    /// Asks whether users' processes find these programs there, if that is not known, and waits for the answers for a moment.
    fn learn(&self, programs: &[String]) {
        let is_known = |facts: &Facts| programs.iter().all(|it| facts.contains_key(&format!("{HAS}{it}")));
        let facts = lock(&self.facts.0);
        if !is_known(&facts) {
            tell(&self.link, &ToExecutor::Find { programs: programs.to_vec() });
            drop(self.facts.1.wait_timeout_while(facts, FIND_PATIENCE, |facts| !is_known(facts)));
        }
    }

    /// The executor tells whether it finds a program. It tells only of a few, because it is asked for a few.
    fn found(&self, program: &str, is_found: bool) {
        let mut facts = lock(&self.facts.0);
        if is_word(program) && facts.len() < MOST_FACTS {
            facts.insert(format!("{HAS}{program}"), answer(is_found).to_owned());
        }
        self.facts.1.notify_all();
    }

    /// The interpreters here, and what they have.
    fn have(&self) -> Vec<(InterpreterId, Has)> {
        let facts = self.facts();
        let waiting = lock(&self.waiting);
        let interpreters = waiting.iter().flat_map(HashMap::values).map(|(of, _)| *of);
        interpreters.map(|(id, gpus)| (id, Has::new(facts.clone(), gpus))).collect()
    }

    /// Passes an answer on. A recruited interpreter gets one more answer, when it has ended.
    fn answer(&self, request: u32, answer: Answer) {
        let mut waiting = lock(&self.waiting);
        let Some(waiting) = &mut *waiting else { return };
        let goes_on = matches!(answer, Answer::Recruited { .. });
        let sender = if goes_on { waiting.get(&request).cloned() } else { waiting.remove(&request) };
        let _ = sender.map(|(_, sender)| sender.send(answer));
    }

    /// Whether the executor was heard from a moment ago.
    fn vouches(&self) -> bool {
        !self.link.is_closed() && self.heard.load(Ordering::Relaxed)
    }
}

impl Hold for Requested {
    /// Releases the interpreter.
    fn end(&mut self) {
        if !std::mem::replace(&mut self.released, true) {
            tell(&self.session.link, &ToExecutor::Release { request: self.request });
            self.host.give_back(&self.session);
        }
    }

    /// Asks the executor how the interpreter ended. An executor that does not answer may have ended too, and its interpreters
    /// with it.
    fn cause(&mut self) -> Cause {
        self.end();
        match self.answer.recv_timeout(WORDS_PATIENCE) {
            Ok(Answer::Ended { how }) => Cause::Died { how },
            Ok(Answer::Exceeded { why }) => Cause::Exceeded { why },
            Ok(Answer::Taken) => match lock(&self.session.closed).clone() {
                Some(why) => Cause::Closed { why },
                None => Cause::Taken,
            },
            Ok(_) | Err(RecvTimeoutError::Timeout) => {
                Cause::Gone { how: format!("its connection ended, and {} does not say why", self.host.called) }
            }
            Err(RecvTimeoutError::Disconnected) => {
                Cause::Gone { how: format!("its connection ended, and that to {} too", self.host.called) }
            }
        }
    }

    /// The interpreter's certificate came over the control link, which is private, from the executor whose certificate is named.
    fn delegate(&self, scope: &Scope) -> Result<Option<Given>, IdentityError> {
        let (session, whom) = (&self.session, [&self.certificate[..], &self.session.certificate]);
        let delegate = || session.shown.delegate(whom, scope, self.program, LASTS);
        let text = (!scope.is_empty()).then(delegate).transpose()?;
        Ok(Some(self.host.dialler.given(text)))
    }

    fn is_alive(&self) -> bool {
        self.session.vouches() && !lock(&self.session.stopped).contains(&self.request)
    }
}

impl Drop for Requested {
    fn drop(&mut self) {
        self.end();
        lock(&self.session.waiting).iter_mut().for_each(|waiting| drop(waiting.remove(&self.request)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_net::identity::Authority;

    #[test]
    fn who_asks_over_a_control_link_that_has_just_ended_does_not_wait_for_an_answer() {
        let (socket, _other) = Socket::pair().unwrap();
        let (link, _reader) = Link::new(socket, None, MAX_CONTROL_BODY).unwrap();
        let (agreed, waiting) = (OnceLock::new(), Mutex::new(Some(HashMap::new())));
        let (name, target) = ("lab2".to_owned(), Target::At(([127, 0, 0, 1], 7400).into()));
        let (stopped, heard, keep, waits, closed) =
            (Mutex::default(), AtomicBool::new(true), Mutex::default(), Mutex::default(), Mutex::default());
        let text = Authority::create().unwrap().issue(Role::User, "ada").unwrap();
        let (shown, certificate, facts) = (Member::parse(&text, Role::User).unwrap(), Vec::new(), Default::default());
        let session = Session {
            link,
            name,
            shown,
            certificate,
            target,
            agreed,
            waiting,
            keep,
            waits,
            closed,
            stopped,
            heard,
            facts,
        };
        let before = session.expect((InterpreterId(1), 0), 1).unwrap();
        session.end();
        assert!(matches!(before.recv_timeout(START_PATIENCE), Err(RecvTimeoutError::Disconnected)));
        assert!(session.expect((InterpreterId(2), 0), 2).is_none());
        session.answer(1, Answer::Refused { reason: String::new() });
    }
}
