//! How a member finds the hub that leads, among several hubs of which some may not answer.
//!
//! The hubs are called one after the other, and the next one does not wait for the one before: a hub that is frozen, or behind a cable
//! that was cut, delays a call by [`HEAD_START`] only. A hub that does not lead names the one that does.

use super::AskError;
use crate::dial::printable;
use phalanx_net::address::Address;
use phalanx_net::identity::random_number;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long a call waits for one hub before it calls the next one as well. A handshake in one building takes a few milliseconds.
const HEAD_START: Duration = Duration::from_millis(250);
/// How long members look for a hub that leads, while one answers that does not. Hubs elect another one within two seconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause before a hub is asked again. Random, so that the members of a lost hub do not all come at once.
const PAUSES: [u64; 2] = [60, 180];
/// Most hubs that are called at a time by one call.
const MOST_CALLS: usize = 16;

/// What is known of an address.
struct Candidate {
    /// When it is called next. `None`: it is being called, or has failed.
    next: Option<Instant>,
    is_in_call: bool,
    was_called: bool,
}

impl Candidate {
    fn at(next: Instant) -> Candidate {
        Candidate { next: Some(next), is_in_call: false, was_called: false }
    }

    /// Calls it at this time, or earlier if that was planned.
    fn call_at(&mut self, next: Instant) {
        if !self.is_in_call {
            self.next = Some(self.next.map_or(next, |planned| planned.min(next)));
        }
    }
}

/// Parses the address of a hub, which comes from a token or a hub.
///
/// # Errors
/// The text is no address.
pub fn hub_address(text: &str) -> Result<Address, AskError> {
    text.parse().map_err(|_| AskError::Unreachable(format!("{} is no address of a hub", printable(text))))
}

fn pause() -> Duration {
    Duration::from_millis(PAUSES[0] + random_number() as u64 % (PAUSES[1] - PAUSES[0]))
}

/// Calls hubs until the one that leads has done what `call` asks of it.
pub(super) fn leading<T: Send + 'static>(
    hubs: &[String],
    call: impl Fn(&Address) -> Result<T, AskError> + Send + Sync + 'static,
) -> Result<T, AskError> {
    if let [hub] = hubs {
        // The usual case needs no thread.
        match hub_address(hub).and_then(|address| call(&address)) {
            Err(AskError::Elsewhere(_)) => {}
            done => return done,
        }
    }
    let call = Arc::new(call);
    let (done, results) = channel();
    let (began, mut has_answered, mut calls) = (Instant::now(), false, 0);
    let mut whys: Vec<(String, String)> = Vec::new();
    let mut hung_up = None;
    let mut order: Vec<String> = Vec::new();
    let mut candidates: HashMap<String, Candidate> = HashMap::new();
    for hub in hubs.iter().filter(|hub| !hub.is_empty()) {
        if !candidates.contains_key(hub) {
            let next = began + HEAD_START * order.len() as u32;
            candidates.insert(hub.clone(), Candidate::at(next));
            order.push(hub.clone());
        }
    }
    loop {
        let now = Instant::now();
        for hub in &order {
            let Some(candidate) = candidates.get_mut(hub) else { continue };
            if calls >= MOST_CALLS || candidate.next.is_none_or(|next| next > now) {
                continue;
            }
            *candidate = Candidate { next: None, is_in_call: true, was_called: true };
            calls += 1;
            let (hub, call, done) = (hub.clone(), call.clone(), done.clone());
            let run = move || {
                let called = hub_address(&hub).and_then(|address| call(&address));
                let _ = done.send((hub, called));
            };
            thread::Builder::new().name("phalanx-hub-call".into()).spawn(run).map_err(AskError::Ended)?;
        }
        let is_late = now.duration_since(began) > PATIENCE;
        let are_called = calls == 0 && candidates.values().all(|it| it.was_called);
        if is_late || are_called && !has_answered {
            // A hub hangs up on a member that was expelled. The caller asks why.
            if let Some(error) = hung_up {
                return Err(AskError::Ended(error));
            }
            let whys: Vec<String> = whys.into_iter().map(|(_, why)| why).collect();
            return Err(AskError::Unreachable(if whys.is_empty() {
                "none is known".to_owned()
            } else {
                whys.join("; ")
            }));
        }
        let next = candidates.values().filter_map(|it| it.next).min();
        let wait = next.map_or(HEAD_START, |next| next.saturating_duration_since(now)).min(PATIENCE);
        let (hub, called) = match results.recv_timeout(wait.max(Duration::from_millis(1))) {
            Ok(it) => it,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => continue,
        };
        calls -= 1;
        let now = Instant::now();
        whys.retain(|(of, _)| *of != hub);
        let mut again = candidates.get_mut(&hub);
        again.iter_mut().for_each(|it| it.is_in_call = false);
        let why = match called {
            Err(AskError::Elsewhere(leading)) => {
                has_answered = true;
                again.into_iter().for_each(|it| it.call_at(now + pause()));
                // The others are called: the one that leads comes first, if this one knows it.
                for (index, it) in leading.into_iter().enumerate() {
                    let next = now + HEAD_START * index as u32;
                    match candidates.get_mut(&it) {
                        Some(known) => known.call_at(next),
                        None if order.len() < 2 * MOST_CALLS => {
                            candidates.insert(it.clone(), Candidate::at(next));
                            order.push(it);
                        }
                        None => {}
                    }
                }
                "it does not lead, and knows no hub that does".to_owned()
            }
            Err(AskError::Unreachable(why)) => why,
            Err(AskError::Ended(error)) => {
                let why = error.to_string();
                hung_up = Some(error);
                why
            }
            done => return done,
        };
        whys.push((hub.clone(), if why.starts_with(&hub) { why } else { format!("{hub}: {why}") }));
        if has_answered {
            candidates.get_mut(&hub).into_iter().for_each(|it| it.call_at(now + HEAD_START));
        } else {
            // The next one need not wait for its turn.
            let next = candidates.values_mut().filter(|it| it.next.is_some()).min_by_key(|it| it.next);
            next.into_iter().for_each(|it| it.next = Some(now));
        }
    }
}
