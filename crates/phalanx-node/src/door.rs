//! The door: how peers connect to an executor or a server of spaces. Each peer is accepted in a thread of its own and has a few
//! seconds to authenticate. The number of peers that have not authenticated yet is limited.
//!
//! A door answers members that bring news of the grid itself, so that every service takes them.

mod news;
mod wanted;

pub use wanted::Wanted;

use crate::log::{Log, Severity};
use crate::quota::Quota;
use phalanx_core::level::{LevelSet, Levels};
use phalanx_net::dial::RELAYED;
use phalanx_net::identity::{Acting, Lasting, Member, Role, Service, Until, role_and_name};
use phalanx_net::preamble::Preamble;
use phalanx_net::socket::{Listener, Socket};
use phalanx_net::sync::lock;
use phalanx_net::tls::{self, Offer, Shaken};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Time for a peer to say what it wants and to authenticate.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most connections that have not authenticated yet. Beyond it, an old one is closed for each new one.
const MOST_UNPROVED: usize = 128;
/// How long closing a door may take to wake its accepting threads, and the pause after accepting has failed.
const PAUSE: Duration = Duration::from_millis(100);
/// Stack size of a thread that serves a peer, in bytes.
pub const STACK: usize = 512 << 10;

/// The number of the next peer. Several doors of a process have the same counter, because an executor that is lent has two doors, and
/// tells the peers of both apart by their numbers.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The error for a peer that is rejected.
pub use crate::quota::refused;

/// The service behind a door. It serves a peer that has said what it wants, in the peer's own thread. An error goes to the log.
pub type Serve = Box<dyn Fn(Peer, Wanted) -> io::Result<()> + Send + Sync>;

/// A peer after a handshake: its role and name, and what it may use if it acts for a user of that name.
pub type Met = (Shaken, Role, String, Option<BTreeSet<String>>);

/// Accepts peers on one or several listeners.
pub struct Door {
    listeners: Vec<Listener>,
    /// The member that takes news. `None`: this server has no identity.
    member: Option<Member>,
    /// The links for news.
    news: Arc<Quota>,
    /// When the links of processes that act for users end.
    lasting: Lasting,
    serve: Serve,
    log: Log,
    unproved: Mutex<Vec<Unproved>>,
    closed: AtomicBool,
}

/// A connection that has not authenticated yet.
struct Unproved {
    number: u64,
    from: Option<IpAddr>,
    socket: Socket,
}

/// A peer that was let in. Until [`Peer::proved`], it may be disconnected to make room for others.
pub struct Peer {
    pub number: u64,
    pub socket: Socket,
    /// The address it comes from. `None`: it comes from this machine, over a unix path.
    pub from: Option<IpAddr>,
    /// The bytes of its preamble on which the keys of a handshake depend.
    said: Vec<u8>,
    /// Whether links for this purpose carry news themselves.
    carries_news: bool,
    /// The service that a delegation must allow. `None`: no process may ask for this in a user's name.
    service: Option<Service>,
    deadline: Instant,
    door: Arc<Door>,
}

impl Door {
    /// Begins to accept at every listener, for this member.
    pub fn open(listeners: Vec<Listener>, member: Option<Member>, serve: Serve, log: Log) -> io::Result<Arc<Door>> {
        let (unproved, closed) = (Mutex::default(), AtomicBool::new(false));
        let news = news::quota();
        let lasting = Lasting::default();
        let door = Arc::new(Door { listeners, member, news, lasting, serve, log, unproved, closed });
        for index in 0..door.listeners.len() {
            let door = door.clone();
            thread::Builder::new().name("phalanx-accept".into()).spawn(move || door.accept(index))?;
        }
        Ok(door)
    }

