//! Couriers: after a link was opened, they open another one for news if its ends have not the same news.
//!
//! A courier runs in the background, so that no service waits for it. At its end a program waits for a moment, see [`finish`].

use super::{Expected, Target, dial};
use crate::forks::OfProcess;
use crate::identity::{Client, Courier, Ends, Holder};
use crate::news::{Exchange, LASTS, LEVELS, note_unwritten, talk};
use crate::preamble::Preamble;
use crate::sync::lock;
use phalanx_core::wire::{MAX_CONTROL_BODY, NewsDigest};
use rustls::pki_types::CertificateDer;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Most links for news that a process opens at the same time.
const MOST: usize = 8;
/// Time to reach the server and to shake hands.
const PATIENCE: Duration = Duration::from_secs(5);
/// Rest after a courier between two ends that has changed nothing at this end: one of them cannot store the news, or says a wrong
/// digest, or has learned more since. It doubles with each further one, up to [`REST`]. So news that a server learns later arrive soon.
const SHORT: Duration = Duration::from_secs(1);
/// Longest rest between two couriers of the same ends.
const REST: Duration = Duration::from_secs(60);
/// Rest after a courier that has failed. It doubles with each further one, up to [`REST`].
const BACKOFF: Duration = if cfg!(test) { Duration::from_millis(50) } else { Duration::from_secs(5) };
/// Most pairs of ends that are remembered. A further one displaces the oldest.
const MOST_REMEMBERED: usize = 256;
/// Pause between two looks whether all couriers are back.
const PAUSE: Duration = Duration::from_millis(5);

/// The server, whose certificate may be renewed, and the files of this end's news.
type Pair = (Holder, Vec<PathBuf>);

/// The couriers of this process.
#[derive(Debug, Default)]
struct Underway {
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
    /// How many in a row left with the same news as the one before.
    repeats: u32,
}

impl Underway {
    /// Whether a courier is due that has these news. Takes note of it.
    fn note(&mut self, pair: &Pair, ours: NewsDigest) -> bool {
        let told = &mut self.told;
        told.retain(|_, told| told.when.elapsed() < REST * 2);
        let before = told.get(pair);
        if before.is_some_and(|before| before.when.elapsed() < before.rest(ours)) {
            return false;
        }
        let (failures, repeats) = before.map_or((0, 0), |before| (before.failures, before.repeats_of(ours)));
        let is_full = before.is_none() && told.len() >= MOST_REMEMBERED;
        let oldest = told.iter().filter(|_| is_full).min_by_key(|(_, told)| told.when).map(|(pair, _)| pair.clone());
        if let Some(oldest) = oldest {
            told.remove(&oldest);
        }
        told.insert(pair.clone(), Told { ours, when: Instant::now(), failures, repeats });
        true
    }
}

impl Told {
    /// How long no courier follows that has these news.
    fn rest(&self, ours: NewsDigest) -> Duration {
        match self.failures.checked_sub(1) {
            Some(before) => doubled(BACKOFF, before),
            None if self.ours == ours => doubled(SHORT, self.repeats),
            None => Duration::ZERO,
        }
    }

    /// How many couriers in a row have had these news before the next one, beside the first.
    fn repeats_of(&self, ours: NewsDigest) -> u32 {
        if self.ours == ours { self.repeats.saturating_add(1) } else { 0 }
    }
}

fn doubled(rest: Duration, times: u32) -> Duration {
    REST.min(rest * (1 << times.min(16)))
}

static UNDERWAY: LazyLock<OfProcess<Underway>> = LazyLock::new(OfProcess::default);

/// Carries news to the server at one end of a link, and from there.
#[derive(Debug)]
pub(super) struct Sent {
    client: Client,
    target: Target,
    certificate: Vec<u8>,
    pair: Pair,
    /// The server's news, as far as this end has heard.
    theirs: Arc<Mutex<Option<NewsDigest>>>,
}

