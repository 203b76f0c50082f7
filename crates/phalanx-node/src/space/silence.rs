//! A member that leads may fall silent while its machine keeps the connection open: its process is frozen, or its link
//! swallows everything. Who waits for it asks whether it is there, and, if nothing comes, the others who leads.

use super::Client;
use super::leader::is_led_elsewhere;
use super::waiting::{Slot, State};
use phalanx_core::wire::space::ToSpace;
use phalanx_net::sync::lock;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// How often it is looked whether something came.
const LOOK: Duration = Duration::from_millis(250);
/// A member that was asked whether it is there, and of whom nothing came for so long, is silent.
const SILENCE: Duration = Duration::from_secs(2);

/// Looks after a connection to a member that leads, in a thread of its own, until it has ended.
pub(super) fn look_after(client: &Arc<Client>) {
    let weak = Arc::downgrade(client);
    // Without a thread who waits is told when the member goes on, or its machine is gone.
    let _ = thread::Builder::new().name("phalanx-space".into()).spawn(move || look(&weak));
}

fn look(weak: &Weak<Client>) {
    let (mut received, mut silent, mut asked) = (0, Duration::ZERO, false);
    loop {
        let began = Instant::now();
        thread::sleep(LOOK);
        silent += began.elapsed().min(LOOK * 2); // who is starved itself looks late, and takes that for no silence
        let Some(client) = weak.upgrade() else { return };
        if client.has_ended() {
            return;
        }
        let now = client.link().counters().received.load(Ordering::Relaxed);
        if now != received || !client.is_waited_for() {
            (received, silent, asked) = (now, Duration::ZERO, false);
        } else if !asked {
            // What cannot be sent is not asked: then nothing is read over there.
            asked = client.link().waiting_bytes() > 0 || client.start(is_there, Vec::new(), Box::new(|_| {})).is_ok();
        } else if silent > SILENCE && !client.link().has_unread() && is_led_elsewhere(&client) {
            return client.end("the member that led is silent, and another one leads");
        }
    }
}

fn is_there(request: u64) -> ToSpace {
    ToSpace::Name { request }
}

impl State {
    /// Whether anybody waits for something to come.
    pub(super) fn is_waited_for(&self) -> bool {
        let open = |slot: &Slot| !matches!(slot, Slot::Answered(_));
        let watched = self.watches.values().any(|watch| watch.waiting.is_some() || watch.nudge.is_some());
        watched || self.requests.values().any(open)
    }
}

impl Client {
    fn is_waited_for(&self) -> bool {
        lock(&self.state).is_waited_for()
    }
}