    /// Stops accepting. Peers that are in stay connected.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.listeners.iter().for_each(|listener| listener.close(PAUSE));
    }

    /// Lets a peer in that a hub has brought here. Where it comes from is not known.
    pub fn bring(self: Arc<Door>, socket: Socket) {
        if !self.closed.load(Ordering::Acquire) {
            self.let_in(socket, Some(SocketAddr::new(RELAYED, 0)));
        }
    }

    fn accept(self: Arc<Door>, index: usize) {
        loop {
            let accepted = self.listeners[index].accept();
            if self.closed.load(Ordering::Acquire) {
                return;
            }
            let Ok((socket, from)) = accepted else {
                thread::sleep(PAUSE); // no file descriptors left: wait until some of the current peers are gone
                continue;
            };
            self.clone().let_in(socket, from);
        }
    }

    fn let_in(self: Arc<Door>, socket: Socket, from: Option<SocketAddr>) {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let ip = from.map(|from| from.ip());
        if let Ok(socket) = socket.try_clone() {
            self.make_room(Unproved { number, from: ip, socket });
        }
        let (said, carries_news, deadline) = (Vec::new(), false, Instant::now() + PATIENCE);
        let door = self.clone();
        let peer = Peer { number, socket, from: ip, said, carries_news, service: None, deadline, door: self };
        let serve = move || {
            let door = peer.door.clone();
            if let Err(error) = peer.serve() {
                let from = from.map_or("a process of this machine".to_owned(), |from| from.to_string());
                let why = error.to_string();
                match error.kind() {
                    io::ErrorKind::UnexpectedEof => {
                        let what = "left before it was served";
                        door.log.limited(Severity::Debug, what, format!("{from} {what}"));
                    }
                    _ => door.log.limited(
                        Severity::Warning,
                        &format!("refused: {why}"),
                        format!("refused {from}: {why}"),
                    ),
                }
            }
            door.proved(number); // or the peer is gone
        };
        if thread::Builder::new().name("phalanx-peer".into()).stack_size(STACK).spawn(serve).is_err() {
            door.proved(number); // the peer is gone: this machine has no thread for it
        }
    }

    /// Makes room for a new connection. In a flood, it closes the oldest unauthenticated connection of the address that has
    /// most of them. So the flood does not stop the service.
    fn make_room(&self, newest: Unproved) {
        let mut unproved = lock(&self.unproved);
        unproved.push(newest);
        if unproved.len() > MOST_UNPROVED {
            let from = |address| unproved.iter().filter(|other| other.from == address).count();
            let most = unproved.iter().map(|it| from(it.from)).max().unwrap_or_default();
            if let Some(index) = unproved.iter().position(|it| from(it.from) == most) {
                unproved.remove(index).socket.shut_down();
            }
        }
    }

    fn proved(&self, number: u64) {
        lock(&self.unproved).retain(|other| other.number != number);
    }
}

impl Peer {
    fn serve(mut self) -> io::Result<()> {
        let preamble = Preamble::read(&mut self.socket.until(self.deadline))?;
        (self.said, self.carries_news) = (preamble.bound(), preamble.carries_news());
        let door = self.door.clone();
        match (Wanted::of(preamble)?, &door.member) {
            (Some(wanted), _) => {
                self.service = wanted.service();
                (door.serve)(self, wanted)
            }
            (None, Some(member)) => news::serve(self, member),
            (None, None) => Err(refused("this server has no identity: it takes no news")),
        }
    }

    /// Does the handshake for a link of these levels with a member in the role of a user. Returns the user's name too.
    pub fn shake_hands(&mut self, member: &Member, levels: Levels) -> io::Result<(Shaken, String)> {
        self.shake_hands_as(member, levels, Role::User)
    }

    /// Does the handshake for a link of these levels with a member in this role. Returns the member's name too.
    pub fn shake_hands_as(&mut self, member: &Member, levels: Levels, role: Role) -> io::Result<(Shaken, String)> {
        let (shaken, is, name, only) = self.shake(member, levels.exactly())?;
        check_whole(&name, only)?;
        match is == role.name() {
            true => Ok((shaken, name)),
            false => Err(refused(format!("{name} is no {} but has the role {is}", role.name()))),
        }
    }

