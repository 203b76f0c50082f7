//! A server of spaces: which peers it accepts, and at which levels.

use super::bounds::SILENCE;
use super::budget::Budget;
use super::log::replicated;
use super::session::{MOST_UNOPENED, Session, turn_away};
use super::visitor::{Visitor, share};
use super::{Access, Caps, Directory, Hosted, Place, Spaces, Who};
use crate::activity::Tally;
use crate::door::{Door, Peer, Wanted, check_accepted, refused};
use crate::log::{Log, Severity};
use crate::threads::most_links;
use phalanx_core::error::SpaceError;
use phalanx_core::level::{Level, LevelSet, Mark, Policy, Reach};
use phalanx_core::wire::Version;
use phalanx_core::wire::hub::What;
use phalanx_net::address::Address;
use phalanx_net::identity::{Member, Role};
use phalanx_net::link::{Finisher, Link, Reader};
use phalanx_net::runtime::Place as Path;
use phalanx_net::socket::Listener;
use phalanx_net::sync::lock;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Sessions of clients take at most 1 in so many of the threads that the system allows.
const THREADS: usize = 2;
/// Most clients at a time that are told why they are rejected when the server is full. Further ones are not told.
const MOST_TURNED_AWAY: usize = 64;

/// The users that a server serves, and its limits.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The levels that links may have.
    pub policy: Policy,
    /// Names of the users that are served; empty: every user of the grid.
    pub accepted: Vec<String>,
    /// Who may do what. `None`: everybody may do everything.
    pub access: Option<Access>,
    /// Whether a space is created when it is first named.
    pub creates: bool,
    /// The folder for durable spaces. `None`: there are no durable spaces.
    pub directory: Option<Directory>,
    /// The owner's upper limits.
    pub caps: Caps,
    /// Most clients at a time; each has a thread.
    pub sessions: usize,
    /// Most bytes of messages that have begun to arrive, of all clients together. While they are used up, long messages are not
    /// read.
    pub unfinished: u64,
    /// The version of phalanx that clients are told.
    pub phalanx: Version,
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        let (policy, accepted, access, caps) = (Policy::default(), Vec::new(), None, Caps::default());
        let (directory, sessions, unfinished, phalanx) = (None, 4096, 4 << 30, Version::default());
        ServerOptions { policy, accepted, access, creates: true, directory, caps, sessions, unfinished, phalanx }
    }
}

/// Serves spaces to the peers that a door lets in.
pub(crate) struct Service {
    /// This server's identity. `None`: only processes of this machine are served.
    member: Option<Member>,
    options: ServerOptions,
    pub spaces: Spaces,
    finisher: Arc<Finisher>,
    links: Mutex<HashMap<u64, Served>>,
    turned_away: AtomicUsize,
    budget: Arc<Budget>,
    closed: AtomicBool,
    log: Log,
}

/// A client that is being served, its user, and where it comes from.
struct Served {
    link: Arc<Link>,
    user: Option<Arc<str>>,
    from: Option<IpAddr>,
}

/// Removes the link from the list when its serving ends, however it ends.
struct Leaving<'a> {
    service: &'a Service,
    number: u64,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        lock(&self.service.links).remove(&self.number);
    }
}

