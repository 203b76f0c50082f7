//! A hub's driver: the rendezvous of a grid. The hub lets machines and users join, renews their certificates, knows which members
//! are here, and expels members.
//!
//! The engine ([`phalanx_core::hub`]) decides. A change is on the disk before any member learns of it. The hub signs with its own
//! authority, the issuer, which the grid's root has made. The hub does not have the root's key.
//!
//! Several hubs keep one store together ([`group`]). One of them leads: it has the engine, and serves. The others name it to whoever
//! asks. When it is lost, another one fills an engine from the store, and the members come to that one.

mod attending;
mod founding;
mod group;
mod issuing;
mod jobs;
mod joining;
mod leading;
mod lending;
mod relaying;
mod room;
mod server;
mod serving;
mod signing;
mod store;
mod waiting;

pub use founding::{Founded, Place};
pub use server::HubServer;

use crate::log::{Log, Severity};
use crate::quota::Quota;
use group::Group;
use phalanx_core::cage::Kind;
use phalanx_core::error::SpaceError;
use phalanx_core::hub as engine;
use phalanx_core::hub::{Asking, Change, Good, Refusal, Token, Who};
use phalanx_core::jobs::JobRefusal;
use phalanx_core::wire::hub::{FromHub, addresses_of};
use phalanx_net::identity::{Authority, IdentityError, Member, Role, random_token, sha256};
use phalanx_net::sync::lock;
use relaying::{Carried, Meetings};
use serving::Linked;
use signing::{Signed, now};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;
use store::{Kept, Store};
use thiserror::Error;
use zeroize::Zeroizing;

/// How long the certificates of members are good. Members renew them when a third of this is left.
pub const LASTS: Duration = Duration::from_secs(24 * 3600);
/// Most peers that join at a time: in all, and from one network.
const MOST_JOINING: (usize, usize) = (256, 16);
/// Most open links of members: in all, and of one member.
const MOST_LINKED: (usize, usize) = (4096, 8);
/// Interval at which the hub checks its own certificate, the list of revoked certificates, and late relayed links.
const LOOK: Duration = Duration::from_secs(1);

