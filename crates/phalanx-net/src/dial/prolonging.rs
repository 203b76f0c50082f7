//! Prolongs the open link of a process that acts for a user: shows the newest delegation to the server before the one ends that the
//! link was opened with. The user's program renews delegations while it is open, so that a process may use a link for longer.

use super::{Expected, Target, dial};
use crate::identity::{Client, Courier, Ends};
use crate::preamble::Preamble;
use crate::sync::lock;
use phalanx_core::level::Levels;
use phalanx_core::wire::NewsDigest;
use rustls::pki_types::UnixTime;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Time to reach the server and to shake hands.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause after an attempt, in seconds.
const PAUSE: u64 = 5;

/// One open link.
#[derive(Debug)]
pub(super) struct Prolonging {
    client: Client,
    target: Target,
    preamble: Preamble,
    certificate: Vec<u8>,
    levels: Levels,
    shown: Arc<Mutex<Shown>>,
}

/// The delegation that was shown last. Times are seconds since 1970.
#[derive(Debug, Clone, Copy)]
struct Shown {
    until: u64,
    /// When a newer one is to be shown: at half of the time that was left.
    due: u64,
}

impl Shown {
    fn until(until: u64) -> Shown {
        let now = UnixTime::now().as_secs();
        Shown { until, due: now + until.saturating_sub(now) / 2 }
    }
}

impl Prolonging {
    /// For a link of these levels to the server with this certificate. `None`: this end is a member itself.
    pub(super) fn new(
        client: &Client,
        target: &Target,
        preamble: Preamble,
        certificate: &[u8],
        levels: Levels,
    ) -> Option<Arc<Prolonging>> {
        let shown = Arc::new(Mutex::new(Shown::until(client.acts_until()?)));
        let (client, target, certificate) = (client.clone(), target.clone(), certificate.to_vec());
        Some(Arc::new(Prolonging { client, target, preamble, certificate, levels, shown }))
    }

    /// Shows a newer delegation, if there is one, in a handshake for the same service.
    fn show(&self, newest: Client, until: u64) {
        let (target, preamble, levels) = (self.target.clone(), self.preamble, self.levels);
        let (certificate, shown) = (self.certificate.clone(), self.shown.clone());
        let show = move || {
            let expected = Expected::Same(&newest, &certificate);
            let shake = |dialled: super::Dialled| dialled.introduce_and_wait(preamble, expected, levels, PATIENCE);
            if dial(&target, PATIENCE).and_then(shake).is_ok() {
                *lock(&shown) = Shown::until(until);
            }
        };
        let _ = thread::Builder::new().name("phalanx-prolong".into()).spawn(show);
    }
}

impl Courier for Prolonging {
    /// A process that acts for a user takes no news.
    fn heard(&self, _: NewsDigest) {}

    fn look(&self, _: &dyn Ends) {
        let (mut shown, now) = (lock(&self.shown), UnixTime::now().as_secs());
        if shown.due > now {
            return;
        }
        shown.due = now + PAUSE.min(shown.until.saturating_sub(now) / 4);
        let until = shown.until;
        drop(shown); // finding the newest one may read a file
        if let Some((newest, later)) = self.client.newest_acting().filter(|(_, later)| *later > until) {
            self.show(newest, later);
        }
    }

    fn why_ended(&self) -> Option<String> {
        let is_over = lock(&self.shown).until <= UnixTime::now().as_secs();
        is_over.then(|| {
            "the delegation by which this process acts for its user has ended, and the user's program did not renew it in time"
                .to_owned()
        })
    }
}
