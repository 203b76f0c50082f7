//! Prolongs the open link of a process that acts for a user: shows the newest delegation to the server before the one ends that the
//! link was opened with. The user's program renews delegations while it is open, so that a process may use a link for longer.
//!
//! One handshake prolongs all links of the process to that server that were opened for the same service with a delegation of the
//! same scope. So these links share what was shown last.

use super::{Expected, Target, dial};
use crate::forks::OfProcess;
use crate::identity::{Client, Courier, Ends, Holder};
use crate::preamble::Preamble;
use crate::sync::lock;
use phalanx_core::level::Levels;
use phalanx_core::wire::NewsDigest;
use rustls::pki_types::{CertificateDer, UnixTime};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, Weak};
use std::thread;
use std::time::Duration;

/// Time to reach the server and to shake hands.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause after an attempt, in seconds.
const PAUSE: u64 = 5;
/// Most handshakes of this process at the same time. A further one is tried again after the pause.
const MOST: usize = 8;

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

/// Links that one handshake prolongs: the server, where it is reached, the service, and the delegation's holder, user and scope.
type Together = (Holder, String, Vec<u8>, String);

/// The delegations that this process has shown to servers.
#[derive(Debug, Default)]
struct Registry {
    shown: HashMap<Together, Weak<Mutex<Shown>>>,
    /// The number of handshakes at this moment.
    underway: usize,
}

static REGISTRY: LazyLock<OfProcess<Registry>> = LazyLock::new(OfProcess::default);

/// A handshake that is underway until this is dropped.
#[derive(Debug)]
struct Underway;

impl Underway {
    /// `None`: there are too many.
    fn enter() -> Option<Underway> {
        let enters = REGISTRY.with(|registry| {
            let has_room = registry.underway < MOST;
            registry.underway += usize::from(has_room);
            has_room
        });
        enters.filter(|enters| *enters).map(|_| Underway)
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        REGISTRY.again(|registry| registry.underway = registry.underway.saturating_sub(1));
    }
}

impl Registry {
    /// The delegation that these links have shown last. It ends at `until` or later.
    fn share(&mut self, together: Together, until: u64) -> Arc<Mutex<Shown>> {
        self.shown.retain(|_, shown| shown.strong_count() > 0);
        let before = self.shown.get(&together).and_then(Weak::upgrade);
        let shown = before.unwrap_or_else(|| Arc::new(Mutex::new(Shown::until(until))));
        let mut last = lock(&shown);
        if last.until < until {
            *last = Shown::until(until);
        }
        drop(last);
        self.shown.insert(together, Arc::downgrade(&shown));
        shown
    }
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
        let (acting, until) = (client.acting()?, client.acts_until()?);
        let service = match preamble {
            Preamble::Space { .. } => Preamble::Space { shakes: true },
            Preamble::Transfer | Preamble::Files => Preamble::Transfer,
            other => other,
        };
        let scope = acting.delegation.scope.to_string();
        let who = [&acting.delegation.holder, &acting.user, &scope].map(String::as_str).join("\n");
        let (place, bytes) = (format!("{target:?}"), service.bytes());
        let together = |server| (server, place, bytes, who);
        let server = Holder::of(&CertificateDer::from(certificate)).ok();
        let shared = server.and_then(|server| REGISTRY.with(|registry| registry.share(together(server), until)));
        let shown = shared.unwrap_or_else(|| Arc::new(Mutex::new(Shown::until(until))));
        let (client, target, certificate) = (client.clone(), target.clone(), certificate.to_vec());
        Some(Arc::new(Prolonging { client, target, preamble, certificate, levels, shown }))
    }

    /// Shows a newer delegation, if there is one, in a handshake for the same service.
    fn show(&self, newest: Client, until: u64) {
        let Some(underway) = Underway::enter() else { return };
        let (target, preamble, levels) = (self.target.clone(), self.preamble, self.levels);
        let (certificate, shown) = (self.certificate.clone(), self.shown.clone());
        let show = move || {
            let expected = Expected::Same(&newest, &certificate);
            let shake = |dialled: super::Dialled| dialled.introduce_and_wait(preamble, expected, levels, PATIENCE);
            if dial(&target, PATIENCE).and_then(shake).is_ok() {
                *lock(&shown) = Shown::until(until);
            }
            drop(underway);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{Authority, Extent, KeyedCertificate, Member, Role, Scope, Service};
    use phalanx_core::level::Level;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Debug)]
    struct Open;

    impl Ends for Open {
        fn end(&self) {}
        fn has_ended(&self) -> bool {
            false
        }
        fn tell(&self, _: NewsDigest) {}
        fn look(&self) {}
    }

    #[test]
    fn links_to_one_server_for_one_service_are_prolonged_together() {
        let authority = Authority::create().expect("a grid");
        let member = |role, name| Member::parse(&authority.issue(role, name).expect("issued"), role).expect("a member");
        let (ada, labpc) = (member(Role::User, "ada"), member(Role::Executor, "labpc"));
        let servers = ["board", "desk"].map(|name| member(Role::Executor, name).own().certificate.to_vec());
        let process = KeyedCertificate::ephemeral().expect("a key");
        let mut scope = Scope::default();
        scope.add(Service::Spaces, Extent::All).expect("all");
        let acting = |lasts: u64| {
            let whom = [&process.certificate[..], &labpc.own().certificate[..]];
            let text = ada.delegate(whom, &scope, [1; 16], Duration::from_secs(lasts)).expect("a delegation");
            let shown = [&ada.own().certificate[..], &labpc.own().certificate[..], ada.authority()];
            Member::delegated(process.clone(), shown, &[], &text).expect("a process")
        };
        let (next, asked) = (acting(1200), Arc::new(AtomicUsize::new(0)));
        let counted = asked.clone();
        let first = acting(600).prolonged_by(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Some(next.clone())
        });
        let client = first.client_of(Role::Executor).expect("a client");
        let nowhere: Target = std::net::SocketAddr::from(([127, 0, 0, 1], 1)).into();
        let link = |server: &[u8], preamble| {
            let levels = Levels::all(Level::Private);
            let link = Prolonging::new(&client, &nowhere, preamble, server, levels).expect("it acts for a user");
            lock(&link.shown).due = 0;
            link
        };
        let spaces = Preamble::Space { shakes: true };
        let of_board = [(); 3].map(|()| link(&servers[0], spaces));
        of_board.iter().for_each(|link| link.look(&Open));
        assert_eq!(asked.load(Ordering::Relaxed), 1, "one handshake for all of them");
        let others =
            [link(&servers[1], spaces), link(&servers[0], Preamble::Files), link(&servers[0], Preamble::Transfer)];
        others.iter().for_each(|link| link.look(&Open));
        assert_eq!(asked.load(Ordering::Relaxed), 3, "one for another server, and one for copies");
    }

    #[test]
    fn few_handshakes_are_underway_at_the_same_time() {
        let all: Vec<_> = (0..=MOST).map_while(|_| Underway::enter()).collect();
        assert!((1..=MOST).contains(&all.len()), "{}", all.len());
        drop(all);
        assert!(Underway::enter().is_some());
    }
}
