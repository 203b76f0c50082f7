//! Waiting requests and their deadlines, and the cleanup when a session ends or time passes.

use super::register::{Interest, Kind, Register};
use super::users::Shares;
use super::{Command, Held, RequestId, Space};
use crate::error::SpaceError;
use crate::ids::{SessionId, TransactionId};
use std::sync::Arc;
use std::time::Duration;

impl Space {
    /// Assigns a session to a user, before its first request. The shares limit that user over all of its sessions
    /// together.
    pub fn add_user(&mut self, session: SessionId, name: Arc<str>, most: Shares) {
        self.users.add(session, name, most);
    }

    fn register(&mut self, kind: Kind) -> &mut Register {
        match kind {
            Kind::Taker => &mut self.takers,
            Kind::Reader => &mut self.readers,
            Kind::Watch => &mut self.watches,
        }
    }

    /// Registers a waiting request or a watch.
    pub(super) fn enrol(&mut self, kind: Kind, interest: Interest) -> Result<(), SpaceError> {
        let asked = (interest.asker.session, interest.asker.request);
        if self.asked.contains_key(&asked) {
            return Err(SpaceError::NumberTaken);
        }
        let full = |what: &str, most| Err(SpaceError::Full { what: what.into(), most });
        let of_session = self.session_waiters.get(&asked.0).copied().unwrap_or(0);
        if of_session >= self.options.most_session_waiters {
            return full("waiters of one session", self.options.most_session_waiters);
        }
        if self.asked.len() as u64 >= self.options.most_waiters {
            return full("waiters", self.options.most_waiters);
        }
        if self.bytes() - self.log.bytes() + interest.bytes() > self.options.most_bytes {
            return full("bytes", self.options.most_bytes);
        }
        self.reserve(interest.bytes())?;
        self.users.add_waiter(asked.0)?;
        let number = self.next_interest;
        self.next_interest += 1;
        self.waiter_bytes += interest.bytes();
        self.session_waiters.insert(asked.0, of_session + 1);
        self.asked.insert(asked, (kind, number));
        if let Some(deadline) = interest.deadline {
            self.waiter_deadlines.insert((deadline, number));
        }
        if let Some(own) = interest.transaction.and_then(|id| self.transactions.get_mut(&id)) {
            own.waiters.insert(number);
        }
        self.register(kind).insert(number, interest);
        Ok(())
    }

    /// Removes a waiting request or a watch.
    pub(super) fn leave(&mut self, session: SessionId, request: RequestId) -> Option<Interest> {
        let (kind, number) = self.asked.remove(&(session, request))?;
        let interest = self.register(kind).remove(number)?;
        self.waiter_bytes -= interest.bytes();
        self.users.drop_waiter(session);
        if let Some(count) = self.session_waiters.get_mut(&session) {
            *count -= 1;
            if *count == 0 {
                self.session_waiters.remove(&session);
            }
        }
        if let Some(deadline) = interest.deadline {
            self.waiter_deadlines.remove(&(deadline, number));
        }
        if let Some(own) = interest.transaction.and_then(|id| self.transactions.get_mut(&id)) {
            own.waiters.remove(&number);
        }
        Some(interest)
    }

    /// Gives a tuple to a waiting taker. The tuple is no longer in the space.
    pub(super) fn serve_taker(&mut self, number: u64, held: Held) {
        let Some(asker) = self.takers.get(number).map(|interest| interest.asker) else {
            self.keep(held);
            return;
        };
        let transaction = self.leave(asker.session, asker.request).and_then(|interest| interest.transaction);
        let answer = Ok(held.tuple.clone());
        self.commands.push_back(Command::Answer { session: asker.session, request: asker.request, answer });
        self.hand_over(held, asker, transaction);
    }

    /// A waiter gets an error.
    pub(super) fn disappoint(&mut self, session: SessionId, request: RequestId, error: SpaceError) {
        self.leave(session, request);
        self.commands.push_back(Command::Answer { session, request, answer: Err(error) });
    }

    /// All waiting requests, and all watches.
    pub fn waiting(&self) -> Vec<(SessionId, RequestId)> {
        self.asked.keys().copied().collect()
    }