impl Service {
    pub fn new(member: Option<Member>, options: ServerOptions, log: Log) -> io::Result<Service> {
        let own = member.clone().map(Arc::new);
        let (policy, caps, directory) = (options.policy.clone(), options.caps.clone(), options.directory.clone());
        let spaces = Spaces::new(options.creates, caps, directory, own, policy, options.phalanx.clone(), log.clone());
        spaces.open_kept();
        let (finisher, links) = (Arc::new(Finisher::start()?), Mutex::default());
        let budget = Budget::new(options.unfinished, share(options.unfinished, options.caps.share));
        let (turned_away, closed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let options = ServerOptions { sessions: most_links(options.sessions, THREADS), ..options };
        Ok(Service { member, options, spaces, finisher, links, turned_away, budget, closed, log })
    }

    /// Answers another member of a replicated space until its link ends.
    pub fn serve_replica(&self, peer: Peer) -> io::Result<()> {
        let own = self.member.as_ref().ok_or_else(|| refused("this server has no identity: it is no member"))?;
        replicated::serve(peer, own, |group| self.spaces.find_group(group), || self.closed.load(Ordering::Acquire))
    }

    /// Serves a client until it is gone. `shakes`: the client is about to authenticate with a handshake.
    pub fn serve(&self, mut peer: Peer, shakes: bool) -> io::Result<()> {
        let place = self.options.policy.place(peer.from, Role::User.name());
        let offered = Mark::ALL.map(|mark| match peer.from {
            Some(_) => self.options.policy.offered(&place, mark),
            None => self.options.policy.allowed(&place, mark),
        });
        let untrusted = place.reach == Reach::Untrusted;
        let access = self.options.access.as_ref();
        let (shaken, visitor) = match (shakes, &self.member) {
            (false, _) => (None, Visitor::new(self.check_same_user(&peer, offered)?, access)),
            (true, Some(member)) => {
                let (shaken, role, name, only) = peer.offer_to_delegates(member, offered)?;
                let visitor = match role == Role::Executor && !self.is_about(role) {
                    true => Visitor::server(name),
                    false => {
                        self.check_accepted(role, &name)?;
                        Visitor::new(Who::Member { role, name }, access).limited_to(only)
                    }
                };
                (Some(shaken), visitor)
            }
            (true, None) => {
                return Err(refused("this server has no identity: it serves this machine's processes only"));
            }
        };
        peer.proved();
        peer.socket.end_when_silent(SILENCE)?;
        let from = peer.from;
        let (link, reader) = Link::direct(peer.socket, shaken, MOST_UNOPENED)?;
        if let Err(error) = self.add(peer.number, &link, &visitor, from) {
            return Err(self.turn_away(&link, reader, &visitor, error));
        }
        let _leaving = Leaving { service: self, number: peer.number };
        let is_private = !untrusted || link.levels().of(Mark::Data) == Level::Private;
        let (finisher, budget) = (self.finisher.clone(), self.budget.clone());
        let session = Session::new(&self.spaces, &visitor, is_private, link, finisher, budget);
        let error = session.run(reader, || self.closed.load(Ordering::Acquire));
        if error.is_attack() {
            let text = format!("{} was cut off: {error}", visitor.name());
            self.log.limited(Severity::Warning, &format!("cut off: {error}"), text);
        }
        Ok(())
    }

    /// Counts the clients that are served, but for processes of the server's own user.
    pub fn count(&self, tally: &mut Tally) {
        for Served { link, user, from } in lock(&self.links).values() {
            let Some(user) = user else { continue };
            let counters = link.counters();
            let bytes = counters.received.load(Ordering::Relaxed).saturating_add(counters.sent.load(Ordering::Relaxed));
            tally.add(user, What::Spaces, (Some(link.levels().base), *from), 1, bytes);
        }
    }

    /// Accepts every user, unless there is a list of accepted users. Members in other roles are accepted if a rule names their
    /// role.
    fn check_accepted(&self, role: Role, name: &str) -> io::Result<()> {
        if role == Role::User {
            return check_accepted(&self.options.accepted, name);
        }
        match self.is_about(role) {
            true => Ok(()),
            false => Err(refused(format!("{name} is no user but has the role {}", role.name()))),
        }
    }

    fn is_about(&self, role: Role) -> bool {
        self.options.access.as_ref().is_some_and(|access| access.is_about(role))
    }

    /// A client without a handshake must be a process of this server's own user, and the policy must allow clear links.
    fn check_same_user(&self, peer: &Peer, offered: [LevelSet; 3]) -> io::Result<Who> {
        if peer.from.is_some() || !is_same_user(peer)? {
            return Err(refused("a client that does not prove who it is"));
        }
        if is_caged(peer)? {
            return Err(refused("a process that an executor runs for a user: it needs the user's identity"));
        }
        match offered[Mark::None as usize].contains(Level::Clear) {
            true => Ok(Who::Owner),
            false => Err(refused("a clear link, which this server's rules do not allow on this machine")),
        }
    }

    fn add(&self, number: u64, link: &Arc<Link>, visitor: &Visitor, from: Option<IpAddr>) -> Result<(), SpaceError> {
        let full = |what: &str, most| Err(SpaceError::Full { what: what.to_owned(), most });
        let mut links = lock(&self.links);
        let most = self.options.sessions as u64;
        if links.len() as u64 >= most {
            return full("clients of this server", most);
        }
        let (user, share) = (visitor.user().cloned(), share(most, self.options.caps.share));
        if user.is_some() && links.values().filter(|one| one.user == user).count() as u64 >= share {
            return full("clients of one user at this server", share);
        }
        links.insert(number, Served { link: link.clone(), user, from });
        Ok(())
    }

    /// Tells a rejected client why, unless too many are being told at the moment.
    fn turn_away(&self, link: &Link, reader: Reader, visitor: &Visitor, error: SpaceError) -> io::Error {
        if self.turned_away.fetch_add(1, Ordering::AcqRel) < MOST_TURNED_AWAY {
            turn_away(link, reader, &error);
        }
        self.turned_away.fetch_sub(1, Ordering::AcqRel);
        link.close();
        refused(format!("{}: {error}", visitor.name()))
    }

    /// Ends all sessions.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        lock(&self.links).values().for_each(|one| one.link.close());
        self.spaces.close();
    }
}

