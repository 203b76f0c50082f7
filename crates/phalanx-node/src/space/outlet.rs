//! The sending half of a session, shared by all threads that send something to the client.

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

/// While more bytes than this wait for a client, its watches end.
const MOST_EVENTS: usize = 16 << 20;

/// The way to a client. Answers come from its own session's thread, and from the threads that put what it waits for.
pub struct Client {
    pub link: Arc<Link>,
    finisher: Arc<Finisher>,
    /// The mark that its tuples travel with, set when it opens a space.
    pub mark: OnceLock<Mark>,
    /// Watches that get no more events, because too many bytes wait for the client.
    behind: Mutex<Vec<RequestId>>,
}

impl Client {
    pub fn new(link: Arc<Link>, finisher: Arc<Finisher>) -> Client {
        Client { link, finisher, mark: OnceLock::new(), behind: Mutex::default() }
    }

    /// Writes what was queued.
    pub fn write(&self) {
        self.finisher.flush(&self.link);
    }

    /// The watches that have ended since the last call.
    pub fn take_behind(&self) -> Vec<RequestId> {
        std::mem::take(&mut *lock(&self.behind))
    }

    /// Queues a message.
    pub fn say(&self, message: &FromSpace, body: Vec<Bytes>) {
        let bytes = body.iter().map(|piece| piece.len() as u64).sum();
        self.link.queue(self.mark.get().copied().unwrap_or(Mark::None), encode(message, bytes), body);
    }

    /// Whether an event must be dropped, because the client does not read the earlier ones. Ends the watch then.
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
