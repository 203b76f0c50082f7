//! Links between members that cannot connect directly. Each of the two dials the hub with a token of its own, and the hub copies
//! the bytes.
//!
//! The tokens come over links that authenticate the members. Their only purpose is that the hub carries no strangers' bytes,
//! because the two members authenticate each other through the relay.

use super::{Hub, HubError, signing};
use crate::control::tell;
use crate::door::{Peer, refused};
use crate::quota::{Entered, Quota};
use crate::transfer::most_open;
use phalanx_core::hub::Who;
use phalanx_core::wire::hub::{FromHub, MOST_RELAYED, RelayedRow};
use phalanx_net::identity::random_token;
use phalanx_net::relay::Relayed;
use phalanx_net::socket::Socket;
use phalanx_net::sync::lock;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long the two ends of a link may take to arrive.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most relayed links. Each takes several descriptors. There is at most one link for every [`DESCRIPTORS`] descriptors that the hub
/// may have, and one member has at most a quarter of the links.
const MOST: usize = 2048;
const DESCRIPTORS: usize = 16;

type Token = [u8; 16];

/// Room for relayed links.
pub fn quota() -> Arc<Quota> {
    let most = (most_open() / DESCRIPTORS).clamp(4, MOST);
    Quota::new("relayed links", most, most.div_ceil(4))
}

/// The links that the hub carries, with the members at their ends. A link ends when one of its members is expelled, or when the hub
/// ends.
#[derive(Default)]
pub struct Carried {
    now: Mutex<HashMap<u64, Link>>,
    /// The bytes of links that have ended.
    bytes: AtomicU64,
}

/// A link that is carried.
struct Link {
    ends: Ends,
    relayed: Arc<Relayed>,
    since: Instant,
}

type Ends = [Who; 2];

impl Carried {
    /// Ends the links of these members.
    pub fn end(&self, is_meant: impl Fn(&Who) -> bool) {
        let now = lock(&self.now);
        now.values().filter(|link| link.ends.iter().any(&is_meant)).for_each(|link| link.relayed.end());
    }

    /// The links with the most bytes, the number of all, and all bytes that were relayed.
    pub fn rows(&self) -> (Vec<RelayedRow>, u32, u64) {
        let now = lock(&self.now);
        let row = |link: &Link| RelayedRow {
            ends: link.ends.clone().map(|Who { role, name }| (role, name)),
            bytes: link.relayed.copied(),
            seconds: link.since.elapsed().as_secs(),
        };
        let mut rows: Vec<RelayedRow> = now.values().map(row).collect();
        let count = rows.len() as u32;
        let bytes = rows.iter().map(|row| row.bytes).sum::<u64>() + self.bytes.load(Ordering::Relaxed);
        rows.sort_by(|one, other| other.bytes.cmp(&one.bytes).then_with(|| one.ends.cmp(&other.ends)));
        rows.truncate(MOST_RELAYED);
        (rows, count, bytes)
    }
}

/// The links of which an end has not arrived yet.
#[derive(Default)]
pub struct Meetings(Mutex<HashMap<Token, Arc<Meeting>>>);

/// The two ends of a link that will be relayed.
struct Meeting {
    until: Instant,
    ends: Ends,
    first: Mutex<Option<Socket>>,
    /// The quota that the link takes of the member that has asked for it.
    entered: Mutex<Option<Entered>>,
}

impl Meetings {
    /// The tokens for both ends of a new link.
    fn arrange(&self, ends: Ends, entered: Entered) -> [Token; 2] {
        let (until, tokens) = (Instant::now() + PATIENCE, [random_token(), random_token()]);
        let meeting = Arc::new(Meeting { until, ends, first: Mutex::new(None), entered: Mutex::new(Some(entered)) });
        let mut meetings = lock(&self.0);
        meetings.retain(|_, meeting| meeting.until > Instant::now());
        tokens.iter().for_each(|token| drop(meetings.insert(*token, meeting.clone())));
        tokens
    }

    /// Records that an end has arrived. Once both have, returns the link, its members, and the quota that it takes.
    fn arrive(&self, token: Token, socket: Socket) -> Option<(Relayed, Ends, Option<Entered>)> {
        let meeting = lock(&self.0).remove(&token).filter(|meeting| meeting.until > Instant::now())?;
        let mut first = lock(&meeting.first);
        match first.take() {
            Some(other) => {
                let relayed = Relayed::new(other, socket).ok()?;
                Some((relayed, meeting.ends.clone(), lock(&meeting.entered).take()))
            }
            None => {
                *first = Some(socket);
                None
            }
        }
    }

    /// Forgets links whose ends are late, and closes the connections of these links.
    pub fn forget_late(&self) {
        lock(&self.0).retain(|_, meeting| meeting.until > Instant::now());
    }

    fn is_expected(&self, token: &Token) -> bool {
        lock(&self.0).contains_key(token)
    }
}

impl Hub {
    /// Makes a way to an executor that is here: the hub tells the executor to dial. Returns the token for the member that has
    /// asked.
    pub(super) fn reach(&self, by: &Who, name: &str) -> Result<Token, HubError> {
        let there = Who::new("executor", name);
        let number = self.engine().link_of(&there)?;
        let linked = lock(&self.linked).get(&number).cloned();
        let linked = linked.ok_or_else(|| HubError::Other(format!("{name} has just left")))?;
        let entered = self.relayed.enter(&format!("{} {}", by.role, by.name))?;
        let [token, theirs] = self.meetings.arrange([by.clone(), there], entered);
        tell(linked.link(), &FromHub::Come { token: theirs });
        Ok(token)
    }

    /// Takes one end of a link, and carries the link once both ends are here.
    pub fn serve_relayed(&self, peer: Peer, token: Token) -> io::Result<()> {
        if !self.meetings.is_expected(&token) {
            return Err(refused("a link that nobody has arranged"));
        }
        peer.proved();
        if let Some((relayed, ends, _entered)) = self.meetings.arrive(token, peer.socket) {
            let (began, relayed) = (signing::now(), Arc::new(relayed));
            let link = Link { ends, relayed: relayed.clone(), since: Instant::now() };
            lock(&self.carried.now).insert(peer.number, link);
            let carried = if self.is_closed() { Ok(0) } else { relayed.carry() };
            lock(&self.carried.now).remove(&peer.number);
            self.carried.bytes.fetch_add(relayed.copied(), Ordering::Relaxed);
            let bytes = carried?;
            self.log.debug(format!("relayed {bytes} bytes in {} s", signing::now().saturating_sub(began)));
        }
        Ok(())
    }
}
