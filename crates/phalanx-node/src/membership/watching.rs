//! A second link of an executor, to a hub that does not lead. That hub tells which one leads. So the executor hears of a new one when
//! the link to the old one is silent only: behind a cable that was cut, or because the hub's machine is frozen.

use super::asking::{AtHub, SILENCE};
use super::seeking::hub_address;
use super::staying::{BEAT, Shared};
use crate::control::tell;
use phalanx_core::wire::decode;
use phalanx_core::wire::hub::{FromHub, HubAt, ToHub};
use phalanx_net::frames::Frame;
use phalanx_net::identity::random_number;
use phalanx_net::sync::lock;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Interval of beats on the link, of which few pass, and at which a thread looks whether there is another hub to watch.
const PAUSE: Duration = Duration::from_secs(1);

impl Shared {
    /// Watches one hub after the other, until the stay ends.
    pub(super) fn watch(self: &Arc<Shared>) {
        loop {
            let (is_over, hubs) = {
                let state = lock(&self.state);
                let others = state.known.iter().filter(|hub| Some(&hub.name) != state.at.as_ref());
                (state.is_over || state.expelled.is_some(), others.cloned().collect::<Vec<HubAt>>())
            };
            if is_over {
                return;
            }
            let hub = (!hubs.is_empty()).then(|| &hubs[random_number() as usize % hubs.len()]);
            hub.into_iter().for_each(|hub| self.watch_at(hub));
            let state = lock(&self.state);
            drop(self.changed.wait_timeout_while(state, PAUSE, |it| !it.is_over));
        }
    }

    fn watch_at(&self, hub: &HubAt) {
        let mut addresses = hub.addresses.iter().filter_map(|it| hub_address(it).ok());
        let Some(at_hub) = addresses.find_map(|it| AtHub::open_at(&self.member, &it).ok()) else { return };
        let AtHub { link: ending, reader, .. } = at_hub;
        let (link, heard) = (&ending.0, Mutex::new(Instant::now()));
        tell(link, &ToHub::Watch);
        let mut beaten = Instant::now();
        let on_frame = |frame: Frame| {
            *lock(&heard) = Instant::now();
            match decode(&frame.header) {
                Ok(FromHub::Hubs { hubs }) => self.hear_of(hubs),
                Ok(FromHub::Beat | FromHub::News(_)) => {}
                _ => link.close(),
            }
        };
        reader.run(PAUSE, on_frame, |link| {
            if beaten.elapsed() >= BEAT {
                beaten = Instant::now();
                tell(link, &ToHub::Beat);
            }
            let is_the_same = lock(&self.state).at.as_deref() == Some(&hub.name);
            if is_the_same || lock(&heard).elapsed() > SILENCE || lock(&self.state).is_over {
                link.close();
            }
        });
    }

    /// A hub tells which hubs there are, and which one leads.
    pub(super) fn hear_of(&self, hubs: Vec<HubAt>) {
        let leading = hubs.iter().find(|hub| hub.leads).cloned();
        let mut state = lock(&self.state);
        state.learn(&hubs);
        // The link to a hub that leads no more is ended, and another one is opened.
        if leading.is_some_and(|leading| state.at.as_ref().is_some_and(|at| *at != leading.name)) {
            state.link.iter().for_each(|link| link.close());
        }
    }
}
