//! The executor's service of transfers: which users it serves, from which folders, over which streams.

use super::transfers::{Gathering, Token, Transfers};
use crate::activity::Tally;
use crate::control::{tell, turn_away};
use crate::door::{Peer, refused};
use crate::log::Log;
use crate::quota::{Entered, Quota};
use crate::threads::{THREADS, most_links};
use crate::transfer::disk::exports::Exports;
use crate::transfer::disk::sink::Sink;
use crate::transfer::disk::source::Source;
use crate::transfer::endpoint::common::Common;
use crate::transfer::endpoint::end::{End, usual_threads};
use crate::transfer::endpoint::greeting::Ear;
use crate::transfer::files;
use crate::transfer::system;
use phalanx_core::level::{Level, LevelSet, Mark, Policy};
use phalanx_core::wire::Version;
use phalanx_core::wire::hub::What;
use phalanx_core::wire::transfer::{
    Direction, LEAST_LIMIT, MOST_BODY, MOST_PATH, MOST_STREAMS, Message, Request, Target, Totals,
};
use phalanx_net::identity::{Member, Role, is_same_member, random_token};
use phalanx_net::link::{Link, Reader};
use phalanx_net::stream::Protection;
use phalanx_net::sync::lock;
use phalanx_net::tls::Shaken;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A transfer in which nothing moves for this long is ended, so that another can begin. No healthy disk takes as long for a
/// file.
const IDLE: Duration = Duration::from_secs(15 * 60);
/// How long the client may take to send its request.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// The same for a client that sends beats meanwhile, because it connects to another executor first.
pub(super) const LONGEST: Duration = Duration::from_secs(30);

/// Most links for copies, of all users, and of one. A copy has one here, and there are some that have not begun yet.
const MOST_LINKS: usize = 256;
const SHARE_OF_LINKS: usize = 64;

/// Serves copies to and from this machine.
pub struct Service {
    pub(super) member: Member,
    pub(super) policy: Policy,
    pub(super) accepted: Vec<String>,
    pub(super) exports: Exports,
    phalanx: Version,
    pub(super) transfers: Mutex<Transfers>,
    /// The links for copies, of users and of executors that they sent.
    links: Arc<Quota>,
    /// The users with links for requests about files.
    guests: files::Guests,
    closed: AtomicBool,
    /// Why no copies go on here now. `None`: they do.
    paused: Mutex<Option<String>>,
    pub(super) log: Log,
}

/// A member of the grid that has called.
pub(super) struct Guest {
    pub link: Arc<Link>,
    pub ear: Ear,
    from: IpAddr,
    pub user: String,
    pub certificate: Vec<u8>,
    /// The levels that streams to the member may have.
    levels: LevelSet,
    _entered: Entered,
}

impl Guest {
    /// The member's request. `most`: the longest wait for a member that sends beats meanwhile.
    pub fn hear(&mut self, most: Duration) -> io::Result<Message> {
        self.ear.hear_of_living(PATIENCE, most)
    }
}

/// Removes a transfer when its service ends.
struct Leaving<'a>(&'a Service, Token);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        lock(&self.0.transfers).waiting.remove(&self.1);
    }
}

/// Notices a transfer in which nothing moves.
pub(super) struct Idle {
    progress: ((u64, u64, bool), u64),
    since: Instant,
}

impl Idle {
    pub(super) fn new() -> Idle {
        Idle { progress: ((0, 0, true), 0), since: Instant::now() }
    }

    /// Whether nothing has moved for too long. Time that this end's own disk takes does not count.
    pub(super) fn is_over(&mut self, end: &End) -> bool {
        let progress = (end.progress(), end.common().moved.load(Ordering::Relaxed));
        if progress != self.progress || end.is_ending() {
            *self = Idle { progress, since: Instant::now() };
        }
        self.since.elapsed() >= IDLE
    }
}

impl Service {
    pub fn new(
        member: Member,
        policy: Policy,
        accepted: Vec<String>,
        exports: Exports,
        phalanx: Version,
        log: Log,
    ) -> Service {
        let (transfers, guests, closed) = (Mutex::default(), files::Guests::new(), AtomicBool::new(false));
        let most = most_links(MOST_LINKS, THREADS);
        let links = Quota::new("links for copies", most, SHARE_OF_LINKS.min(most.div_ceil(4)));
        let paused = Mutex::default();
        Service { member, policy, accepted, exports, phalanx, transfers, links, guests, closed, paused, log }
    }