impl Sent {
    /// For a link to the server with this certificate, which is reached again at `target`. `None`: this end takes no news.
    pub(super) fn new(client: &Client, target: &Target, certificate: &[u8]) -> Option<Arc<Sent>> {
        let news = client.news();
        if news.digest() == NewsDigest::NONE {
            return None;
        }
        let pair = (Holder::of(&CertificateDer::from(certificate)).ok()?, news.files().to_vec());
        let (client, target, certificate) = (client.clone(), target.clone(), certificate.to_vec());
        Some(Arc::new(Sent { client, target, certificate, pair, theirs: Arc::default() }))
    }

    /// Lets a courier leave if the ends differ, it is time, and there is room.
    fn compare(&self) {
        let (ours, theirs) = (self.client.news().digest(), *lock(&self.theirs));
        if let Some(theirs) = theirs.filter(|theirs| ours.differs(*theirs) && enter(&self.pair, ours)) {
            self.leave(theirs);
        }
    }

    fn leave(&self, said: NewsDigest) {
        let (client, target, certificate) = (self.client.clone(), self.target.clone(), self.certificate.clone());
        let (back, theirs) = (Back(self.pair.clone()), self.theirs.clone());
        let run = move || {
            let is_told = carry(&client, &target, &certificate).is_ok();
            conclude(&back.0, is_told);
            let ours = client.news().digest();
            // Both ends have the same now, unless the server has said something else meanwhile.
            lock(&theirs).iter_mut().filter(|theirs| is_told && **theirs == said).for_each(|theirs| *theirs = ours);
        };
        // If there is no thread, the courier counts as one that is back.
        let _ = thread::Builder::new().name("phalanx-news".into()).spawn(run);
    }
}

impl Courier for Sent {
    fn heard(&self, theirs: NewsDigest) {
        *lock(&self.theirs) = Some(theirs);
        self.compare();
    }

    fn look(&self, _: &dyn Ends) {
        self.compare();
    }
}

/// Opens a link for news and talks over it.
fn carry(client: &Client, target: &Target, certificate: &[u8]) -> io::Result<()> {
    let dialled = dial(target, PATIENCE)?;
    let introduced = dialled.introduce(Preamble::News, Expected::Same(client, certificate), LEVELS, PATIENCE)?;
    let (_link, reader) = introduced.link(MAX_CONTROL_BODY)?;
    talk(reader, Exchange::of_client(client.news()), || false, |learned| note_unwritten(&learned))
}

/// Takes note that a courier leaves with these news. Whether it may: one at a time for each pair, and not too often.
fn enter(pair: &Pair, ours: NewsDigest) -> bool {
    let enters = UNDERWAY.with(|underway| {
        if underway.pairs.len() >= MOST || underway.pairs.contains(pair) || !underway.note(pair, ours) {
            return false;
        }
        underway.pairs.push(pair.clone());
        true
    });
    enters == Some(true)
}

/// Takes note of whether a courier has told everything.
fn conclude(pair: &Pair, is_told: bool) {
    UNDERWAY.again(|underway| {
        if let Some(told) = underway.told.get_mut(pair) {
            told.failures = if is_told { 0 } else { told.failures.saturating_add(1) };
            if !is_told {
                told.when = Instant::now();
            }
        }
    });
}

/// A courier is back when this is dropped.
struct Back(Pair);

impl Drop for Back {
    fn drop(&mut self) {
        UNDERWAY.again(|underway| underway.pairs.retain(|pair| *pair != self.0));
    }
}

/// Waits until all couriers are back, at most for so long: a program that ends would take them with it. News that are not
/// delivered by then travel with the next link.
pub fn finish(patience: Duration) {
    let until = Instant::now() + patience.min(LASTS);
    while UNDERWAY.with(|underway| !underway.pairs.is_empty()) == Some(true) && Instant::now() < until {
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests;
