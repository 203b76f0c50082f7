//! Couriers: after a link was opened, they open another one for news if its ends have not the same news.
//!
//! A courier runs in the background, so that no service waits for it. At its end a program waits for a moment, see [`finish`].

use super::{Expected, Target, dial};
use crate::forks;
use crate::identity::{Client, Courier, Holder};
use crate::news::{Exchange, LASTS, LEVELS, note_unwritten, talk};
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
/// Pause after an exchange between two ends that still differ afterwards. One of them cannot store the news, or sends a wrong digest.
const REST: Duration = Duration::from_secs(60);
/// While a link is open, its client asks the server again after so long. News that the server has learned from others arrive so.
/// Each time costs a resumed handshake: a server with 4096 clients has 14 a second.
const ASK: Duration = Duration::from_secs(if cfg!(test) { 5 } else { 300 });
/// Rest after a courier that has failed. It doubles with each further one, up to [`REST`].
const BACKOFF: Duration = if cfg!(test) { Duration::from_millis(50) } else { Duration::from_secs(5) };
/// Most pairs of ends that are remembered for [`REST`]. A further one displaces the oldest.
const MOST_REMEMBERED: usize = 256;
/// Pause between two looks whether all couriers are back, and between two tries to lock.
const PAUSE: Duration = Duration::from_millis(5);
/// Tries to take a lock that is held for a moment only.
const TRIES: usize = 20;

/// The server, whose certificate may be renewed, and the files of this end's news.
type Pair = (Holder, Vec<PathBuf>);

/// The couriers of this process.
#[derive(Debug, Default)]
struct Underway {
    /// A fork has none of its parent's threads.
    process: u32,
    pairs: Vec<Pair>,
    /// The last courier of each pair.
    told: HashMap<Pair, Told>,
}

/// The last courier of a pair of ends. The server's digest is not part of it, because a server could send another one each time.
#[derive(Debug)]
struct Told {
    /// This end's digest when the courier left.
    ours: NewsDigest,
    /// When it left, or failed.
    when: Instant,
    /// How many have failed in a row.
    failures: u32,
}

/// When a courier leaves.
#[derive(Debug, PartialEq)]
enum Turn {
    Now,
    /// The last one has failed: after a rest.
    Later,
    /// The last one has told the same.
    Never,
}

impl Underway {
    /// Whether a courier is due that has these news, if one that has told everything is followed by none for so long. Takes note of it.
    fn note(&mut self, pair: &Pair, ours: NewsDigest, rest: Duration) -> Turn {
        let told = &mut self.told;
        told.retain(|_, told| told.when.elapsed() < ASK.max(REST));
        let before = told.get(pair);
        let turn = before.map_or(Turn::Now, |before| before.next(ours, rest));
        if turn != Turn::Now {
            return turn;
        }
        let failures = before.map_or(0, |before| before.failures);
        let is_full = before.is_none() && told.len() >= MOST_REMEMBERED;
        let oldest = told.iter().filter(|_| is_full).min_by_key(|(_, told)| told.when).map(|(pair, _)| pair.clone());
        if let Some(oldest) = oldest {
            told.remove(&oldest);
        }
        told.insert(pair.clone(), Told { ours, when: Instant::now(), failures });
        Turn::Now
    }
}

impl Told {
    /// When the next courier leaves, with these news.
    fn next(&self, ours: NewsDigest, rest: Duration) -> Turn {
        let (since, before) = (self.when.elapsed(), self.failures.checked_sub(1));
        match before {
            Some(before) if since < REST.min(BACKOFF * (1 << before.min(16))) => Turn::Later,
            None if self.ours == ours && since < rest => Turn::Never,
            _ => Turn::Now,
        }
    }
}

static UNDERWAY: LazyLock<Mutex<Underway>> = LazyLock::new(Mutex::default);

/// Carries news to the server at one end of a link, and from there.
#[derive(Debug)]
pub(super) struct Sent {
    client: Client,
    target: Target,
    certificate: Vec<u8>,
    pair: Pair,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    /// The version of this end's news at the last look.
    version: (u64, u64),
    /// When this link was opened, or the server was asked last.
    asked: Instant,
    /// Whether a courier is due, and waits until others are back.
    is_due: bool,
    /// Whether the last courier to the server has failed, of this link or of another one. Another one follows after a rest.
    is_put_off: bool,
}

impl Sent {
    /// For a link to the server with this certificate, which is reached again at `target`. `None`: this end takes no news.
    pub(super) fn new(client: &Client, target: &Target, certificate: &[u8]) -> Option<Arc<Sent>> {
        let news = client.news();
        if news.digest() == NewsDigest::NONE {
            return None;
        }
        let pair = (Holder::of(&CertificateDer::from(certificate)).ok()?, news.files().to_vec());
        let state = State { version: news.version(), asked: Instant::now(), is_due: false, is_put_off: false };
        let (client, target, certificate) = (client.clone(), target.clone(), certificate.to_vec());
        Some(Arc::new(Sent { client, target, certificate, pair, state: Arc::new(Mutex::new(state)) }))
    }

    /// Lets a courier leave, if there is room. Whether it has left.
    fn leave(&self) -> bool {
        let pair = self.pair.clone();
        if !enter(&pair) {
            return false;
        }
        let (client, target, certificate) = (self.client.clone(), self.target.clone(), self.certificate.clone());
        let (back, state) = (pair.clone(), self.state.clone());
        let run = move || {
            let back = Back(back);
            let is_told = carry(&client, &target, &certificate).is_ok();
            conclude(&back.0, is_told);
            // This link tries again, or the next one.
            lock(&state).is_put_off = !is_told;
        };
        let has_left = thread::Builder::new().name("phalanx-news".into()).spawn(run).is_ok();
        if !has_left {
            drop(Back(pair));
        }
        has_left
    }

    /// Notes that an exchange may be needed. One courier is due, even if a program has many links to one server.
    fn note(&self, state: &mut State, ours: NewsDigest, rest: Duration) {
        let turn = underway().map_or(Turn::Never, |mut underway| underway.note(&self.pair, ours, rest));
        state.is_due |= turn == Turn::Now;
        state.is_put_off = turn == Turn::Later;
    }
}

impl Courier for Sent {
    fn heard(&self, theirs: NewsDigest) {
        let ours = self.client.news().digest();
        if ours.differs(theirs) {
            let mut state = lock(&self.state);
            self.note(&mut state, ours, REST);
            state.is_due = state.is_due && !self.leave();
        }
    }

    fn look(&self) {
        let (news, mut state) = (self.client.news(), lock(&self.state));
        let version = news.version();
        let has_changed = std::mem::replace(&mut state.version, version) != version;
        let is_time = state.asked.elapsed() >= ASK;
        if has_changed || is_time {
            state.asked = Instant::now();
            self.note(&mut state, news.digest(), if has_changed { REST } else { ASK });
        } else if state.is_put_off {
            self.note(&mut state, news.digest(), REST);
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
    talk(reader, Exchange::of_client(client.news()), || false, |learned| note_unwritten(&learned))
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

/// Takes note of whether a courier has told everything.
fn conclude(pair: &Pair, is_told: bool) {
    let mut underway = lock(&UNDERWAY); // this thread is of the process that has locked it before
    if let Some(told) = underway.told.get_mut(pair) {
        told.failures = if is_told { 0 } else { told.failures.saturating_add(1) };
        if !is_told {
            told.when = Instant::now();
        }
    }
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
