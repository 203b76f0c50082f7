//! Asking for tuples: now, in pages, or waiting.

use super::store::{Place, Rank, Wanted};
use super::{Asker, Cursor, Get, Held, Interest, Kind, Order, Page, RequestId, STAGED, Space, Template, Tuple};
use crate::error::SpaceError;
use crate::ids::{SessionId, TransactionId};
use std::sync::Arc;
use std::time::Duration;

/// Where a matching tuple is.
enum Found {
    Stored(Place),
    /// Put by the asking transaction: its number.
    Staged(TransactionId, u64),
}

impl Space {
    /// What matches now, up to the limit of `get`.
    pub fn get(
        &mut self,
        now: Duration,
        asker: Asker,
        template: &Template,
        get: &Get,
        transaction: Option<TransactionId>,
    ) -> Result<Page, SpaceError> {
        if get.limit <= 1 && get.after.is_none() {
            let found = self.find(now, asker, template, get, transaction)?;
            return Ok(Page { tuples: found.into_iter().collect(), next: None });
        }
        self.on_tick(now);
        self.open_transaction(transaction)?;
        self.check_unanswered(asker, get.take && transaction.is_none())?;
        let wanted = self.wanted(template, get);
        let mut page = Page::default();
        // Or who reads and puts would never come to an end.
        let end = get.after.map_or(self.next_number, |cursor| cursor.end);
        if let Some(transaction) = transaction {
            self.staged_page(&wanted, get, transaction, end, &mut page);
        }
        if page.next.is_none() {
            let room = get.limit.max(1) - page.tuples.len() as u32;
            let after = get.after.filter(|cursor| cursor.partition != STAGED);
            let (places, next) = self.store.page(&wanted, room, get.page_bytes, after, end);
            page.next = next;
            for place in places {
                let tuple = self.give(place, asker, get.take, transaction);
                page.tuples.push(tuple);
            }
        }
        Ok(page)
    }

    /// One tuple that matches now: the same as a [`Space::get`] with the limit 1.
    pub fn find(
        &mut self,
        now: Duration,
        asker: Asker,
        template: &Template,
        get: &Get,
        transaction: Option<TransactionId>,
    ) -> Result<Option<Tuple>, SpaceError> {
        self.on_tick(now);
        self.open_transaction(transaction)?;
        self.check_unanswered(asker, get.take && transaction.is_none())?;
        let wanted = self.wanted(template, get);
        Ok(match self.first(&wanted, transaction) {
            None => None,
            Some(Found::Stored(place)) => Some(self.give(place, asker, get.take, transaction)),
            Some(Found::Staged(id, number)) => self.give_staged(id, number, get.take),
        })
    }

    /// One tuple that matches: at once, or, with `None`, by a [`Command::Answer`](super::Command) before the deadline, or
    /// [`SpaceError::TimedOut`] after it (see [`Space::on_tick`]). Takers get what comes in the order in which they came.
    pub fn wait(
        &mut self,
        now: Duration,
        asker: Asker,
        template: Arc<Template>,
        get: &Get,
        deadline: Option<Duration>,
        transaction: Option<TransactionId>,
    ) -> Result<Option<Tuple>, SpaceError> {
        if let Some(tuple) = self.find(now, asker, &template, get, transaction)? {
            return Ok(Some(tuple));
        }
        if deadline.is_some_and(|deadline| deadline <= now) {
            return Err(SpaceError::TimedOut);
        }
        for field in [&get.key, &get.label].into_iter().flatten() {
            self.check_field(field)?;
        }
        let kind = if get.take { Kind::Taker } else { Kind::Reader };
        let (key, label) = (get.key.clone(), get.label.clone());
        self.enrol(kind, Interest { asker, template, key, label, transaction, deadline })?;
        Ok(None)
    }

    /// Ends the waiting of a request, which is not answered any more; `false`: it does not wait (it was answered).
    pub fn cancel(&mut self, session: SessionId, request: RequestId) -> bool {
        match self.asked.get(&(session, request)) {
            Some((Kind::Taker | Kind::Reader, _)) => self.leave(session, request).is_some(),
            _ => false,
        }
    }

