//! Couriers: after a link was opened, they open another one for news if its ends have not the same news.
//!
//! A courier runs in the background, so that no service waits for it. At its end a program waits for a moment, see [`finish`].

use super::{Expected, Target, dial};
use crate::forks;
use crate::identity::{Client, Courier, fingerprint};
use crate::news::{Exchange, LASTS, LEVELS, talk};
use crate::preamble::Preamble;
use crate::sync::lock;
use phalanx_core::wire::{MAX_CONTROL_BODY, NewsDigest};
use rustls::pki_types::CertificateDer;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// Most links for news that a process opens at the same time.
const MOST: usize = 8;
/// Time to reach the server and to shake hands.
const PATIENCE: Duration = Duration::from_secs(5);
/// Two ends that have told each other everything and still differ are left alone for so long. One of them cannot keep what it
/// was told, or it hides something.
const REST: Duration = Duration::from_secs(60);
/// While a link is open, its client asks the server again after so long. News that the server has learned from others arrive so.
/// Each time costs a resumed handshake: a server with 4096 clients has 14 a second.
const ASK: Duration = Duration::from_secs(if cfg!(test) { 5 } else { 300 });
/// Most pairs of ends that are remembered for [`REST`].
const MOST_REMEMBERED: usize = 256;
/// Pause between two looks whether all couriers are back, and between two tries to lock.
const PAUSE: Duration = Duration::from_millis(5);
/// Tries to lock what is locked for a moment only.
const TRIES: usize = 20;

/// The fingerprint of the server's certificate, and the files of this end's news.
type Pair = (String, Vec<PathBuf>);

/// The couriers of this process.
#[derive(Debug, Default)]
struct Underway {
    /// A fork has none of its parent's threads.
    process: u32,
    pairs: Vec<Pair>,
    /// The last courier of each pair.
    told: HashMap<Pair, Told>,
}

/// What both ends had when a courier left.
#[derive(Debug)]
struct Told {
    ours: NewsDigest,
    /// `None`: the server was not asked before.
    theirs: Option<NewsDigest>,
    when: Instant,
}

static UNDERWAY: LazyLock<Mutex<Underway>> = LazyLock::new(Mutex::default);

/// Carries news to the server at one end of a link, and from there.
#[derive(Debug)]
pub(super) struct Sent {
    client: Client,
    target: Target,
    certificate: Vec<u8>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The version of this end's news at the last look.
    version: (u64, u64),
    /// When this link was opened, or the server was asked last.
    asked: Instant,
    /// Whether a courier is due, and waits until others are back.
    is_due: bool,
}

impl Sent {
    /// For a link to the server with this certificate, which is reached again at `target`. `None`: this end takes no news.
    pub(super) fn new(client: &Client, target: &Target, certificate: &[u8]) -> Option<Arc<Sent>> {
        let news = client.news();
        if news.digest() == NewsDigest::NONE {
            return None;
        }
        let state = Mutex::new(State { version: news.version(), asked: Instant::now(), is_due: false });
        let (client, target, certificate) = (client.clone(), target.clone(), certificate.to_vec());
        Some(Arc::new(Sent { client, target, certificate, state }))
    }

    fn pair(&self) -> Pair {
        let certificate = CertificateDer::from(self.certificate.as_slice());
        (fingerprint(&certificate), self.client.news().files().to_vec())
    }

    /// Lets a courier leave, if there is room. Whether it has left.
    fn leave(&self) -> bool {
        let pair = self.pair();
        if !enter(&pair) {
            return false;
        }
        let (client, target, certificate) = (self.client.clone(), self.target.clone(), self.certificate.clone());
        let back = pair.clone();
        let run = move || {
            let _back = Back(back);
            let _ = carry(&client, &target, &certificate); // the next link tries again
        };
        let has_left = thread::Builder::new().name("phalanx-news".into()).spawn(run).is_ok();
        if !has_left {
            drop(Back(pair));
        }
        has_left
    }
}

impl Courier for Sent {
    fn heard(&self, theirs: NewsDigest) {
        let ours = self.client.news().digest();
        if ours.differs(theirs) && note(self.pair(), ours, Some(theirs), REST) {
            lock(&self.state).is_due = !self.leave();
        }
    }

    fn look(&self) {
        let (news, mut state) = (self.client.news(), lock(&self.state));
        let version = news.version();
        let has_changed = std::mem::replace(&mut state.version, version) != version;
        let is_time = state.asked.elapsed() >= ASK;
        if has_changed || is_time {
            state.asked = Instant::now();
            state.is_due |= note(self.pair(), news.digest(), None, if has_changed { REST } else { ASK });
        }
        if state.is_due {
            state.is_due = !self.leave();
        }
    }
}

/// Opens a link for news and talks over it.
fn carry(client: &Client, target: &Target, certificate: &[u8]) -> io::Result<()> {
    let dialled = dial(target, PATIENCE)?;
    let introduced = dialled.introduce(Preamble::News, Expected::Same(client, certificate), LEVELS, PATIENCE)?;
    let (_link, reader) = introduced.link(MAX_CONTROL_BODY)?;
    talk(reader, Exchange::of_client(client.news()), || false, drop)
}

/// Takes note that a courier leaves. Whether it may: one at a time for each pair.
fn enter(pair: &Pair) -> bool {
    let Some(mut underway) = underway() else { return false };
    if underway.pairs.len() >= MOST || underway.pairs.contains(pair) {
        return false;
    }
    underway.pairs.push(pair.clone());
    true
}

/// Takes note that a courier is due. `false`: one of the same pair left less than `rest` ago, when both ends had the same. A program
/// may have many links to one server.
fn note(pair: Pair, ours: NewsDigest, theirs: Option<NewsDigest>, rest: Duration) -> bool {
    let Some(mut underway) = underway() else { return false };
    let told = &mut underway.told;
    told.retain(|_, told| told.when.elapsed() < ASK.max(REST));
    let is_new = told.get(&pair).is_none_or(|told| {
        let is_same = told.ours == ours && (theirs.is_none() || told.theirs == theirs);
        !is_same || told.when.elapsed() >= rest
    });
    if is_new && told.len() < MOST_REMEMBERED {
        told.insert(pair, Told { ours, theirs, when: Instant::now() });
    }
    is_new
}

/// The couriers of this process. `None`: in a fork, the thread that held the lock does not exist, so that it stays locked.
fn underway() -> Option<MutexGuard<'static, Underway>> {
    let process = forks::process();
    let mut tries = (0..TRIES).map(|_| UNDERWAY.try_lock().ok().or_else(|| pause(PAUSE)));
    let mut underway = tries.find_map(|locked| locked)?;
    if underway.process != process {
        *underway = Underway { process, ..Underway::default() };
    }
    Some(underway)
}

fn pause<T>(time: Duration) -> Option<T> {
    thread::sleep(time);
    None
}

/// A courier is back when this is dropped.
struct Back(Pair);

impl Drop for Back {
    fn drop(&mut self) {
        // It was locked in this process before, so that a thread of this process holds it.
        lock(&UNDERWAY).pairs.retain(|pair| *pair != self.0);
    }
}

/// Waits until all couriers are back, at most for so long: a program that ends would take them with it. News that are not
/// delivered by then travel with the next link.
pub fn finish(patience: Duration) {
    let until = Instant::now() + patience.min(LASTS);
    while underway().is_some_and(|underway| !underway.pairs.is_empty()) && Instant::now() < until {
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests;
