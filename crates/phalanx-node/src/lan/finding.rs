//! A user finds the executors of its grid on the local network, and reaches them by the names that they prove.

use crate::control::LEVELS as PROVING;
use phalanx_core::hub::Needs;
use phalanx_core::lan::{Command, Finder, MOST_PACKET, Outcome};
use phalanx_net::dial::{Dialled, Expected, Guide, Judge, Target, Watcher, dial, guide};
use phalanx_net::forks::{lock_soon, process};
use phalanx_net::identity::{Member, Role, random_number};
use phalanx_net::multicast::{Multicast, segments};
use phalanx_net::preamble::Preamble;
use phalanx_net::sync::lock;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// The name of the grid of those that were found, as addresses have it: `ws7._lan.phalanx`. No grid with a hub is called so.
const GRID: &str = "_lan";
/// Time for a connection to an address that was announced, and for the handshake there. A stranger who says nothing costs so much.
const REACHING: Duration = Duration::from_millis(700);
const SHAKING: Duration = Duration::from_secs(2);
/// How long a member is waited for that does not announce itself.
const MISSING: Duration = Duration::from_secs(2);
/// A proof is good for this long. Later, another machine may have the address.
const AGAIN: Duration = Duration::from_secs(30);
/// Time between two looks at what is due, while answers are awaited, and at rest. A packet is read at once.
const BUSY: Duration = Duration::from_millis(10);
const REST: Duration = Duration::from_millis(200);
/// Pause before the network is asked again by a machine that has no socket for it.
const RETRY: Duration = Duration::from_secs(1);
/// Most packets that are read before what is due is done.
const MOST_PACKETS: usize = 256;
/// Most addresses of a member that are tried.
const MOST_PATHS: usize = 4;

/// The executors that were found.
#[derive(Debug)]
pub struct Found {
    /// The name by which this process knows the grid of these executors, and more as they come.
    pub grid: String,
    /// The name that each has proved, and where.
    pub members: Vec<(String, SocketAddr)>,
    /// How many machines have answered that are not of this grid, or refuse this user.
    pub strangers: usize,
    /// Why the network cannot be asked.
    pub trouble: Option<String>,
}

/// What this process knows of the local network, for one identity.
struct Lan {
    grid: String,
    member: Member,
    state: Mutex<State>,
    changed: Condvar,
    began: Instant,
}

#[derive(Default)]
struct State {
    finder: Finder,
    /// The process whose thread asks. A fork has none.
    asks: Option<u32>,
    /// No thread is started before this time.
    not_before: Duration,
    trouble: Option<String>,
}

/// All of this process.
static LANS: Mutex<Vec<Arc<Lan>>> = Mutex::new(Vec::new());

/// Accepts any executor of the grid. The handshake has verified that it is one.
#[derive(Debug)]
struct AnyExecutor;

impl Judge for AnyExecutor {
    fn judge(&self, _: &str, _: Option<SocketAddr>) -> io::Result<()> {
        Ok(())
    }
}

/// Finds the executors of the grid of this member. Returns when at least so many have proved themselves and no more answers come, or
/// when `patience` is over. From then on, this process reaches them by name.
///
/// # Errors
/// The system starts no thread.
pub fn find(member: &Member, at_least: usize, patience: Duration) -> io::Result<Found> {
    let lan = Lan::of(member);
    let until = Instant::now() + patience;
    loop {
        lan.look()?;
        let state = lock(&lan.state);
        let here = state.finder.members();
        let is_complete = here.len() >= at_least && state.finder.is_settled(lan.now());
        if is_complete || Instant::now() >= until {
            let first = |name: &&str| Some(((*name).to_owned(), state.finder.addresses(name).first()?.0));
            let members = here.iter().filter_map(first).collect();
            let (grid, strangers) = (lan.grid.clone(), state.finder.strangers());
            return Ok(Found { grid, members, strangers, trouble: state.trouble.clone() });
        }
        drop(lan.changed.wait_timeout(state, BUSY));
    }
}

impl fmt::Debug for Lan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lan({})", self.grid)
    }
}

impl Lan {
    /// The one of this identity, which is registered as the guide to its members.
    fn of(member: &Member) -> Arc<Lan> {
        let mut all = lock(&LANS);
        let is_same = |it: &&Arc<Lan>| it.member.authority() == member.authority() && it.member.name == member.name;
        if let Some(known) = all.iter().find(is_same) {
            return known.clone();
        }
        let grid = if all.is_empty() { GRID.to_owned() } else { format!("{GRID}{}", all.len() + 1) };
        let (state, changed) = (Mutex::default(), Condvar::new());
        let new = Arc::new(Lan { grid, member: member.clone(), state, changed, began: Instant::now() });
        guide(&new.grid, Arc::new(Way(new.clone())));
        all.push(new.clone());
        new
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// The state. In a fork, the thread that held the lock may not exist.
    fn state(&self) -> io::Result<MutexGuard<'_, State>> {
        lock_soon(&self.state).ok_or_else(|| io::Error::other("this fork cannot look for executors"))
    }

    /// Somebody looks: the network is asked for a while.
    fn look(self: &Arc<Lan>) -> io::Result<()> {
        let (mut state, now) = (self.state()?, self.now());
        state.finder.look(now);
        if state.asks == Some(process()) || now < state.not_before {
            return Ok(());
        }
        match Multicast::asking() {
            Ok(socket) => {
                let lan = self.clone();
                thread::Builder::new().name("phalanx-lan".into()).spawn(move || lan.ask(&socket))?;
                state.asks = Some(process());
            }
            Err(error) => (state.trouble, state.not_before) = (Some(error.to_string()), now + RETRY),
        }
        Ok(())
    }

