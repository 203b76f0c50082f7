//! Detects a silent server. A server can fall silent while its machine keeps the connection open, because its process is frozen
//! or its link drops everything. A client that waits for an answer then asks whether the server is there. If the space is
//! replicated and nothing arrives, the client asks the others which member leads.

use super::Client;
use super::leader::is_led_elsewhere;
use super::waiting::{Slot, State};
use phalanx_core::wire::space::{RequestId, ToSpace};
use phalanx_net::sync::lock;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// How often the thread looks whether something has arrived.
const LOOK: Duration = Duration::from_millis(250);
/// A member that was asked whether it is there counts as silent when nothing arrives from it for this long.
const SILENCE: Duration = Duration::from_secs(2);
/// The other members have this long to say which of them leads; then the client looks again.
const TOLD: Duration = Duration::from_secs(1);
/// A server that is the space's only one is asked after a silence of `ASKED` times the client's patience for a first answer.
/// The connection is given up after `GIVEN_UP` times. These are long because no other member can say whether the server is only
/// slow.
const ASKED: u32 = 4;
const GIVEN_UP: u32 = 24;

fn look(weak: &Weak<Client>) {
    let (mut received, mut waiting, mut silent, mut asked) = (0, 0, Duration::ZERO, None);
    loop {
        let began = Instant::now();
        thread::sleep(LOOK);
        // if this process is starved of CPU time, a late look must not count as silence
        silent += began.elapsed().min(LOOK * 2);
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
            silent = Duration::ZERO; // bytes that leave this machine are being read by the server
        } else if asked.is_none() && (!is_alone || silent > patience * ASKED) {
            // While bytes wait to be sent, the server reads nothing, so it cannot be asked.
            let ask = || client.start(is_there, Vec::new(), None, Box::new(|_| {})).ok();
            asked = if waiting > 0 { Some(0) } else { ask() };
        } else if client.link().has_unread() {
            // A message is here already; the reader will get to it.
        } else if is_alone && silent > patience * GIVEN_UP {
            let why = format!("the server was silent for {} s: it is frozen, or much too slow", silent.as_secs());
            return client.end(&why);
        } else if !is_alone && silent > SILENCE && is_led_elsewhere(&client, TOLD) {
            return client.end("the member that led is silent, and another one leads");
        }
    }
}

fn is_there(request: RequestId) -> ToSpace {
    ToSpace::Name { request }
}

impl State {
    /// Whether any thread or callback waits for something to arrive, apart from the answer to request `beside`.
    fn is_waited_for(&self, beside: Option<RequestId>) -> bool {
        let open =
            |(request, slot): (&RequestId, &Slot)| !matches!(slot, Slot::Answered(_)) && Some(*request) != beside;
        let watched = self.watches.values().any(|watch| watch.waiting.is_some() || watch.nudge.is_some());
        watched || self.requests.iter().any(open)
    }
}

impl Client {
    /// Starts a thread that watches whether the server is there, unless one runs already. Call it where a wait is or may become
    /// long. In a replicated space the thread runs until the connection ends, otherwise until nothing is waited for any more.
    pub fn look_after(self: &Arc<Self>) {
        if self.is_looked_after.swap(true, Ordering::AcqRel) {
            return;
        }
        let weak = Arc::downgrade(self);
        let looking = thread::Builder::new().name("phalanx-space".into()).spawn(move || look(&weak));
        if looking.is_err() {
            // Without the thread, a waiting caller learns of it only when the server resumes or its machine is gone.
            self.is_looked_after.store(false, Ordering::Release);
        }
    }

    fn is_waited_for(&self, beside: Option<RequestId>) -> bool {
        lock(&self.state).is_waited_for(beside)
    }
}
