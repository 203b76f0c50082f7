//! Certificates that a grid's authority has taken back.
//!
//! The grid's root, or a hub, signs a list of their fingerprints, a text that everyone may see. A member reads it from the folders of
//! its identity file and its hosts file, and looks for a newer one while it runs. It takes a newer one from other members too. Both
//! ends of a link check the peer's certificate and its issuers after the handshake, also when the session was resumed. A link whose
//! peer is revoked later is closed as soon as the list is there.
//!
//! A list by a hub that the known list names is ignored. So a stolen hub's key can be revoked, but only by a list with a higher number:
//! a hub's numbers have a limit, and those of the root have none.

mod list;

pub use list::{Revoked, RevokedList};

use super::members::Members;
use super::{Courier, Until, fingerprint, role_and_name};
use crate::forks;
use crate::replace::{Locked, Unwritten, read, stamp};
use crate::sync::lock;
use phalanx_core::wire::NewsDigest;
use rustls::pki_types::CertificateDer;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Time between two looks at the files.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest list that is written, sent and read, in bytes. It has room for about nine thousand certificates.
pub const LONGEST_LIST: u64 = 1 << 20;

/// The newest list of a grid that a member has found.
#[derive(Debug)]
pub struct Revocations {
    members: Arc<Members>,
    authority: CertificateDer<'static>,
    files: Vec<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    looked: Option<Instant>,
    /// The time and the length of each file when it was looked at last.
    seen: Vec<Option<Seen>>,
    number: u64,
    /// The newest list, as it was signed.
    text: String,
    revoked: HashMap<String, Revoked>,
    /// For each role and name, the number of the last list that was the first to name a certificate of it.
    named: HashMap<(String, String), u64>,
    /// The newest list, which is to be written to the first of the files.
    unwritten: Unwritten,
    /// The files that hold no list, and why. While there is such a file no peer is admitted, because its list may name any of them.
    damaged: HashMap<PathBuf, String>,
    links: Vec<Watched>,
    /// The process whose thread looks after the links. A fork has no such thread.
    watched_by: Option<u32>,
}

/// The time of the last change and the length of a file. A file with other ones is read again.
type Seen = (SystemTime, u64);

/// A link that must end when the certificate of its peer is revoked.
pub trait Ends: Send + Sync + std::fmt::Debug {
    /// Ends the link.
    fn end(&self);

    /// Whether the link has ended.
    fn has_ended(&self) -> bool;

    /// Tells the client at the other end that this end's news have changed.
    fn tell(&self, news: NewsDigest);

    /// Called about once a second. A link that is read only now and then looks whether anything has arrived.
    fn look(&self);
}

/// Ends a link when a later list names one of the certificates that its peer has shown, or when the peer's delegation ends.
#[derive(Debug, Clone)]
pub struct Watch {
    revocations: Arc<Revocations>,
    fingerprints: Vec<String>,
    members: Vec<(String, String)>,
    /// The number of the list by which the peer was admitted.
    number: u64,
    courier: Option<Arc<dyn Courier>>,
    until: Option<Until>,
}

/// An open link.
#[derive(Debug)]
struct Watched {
    link: Weak<dyn Ends>,
    /// The fingerprints of the certificates that the peer has presented.
    fingerprints: Vec<String>,
    /// The roles and names in these certificates.
    members: Vec<(String, String)>,
    /// The number of the list by which the peer was admitted.
    number: u64,
    courier: Option<Arc<dyn Courier>>,
    /// `None`: it ends by itself.
    until: Option<Until>,
}

impl Watched {
    /// Whether its peer may use it no more. `named`: the number of the last list that was the first to name a certificate of a member. The
    /// peer may have shown an earlier certificate of the same member, which has ended since, and which no list names.
    fn is_over(&self, revoked: &HashMap<String, Revoked>, named: &HashMap<(String, String), u64>) -> bool {
        let is_named = |member| named.get(member).is_some_and(|number| *number > self.number);
        self.fingerprints.iter().any(|fingerprint| revoked.contains_key(fingerprint))
            || self.members.iter().any(is_named)
            || self.until.as_ref().is_some_and(Until::is_over)
    }
}

/// A newer list that another member has sent.
#[derive(Debug)]
pub struct Taken {
    /// Its number.
    pub number: u64,
    /// Why it could not be written to a file. It is heeded until the process ends all the same.
    pub unwritten: Option<io::Error>,
}

impl Revocations {
    /// Lists of the grid with these members and this root, in any of these files. A file need not exist.
    pub(super) fn new(
        members: Arc<Members>,
        authority: CertificateDer<'static>,
        files: Vec<PathBuf>,
    ) -> Arc<Revocations> {
        Arc::new(Revocations { members, authority, files, state: Mutex::default() })
    }