    fn ask(self: Arc<Lan>, socket: &Multicast) {
        let mut buffer = [0; MOST_PACKET + 1];
        loop {
            let (commands, patience) = {
                let mut state = lock(&self.state);
                let commands = state.finder.due(self.now(), random_number() as u16);
                if state.finder.is_idle() {
                    state.asks = None;
                    return;
                }
                self.changed.notify_all();
                (commands, if state.finder.is_settled(self.now()) { REST } else { BUSY })
            };
            let here = segments().unwrap_or_default();
            for command in commands {
                match command {
                    Command::Ask(packet) => {
                        let sent = here.iter().map(|on| socket.send_to_all(on, &packet));
                        let troubles: Vec<_> = sent.filter_map(Result::err).map(|error| error.to_string()).collect();
                        let trouble =
                            if here.is_empty() { Some("this machine has no network".to_owned()) } else { None };
                        lock(&self.state).trouble = trouble.or_else(|| troubles.into_iter().next());
                    }
                    Command::Dial(at) => self.prove_in_background(at),
                }
            }
            let mut wait = patience;
            for _ in 0..MOST_PACKETS {
                let Some((from, packet)) = socket.receive(&mut buffer, wait) else { break };
                if let Some(on) = here.iter().find(|on| on.has(*from.ip())) {
                    lock(&self.state).finder.on_packet(self.now(), on, from, packet);
                }
                wait = Duration::ZERO;
            }
        }
    }

    fn prove_in_background(self: &Arc<Lan>, at: SocketAddr) {
        let mut proof = Proof { lan: self.clone(), at, outcome: Outcome::Away };
        let prove = move || proof.outcome = proof.lan.who_is(at);
        let _ = thread::Builder::new().name("phalanx-lan-path".into()).spawn(prove);
    }

    /// Lets whoever listens at an address prove its name.
    fn prove(&self, at: SocketAddr) -> io::Result<Outcome> {
        let outcome = self.who_is(at);
        self.note(at, outcome.clone())?;
        Ok(outcome)
    }

    fn note(&self, at: SocketAddr, outcome: Outcome) -> io::Result<()> {
        self.state()?.finder.on_outcome(self.now(), at, outcome);
        self.changed.notify_all();
        Ok(())
    }

    fn who_is(&self, at: SocketAddr) -> Outcome {
        let Ok(client) = self.member.newest().client_of(Role::Executor) else { return Outcome::Away };
        let Ok(dialled) = dial(&Target::At(at), REACHING) else { return Outcome::Away };
        let expected = Expected::Judged(&client, &AnyExecutor);
        let introduced = dialled.introduce_and_wait(Preamble::News, expected, PROVING, SHAKING);
        match introduced.and_then(|it| it.name().map_err(io::Error::other)) {
            Ok(name) if !name.contains('.') => Outcome::Proved(name),
            Err(error) if is_silence(error.kind()) => Outcome::Away,
            _ => Outcome::Stranger,
        }
    }

    /// Connects to one of the addresses where the member has proved its name, or proves it now.
    fn reach(&self, member: &str) -> io::Result<Option<Dialled>> {
        let known = self.state()?.finder.addresses(member);
        for (at, when) in known.into_iter().take(MOST_PATHS) {
            let is_fresh = when + AGAIN > self.now();
            let is_it =
                is_fresh || matches!(self.prove(at)?, Outcome::Proved(name) if name.eq_ignore_ascii_case(member));
            match if is_it { dial(&Target::At(at), REACHING) } else { continue } {
                Ok(dialled) => return Ok(Some(dialled)),
                Err(_) => self.note(at, Outcome::Away)?,
            }
        }
        Ok(None)
    }
}

/// Whether the error means that no answer came. A busy machine, or one that is just starting, is no stranger.
fn is_silence(kind: ErrorKind) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, TimedOut, WouldBlock};
    matches!(kind, TimedOut | WouldBlock | ConnectionReset | ConnectionAborted | BrokenPipe)
}

/// A proof that is under way. Its end is noted also if its thread cannot be started, or fails.
struct Proof {
    lan: Arc<Lan>,
    at: SocketAddr,
    outcome: Outcome,
}

impl Drop for Proof {
    fn drop(&mut self) {
        let _ = self.lan.note(self.at, self.outcome.clone());
    }
}

/// The way to those that were found.
#[derive(Debug)]
struct Way(Arc<Lan>);

impl Guide for Way {
    fn dial(&self, member: &str, patience: Duration) -> io::Result<Dialled> {
        let until = Instant::now() + patience.min(MISSING);
        loop {
            self.0.look()?;
            if let Some(dialled) = self.0.reach(member)? {
                return Ok(dialled);
            }
            if Instant::now() >= until {
                let why = format!("{member} does not announce itself on the local network now");
                return Err(io::Error::new(ErrorKind::NotConnected, why));
            }
            let state = self.0.state()?;
            drop(self.0.changed.wait_timeout(state, BUSY));
        }
    }

    fn watch(&self, needs: &Needs) -> Watcher {
        let (lan, has_needs) = (self.0.clone(), !needs.is_empty());
        Box::new(move || {
            if has_needs {
                return Err(io::Error::other("only a hub knows what executors have"));
            }
            lan.look()?;
            Ok(lan.state()?.finder.members().into_iter().map(str::to_owned).collect())
        })
    }
}
