//! Links between the members of a space: TLS with their certificates, level private, one link for each direction.
//!
//! The asking member opens the link, and the asked member sends nothing but answers. A peer must be an executor of the grid
//! whose name is on this space's list of members. No other executor learns what is in the space, or votes.

use super::network::{Later, Network};
use super::{Replicated, runtime};
use crate::control::{self, Pulse, tell};
use crate::dial::check_version;
use crate::door::{Peer, refused};
use bytes::Bytes;
use phalanx_core::level::Mark;
use phalanx_core::space::Replica;
use phalanx_core::wire::{Neighbour, VERSION, decode, encode};
use phalanx_net::address::Address;
use phalanx_net::dial::{Expected, dial};
use phalanx_net::frames::Frame;
use phalanx_net::identity::{Member, Role};
use phalanx_net::link::Link;
use phalanx_net::preamble::Preamble;
use phalanx_net::sync::lock;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Timeout for reaching a member and for the handshake.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(200);
/// Longest body of a frame, in bytes. It holds entries that are sent together, or one entry as large as a group may be.
const MOST_BODY: u64 = 64 << 20;
/// While more bytes than this wait to be sent to a member, no further question is sent to it.
const MOST_WAITING: usize = 16 << 20;
/// Most questions of one member that are answered at the same time. A member asks far fewer.
const MOST_AT_ONCE: usize = 64;
/// Longest name of a space and its members, in bytes.
const MOST_NAME: usize = 8192;

/// The header of a frame. The message between the members is the frame's body. `Open` stays first in all versions, and begins
/// with `phalanx`; `Runs` stays as it is.
#[derive(Debug, Serialize, Deserialize)]
enum Said {
    /// The first frame: the version of the asking member, and the space that the link is for.
    Open {
        phalanx: String,
        space: String,
    },
    /// The answer to it from a member of another version, which it ends the link with.
    Runs {
        phalanx: String,
    },
    Ask {
        request: u64,
    },
    Answer {
        request: u64,
    },
    Beat,
}

/// Between whom the links are.
#[derive(Clone, Copy)]
struct Kind {
    role: Role,
    preamble: Preamble,
    /// Timeout for reaching a member at one of its addresses and for the handshake.
    patience: Duration,
}

const EXECUTORS: Kind = Kind { role: Role::Executor, preamble: Preamble::Replica, patience: PATIENCE };
/// A hub has several addresses, and another hub must not wait long at one that leads nowhere.
const HUBS: Kind = Kind { role: Role::Hub, preamble: Preamble::Hubs, patience: Duration::from_secs(1) };

/// The outgoing links from this member to the others of one space.
pub struct Links {
    own: Arc<Member>,
    kind: Kind,
    space: String,
    ways: Mutex<HashMap<Replica, Arc<Way>>>,
}

/// The way to one member.
#[derive(Default)]
struct Way {
    /// The link. The first question opens it, and opens it again after it has ended.
    open: tokio::sync::Mutex<Option<Arc<Asking>>>,
    /// When the member answered last.
    answered: Mutex<Option<Instant>>,
}

struct Asking {
    /// The address of the member that is asked.
    to: String,
    link: Arc<Link>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next: u64,
    waiting: HashMap<u64, oneshot::Sender<Bytes>>,
    /// Why the member is not asked any more.
    refused: Option<String>,
}

impl Links {
    /// The links for the space of this name. `own`: this executor's identity.
    pub fn new(own: Arc<Member>, space: &str) -> Links {
        Links::of(own, EXECUTORS, space)
    }

    /// The links of a hub to the other hubs. Their addresses are separated by commas.
    pub fn of_hub(own: Arc<Member>, space: &str) -> Links {
        Links::of(own, HUBS, space)
    }

    fn of(own: Arc<Member>, kind: Kind, space: &str) -> Links {
        Links { own, kind, space: space.to_owned(), ways: Mutex::default() }
    }

    /// When the member of this name answered last.
    pub fn answered(&self, name: &str) -> Option<Instant> {
        let ways = lock(&self.ways);
        ways.iter().filter(|(to, _)| to.name == name).filter_map(|(_, way)| *lock(&way.answered)).max()
    }

