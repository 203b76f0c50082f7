//! Delivery of a new tuple. Watches are notified, all waiting readers get a copy, and the first waiting taker gets it.
//! Without a taker, it is stored. Matching templates takes time. When a call has used up its share of work, the tuple
//! is stored, and the remaining waiters are asked in later calls, which [`Space::next_deadline`] requests. So one `out`
//! never blocks the space for long.

use super::register::{Kind, Register};
use super::store::{Held, Looked, Place, step};
use super::{Command, Space};
use crate::ids::TransactionId;

/// A tuple, and how many of the waiting requests were asked whether it matches.
#[derive(Debug)]
pub struct Offer {
    held: Held,
    /// Only requests under this transaction may have it.
    by: Option<TransactionId>,
    /// The number of its event, for watches.
    event: u64,
    /// The kind of waiters being asked, from the interest `from` up to `end`. Later requests have searched the store
    /// themselves.
    kind: Kind,
    from: u64,
    end: u64,
    /// Set once the tuple is stored.
    place: Option<Place>,
}

impl Space {
    /// Offers a new tuple to the waiters. `event`: the event for watches, if there is one. `by`: the transaction that
    /// may see it, if not all may.
    pub(super) fn offer(&mut self, held: Held, event: Option<u64>, by: Option<TransactionId>) {
        let kind = if event.is_some() && !self.watches.is_empty() { Kind::Watch } else { Kind::Reader };
        if kind == Kind::Reader && self.readers.is_empty() && self.takers.is_empty() {
            self.store_offered(held, by);
            return;
        }
        let (event, end) = (event.unwrap_or(0), self.next_interest);
        let mut offer = Offer { held, by, event, kind, from: 0, end, place: None };
        // Events are delivered in order, so this one queues behind those that are still undelivered.
        match if self.offers.is_empty() { self.ask_who_waits(&mut offer) } else { Looked::Tired } {
            Looked::Done(None) => drop(self.store_offered(offer.held, by)),
            Looked::Done(Some(taker)) => self.hand_to(taker, offer.held, by),
            Looked::Tired => {
                offer.place = self.store_offered(offer.held.clone(), by);
                self.held.1 += offer.held.bytes();
                self.offers.push_back(offer);
            }
        }
    }

    /// Asks further waiters, as far as the work limit of this call allows.
    pub(super) fn go_on_offering(&mut self) {
        self.work = step();
        while let Some(mut offer) = self.offers.pop_front() {
            let Looked::Done(taker) = self.ask_who_waits(&mut offer) else {
                return self.offers.push_front(offer);
            };
            self.held.1 -= offer.held.bytes();
            let Some((taker, place)) = taker.zip(offer.place) else { continue };
            match offer.by {
                None => {
                    let held = self.withdraw(place);
                    self.hand_to(taker, held, None);
                }
                Some(id) => {
                    self.give_staged(id, place, true);
                    self.answer_staged(taker, &offer.held);
                }
            }
        }
    }

    /// Whether some waiters have still to be asked.
    pub fn is_behind(&self) -> bool {
        !self.offers.is_empty()
    }

    /// Notifies watches, serves all waiting readers, and returns the first waiting taker that accepts the tuple.
    fn ask_who_waits(&mut self, offer: &mut Offer) -> Looked<Option<u64>> {
        loop {
            // The tuple may be stored already, and another request may have taken it.
            if offer.kind != Kind::Watch && !self.is_there(offer) {
                return Looked::Done(None);
            }
            let (held, by) = (&offer.held, offer.by);
            let register: &Register = match offer.kind {
                Kind::Watch => &self.watches,
                Kind::Reader => &self.readers,
                Kind::Taker => &self.takers,
            };
            let Looked::Done(next) = register.next(held, by, &mut offer.from, offer.end, &mut self.work) else {
                return Looked::Tired;
            };
            match (next, offer.kind) {
                (None, Kind::Watch) => (offer.kind, offer.from) = (Kind::Reader, 0),
                (None, Kind::Reader) => (offer.kind, offer.from) = (Kind::Taker, 0),
                (taker, Kind::Taker) => return Looked::Done(taker),
                (Some(watch), Kind::Watch) => self.notify(watch, offer),
                (Some(reader), Kind::Reader) => self.read_out(reader, offer),
            }
        }
    }

    fn is_there(&mut self, offer: &Offer) -> bool {
        let Some(place) = offer.place else { return true };
        match offer.by {
            None => self.store.has(place, offer.held.number),
            Some(id) => self.staged_by(id).is_some_and(|store| store.has(place, offer.held.number)),
        }
    }

    fn store_offered(&mut self, held: Held, by: Option<TransactionId>) -> Option<Place> {
        match by {
            None => Some(self.keep(held)),
            Some(id) => self.put_under(id, held),
        }
    }

    fn hand_to(&mut self, taker: u64, held: Held, by: Option<TransactionId>) {
        match by {
            None => self.serve_taker(taker, held),
            Some(id) => {
                self.takes += 1;
                self.free_staged_key(id, &held);
                self.answer_staged(taker, &held);
            }
        }
    }

    fn answer_staged(&mut self, taker: u64, held: &Held) {
        let Some(asker) = self.takers.get(taker).map(|interest| interest.asker) else { return };
        self.leave(asker.session, asker.request);
        let answer = Ok(held.tuple.clone());
        self.commands.push_back(Command::Answer { session: asker.session, request: asker.request, answer });
    }

    fn notify(&mut self, watch: u64, offer: &Offer) {
        let Some(asker) = self.watches.get(watch).map(|interest| interest.asker) else { return };
        let (session, watch, tuple) = (asker.session, asker.request, offer.held.tuple.clone());
        self.commands.push_back(Command::Notify { session, watch, sequence: offer.event, tuple });
    }

    /// Gives the tuple to a waiting reader.
    fn read_out(&mut self, reader: u64, offer: &Offer) {
        let Some(interest) = self.readers.get(reader) else { return };
        let (asker, transaction) = (interest.asker, interest.transaction);
        if offer.by.is_none() && !interest.peeks {
            self.note_read(transaction, offer.held.number, offer.place.is_some());
        }
        self.leave(asker.session, asker.request);
        self.reads += 1;
        let answer = Ok(offer.held.tuple.clone());
        self.commands.push_back(Command::Answer { session: asker.session, request: asker.request, answer });
    }
}
