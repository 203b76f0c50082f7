//! Communicators that are no longer there.

use super::Engine;
use super::losing::USES;
use super::request::{Message, Request};

impl Engine {
    /// The communicator with this context is gone: what waited in it will never be received, and what is known of it is of no
    /// use. As long as something is under way in it, all of that stays. Whether it is forgotten.
    pub fn forget(&mut self, context: u64) -> bool {
        let is_of = |its: u64| its & !USES == context;
        let is_under_way = |request: &Request| match request {
            Request::Send(it) => it.left > 0 && is_of(it.context),
            Request::Receive(it) => !it.done && is_of(it.context),
        };
        let was_taken = |it: &Message| it.taken.is_some() && is_of(it.context);
        if self.requests.iter().any(|(_, it)| is_under_way(it)) || self.messages.iter().any(|(_, it)| was_taken(it)) {
            return false;
        }
        for of in 0..=USES {
            let (_, messages) = self.matching.forget(context | of);
            messages.into_iter().for_each(|message| self.drop_message(message));
            self.marked.remove(&(context | of));
        }
        self.unacknowledged.remove(&context);
        self.lost_sources.retain(|(its, _)| *its != context);
        true
    }
}
