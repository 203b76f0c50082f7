//! A server may fall silent while its machine keeps the connection open: its process is frozen, or its link swallows
//! everything. A client that waits for it asks whether it is there. Where members keep the space, and nothing comes, the others
//! are asked who leads.

use super::Client;
use super::leader::is_led_elsewhere;
use super::waiting::{Slot, State};
use phalanx_core::wire::space::{RequestId, ToSpace};
use phalanx_net::sync::lock;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// How often it is looked whether something came.
const LOOK: Duration = Duration::from_millis(250);
/// A member that was asked whether it is there, and of whom nothing came for so long, is silent.
const SILENCE: Duration = Duration::from_secs(2);
/// A server that has the space alone is asked after a silence of so many times what its first answer may take, and given up
/// after so many: nobody else can be asked whether it is only slow.
const ASKED: u32 = 4;
const GIVEN_UP: u32 = 24;

fn look(weak: &Weak<Client>) {
    let (mut received, mut waiting, mut silent, mut asked) = (0, 0, Duration::ZERO, None);
    loop {
        let began = Instant::now();
        thread::sleep(LOOK);
        silent += began.elapsed().min(LOOK * 2); // who is starved itself looks late, and takes that for no silence
        let Some(client) = weak.upgrade() else { return };
        if client.has_ended() {
            return;
        }
        let (is_alone, is_waited_for) = (client.members().is_empty(), client.is_waited_for(asked));
        if is_alone && !is_waited_for {
            return client.is_looked_after.store(false, Ordering::Release);
        }
        let patience = client.reached_by().patience;
        let before = (received, waiting);
        (received, waiting) =
            (client.link().counters().received.load(Ordering::Relaxed), client.link().waiting_bytes());
        if received != before.0 || !is_waited_for {
            (silent, asked) = (Duration::ZERO, None);
        } else if waiting != before.1 {
            silent = Duration::ZERO; // what leaves is read over there
        } else if asked.is_none() && (!is_alone || silent > patience * ASKED) {
            // What cannot be sent is not asked: then nothing is read over there.
            let ask = || client.start(is_there, Vec::new(), None, Box::new(|_| {})).ok();
            asked = if waiting > 0 { Some(0) } else { ask() };
        } else if client.link().has_unread() {
            // It will be read.
        } else if is_alone && silent > patience * GIVEN_UP {
            let why = format!("the server was silent for {} s: it is frozen, or much too slow", silent.as_secs());
            return client.end(&why);
        } else if !is_alone && silent > SILENCE && is_led_elsewhere(&client) {
            return client.end("the member that led is silent, and another one leads");
        }
    }
}

fn is_there(request: RequestId) -> ToSpace {
    ToSpace::Name { request }
}

impl State {
    /// Whether anybody waits for something to come, beside the answer to this request.
    fn is_waited_for(&self, beside: Option<RequestId>) -> bool {
        let open =
            |(request, slot): (&RequestId, &Slot)| !matches!(slot, Slot::Answered(_)) && Some(*request) != beside;
        let watched = self.watches.values().any(|watch| watch.waiting.is_some() || watch.nudge.is_some());
        watched || self.requests.iter().any(open)
    }
}

impl Client {
    /// To be called where somebody waits for long, or will: looks in a thread of its own whether the server is there; where
    /// members keep the space, until the connection has ended, else until nobody waits for it.
    pub fn look_after(self: &Arc<Self>) {
        if self.is_looked_after.swap(true, Ordering::AcqRel) {
            return;
        }
        let weak = Arc::downgrade(self);
        let looking = thread::Builder::new().name("phalanx-space".into()).spawn(move || look(&weak));
        if looking.is_err() {
            // Who waits is told when the server goes on, or its machine is gone.
            self.is_looked_after.store(false, Ordering::Release);
        }
    }

    fn is_waited_for(&self, beside: Option<RequestId>) -> bool {
        lock(&self.state).is_waited_for(beside)
    }
}