    /// The client has received what a request took.
    pub fn acknowledge(&mut self, session: SessionId, request: RequestId) {
        for held in self.unacknowledged.remove(&(session, request)).unwrap_or_default() {
            self.let_go(&held);
            self.note_gone(&held);
            self.store.free_key(&held);
        }
    }

    /// The client has received what a request took but does not want it. The tuples are put back.
    pub fn give_back(&mut self, now: Duration, session: SessionId, request: RequestId) {
        let back = self.unacknowledged.remove(&(session, request)).unwrap_or_default();
        self.note_back(&back);
        self.bring_back(now, back);
    }

    /// Cleans up after a session that has ended. Its waiting requests and watches are removed. Its transactions are
    /// aborted, unless they are prepared. Tuples that it took and did not acknowledge are put back: at once, or after
    /// [`GRACE`](super::GRACE) if its client may reconnect.
    pub fn end_session(&mut self, now: Duration, session: SessionId) {
        self.on_tick(now);
        let all = (session, 0)..=(session, RequestId::MAX);
        let waiting: Vec<RequestId> = self.asked.range(all.clone()).map(|((_, request), _)| *request).collect();
        for request in waiting {
            self.leave(session, request);
        }
        self.forget_searches(session);
        let theirs = |(id, own): (&TransactionId, &super::Transaction)| own.is_lost_with(session).then_some(*id);
        let lost: Vec<TransactionId> = self.transactions.iter().filter_map(theirs).collect();
        let mut back: Vec<Held> = lost.into_iter().filter_map(|id| self.dissolve(now, id)).flatten().collect();
        self.doubt(now, session);
        self.going_by.remove(&session);
        self.users.remove(session);
        self.lose(now, session);
        let unanswered: Vec<RequestId> = self.unacknowledged.range(all).map(|((_, request), _)| *request).collect();
        for request in unanswered {
            let taken = self.unacknowledged.remove(&(session, request)).unwrap_or_default();
            self.note_back(&taken);
            back.extend(taken);
        }
        self.bring_back(now, back);
    }

    /// Ends all leases, deadlines and transactions that are over by `now`. Calls that look for tuples call this
    /// themselves.
    pub fn on_tick(&mut self, now: Duration) {
        self.go_on_offering();
        while let Some((_, number)) = self.leases.first().copied().filter(|(deadline, _)| *deadline <= now) {
            self.expire(number);
        }
        if self.transaction_deadlines.first().is_some_and(|(deadline, _)| *deadline <= now) {
            let over = self.transaction_deadlines.iter().take_while(|(deadline, _)| *deadline <= now);
            let over: Vec<TransactionId> = over.map(|(_, id)| *id).collect();
            let back = over.into_iter().filter_map(|id| self.dissolve(now, id)).flatten().collect();
            self.bring_back(now, back);
        }
        if self.lost_until().is_some_and(|until| until <= now) {
            self.give_up_lost(now);
        }
        // A waiter times out only after the tuples that have just come back were offered to all waiters.
        let waits = |space: &Space| space.waiter_deadlines.first().copied().filter(|(deadline, _)| *deadline <= now);
        while let Some((_, number)) = waits(self).filter(|_| !self.is_behind()) {
            let interest = self.takers.get(number).or_else(|| self.readers.get(number));
            match interest.map(|interest| interest.asker) {
                Some(asker) => self.disappoint(asker.session, asker.request, SpaceError::TimedOut),
                None => {
                    self.waiter_deadlines.pop_first();
                }
            }
        }
    }

    fn expire(&mut self, number: u64) {
        let Some(place) = self.leased.get(&number).copied() else {
            self.leases.pop_first();
            return;
        };
        let held = self.withdraw(place);
        self.note_gone(&held);
        self.store.free_key(&held);
        self.expired += 1;
    }

    /// When [`Space::on_tick`] or [`Space::in_doubt`] next has work to do.
    pub fn next_deadline(&self) -> Option<Duration> {
        if self.is_behind() {
            return Some(Duration::ZERO);
        }
        let lease = self.leases.first().map(|(deadline, _)| *deadline);
        let waiter = self.waiter_deadlines.first().map(|(deadline, _)| *deadline);
        let transaction = self.transaction_deadlines.first().map(|(deadline, _)| *deadline);
        let doubt = self.doubts.first().map(|(ask, _)| *ask);
        [lease, waiter, transaction, doubt, self.lost_until()].into_iter().flatten().min()
    }
}