    /// Checks that none of these certificates of a peer was revoked, nor an issuer of one, which may be shown or not. The watch ends the link to the peer when one is revoked
    /// later; `None`: no file can hold a list.
    ///
    /// # Errors
    /// A certificate was revoked, or a file with a list cannot be read.
    pub fn admit(self: &Arc<Self>, certificates: &[CertificateDer<'_>]) -> io::Result<Option<Watch>> {
        if self.files.is_empty() {
            return Ok(None);
        }
        let fingerprints = self.with_issuers(certificates);
        let mut state = lock(&self.state);
        state.looked = None; // a peer is judged by the newest list
        self.look(&mut state);
        if let Some((path, why)) = state.damaged.iter().next() {
            return Err(denied(format!("{} is no list of revoked certificates: {why}", path.display())));
        }
        match fingerprints.iter().find_map(|fingerprint| state.revoked.get(fingerprint)) {
            None => {
                let members = certificates.iter().filter_map(|it| role_and_name(it).ok()).collect();
                Ok(Some(Watch { fingerprints, members, number: state.number, ..Watch::new(self) }))
            }
            Some(Revoked { when, role, name, .. }) => {
                Err(denied(format!("the certificate of the {} {name} was revoked on {when}", role.name())))
            }
        }
    }

    /// The fingerprints of these certificates of a peer, and of all their issuers. A certificate that is none of a member has no issuer.
    fn with_issuers(&self, certificates: &[CertificateDer<'_>]) -> Vec<String> {
        let shown = certificates.get(1..).unwrap_or_default();
        let mut fingerprints: Vec<_> = certificates.iter().map(fingerprint).collect();
        if self.members.may_have_issuers(shown) {
            let issuers = certificates.iter().filter_map(|it| self.members.path(it, shown).ok()).flatten();
            fingerprints.extend(issuers.map(|issuer| fingerprint(&issuer)));
        }
        fingerprints
    }

    /// Whether the newest list names this certificate itself.
    pub fn names(&self, certificate: &CertificateDer<'_>) -> bool {
        lock(&self.state).revoked.contains_key(&fingerprint(certificate))
    }

    /// The number of the newest list; 0: there is none. Writes a list that could not be written before.
    pub fn number(&self) -> u64 {
        let mut state = lock(&self.state);
        self.look(&mut state);
        let number = state.number;
        let _ = self.write_due(state);
        number
    }

    /// The newest list as text, and its number, if that is higher than this one.
    pub fn newer_than(&self, number: u64) -> Option<(u64, String)> {
        let mut state = lock(&self.state);
        self.look(&mut state);
        (state.number > number).then(|| (state.number, state.text.clone()))
    }

    /// The files that may have a list. None: this member keeps no list.
    pub(super) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Takes a list that another member has sent, and writes it to the first of the files. `None`: it is not newer than the lists
    /// that were found so far, or is another grid's, or one of these lists names the hub that has signed it, or this member keeps no list.
    ///
    /// # Errors
    /// It is no list, or neither the grid's root nor a hub has signed it.
    pub fn take(&self, text: &str) -> io::Result<Option<Taken>> {
        if self.files.is_empty() {
            return Ok(None);
        }
        let list = RevokedList::parse(text, &self.authority).map_err(io::Error::other)?;
        let mut state = lock(&self.state);
        state.looked = None; // another process may have written a newer one just now
        self.look(&mut state);
        let is_newer = |list: &RevokedList| state.is_newer(list) && state.damaged.is_empty();
        let Some(list) = list.filter(is_newer) else { return Ok(None) };
        let number = list.number;
        self.adopt(&mut state, list, text.to_owned());
        state.unwritten.set();
        Ok(Some(Taken { number, unwritten: self.write_due(state).err() }))
    }

    /// Writes the newest list if it is due. A write that fails is retried later.
    fn write_due(&self, mut state: MutexGuard<'_, State>) -> io::Result<()> {
        let (Some(patience), Some(file)) = (state.unwritten.begin(), self.files.first()) else { return Ok(()) };
        let (number, text) = (state.number, state.text.clone());
        drop(state); // a write may take long, and handshakes need the state
        let written = self.write(file, number, &text, patience);
        lock(&self.state).unwritten.end(written.is_ok());
        written
    }

    /// Writes a list, unless another process has written one meanwhile that is as new.
    fn write(&self, file: &Path, number: u64, text: &str, patience: Duration) -> io::Result<()> {
        let locked = Locked::wait_for(file, patience)?;
        match self.read(file)? {
            Some((found, _)) if found.number >= number && lock(&self.state).believes(&found) => Ok(()),
            None if file.exists() => Err(io::Error::other(format!("{} is another grid's list", file.display()))),
            _ => locked.replace(text.as_bytes()),
        }
    }

    /// Reads the files that have changed since the last look, if that was a while ago.
    fn look(&self, state: &mut State) {
        if state.looked.is_some_and(|looked| looked.elapsed() < PAUSE) {
            return;
        }
        state.looked = Some(Instant::now());
        state.seen.resize(self.files.len(), None);
        let mut found = Vec::new();
        for (index, path) in self.files.iter().enumerate() {
            let seen = stamp(path);
            if seen == state.seen[index] && !state.damaged.contains_key(path) {
                continue;
            }
            state.seen[index] = seen;
            state.damaged.remove(path);
            match self.read(path) {
                Ok(list) => found.extend(list),
                Err(error) => {
                    state.damaged.insert(path.clone(), error.to_string());
                }
            }
        }
        // An older list may name the hub that has signed a newer one.
        found.sort_by_key(|(list, _)| list.number);
        for (list, text) in found {
            if state.is_newer(&list) {
                self.adopt(state, list, text);
            }
        }
    }

    /// Goes by this list from now on, and ends the links of those that it names.
    fn adopt(&self, state: &mut State, list: RevokedList, text: String) {
        state.number = list.number;
        for new in list.entries.iter().filter(|it| !state.revoked.contains_key(&it.fingerprint)) {
            state.named.insert((new.role.name().to_owned(), new.name.clone()), list.number);
        }
        state.revoked = list.entries.into_iter().map(|it| (it.fingerprint.clone(), it)).collect();
        state.text = text;
        self.members.distrust(state.revoked.keys().cloned().collect());
        state.end_links();
    }

    /// The list in a file, and its text. `None`: there is no file, or its list is another grid's.
    fn read(&self, path: &Path) -> io::Result<Option<(RevokedList, String)>> {
        let Some(text) = read(path, LONGEST_LIST)? else { return Ok(None) };
        let list = RevokedList::parse(&text, &self.authority).map_err(io::Error::other)?;
        Ok(list.map(|list| (list, text.to_string())))
    }

    fn begin_to_watch(self: &Arc<Self>, state: &mut State) {
        let process = forks::process();
        if state.watched_by == Some(process) {
            return;
        }
        let weak = Arc::downgrade(self);
        let watching = thread::Builder::new().name("phalanx-revoked".into()).spawn(move || {
            while weak.upgrade().is_some_and(|it| it.look_after_links()) {
                thread::sleep(PAUSE);
            }
        });
        state.watched_by = watching.is_ok().then_some(process);
    }

    /// Closes the links of the revoked and those whose time is over, and lets couriers look for news. Whether there is a link left.
    fn look_after_links(&self) -> bool {
        let mut state = lock(&self.state);
        self.look(&mut state);
        state.end_links();
        let State { links, watched_by, .. } = &mut *state;
        let open: Vec<_> =
            links.iter().filter_map(|watched| Some((watched.link.upgrade()?, watched.courier.clone()))).collect();
        let go_on = !links.is_empty();
        if !go_on {
            *watched_by = None;
        }
        let _ = self.write_due(state);
        // Without the state: a courier asks for the number of the list.
        for (link, courier) in open {
            link.look();
            courier.iter().for_each(|courier| courier.look(&*link));
        }
        go_on
    }
}

impl State {
    /// Whether the list replaces the known one.
    fn is_newer(&self, list: &RevokedList) -> bool {
        list.number > self.number && self.believes(list)
    }

    /// Whether the known list names neither the hub that has signed this one, nor an issuer of it.
    fn believes(&self, list: &RevokedList) -> bool {
        !list.signers.iter().any(|signer| self.revoked.contains_key(signer))
    }

    /// Ends the links of the revoked and those whose time is over, and forgets those that have ended.
    fn end_links(&mut self) {
        let State { links, revoked, named, .. } = self;
        links.retain(|watched| match watched.link.upgrade() {
            Some(link) if watched.is_over(revoked, named) => {
                link.end();
                false
            }
            Some(link) => !link.has_ended(),
            None => false,
        });
    }
}

impl Watch {
    /// Watches nothing yet.
    pub(crate) fn new(revocations: &Arc<Revocations>) -> Watch {
        Watch {
            revocations: revocations.clone(),
            fingerprints: Vec::new(),
            members: Vec::new(),
            number: 0,
            courier: None,
            until: None,
        }
    }

    /// The same, which also ends the link when this time is over.
    pub(crate) fn until(self, until: Until) -> Watch {
        Watch { until: Some(until), ..self }
    }

    /// The same, which also lets the courier look for news.
    pub(crate) fn sending(self, courier: Arc<dyn Courier>) -> Watch {
        Watch { courier: Some(courier), ..self }
    }

    pub(crate) fn courier(&self) -> Option<Arc<dyn Courier>> {
        self.courier.clone()
    }

    /// From now on, the link ends when its peer is revoked.
    pub(crate) fn over<L: Ends + 'static>(self, link: &Arc<L>) {
        let Watch { revocations, fingerprints, members, number, courier, until } = self;
        let mut state = lock(&revocations.state);
        let link: Weak<L> = Arc::downgrade(link);
        state.links.push(Watched { link, fingerprints, members, number, courier, until });
        state.end_links(); // a list may have come since the peer was let in
        revocations.begin_to_watch(&mut state);
    }
}

fn denied(why: String) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, why)
}

#[cfg(test)]
mod tests;