    /// Does the handshake with a member in any role, which chooses among the levels offered. Returns its role and name.
    pub fn offer(&mut self, member: &Member, offered: [LevelSet; 3]) -> io::Result<(Shaken, Role, String)> {
        let (shaken, role, name, only) = self.offer_to_delegates(member, offered)?;
        check_whole(&name, only)?;
        Ok((shaken, role, name))
    }

    /// The same, for a service that can be delegated in part. Also returns what a process that acts for a user may use of the
    /// service: the names of things, or `None` for everything.
    pub fn offer_to_delegates(&mut self, member: &Member, offered: [LevelSet; 3]) -> io::Result<Met> {
        let (shaken, role, name, only) = self.shake(member, offered)?;
        Ok((shaken, role.parse().map_err(|error: String| refused(error))?, name, only))
    }

    /// Does the handshake with a peer that is no member yet, or whose certificate has ended. It has proved that it holds the key of what
    /// it shows, and nothing else.
    pub fn shake_to_join(&mut self, member: &Member, levels: Levels) -> io::Result<Shaken> {
        let connection = member.server_for_joining().map_err(io::Error::other)?;
        let offer = Offer::from(levels.exactly());
        tls::offer(connection, offer, &self.said, &mut self.socket.until(self.deadline))
    }

    fn shake(
        &mut self,
        member: &Member,
        offered: [LevelSet; 3],
    ) -> io::Result<(Shaken, String, String, Option<BTreeSet<String>>)> {
        let connection = member.server().map_err(io::Error::other)?;
        let offer = Offer { levels: offered, news: member.news().digest() };
        let mut shaken = tls::offer(connection, offer, &self.said, &mut self.socket.until(self.deadline))?;
        shaken.heed(member.revocations())?;
        let acting = member.acting(shaken.shown()).map_err(|error| refused(error.to_string()))?;
        let Some(acting) = acting else {
            let (role, name) = role_and_name(shaken.peer_certificate()).map_err(|error| refused(error.to_string()))?;
            if !self.carries_news {
                shaken.tell(member.news());
            }
            return Ok((shaken, role, name, None));
        };
        let (user, only, until) = self.user_of(&acting, member)?;
        shaken.end_after(until, member.revocations());
        Ok((shaken, Role::User.name().to_owned(), user, only))
    }

    /// The name of the user that a process acts for, if the user has delegated what the process asks for; what it may use; and for
    /// how long.
    fn user_of(&self, acting: &Acting, member: &Member) -> io::Result<(String, Option<BTreeSet<String>>, Until)> {
        let until = |service| self.door.lasting.note(acting, service, &member.name);
        let Acting { user, executor, delegation } = acting;
        let allows = |service| delegation.scope.allows(service, &member.name);
        match self.service {
            Some(service) if allows(service) => {
                let text = format!("a process at {executor} acts for {user}, who delegated {} to it", service.name());
                self.door.log.visit(user, &text);
                Ok((user.clone(), delegation.scope.at(service, &member.name), until(service)))
            }
            Some(service) => {
                Err(refused(format!("{user} did not delegate {} to {executor}", service.at(&member.name))))
            }
            None => {
                Err(refused(format!("a process at {executor} that acts for {user}: this needs the user's own key")))
            }
        }
    }

    /// Marks the peer as authenticated, so that no flood disconnects it.
    pub fn proved(&self) {
        self.door.proved(self.number);
    }
}

/// Checks that a process may use all of a service, because the service does not tell parts of it from others.
fn check_whole(user: &str, only: Option<BTreeSet<String>>) -> io::Result<()> {
    match only {
        None => Ok(()),
        Some(_) => Err(refused(format!("{user} delegated a part of what is served here as a whole"))),
    }
}

/// Checks that the user is on the list of accepted users. An empty list accepts every user of the grid.
pub fn check_accepted(accepted: &[String], user: &str) -> io::Result<()> {
    match accepted.is_empty() || accepted.iter().any(|name| name.eq_ignore_ascii_case(user)) {
        true => Ok(()),
        false => Err(refused(format!("the user {user} is not among those accepted here"))),
    }
}