/// The hub does not open, or refuses a request.
#[derive(Debug, Error)]
pub enum HubError {
    /// The hub refuses.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A key or a certificate is at fault.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// A decision of the engine cannot be stored.
    #[error("the hub cannot store this: {0}")]
    Store(#[from] SpaceError),
    /// The disk has no room for what the hub decides. The text says which folder needs room.
    #[error("{0}")]
    Full(String),
    /// This hub does not lead.
    #[error("this hub does not lead: ask the others")]
    Elsewhere,
    /// The list of revoked certificates cannot be read or written, or the hub's thread does not start.
    #[error(transparent)]
    System(#[from] io::Error),
    /// A request about jobs makes no sense, or a limit is reached.
    #[error(transparent)]
    Job(JobRefusal),
    /// The request is malformed, cannot be served now, or comes from another version.
    #[error("{0}")]
    Other(String),
}

impl HubError {
    /// The answer to the peer that sent the request.
    fn answer(&self, hub: &Hub) -> FromHub {
        let reason = self.to_string();
        match self {
            // A change that could not be stored may or may not have happened. The hub that leads next knows.
            HubError::Elsewhere | HubError::Store(_) => hub.elsewhere(),
            HubError::Refused(Refusal::NoMember(_)) | HubError::Identity(IdentityError::Revoked(_)) => {
                FromHub::NoMember { reason }
            }
            _ => FromHub::Refused { reason },
        }
    }
}

/// The settings of a hub.
#[derive(Debug)]
pub struct Settings {
    /// The name of the grid.
    pub grid: String,
    /// The folder of the hub's store.
    pub folder: PathBuf,
    /// The issuer, with its key.
    pub issuer: Authority,
    /// The hub as a member, with the file of the list of revoked certificates.
    pub member: Member,
    /// The members that the grid begins with, as PEM, and whether each is an owner. The hub skips members that it knows already.
    pub founders: Vec<(String, bool)>,
    /// Where other hubs of the grid were last: for a hub that is not the first one.
    pub others: Vec<String>,
    /// Whether the hub has joined a grid that had a hub already.
    pub joins: bool,
    /// The addresses at which members reach the hub, as `host:port`. Port 0 stands for the port at which the hub listens.
    pub addresses: Vec<String>,
    /// How much the cages of executors must keep apart at least. `None`: as before.
    pub least_cage: Option<Kind>,
}

/// A running hub.
pub struct Hub {
    grid: String,
    issuer: Authority,
    member: Member,
    addresses: Mutex<Vec<String>>,
    /// The folder of the store.
    folder: PathBuf,
    group: Mutex<Arc<Group>>,
    /// Whether the disk had too little room for a change when the hub looked last.
    is_short: AtomicBool,
    /// Why nothing can be stored now. `None`: it can, as far as this hub knows.
    lacking: Mutex<Option<String>>,
    /// The store while this hub leads. Lock it after the engine.
    store: Mutex<Option<Arc<Store>>>,
    engine: Mutex<engine::Hub>,
    /// Where the hub keeps the certificates of issuers that it has made.
    issued: PathBuf,
    /// Members of this machine, which the hub takes in when it leads, or tells to the hub that leads.
    founders: Vec<(String, bool)>,
    /// Where other hubs were last.
    others: Vec<String>,
    /// The addresses that this hub has told to the group.
    attended: Mutex<Vec<String>>,
    /// Held while the members of the group change.
    grouping: Mutex<()>,
    /// Why this hub is no member of the grid any more.
    expelled: Mutex<Option<String>>,
    /// Held while a list of revoked certificates is made, so that no list lacks a certificate that another list has.
    revoking: Mutex<()>,
    /// Held while executors are chosen for loans and told so.
    lending: Mutex<()>,
    /// How much the cages of executors must keep apart at least, once this hub leads. `None`: as before.
    least_cage: Option<Kind>,
    /// The number of the newest list that was found complete.
    whole: AtomicU64,
    linked: Mutex<HashMap<u64, Arc<Linked>>>,
    next_link: AtomicU64,
    joining: Arc<Quota>,
    links: Arc<Quota>,
    meetings: Meetings,
    carried: Carried,
    relayed: Arc<Quota>,
    /// Jobs.
    at_jobs: jobs::AtHub,
    /// The contents of jobs.
    contents: crate::contents::Store,
    /// Links for contents.
    carrying: Arc<Quota>,
    closed: AtomicBool,
    has_failed: AtomicBool,
    log: Log,
}

impl Hub {
    /// Opens the hub with everything that it has stored.
    ///
    /// # Errors
    /// The store cannot be read, or the founders' certificates are not those of this grid.
    pub fn open(settings: Settings, log: Log) -> Result<Arc<Hub>, HubError> {
        let Settings { grid, folder, issuer, member, founders, others, joins, addresses, least_cage } = settings;
        member.check_own()?;
        let group = Group::open(&folder, &Arc::new(member.clone()), &addresses, joins)?;
        let hub = Arc::new(Hub {
            grid,
            issuer,
            member,
            addresses: Mutex::new(addresses),
            group: Mutex::new(Arc::new(group)),
            is_short: AtomicBool::new(false),
            lacking: Mutex::default(),
            store: Mutex::default(),
            engine: Mutex::default(),
            issued: folder.join("issued"),
            contents: jobs::contents_of(&folder),
            folder,
            founders,
            others,
            attended: Mutex::default(),
            grouping: Mutex::default(),
            expelled: Mutex::default(),
            revoking: Mutex::new(()),
            lending: Mutex::new(()),
            least_cage,
            whole: AtomicU64::new(u64::MAX),
            linked: Mutex::default(),
            next_link: AtomicU64::new(0),
            joining: Quota::new("peers that join", MOST_JOINING.0, MOST_JOINING.1),
            links: Quota::new("links of members to the hub", MOST_LINKED.0, MOST_LINKED.1),
            meetings: Meetings::default(),
            carried: Carried::default(),
            relayed: relaying::quota(),
            at_jobs: jobs::AtHub::default(),
            carrying: relaying::quota(),
            closed: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            log,
        });
        hub.begin_counting()?;
        hub.renew_own();
        if hub.group().is_alone() {
            hub.lead_alone()?;
        }
        if joins && !hub.group().replicated.is_voter() {
            hub.announce()?;
        }
        hub.begin_to_follow()?;
        let weak = Arc::downgrade(&hub);
        thread::Builder::new().name("phalanx-hub".into()).spawn(move || {
            while let Some(hub) = weak.upgrade().filter(|hub| !hub.is_closed()) {
                hub.renew_own();
                hub.meetings.forget_late();
                if hub.leads() {
                    hub.look_after_list();
                    hub.look_after_loans();
                    hub.look_after_group();
                    hub.look_after_jobs();
                }
                drop(hub);
                thread::sleep(LOOK);
            }
        })?;
        Ok(hub)
    }

    /// The addresses at which members reach the hub.
    pub fn addresses(&self) -> Vec<String> {
        lock(&self.addresses).clone()
    }

    /// Records that the hub listens at this port, and lists the hub as here.
    pub(crate) fn listens_at(&self, port: u16) {
        for address in &mut *lock(&self.addresses) {
            if let Some(host) = address.strip_suffix(":0") {
                *address = format!("{host}:{port}");
            }
        }
        if self.leads() {
            self.enter_own();
            self.look_after_group();
        }
    }

    /// Ends all links of members. From now on the hub serves and stores nothing.
    pub fn close(&self) {
        if !self.closed.swap(true, Ordering::AcqRel) {
            self.end_counting();
            lock(&self.linked).values().for_each(|linked| linked.close());
            self.carried.end(|_| true);
            lock(&self.store).take().iter().for_each(|store| store.close());
            self.group().stop();
        }
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Makes an invitation for an owner. Returns the token that new members type. `role`: the word of a role, or
    /// [`OWNER`](engine::OWNER).
    ///
    /// # Errors
    /// The user is no owner, the role is none, a limit is reached, or the invitation cannot be stored.
    pub fn invite(&self, by: &str, role: &str, uses: u32, seconds: u64) -> Result<Token, HubError> {
        if role != engine::OWNER {
            role.parse::<Role>().map_err(HubError::Other)?;
        }
        let secret = random_token();
        self.change(|engine, now| Ok(engine.invite(now, by, (sha256(&secret), role), uses, seconds)?))?;
        let (hubs, role) = (addresses_of(&self.hubs()), role.to_owned());
        let grid = self.grid.clone();
        self.log.info(format!("{by} invites {uses} in the role {role}"));
        Ok(Token { grid, role, hubs, root: sha256(self.member.authority()), secret })
    }

    /// Expels the members of this name, for an owner. Calls `answer` with the number of revoked certificates before links end: the
    /// owner's may be among them, if an expelled hub has made the owner's certificate.
    fn expel(&self, by: &str, name: &str, answer: impl FnOnce(u32)) -> Result<(), HubError> {
        let name = name.to_ascii_lowercase();
        let revoked = self.change_with(|engine, now| Ok(engine.expel(now, by, &name)?))?;
        self.log.info(format!("{by} expels {name}"));
        answer(revoked.len() as u32);
        let revoked = self.let_go(revoked);
        self.end_links(|who| who.name == name);
        revoked.map(drop)
    }

    /// Ends the membership of a member that leaves for good. Calls `answer` before the member's links end. Returns how many
    /// certificates are revoked.
    fn leave(&self, who: &Who, answer: impl FnOnce()) -> Result<u32, HubError> {
        let revoked = self.change_with(|engine, now| Ok(engine.leave(now, who)?))?;
        self.log.info(format!("the {} {} leaves the grid", who.role, who.name));
        answer();
        let revoked = self.let_go(revoked);
        self.end_links(|other| other == who);
        revoked
    }

    /// Revokes the certificates of former members. A former hub leaves the group first, because the other hubs refuse its links once
    /// it is revoked, and a group of two needs both hubs for that step. If this hub is the former one, the next leader revokes.
    fn let_go(&self, revoked: Vec<(Who, Good)>) -> Result<u32, HubError> {
        if let Some((hub, _)) = revoked.iter().find(|(who, _)| who.role == Role::Hub.name()) {
            self.look_after_group();
            if hub.name.eq_ignore_ascii_case(&self.member.name) {
                return Ok(revoked.len() as u32);
            }
        }
        self.revoke(revoked)
    }

    /// Ends the links of these members, and the relayed links of which they are an end.
    fn end_links(&self, is_meant: impl Fn(&Who) -> bool) {
        let meant = |linked: &&Arc<Linked>| is_meant(linked.who());
        lock(&self.linked).values().filter(meant).for_each(|linked| linked.close());
        self.carried.end(is_meant);
    }

    /// Admits a peer that has the secret of an invitation. Returns its certificates as PEM.
    fn join(&self, secret: [u8; 16], request: &[u8]) -> Result<(Who, String), HubError> {
        let (id, asking) = (sha256(&secret), signing::asking(request)?);
        self.engine().check_join(now(), &id, &asking)?; // sign nothing for a peer that may not join
        let signed = self.sign(request)?;
        self.change(|engine, now| Ok(engine.join(now, id, asking.clone(), signed.good.clone())?))?;
        Ok((asking.who, signed.pem))
    }

    /// Makes a peer an owner that has the secret of an invitation for that: a newcomer, or a user that has shown its certificate.
    fn join_as_owner(&self, secret: [u8; 16], shown: &[u8]) -> Result<(Who, String), HubError> {
        let (id, asking) = (sha256(&secret), signing::asking(shown)?);
        self.engine().check_join_as_owner(now(), &id, &asking)?;
        let signed = self.sign(shown)?;
        self.change(|engine, now| Ok(engine.join_as_owner(now, id, asking.clone(), signed.good.clone())?))?;
        self.log.info(format!("{} is an owner of the grid", asking.who.name));
        Ok((asking.who, signed.pem))
    }

    /// Gives a member a new certificate for the same key.
    fn renew(&self, certificate: &[u8]) -> Result<(Who, String), HubError> {
        let asking = signing::asking(certificate)?;
        let shown = signing::ends(&self.issuer, certificate)?;
        self.engine().check_renew(now(), &asking, shown, LASTS.as_secs())?;
        let signed = self.sign(certificate)?;
        self.change(|engine, now| Ok(engine.renew(now, &asking, shown, signed.good.clone())?))?;
        Ok((asking.who, signed.pem))
    }

    /// Gives a member a new certificate because an issuer of its old one was revoked.
    fn replace(&self, certificate: &[u8]) -> Result<(Who, String), HubError> {
        let asking = signing::asking(certificate)?;
        self.engine().check_replace(now(), &asking)?;
        let signed = self.sign(certificate)?;
        self.change(|engine, now| Ok(engine.replace(now, &asking, signed.good.clone())?))?;
        Ok((asking.who, signed.pem))
    }

    fn sign(&self, certificate: &[u8]) -> Result<Signed, IdentityError> {
        Signed::of(&self.issuer, certificate, LASTS)
    }

    /// Takes in the founders that the hub does not know yet.
    fn found(&self) -> Result<(), HubError> {
        for (pem, is_owner) in self.founders.clone() {
            let (asking, good) = signing::founder(&self.issuer, &pem)?;
            // A founder that was expelled stays expelled. With nothing to store, a hub begins to lead on a full disk, too.
            if !self.engine().knows(&asking) {
                self.change(|engine, now| Ok(engine.found(now, asking, good, is_owner)))?;
            }
        }
        Ok(())
    }

    /// Changes the engine, and stores the changes. If they cannot be stored, the engine is ahead of its store, and is thrown away. So a
    /// hub whose disk is almost full decides nothing.
    fn change(
        &self,
        change: impl FnOnce(&mut engine::Hub, u64) -> Result<Vec<Change>, HubError>,
    ) -> Result<(), HubError> {
        self.change_with(|engine, now| change(engine, now).map(|changes| ((), changes)))
    }

    fn change_with<T>(
        &self,
        change: impl FnOnce(&mut engine::Hub, u64) -> Result<(T, Vec<Change>), HubError>,
    ) -> Result<T, HubError> {
        if self.is_closed() {
            return Err(HubError::Elsewhere); // this hub ends, and another one may lead
        }
        self.check_room()?;
        // The lock is free while the disk writes, so other members are served. The store has the changes in the order of the
        // decisions.
        let mut engine = self.engine();
        let store = lock(&self.store).clone().ok_or(HubError::Elsewhere)?;
        let (done, changes) = change(&mut engine, now())?;
        let kept = if changes.is_empty() { None } else { Some(store.keep(&changes)) };
        drop(engine);
        let stored = kept.map_or(Ok(()), |kept| kept.and_then(Kept::wait));
        stored.map_err(|error| {
            self.stop_leading(&store); // the engine is ahead of the store
            if self.group().replicated.is_full() { HubError::Full(room::full(&self.folder)) } else { error.into() }
        })?;
        Ok(done)
    }

    /// Makes sure that this hub leads, and that everything decided so far is stored. Call this before an answer leaves.
    fn confirm(&self) -> Result<(), HubError> {
        let store = lock(&self.store).clone().ok_or(HubError::Elsewhere)?;
        Ok(store.confirm().inspect_err(|_| self.stop_leading(&store))?)
    }

    /// Ends the hub, because its folder cannot be used.
    fn fail(&self, error: &str) {
        if self.is_closed() {
            return; // its part in the group ends with it, and nothing is wrong with the folder
        }
        self.log.warning(format!("the hub ends, because it cannot store what changes: {error}"));
        self.has_failed.store(true, Ordering::Release);
        self.close();
    }

    /// Why this hub is no member of the grid any more. `None`: it is one, as far as it knows.
    pub fn expelled(&self) -> Option<String> {
        lock(&self.expelled).clone()
    }

    /// Whether the hub has ended because it could not store a change.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// This hub's part in the group. It is another one after the store had failed.
    fn group(&self) -> Arc<Group> {
        lock(&self.group).clone()
    }

    /// Why nothing can be stored now. `None`: it can, as far as this hub knows.
    fn lacking(&self) -> Option<String> {
        lock(&self.lacking).clone()
    }

    /// The store, while this hub leads.
    fn store(&self) -> Option<Arc<Store>> {
        lock(&self.store).clone()
    }

    fn engine(&self) -> MutexGuard<'_, engine::Hub> {
        lock(&self.engine)
    }

    /// Completes the list of revoked certificates, if it lacks some.
    fn look_after_list(&self) {
        if let Err(error) = self.revoke_ended() {
            let what = "the list of revoked certificates is not whole";
            self.log.limited(Severity::Warning, what, format!("{what}: {error}"));
        }
    }

    /// Revokes the certificates of former members that the list lacks. It lacks some when the last process ended before it wrote
    /// the list, or when another list has come.
    fn revoke_ended(&self) -> Result<(), HubError> {
        let number = self.member.revocations().number();
        if self.whole.load(Ordering::Acquire) == number {
            return Ok(());
        }
        let listed = self.member.revocations().newer_than(0).map_or_else(String::new, |(_, text)| text);
        let mut lacking = self.engine().to_revoke(now());
        let listed: HashSet<&str> = listed.split_ascii_whitespace().collect(); // a search of the text for each would take seconds
        lacking.retain(|(_, good)| !listed.contains(good.fingerprint.as_str()));
        match lacking.is_empty() {
            true => self.whole.store(number, Ordering::Release),
            false => drop(self.revoke(lacking)?),
        }
        Ok(())
    }

    /// Signs a list with these certificates, takes it as the hub's own, and sends it to all members that are here.
    fn revoke(&self, revoked: Vec<(Who, Good)>) -> Result<u32, HubError> {
        let count = revoked.len() as u32;
        if count > 0 {
            self.whole.store(u64::MAX, Ordering::Release); // if the rest fails, `look_after_list` tries again
            let _alone = lock(&self.revoking);
            let earlier = self.member.revocations().newer_than(0).map(|(_, text)| text);
            let earlier: Vec<&str> = earlier.iter().map(String::as_str).collect();
            let text = self.member.revoke_after(&earlier, signing::entries(revoked)?)?;
            // The next hub that leads must begin with this list, or its own would have no higher number.
            self.change(|_, _| Ok(vec![Change::List(text.clone())]))?;
            if let Some(unwritten) = self.member.revocations().take(&text)?.and_then(|taken| taken.unwritten) {
                let what = "the list of revoked certificates is not written yet";
                self.log.limited(Severity::Warning, what, format!("{what}: {unwritten}"));
            }
        }
        let linked: Vec<_> = lock(&self.linked).values().cloned().collect();
        linked.iter().for_each(|linked| linked.tell_news());
        Ok(count)
    }

    /// Renews the hub's own certificate when a third of its life is left.
    fn renew_own(&self) {
        let is_near = self.member.validity().is_ok_and(|validity| validity.is_near_end() || validity.is_over());
        let Some(renewals) = self.member.renewals().filter(|_| is_near) else { return };
        let own = self.member.newest().own().certificate.to_vec();
        match signing::renewed(&self.issuer, &own, LASTS) {
            Ok(pem) => drop(renewals.take(pem.as_bytes())),
            Err(error) => {
                let what = "the hub's own certificate cannot be renewed";
                self.log.limited(Severity::Warning, what, format!("{what}: {error}"));
            }
        }
    }

    /// The certificates and the key with which this hub speaks HTTPS under these DNS names and addresses, as PEM.
    ///
    /// # Errors
    /// A name is none.
    pub fn serving(&self, names: &[String], lasts: Duration) -> Result<Zeroizing<String>, HubError> {
        Ok(self.issuer.serving(names, lasts)?)
    }

    /// The member that asks, if the hub knows a member by the key of this certificate.
    fn known(&self, certificate: &[u8]) -> Result<Asking, HubError> {
        let asking = signing::asking(certificate)?;
        match self.engine().check_member(&asking) {
            Ok(()) => Ok(asking),
            Err(refusal) => Err(refusal.into()),
        }
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hub({})", self.grid)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.close();
    }
}