    /// Ends every transfer.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        lock(&self.transfers).waiting.values().for_each(|one| one.end.common().link.close());
    }

    /// From now on no copies go on here, for this reason. `None`: they do again. Those that go on now end within a moment, and can be
    /// begun again later where they were.
    pub fn pause(&self, why: Option<String>) {
        *lock(&self.paused) = why;
    }

    /// Why no copies go on here now.
    pub(super) fn paused(&self) -> Option<String> {
        lock(&self.paused).as_ref().map(|why| format!("this machine is closed: {why}; copy again when it opens"))
    }

    /// Counts the copies that go on here.
    pub fn count(&self, tally: &mut Tally) {
        for copy in lock(&self.transfers).waiting.values() {
            let link = (Some(copy.protection.level), Some(copy.from));
            tally.add(&copy.user, What::Copies, link, 1, copy.end.progress().0);
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Tells a member which levels this machine accepts.
    pub(super) fn greet(&self, peer: Peer, shaken: Shaken, user: String, role: Role) -> io::Result<Guest> {
        let entered = self.links.enter(&user);
        if entered.is_ok() {
            peer.proved();
        }
        let from = peer.from.ok_or_else(|| refused("transfers come over the network"))?;
        let certificate = shaken.peer_certificate().to_vec();
        let levels = self.policy.offered(&self.policy.place(Some(from), role.name()), Mark::None);
        let (link, reader) = Link::new(peer.socket, Some(shaken), MOST_BODY)?;
        let _entered = match entered {
            Ok(entered) => entered,
            Err(error) => return Err(self.refuse(&link, reader, &user, &error)),
        };
        tell(&link, &Message::Offer { phalanx: self.phalanx.0.clone(), levels });
        Ok(Guest { link, ear: Ear::new(reader), from, user, certificate, levels, _entered })
    }

    /// Tells the other end why it is refused, and waits until it closes the link.
    pub(super) fn refuse(&self, link: &Link, reader: Reader, user: &str, error: &io::Error) -> io::Error {
        let why = refused(format!("{user}: {error}"));
        turn_away(link, reader, &Message::Refused { reason: error.to_string() }, why)
    }

    /// Serves a transfer. Returns its totals if it was completed. `name`: the name of the copy in a folder. `is_left`:
    /// whether its user is gone.
    pub(super) fn go(
        &self,
        guest: Guest,
        request: Request,
        name: Option<&[u8]>,
        is_left: &dyn Fn() -> bool,
    ) -> io::Result<Option<Totals>> {
        let Guest { link, ear, from, user, certificate, levels, .. } = guest;
        let (reader, heard) = ear.into_parts();
        let end = match self.begin(&link, &request, name, levels) {
            Ok(end) => end,
            Err(error) => return Err(self.refuse(&link, reader, &user, &error)),
        };
        let protection = Protection { level: request.level, checked: request.checked };
        let token: Token = random_token()[..12].try_into().expect("is longer");
        let since = Instant::now();
        let gathering = Arc::new(Gathering { from, user: user.clone(), certificate, protection, request, end, since });
        if let Err(error) = self.enter(token, &gathering) {
            return Err(self.refuse(&link, reader, &user, &error));
        }
        let _leaving = Leaving(self, token);
        self.log.visit(&user, format!("serving {user}, who copies {}", describe(&gathering.request)));
        tell(&link, &Message::Begun { token });
        let threads = match gathering.request.threads {
            0 => usual_threads(),
            threads => threads.min(MOST_STREAMS),
        };
        let mut idle = Idle::new();
        gathering.end.run(reader, heard, threads, |_, link| {
            if idle.is_over(&gathering.end) {
                gathering.end.common().give_up(format!("nothing moved for {} minutes", IDLE.as_secs() / 60));
            }
            self.paused().into_iter().for_each(|why| gathering.end.common().give_up(why));
            if self.is_closed() || is_left() {
                link.close();
            }
        })?;
        let common = gathering.end.common();
        let how = match (common.totals(), common.broken()) {
            (Some(totals), _) => counted(&totals),
            (None, Some(why)) => format!("gave up: {why}"),
            (None, None) => "was cut off".to_owned(),
        };
        self.log.visit(&user, format!("{user}'s copy ended: {how}"));
        Ok(common.totals())
    }

    /// Serves a user's requests about files until the link ends.
    pub fn serve_files(&self, peer: Peer) -> io::Result<()> {
        let Service { member, policy, accepted, exports, phalanx, guests, closed, log, .. } = self;
        files::serve(peer, &files::Terms { member, policy, accepted, exports, phalanx, guests, closed, log })
    }

    fn begin(&self, link: &Arc<Link>, request: &Request, name: Option<&[u8]>, levels: LevelSet) -> io::Result<End> {
        if !levels.contains(request.level) {
            return Err(refused(format!("streams are to be {}, but this machine takes {levels}", request.level)));
        }
        self.open(Arc::new(Common::new(link.clone(), false)), request, name)
    }

    /// An error if the target of a request is not exported.
    pub(super) fn allows(&self, request: &Request) -> io::Result<()> {
        if let Some(why) = self.paused() {
            return Err(refused(why));
        }
        if request.share.is_some_and(|share| share.check().is_err()) {
            return Err(refused("this is no share of a copy"));
        }
        if (1..LEAST_LIMIT).contains(&request.limit) {
            return Err(refused(format!("a limit is {LEAST_LIMIT} bytes a second at least")));
        }
        match &request.target {
            Target::Memory { .. } if !self.exports.memory() => {
                Err(refused("memory is not exported there (phalanx executor --export memory)"))
            }
            Target::Memory { .. } => Ok(()),
            Target::Path { path, .. } => {
                self.exports.find(&to_path(path)?, request.direction == Direction::Put).map(drop)
            }
        }
    }

    /// Opens this machine's end of a transfer. `name`: the name of the copy in a folder.
    pub(super) fn open(&self, common: Arc<Common>, request: &Request, name: Option<&[u8]>) -> io::Result<End> {
        self.allows(request)?;
        let writes = request.direction == Direction::Put;
        match &request.target {
            Target::Memory { .. } if writes => End::receiving(common, Sink::Memory, request.share),
            Target::Memory { bytes } => {
                End::sending(common, Source::Memory { bytes: *bytes }, request.limit, request.compress)
            }
            Target::Path { path, folder } => {
                let path = to_path(path)?;
                let (base, rest) = self.exports.find(&path, writes)?;
                if writes {
                    let sink = Sink::tree(base, rest, *folder, request.anew).filtered(&request.filter)?;
                    let sink = sink.shared(request.share, request.fresh).comparing(!request.whole_file);
                    let name = name.map(|name| system::from_bytes(name.to_vec())).transpose()?;
                    let sink = if let Some(name) = name { sink.called(&name) } else { sink };
                    return End::receiving(common, sink, request.share);
                }
                let source = Source::open(&base, &rest, &path).map_err(system::about(&path))?;
                End::sending(common, source.filtered(&request.filter)?, request.limit, request.compress)
            }
        }
    }

    /// Adds a stream to a transfer.
    pub fn serve_stream(&self, mut peer: Peer, token: Token, number: u32) -> io::Result<()> {
        let gathering =
            lock(&self.transfers).waiting.get(&token).cloned().ok_or_else(|| refused("an unknown token"))?;
        let level = gathering.protection.level;
        // A handshake proves the user, whose links may come by different ways: one through a hub, and the next one directly.
        if level == Level::Clear && peer.from != Some(gathering.from) {
            return Err(refused("a token from another machine than it was given to"));
        }
        let shaken = match level {
            Level::Clear => None,
            level => {
                let (shaken, _, user) = peer.offer(&self.member, [LevelSet::only(level); 3])?;
                if !is_same_member(shaken.peer_certificate(), &gathering.certificate) {
                    return Err(refused(format!("{user} shows a token that was given to somebody else")));
                }
                Some(shaken)
            }
        };
        if gathering.end.streams() >= usize::from(MOST_STREAMS) {
            return Err(refused("too many streams"));
        }
        peer.proved();
        peer.socket.set_patience(None)?;
        gathering.end.add(number, peer.socket, shaken, gathering.protection)
    }
}

/// A path of a request.
pub(super) fn to_path(path: &[u8]) -> io::Result<PathBuf> {
    match path.len() <= MOST_PATH && !path.contains(&0) {
        true => Ok(system::from_bytes(path.to_vec())?.into()),
        false => Err(refused("this is no path")),
    }
}

/// The totals of a copy, for the log.
pub(super) fn counted(totals: &Totals) -> String {
    let Totals { files, bytes, reused, crossed, .. } = totals;
    format!("{files} files, {bytes} bytes, of which {reused} were in older versions; {crossed} crossed")
}

fn describe(request: &Request) -> String {
    let way = if request.direction == Direction::Put { "to" } else { "from" };
    let what = match &request.target {
        Target::Memory { .. } => "memory".to_owned(),
        Target::Path { path, .. } => crate::dial::printable(&String::from_utf8_lossy(path)),
    };
    format!("{way} {what} ({})", request.level)
}