    /// How many tuples match. Of `get`, only key and label count.
    pub fn count(
        &mut self,
        now: Duration,
        template: &Template,
        get: &Get,
        transaction: Option<TransactionId>,
    ) -> Result<u64, SpaceError> {
        self.on_tick(now);
        self.open_transaction(transaction)?;
        let wanted = self.wanted(template, get);
        let own = transaction.and_then(|id| self.transactions.get(&id));
        let fits = |held: &&Held| wanted.accepts(held.tuple.bytes(), held.extra.as_deref());
        let staged = own.map_or(0, |own| own.staged.iter().filter(fits).count() as u64);
        Ok(staged + self.store.count(&wanted))
    }

    fn wanted<'a>(&self, template: &'a Template, get: &'a Get) -> Wanted<'a> {
        let order = get.order.unwrap_or(self.options.order);
        Wanted { template, key: get.key.as_deref(), label: get.label.as_deref(), order }
    }

    /// A request whose last answer is still on its way, or that waits, cannot ask again.
    fn check_unanswered(&self, asker: Asker, takes: bool) -> Result<(), SpaceError> {
        let asked = (asker.session, asker.request);
        let busy = takes && asker.acknowledges && self.unacknowledged.contains_key(&asked);
        match busy || (!self.asked.is_empty() && self.asked.contains_key(&asked)) {
            true => Err(SpaceError::NumberTaken),
            false => Ok(()),
        }
    }

    fn first(&mut self, wanted: &Wanted, transaction: Option<TransactionId>) -> Option<Found> {
        let staged = transaction.and_then(|id| self.first_staged(wanted, id));
        if let (Some((id, number, _)), Order::Any) = (staged, wanted.order) {
            return Some(Found::Staged(id, number));
        }
        let stored = self.store.find(wanted);
        match (stored, staged) {
            (stored, None) => stored.map(Found::Stored),
            (Some(place), Some((.., rank))) if self.store.rank(place, wanted.order) < rank => {
                Some(Found::Stored(place))
            }
            (_, Some((id, number, _))) => Some(Found::Staged(id, number)),
        }
    }

    fn first_staged(&self, wanted: &Wanted, id: TransactionId) -> Option<(TransactionId, u64, Rank)> {
        let first = self.transactions.get(&id)?.staged.first(wanted);
        first.map(|(number, rank)| (id, number, rank))
    }

    /// What the transaction put is on the first pages.
    fn staged_page(&mut self, wanted: &Wanted, get: &Get, id: TransactionId, end: u64, page: &mut Page) {
        let behind = match get.after {
            Some(Cursor { partition: STAGED, number, .. }) => number,
            None => 0,
            Some(_) => return,
        };
        let Some(own) = self.transactions.get(&id) else { return };
        let fits = |held: &&Held| wanted.accepts(held.tuple.bytes(), held.extra.as_deref());
        let sizes = own
            .staged
            .behind(behind)
            .take_while(|held| held.number < end)
            .filter(fits)
            .map(|held| (held.number, held.bytes()));
        let found: Vec<(u64, u64)> = sizes.take(get.limit.max(1) as usize).collect();
        let mut bytes = 0;
        for (number, size) in found {
            bytes += size;
            page.tuples.extend(self.give_staged(id, number, get.take));
            if page.tuples.len() as u32 >= get.limit || (get.page_bytes > 0 && bytes >= get.page_bytes) {
                page.next = Some(Cursor { partition: STAGED, slot: 0, number, priority: 0, end });
                return;
            }
        }
    }

    fn give(&mut self, place: Place, asker: Asker, take: bool, transaction: Option<TransactionId>) -> Tuple {
        if !take {
            self.reads += 1;
            return self.store.tuple(place);
        }
        let held = self.withdraw(place);
        let tuple = held.tuple.clone();
        self.hand_over(held, asker, transaction);
        tuple
    }

    /// A tuple is taken; its taker's transaction may be aborted, and its taker may die before it has it.
    pub(super) fn hand_over(&mut self, held: Held, asker: Asker, transaction: Option<TransactionId>) {
        self.takes += 1;
        let is_under = transaction.is_some_and(|id| self.transactions.contains_key(&id));
        if !is_under && !asker.acknowledges {
            self.note_gone(&held);
            return self.store.free_key(&held);
        }
        self.hold(&held);
        let own = transaction.and_then(|id| self.transactions.get_mut(&id));
        match own {
            Some(own) => own.taken.push(held),
            None => {
                self.note_taken(&held, asker.session, asker.request);
                self.unacknowledged.entry((asker.session, asker.request)).or_default().push(held);
            }
        }
    }

    /// What was held is now elsewhere.
    pub(super) fn let_go(&mut self, held: &Held) {
        self.held.0 -= 1;
        self.held.1 -= held.bytes();
    }
}
