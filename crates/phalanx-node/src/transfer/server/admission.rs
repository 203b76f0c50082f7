//! Admits transfers: only one copy at a time writes to the same place.

use super::service::{PATIENCE, Service, to_path};
use super::transfers::{Gathering, Token};
use crate::door::refused;
use phalanx_core::wire::transfer::{Direction, Request, Target};
use phalanx_net::sync::lock;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which a transfer checks whether one in its way has ended.
const SOON: Duration = Duration::from_millis(10);
/// A transfer counts as alive if bytes have arrived and it has not ended this long afterwards. The connection of a killed
/// process ends well before that.
const SETTLED: Duration = Duration::from_millis(100);

impl Service {
    /// Admits a transfer once no other transfer writes to the same place.
    ///
    /// If a copy reconnects, its earlier connection is lost but may not have noticed: that connection is ended. A different
    /// copy to the same place is refused while the earlier copy is alive. Otherwise both would reconnect and end each other
    /// for ever. The machine of the earlier copy may be gone, so that copy counts as alive only once bytes have arrived from
    /// it.
    pub(super) fn enter(&self, token: Token, gathering: &Arc<Gathering>) -> io::Result<()> {
        let (began, mut watched) = (Instant::now(), None::<Watched>);
        let is_one_folder = gathering.request.direction == Direction::Put && self.is_folder(&gathering.request);
        loop {
            let (other, gathered, relation) = {
                let mut transfers = lock(&self.transfers);
                let relations =
                    transfers.waiting.iter().map(|(token, one)| (token, one, relate(one, gathering, is_one_folder)));
                let in_the_way = relations.filter(|(.., relation)| *relation != Relation::None);
                // A different copy comes first, so that a copy that is refused has not ended another one.
                let found = in_the_way.max_by_key(|(.., relation)| *relation == Relation::Other);
                let Some(found) = found.map(|(token, one, relation)| (*token, one.clone(), relation)) else {
                    transfers.room(&gathering.user)?;
                    transfers.waiting.insert(token, gathering.clone());
                    return Ok(());
                };
                found
            };
            let is_late = began.elapsed() >= PATIENCE;
            if relation == Relation::Same || is_late {
                gathered.end.common().link.close();
            } else {
                let is_same = |watched: &Watched| watched.token == other;
                let watching = watched.take().filter(is_same).unwrap_or_else(|| Watched::new(other, &gathered));
                if watched.insert(watching).lives(&gathered) {
                    return Err(refused(in_use(&gathered)));
                }
            }
            if began.elapsed() >= PATIENCE * 3 / 2 {
                return Err(refused("an earlier copy to the same place does not end here"));
            }
            thread::sleep(SOON);
        }
    }

    /// Whether the target of a request is a folder here.
    fn is_folder(&self, request: &Request) -> bool {
        let Target::Path { path, .. } = &request.target else { return false };
        let found = to_path(path).and_then(|path| self.exports.find(&path, true));
        found.is_ok_and(|(base, rest)| rest.as_os_str().is_empty() || base.metadata(rest).is_ok_and(|it| it.is_dir()))
    }
}

/// How an earlier transfer is related to one that is about to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    None,
    /// It is an earlier connection of the same copy.
    Same,
    /// It is a different copy to the same place.
    Other,
}

/// `is_folder`: whether their target is a folder, so that copies with different names go into it beside each other.
fn relate(one: &Gathering, new: &Gathering, is_folder: bool) -> Relation {
    let (old, request) = (&one.request, &new.request);
    let same_target = old.direction == request.direction && old.target == request.target;
    let Target::Path { folder, .. } = request.target else { return Relation::None };
    if !same_target || one.user != new.user {
        return Relation::None;
    }
    if old.copy != request.copy {
        let beside = (folder || is_folder) && old.name != request.name;
        let (one, other) = (&old.filter.only, &request.filter.only);
        let apart = !one.is_empty() && !other.is_empty() && !one.iter().any(|name| other.contains(name));
        return match request.direction {
            Direction::Put if !beside && !apart => Relation::Other,
            _ => Relation::None,
        };
    }
    // The copy of everything replaces its shares, a share replaces the same share, and a new share replaces a copy of
    // everything that writes.
    let index = |request: &Request| request.share.map(|share| share.index);
    let puts_all = old.direction == Direction::Put && old.share.is_none();
    let follows = index(old) == index(request) || request.share.is_none() || puts_all;
    if follows { Relation::Same } else { Relation::None }
}

/// A different copy to the same place, of which it is not known whether it is alive.
struct Watched {
    token: Token,
    /// Bytes that its link had received at the first check.
    received: u64,
    heard: Option<Instant>,
}

impl Watched {
    fn new(token: Token, one: &Gathering) -> Watched {
        Watched { token, received: received(one), heard: None }
    }

    /// Whether bytes have arrived from it, and it did not end right afterwards. Bytes that were under way when its process
    /// was killed are no sign of life.
    fn lives(&mut self, one: &Gathering) -> bool {
        if one.end.common().totals().is_some() {
            return false; // it has ended, and is about to be removed
        }
        if self.heard.is_none() && received(one) != self.received {
            self.heard = Some(Instant::now());
        }
        self.heard.is_some_and(|at| at.elapsed() >= SETTLED)
    }
}

fn received(one: &Gathering) -> u64 {
    one.end.common().link.counters().received.load(Ordering::Relaxed)
}

/// Why a copy is refused: another copy writes to the same place.
fn in_use(other: &Gathering) -> String {
    let Target::Path { path, .. } = &other.request.target else { return "it is written already".to_owned() };
    let path = crate::dial::printable(&String::from_utf8_lossy(path));
    let (user, from, seconds) = (&other.user, other.from, other.since.elapsed().as_secs());
    format!(
        "another copy by {user}, from {from}, has been writing to {path} for {seconds} s: wait until it ends, or end it"
    )
}
