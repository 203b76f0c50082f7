//! The executor's end of a link for requests about files.

use super::desk::{Desk, Places};
use super::room::Rooms;
use crate::control::{Pulse, tell, turn_away};
use crate::dial::printable;
use crate::door::{Peer, check_accepted, refused};
use crate::log::Log;
use crate::quota::{Entered, Quota};
use crate::threads::{THREADS, most_links};
use crate::transfer::disk::exports::Exports;
use bytes::Bytes;
use phalanx_core::level::{Level, LevelSet, Mark, Policy};
use phalanx_core::wire::files::{Answer, Ask, MOST_AHEAD, MOST_BODY, Why};
use phalanx_core::wire::{Version, decode, encode};
use phalanx_net::frames::Frame;
use phalanx_net::identity::{Member, Role};
use phalanx_net::link::Link;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

/// Most links at a time.
const MOST: usize = 256;
/// Most links of one user.
const SHARE: usize = 64;
const PAUSE: Duration = Duration::from_millis(100);

/// Which users an executor answers, and about which files.
pub struct Terms<'a> {
    pub member: &'a Member,
    pub policy: &'a Policy,
    pub accepted: &'a [String],
    pub exports: &'a Exports,
    pub phalanx: &'a Version,
    pub guests: &'a Guests,
    pub closed: &'a AtomicBool,
    pub log: &'a Log,
}

/// The users that are being served, and the limit of open files for all of them.
pub struct Guests {
    links: Arc<Quota>,
    rooms: Rooms,
}

impl Guests {
    pub fn new() -> Guests {
        let most = most_links(MOST, THREADS);
        let links = Quota::new("links for requests about files", most, SHARE.min(most.div_ceil(4)));
        Guests { links, rooms: Rooms::half() }
    }
}

/// Those of the levels at which no attacker on the network can alter requests, even in a trusted network. Otherwise an
/// attacker could remove files in a user's name.
pub fn protecting(levels: LevelSet) -> LevelSet {
    let protecting = levels.both(LevelSet::from(Level::Safe));
    if protecting.levels().next().is_none() { LevelSet::from(Level::Private) } else { protecting }
}

/// Serves a user until the link ends.
pub fn serve(mut peer: Peer, terms: &Terms<'_>) -> io::Result<()> {
    let from = peer.from.ok_or_else(|| refused("questions about files come over the network"))?;
    let place = terms.policy.place(Some(from), Role::User.name());
    let levels = protecting(terms.policy.offered(&place, Mark::None));
    let (shaken, role, user) = peer.offer(terms.member, [levels; 3])?;
    if role != Role::User {
        return Err(refused(format!("{user} is no user but has the role {}", role.name())));
    }
    let accepted = check_accepted(terms.accepted, &user);
    if accepted.is_ok() {
        peer.proved();
    }
    peer.socket.set_patience(None)?;
    if let Err(error) = accepted {
        let (link, reader) = Link::new(peer.socket, Some(shaken), 0)?;
        let last = Answer::Failed { why: Why::Denied, reason: error.to_string() };
        return Err(turn_away(&link, reader, &last, error));
    }
    let (link, reader) = Link::new(peer.socket, Some(shaken), MOST_BODY)?;
    let _entered = enter(terms, &link, &user)?;
    terms.log.visit(&user, format!("serving {user}, who looks at files"));
    tell(&link, &Answer::Offer { phalanx: terms.phalanx.0.clone() });
    let (asks, queue) = sync_channel(MOST_AHEAD);
    let mut pulse = Pulse::new();
    let protects = link.levels().base >= Level::Safe;
    let desk = Desk::new(Places::Exported(terms.exports.clone()), !protects, terms.guests.rooms.of(&user));
    let (log, user) = (terms.log, &user);
    let log = &move |change: String| log.visit(user, format!("{user} {change}"));
    thread::scope(|scope| {
        let answering = thread::Builder::new().name("phalanx-files".into());
        let answering_link = &*link;
        answering.spawn_scoped(scope, move || answer(answering_link, desk, queue, log))?;
        let on_frame = |frame: Frame| match decode(&frame.header) {
            Ok(Ask::Beat) => {}
            Ok(ask) if !(frame.body.is_empty() || matches!(ask, Ask::Write { .. })) => link.close(),
            Ok(ask) => {
                let ask = ask.check().is_ok().then_some(ask); // before it is queued, because a wrong request may be large
                if asks.try_send((ask, frame.body)).is_err() {
                    link.close(); // more requests than may be under way
                }
            }
            Err(_) => link.close(),
        };
        reader.run(PAUSE, on_frame, |link| {
            pulse.pause(link, &Answer::Beat);
            if terms.closed.load(Ordering::Acquire) {
                link.close();
            }
        });
        drop(asks);
        Ok(())
    })
}

fn enter(terms: &Terms<'_>, link: &Link, user: &str) -> io::Result<Entered> {
    terms.guests.links.enter(user).inspect_err(|error| {
        tell(link, &Answer::Failed { why: Why::Other, reason: error.to_string() });
    })
}

/// Closes the link when the answering thread returns or panics, so that the client does not wait for ever.
struct Ending<'a>(&'a Link);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Answers in the order of the requests. Waits while the client is slow to read the answers.
fn answer(link: &Link, mut desk: Desk, queue: Receiver<(Option<Ask>, Bytes)>, log: &(dyn Fn(String) + Sync)) {
    let _ending = Ending(link);
    while let Ok((ask, body)) = queue.recv() {
        let change = ask.as_ref().and_then(describe);
        let (answer, body) = match ask {
            Some(ask) => desk.answer(ask, &body, &|| link.is_closed()),
            None => (Answer::Failed { why: Why::Other, reason: "this is no question".to_owned() }, Vec::new()),
        };
        match (change, &answer) {
            (Some(change), Answer::Done) => log(change),
            (Some(change), Answer::Tried { done, failed, .. }) => {
                log(format!("{change}: {done} done, {failed} failed"))
            }
            _ => {}
        }
        let start = encode(&answer, body.len() as u64);
        let body = if body.is_empty() { Vec::new() } else { vec![Bytes::from(body)] };
        if link.send(Mark::None, start, body).is_err() {
            return;
        }
    }
}

/// What a request changes, for the log.
fn describe(ask: &Ask) -> Option<String> {
    let shown = |path: &[u8]| printable(&String::from_utf8_lossy(path));
    match ask {
        Ask::Remove { folder, names, .. } if names.len() == 1 => {
            Some(format!("removes {}/{}", shown(folder), shown(&names[0])))
        }
        Ask::Remove { folder, names, .. } => Some(format!("removes {} names in {}", names.len(), shown(folder))),
        Ask::Rename { from, to } => Some(format!("renames {} to {}", shown(from), shown(to))),
        Ask::Create { path, .. } => Some(format!("writes {}", shown(path))),
        _ => None,
    }
}