    fn dial(own: &Member, kind: Kind, space: &str, to: &Replica) -> io::Result<Arc<Asking>> {
        let mut last = io::Error::from(ErrorKind::NotConnected);
        for address in to.address.split(',') {
            match Links::dial_at(own, kind, space, to, address) {
                Ok(asking) => return Ok(asking),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn dial_at(own: &Member, kind: Kind, space: &str, to: &Replica, address: &str) -> io::Result<Arc<Asking>> {
        let address: Address = address.parse().map_err(io::Error::other)?;
        let client = own.newest().client_of(kind.role).map_err(io::Error::other)?;
        let dialled = dial(&(&address).into(), kind.patience)?;
        let member = Expected::Named(&client, &to.name);
        let introduced = dialled.introduce(kind.preamble, member, control::LEVELS, kind.patience)?;
        let (link, reader) = introduced.link(MOST_BODY)?;
        let asking = Arc::new(Asking { to: to.address.clone(), link: link.clone(), open: Mutex::default() });
        let answered = asking.clone();
        tell(&link, &Said::Open { phalanx: VERSION.to_owned(), space: space.to_owned() });
        let read = move || {
            let mut pulse = Pulse::new();
            reader.run(PAUSE, |frame| answered.on_frame(frame), |link| pulse.pause(link, &Said::Beat));
            lock(&answered.open).waiting.clear(); // wakes the waiting askers with an error
        };
        thread::Builder::new().name("phalanx-replica".into()).spawn(read)?;
        Ok(asking)
    }
}

impl Network for Links {
    fn ask(&self, to: &Replica, message: Bytes, patience: Duration) -> Later<io::Result<Bytes>> {
        let way = lock(&self.ways).entry(to.clone()).or_default().clone();
        let (own, kind, space, to) = (self.own.clone(), self.kind, self.space.clone(), to.clone());
        let asked_way = way.clone();
        // This is a task of its own, because the asker may give up before the link is open. The next asker then finds it.
        let opened: JoinHandle<io::Result<Arc<Asking>>> = tokio::spawn(async move {
            let mut open = way.open.lock().await;
            if let Some(asking) = open.as_ref().filter(|asking| !asking.link.is_closed()) {
                return Ok(asking.clone());
            }
            let dial = move || Links::dial(&own, kind, &space, &to);
            let asking = tokio::task::spawn_blocking(dial).await.map_err(io::Error::other)??;
            Ok(open.insert(asking).clone())
        });
        let asked = async move { opened.await.map_err(io::Error::other)??.ask(message).await };
        Box::pin(async move {
            let answer = tokio::time::timeout(patience.max(PATIENCE), asked).await;
            if let Ok(Ok(_)) = answer {
                *lock(&asked_way.answered) = Some(Instant::now());
            }
            answer.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
        })
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        for way in lock(&self.ways).values() {
            if let Ok(asking) = way.open.try_lock() {
                asking.iter().for_each(|asking| asking.link.close());
            }
        }
    }
}

impl Asking {
    async fn ask(&self, message: Bytes) -> io::Result<Bytes> {
        // The library retries again and again. On a slow network these retries must not pile up.
        if self.link.waiting_bytes() > MOST_WAITING {
            return Err(ErrorKind::TimedOut.into());
        }
        let (give, take) = oneshot::channel();
        let request = {
            let mut open = lock(&self.open);
            open.next += 1;
            let request = open.next;
            open.waiting.retain(|_, waits| !waits.is_closed());
            open.waiting.insert(request, give);
            request
        };
        self.link.queue(Mark::None, encode(&Said::Ask { request }, message.len() as u64), vec![message]);
        self.link.flush();
        // The link's reader may have ended before this question was registered in `waiting`.
        if self.link.is_closed() {
            return Err(self.why_ended());
        }
        take.await.map_err(|_| self.why_ended())
    }

    fn why_ended(&self) -> io::Error {
        let refused = lock(&self.open).refused.clone();
        refused.map_or_else(|| ErrorKind::ConnectionReset.into(), io::Error::other)
    }

    fn on_frame(&self, frame: Frame) {
        match decode(&frame.header) {
            Ok(Said::Answer { request }) => {
                if let Some(waits) = lock(&self.open).waiting.remove(&request) {
                    let _ = waits.send(frame.body);
                }
            }
            Ok(Said::Beat) => {}
            Ok(Said::Runs { phalanx }) => {
                lock(&self.open).refused = check_version(&self.to, &phalanx).err();
                self.link.close();
            }
            _ => self.link.close(),
        }
    }
}

/// A space of this process that other members may ask about.
pub struct Kept {
    /// The log that the members keep together.
    pub replicated: Arc<Replicated>,
    /// The names of the members as this member was told them, used before it has learnt the list from the log. `None`: any.
    names: Option<Vec<String>>,
    /// Set when this member no longer takes part, or does so under another number.
    over: AtomicBool,
}

impl Kept {
    /// A member's log. `names`: the members as this member was told them.
    pub fn new(replicated: Arc<Replicated>, names: Vec<String>) -> Kept {
        Kept { replicated, names: Some(names), over: AtomicBool::new(false) }
    }

    /// The log of a hub, which hears any hub of the grid until it has learnt the list.
    pub fn of_hub(replicated: Arc<Replicated>) -> Kept {
        Kept { replicated, names: None, over: AtomicBool::new(false) }
    }

    /// Ends this member's part in the space.
    pub fn stop(&self) {
        self.over.store(true, Ordering::Release);
        self.replicated.stop();
    }

    /// Whether a peer of this name may ask: it must be a member.
    fn hears(&self, name: &str) -> bool {
        let is_name = |known: &String| known.eq_ignore_ascii_case(name);
        let told = || self.names.as_ref().is_none_or(|names| names.iter().any(is_name));
        !self.over.load(Ordering::Acquire) && self.replicated.has_member(name).unwrap_or_else(told)
    }
}

/// Answers another member until its link ends. For a door whose peer sent `Preamble::Replica`. `find` returns the space of a
/// name; `over` says when to end the link.
pub(crate) fn serve(
    peer: Peer,
    own: &Member,
    find: impl Fn(&str) -> Option<Arc<Kept>>,
    over: impl Fn() -> bool,
) -> io::Result<()> {
    answer_member(peer, own, Role::Executor, find, over)
}

/// The same for another hub. For a door whose peer sent `Preamble::Hubs`.
pub(crate) fn serve_hub(peer: Peer, own: &Member, kept: &Arc<Kept>, over: impl Fn() -> bool) -> io::Result<()> {
    answer_member(peer, own, Role::Hub, |_| Some(kept.clone()), over)
}

fn answer_member(
    mut peer: Peer,
    own: &Member,
    role: Role,
    find: impl Fn(&str) -> Option<Arc<Kept>>,
    over: impl Fn() -> bool,
) -> io::Result<()> {
    let (shaken, name) = peer.shake_hands_as(own, control::LEVELS, role)?;
    peer.proved();
    let (link, reader) = Link::new(peer.socket, Some(shaken), MOST_BODY)?;
    let (mut about, mut why) = (None, None);
    let at_once = Arc::new(AtomicUsize::new(0));
    let mut pulse = Pulse::new();
    let on_frame = |frame: Frame| match (decode(&frame.header), &about) {
        (Err(_), None) | (Ok(Said::Open { .. }), None) if other_version(&frame.header).is_some() => {
            why = other_version(&frame.header).and_then(|theirs| check_version(&name, &theirs).err());
            tell(&link, &Said::Runs { phalanx: VERSION.to_owned() });
            let _ = link.finish(PAUSE);
            link.close();
        }
        (Ok(Said::Open { space, .. }), None) if space.len() <= MOST_NAME => match find(&space) {
            Some(kept) if kept.hears(&name) => about = Some(kept),
            _ => {
                why = Some(format!("{name} is no member of a space {space}"));
                link.close();
            }
        },
        (Ok(Said::Ask { request }), Some(kept)) if kept.hears(&name) => {
            answer(kept.replicated.clone(), request, frame.body, link.clone(), &at_once);
        }
        (Ok(Said::Beat), _) => {}
        _ => link.close(),
    };
    let on_pause = |link: &Link| match over() {
        true => link.close(),
        false => pulse.pause(link, &Said::Beat),
    };
    reader.run(PAUSE, on_frame, on_pause);
    why.map_or(Ok(()), |why| Err(refused(why)))
}

/// The version in a first frame, if it does not work together with this one. What follows the version may differ then.
fn other_version(header: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    enum First {
        Open { phalanx: String },
    }
    let Ok((First::Open { phalanx }, _)) = postcard::take_from_bytes(header) else { return None };
    (Neighbour::of(&phalanx, VERSION) != Neighbour::Fits).then_some(phalanx)
}

/// Answers in a task, because a slow answer must not delay the leader's beats behind it.
fn answer(replicated: Arc<Replicated>, request: u64, message: Bytes, link: Arc<Link>, at_once: &Arc<AtomicUsize>) {
    let Ok(runtime) = runtime() else { return };
    if at_once.fetch_add(1, Ordering::Relaxed) >= MOST_AT_ONCE {
        return link.close();
    }
    let at_once = at_once.clone();
    runtime.spawn(async move {
        let answer = replicated.answer_later(&message).await;
        link.queue(Mark::None, encode(&Said::Answer { request }, answer.len() as u64), vec![answer]);
        link.flush();
        at_once.fetch_sub(1, Ordering::Relaxed);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::wire::MAX_HEADER;

    #[test]
    fn the_version_of_a_member_is_read_whatever_follows_it() {
        let header = |said: &Said| postcard::to_stdvec(said).expect("a header");
        let open = |phalanx: &str| header(&Said::Open { phalanx: phalanx.to_owned(), space: "jobs".to_owned() });
        assert_eq!(other_version(&open(VERSION)), None);
        for other in ["99.0.0", "0.0.9", "no version"] {
            let told = open(other);
            assert_eq!(other_version(&told).as_deref(), Some(other));
            assert_eq!(other_version(&[&told[..told.len() - 5], &[0xff; 40]].concat()).as_deref(), Some(other));
        }
        for none in [header(&Said::Beat), header(&Said::Ask { request: 1 }), vec![0; MAX_HEADER as usize], Vec::new()] {
            assert_eq!(other_version(&none).filter(|version| !version.is_empty()), None);
        }
    }
}
