//! How a hub begins to lead, and stops. While it leads it has an engine, filled from the store that all hubs keep.

use super::group::{self, Group};
use super::jobs::Filling;
use super::signing::now;
use super::waiting::Waiting;
use super::{Hub, HubError, Store};
use crate::log::Severity;
use crate::space::log::replicated::Leader;
use phalanx_core::hub as engine;
use phalanx_core::hub::{Change, Who};
use phalanx_core::space::Replica;
use phalanx_core::wire::hub::{Facts, FromHub, HubAt, addresses_of};
use phalanx_net::identity::Role;
use phalanx_net::sync::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait for another leader between two checks whether to end.
const PAUSE: Duration = Duration::from_millis(200);
/// Pause before the next attempt to lead.
const RETRY: Duration = Duration::from_millis(20);
/// How long a new leader waits for the executors. An executor whose link to the lost leader ended calls again after 200 ms at most, and
/// the rest is for its handshake. A longer wait delays each program that starts meanwhile.
const SETTLING: Duration = Duration::from_millis(700);
/// How long the only hub of a grid may take to begin.
const PATIENCE: Duration = Duration::from_secs(30);

impl Hub {
    /// Whether this hub leads, as far as it knows.
    pub(super) fn leads(&self) -> bool {
        lock(&self.store).is_some()
    }

    /// The hubs of the grid, as far as this one knows them.
    pub(super) fn hubs(&self) -> Vec<HubAt> {
        let (own, leads) = (&self.member.name, self.leads());
        let mut hubs = self.group().hubs();
        for hub in &mut hubs {
            let is_own = hub.name.eq_ignore_ascii_case(own);
            hub.leads = if is_own { leads } else { hub.leads && !leads };
            if is_own {
                hub.addresses = self.addresses();
            }
        }
        if hubs.is_empty() {
            hubs.push(HubAt { name: own.clone(), addresses: self.addresses(), leads });
        }
        hubs
    }

    /// The answer to whoever asks a hub that does not lead.
    pub(super) fn elsewhere(&self) -> FromHub {
        if let Some(reason) = self.lacking().filter(|_| self.group().is_alone()) {
            return FromHub::Refused { reason };
        }
        let own = self.addresses();
        let mut hubs = self.hubs();
        let is_known = hubs.iter().any(|hub| hub.leads && !hub.name.eq_ignore_ascii_case(&self.member.name));
        hubs.retain(|hub| !hub.addresses.iter().all(|it| own.contains(it)));
        FromHub::Elsewhere { hubs: addresses_of(&hubs), is_known }
    }

    /// Lists this hub as here.
    pub(super) fn enter_own(&self) {
        let own = Who::new(Role::Hub.name(), &self.member.name);
        let link = self.next_link.fetch_add(1, Ordering::Relaxed);
        let entered = self.engine().enter(now(), link, &own, self.addresses(), Facts::new());
        entered.unwrap_or_else(|error| self.log.warning(format!("the hub is not listed: {error}")));
    }

    /// Begins to lead as the only hub of the grid.
    pub(super) fn lead_alone(&self) -> Result<(), HubError> {
        let until = Instant::now() + PATIENCE;
        while self.group().replicated.leader() != Leader::Here {
            if Instant::now() > until {
                return Err(HubError::Other("the hub's store does not begin".to_owned()));
            }
            self.group().wait(&Leader::Unknown, PAUSE);
            thread::sleep(RETRY / 10);
        }
        self.begin_to_lead()
    }

    /// From now on, a thread leads whenever the group has chosen this hub.
    pub(super) fn begin_to_follow(self: &Arc<Hub>) -> io::Result<()> {
        let weak = Arc::downgrade(self);
        let follow = move || {
            let (mut last, mut asking) = (Leader::Unknown, Waiting::default());
            while let Some(hub) = weak.upgrade().filter(|hub| !hub.is_closed()) {
                last = hub.follow(&last, &mut asking);
            }
        };
        thread::Builder::new().name("phalanx-leading".into()).spawn(follow)?;
        self.begin_to_attend()
    }

    fn follow(&self, last: &Leader, asking: &mut Waiting) -> Leader {
        let leader = self.group().replicated.leader();
        let store = lock(&self.store).clone();
        match (&leader, store) {
            // A hub that led when it ended takes itself for the leader until the others have answered.
            (Leader::Here, None) => match self.begin_to_lead() {
                Ok(()) => asking.end(),
                Err(error) => {
                    asking.log(&self.log, "this hub asks the others which of them leads", &error);
                    thread::sleep(RETRY);
                }
            },
            (Leader::Here, Some(store)) if store.has_ended() => self.stop_leading(&store),
            (Leader::Here, Some(_)) => drop(self.group().wait(&leader, PAUSE)),
            (_, Some(store)) => self.stop_leading(&store),
            (_, None) => {
                if *last != leader {
                    self.tell_hubs();
                }
                if leader != Leader::Unknown {
                    asking.end();
                }
                self.group().wait(&leader, PAUSE);
            }
        }
        let group = self.group();
        match group.replicated.broken() {
            Some(_) if group.replicated.is_full() => self.wait_for_room(),
            Some(why) => self.fail(&why),
            None => {}
        }
        thread::sleep(RETRY / 10); // after a failure the waits above return at once
        leader
    }

