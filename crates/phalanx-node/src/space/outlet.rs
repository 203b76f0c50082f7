//! What goes to a client, from whoever says it.

use super::hosted::Outlet;
use bytes::Bytes;
use phalanx_core::error::SpaceError;
use phalanx_core::level::Mark;
use phalanx_core::space::{Command, RequestId};
use phalanx_core::wire::encode;
use phalanx_core::wire::space::FromSpace;
use phalanx_net::link::{Finisher, Link};
use phalanx_net::sync::lock;
use std::sync::{Arc, Mutex, OnceLock};

/// Bytes that wait for a client beyond which its watches end.
const MOST_EVENTS: usize = 16 << 20;

/// The way to a client: answers come from its own session's thread, and from whoever brought what it waits for.
pub struct Client {
    pub link: Arc<Link>,
    finisher: Arc<Finisher>,
    /// What its tuples travel as, once it has opened a space.
    pub mark: OnceLock<Mark>,
    /// Watches that are told nothing more, since too much waits for them.
    behind: Mutex<Vec<RequestId>>,
}

impl Client {
    pub fn new(link: Arc<Link>, finisher: Arc<Finisher>) -> Client {
        Client { link, finisher, mark: OnceLock::new(), behind: Mutex::default() }
    }

    /// Sends what was said.
    pub fn write(&self) {
        self.finisher.flush(&self.link);
    }

    /// Watches that have ended since this was asked.
    pub fn take_behind(&self) -> Vec<RequestId> {
        std::mem::take(&mut *lock(&self.behind))
    }

    /// Queues a message.
    pub fn say(&self, message: &FromSpace, body: Vec<Bytes>) {
        let bytes = body.iter().map(|piece| piece.len() as u64).sum();
        self.link.queue(self.mark.get().copied().unwrap_or(Mark::None), encode(message, bytes), body);
    }

    /// Whether an event is not to be sent, since the client does not take those before it.
    fn is_behind(&self, watch: RequestId) -> bool {
        let mut behind = lock(&self.behind);
        if behind.contains(&watch) {
            return true;
        }
        let too_far = self.link.waiting_bytes() > MOST_EVENTS;
        if too_far {
            behind.push(watch);
            let error = SpaceError::Full { what: "bytes of events that wait".into(), most: MOST_EVENTS as u64 };
            self.say(&FromSpace::Failed { request: watch, error }, vec![]);
        }
        too_far
    }
}

impl Outlet for Client {
    fn tell(&self, command: Command) {
        match command {
            Command::Answer { request, answer: Ok(tuple), .. } => {
                self.say(&FromSpace::Got { request, tuples: 1, next: None }, vec![tuple.into_bytes()]);
            }
            Command::Answer { request, answer: Err(error), .. } => {
                self.say(&FromSpace::Failed { request, error }, vec![])
            }
            Command::Notify { watch, .. } if self.is_behind(watch) => {}
            Command::Notify { watch, sequence, tuple, .. } => {
                self.say(&FromSpace::Event { watch, sequence }, vec![tuple.into_bytes()]);
            }
        }
    }

    fn flush(&self) {
        self.write();
    }
}