/// Whether the client runs in an executor's cage. It has the account of this server's owner, and is not the owner's.
#[cfg(target_os = "linux")]
fn is_caged(peer: &Peer) -> io::Result<bool> {
    Ok(crate::cage::is_caged(peer.socket.peer_process()?))
}

#[cfg(not(target_os = "linux"))]
fn is_caged(_: &Peer) -> io::Result<bool> {
    Ok(false)
}

fn is_same_user(peer: &Peer) -> io::Result<bool> {
    if cfg!(unix) { peer.socket.peer_is_same_user() } else { Ok(false) }
}

/// A server with a door of its own, for a command or for a user's program.
pub struct Server {
    service: Arc<Service>,
    door: Arc<Door>,
    address: Place,
    /// The unix path, removed when the server ends.
    path: Mutex<Option<Path>>,
}

impl Server {
    /// Listens at `place` and serves from threads of its own. Other machines can reach a port if the server has an identity. A
    /// unix path serves only this user's processes on this machine.
    pub fn start(place: &Place, member: Option<Member>, options: ServerOptions, log: Log) -> io::Result<Server> {
        let (listeners, address, path) = listen(place, &log)?;
        let service = Arc::new(Service::new(member.clone(), options, log.clone())?);
        let serving = service.clone();
        let serve = move |peer, wanted| match wanted {
            Wanted::Space { shakes } => serving.serve(peer, shakes),
            Wanted::Control | Wanted::Data { .. } => Err(refused("no interpreters are started here, only spaces")),
            Wanted::Replica => serving.serve_replica(peer),
            Wanted::Ranks => Err(refused("no ranks are started here")),
            Wanted::Transfer | Wanted::Executor | Wanted::Stream { .. } | Wanted::Files => {
                Err(refused("no files are copied here, only spaces served"))
            }
            Wanted::Join | Wanted::Hub | Wanted::Hubs | Wanted::Relay { .. } | Wanted::Content => {
                Err(refused("this is no hub, only spaces are served"))
            }
            Wanted::Comm { .. } => Err(refused("this is no process of Dask, only spaces are served")),
        };
        let door = Door::open(listeners, member, Box::new(serve), log)?;
        Ok(Server { service, door, address, path: Mutex::new(path) })
    }

    /// Where the server listens.
    pub fn address(&self) -> &Place {
        &self.address
    }

    /// Serves an existing space. Returns false if another space has this name.
    pub fn add(&self, name: &str, space: Arc<Hosted>) -> bool {
        self.service.spaces.add(name, space)
    }

    /// Ends every session and stops serving. The spaces of this server end too.
    pub fn close(&self) {
        self.service.close();
        self.door.close();
        lock(&self.path).take();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.close();
    }
}

type Listening = (Vec<Listener>, Place, Option<Path>);

fn listen(place: &Place, log: &Log) -> io::Result<Listening> {
    match place {
        Place::Network(address) => {
            let listener = Listener::bind(&address.to_string())?;
            let bound = listener.address()?;
            let mut listeners = vec![listener];
            let path = listen_at_path(&bound, &mut listeners, log);
            let address = Address { host: bound.ip().to_string(), port: bound.port() };
            Ok((listeners, Place::Network(address), path))
        }
        Place::Path(at) => {
            let (listener, path) = Path::at(at)?;
            Ok((vec![listener], place.clone(), Some(path)))
        }
    }
}

/// Listens also at the unix path that belongs to `address`, for this user's processes on this machine.
pub(crate) fn listen_at_path(address: &SocketAddr, listeners: &mut Vec<Listener>, log: &Log) -> Option<Path> {
    match Path::of(address) {
        Ok((listener, path)) => {
            listeners.push(listener);
            Some(path)
        }
        Err(error) => {
            log.warning(format!("this machine's processes reach this server over the network only: {error}"));
            None
        }
    }
}