    /// Fills an engine from the store, and begins to serve.
    fn begin_to_lead(&self) -> Result<(), HubError> {
        let (mut filled, mut jobs, mut list) = (engine::Hub::default(), Filling::default(), None);
        let store = Arc::new(Store::lead(&self.group().replicated, |change| match change {
            Change::List(text) => list = Some(text),
            Change::Job(change) => jobs.fill(change),
            change => filled.fill(change),
        })?);
        if let Some(text) = list {
            self.member.revocations().take(&text)?;
        }
        {
            let mut engine = self.engine();
            *engine = filled;
            *self.jobs() = jobs.filled();
            *lock(&self.store) = Some(store);
        }
        self.whole.store(u64::MAX, Ordering::Release);
        if self.group().number < crate::space::FIRST_JOINING {
            self.found()?;
        }
        if let Some(least) = self.least_cage {
            self.change(|engine, _| Ok(engine.require_cage(least)))?;
        }
        self.enter_own();
        self.look_after_list();
        self.look_after_group();
        if !self.group().is_alone() {
            self.log.info("this hub leads the grid now");
        }
        self.tell_hubs();
        Ok(())
    }

    /// How long this hub has led. `None`: it does not lead.
    fn leads_for(&self) -> Option<Duration> {
        lock(&self.store).as_ref().map(|store| store.age())
    }

    /// Waits for the executors if this hub has just replaced another leader. The store does not have presence, so until the executors
    /// come, the engine lists all of them as away.
    pub(super) fn await_executors(&self) {
        let left = self.leads_for().and_then(|leads_for| SETTLING.checked_sub(leads_for));
        if let Some(left) = left.filter(|_| !self.group().is_alone()) {
            thread::sleep(left);
        }
    }

    /// Throws the engine away that was filled for this store: another hub leads, or this one has to begin anew.
    pub(super) fn stop_leading(&self, store: &Arc<Store>) {
        {
            let mut engine = self.engine();
            let mut jobs = self.jobs();
            let mut current = lock(&self.store);
            if !current.as_ref().is_some_and(|it| Arc::ptr_eq(it, store)) {
                return;
            }
            *current = None;
            *engine = engine::Hub::default();
            *jobs = phalanx_core::jobs::Jobs::default();
            drop(current);
            drop(jobs);
            self.forget_executors();
        }
        store.close();
        if !self.is_closed() && !self.group().is_alone() {
            self.log.info("this hub does not lead the grid any more");
        }
        // After a write to a full disk, the links end once the answers that say so have left.
        if !self.group().replicated.is_full() {
            lock(&self.linked).values().for_each(|linked| linked.close());
        }
    }

    /// Tells those that watch which hub leads.
    pub(super) fn tell_hubs(&self) {
        let hubs = self.hubs();
        let linked: Vec<_> = lock(&self.linked).values().cloned().collect();
        linked.iter().for_each(|linked| linked.tell_hubs(&hubs));
        self.note_hubs(hubs);
    }

    /// Tells the engine the hubs of the grid, and since when each silent one is away.
    fn note_hubs(&self, hubs: Vec<HubAt>) {
        let others = hubs.iter().filter(|hub| !hub.name.eq_ignore_ascii_case(&self.member.name));
        let away = self.leads_for().into_iter().flat_map(|leads_for| {
            let silence = move |hub: &HubAt| Some((hub.name.clone(), self.group().silence(&hub.name, leads_for)?));
            others.clone().filter_map(silence)
        });
        let away = away.map(|(name, silence)| (name, now() - silence.as_secs())).collect();
        self.engine().tell_hubs(hubs, away);
    }

    /// Looks, at the hub that leads, whether the group is as the engine says: without hubs that were expelled or have left, and with the
    /// address that this one has now.
    pub(super) fn look_after_group(&self) {
        // While a hub is taken in, which may take minutes, the rest goes on.
        let Ok(_alone) = self.grouping.try_lock() else { return drop(self.confirm()) };
        let group = self.group();
        let Group { replicated, number, .. } = &*group;
        let members = replicated.members();
        let gone: BTreeSet<u64> = {
            let engine = self.engine();
            members.iter().filter(|(_, it)| !engine.hub_in(&it.name)).map(|(number, _)| *number).collect()
        };
        let mut looked = Ok(());
        if self.leads() && !gone.is_empty() && gone.len() < members.len() {
            looked = replicated.change_hubs(&BTreeMap::new(), &gone);
            self.tell_hubs();
        }
        let (own, address) = (self.member.name.clone(), group::joined(&self.addresses()));
        let is_ready = self.addresses().iter().all(|it| !it.ends_with(":0"));
        if is_ready && members.get(number).is_some_and(|it| it.address != address) {
            looked = looked.and(replicated.set_address(*number, Replica { name: own, address }));
        }
        if let Err(error) = looked {
            let what = "the list of hubs is not as it should be yet";
            self.log.limited(Severity::Warning, what, format!("{what}: {error}"));
        }
        self.note_hubs(self.hubs());
        // A hub that is cut off from the others notices it here.
        drop(self.confirm());
    }
}
