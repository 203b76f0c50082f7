//! Queries: for tuples that match now, page by page, as a count, or waiting for a match. A search over many tuples is
//! cut into steps, so that other requests run in between. [`Space::ask`] does the first step; [`Space::go_on`] is
//! called until there is an answer.

use super::store::{Looked, Place, Rank, Room, Scan, Store, Wanted};
use super::{Asker, Cursor, Get, Held, Interest, Kind, Order, Page, RequestId, STAGED, Space, Template, Tuple};
use crate::error::SpaceError;
use crate::ids::{SessionId, TransactionId};
use std::sync::Arc;
use std::time::Duration;

/// A query.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The session that asks, and the number of its request.
    pub asker: Asker,
    /// The template that a tuple must match.
    pub template: &'a Template,
    /// The options of the request.
    pub get: &'a Get,
    /// The transaction under which the request is made.
    pub transaction: Option<TransactionId>,
    /// The kind of answer that the session wants.
    pub goal: Goal,
}

/// What a query is to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// What matches now, up to the limit.
    Page,
    /// One tuple: a match now, or the first one to arrive before the deadline; `None`: no deadline. Takers are served
    /// in the order in which they asked.
    Wait(Option<Duration>),
    /// The number of matching tuples. Of the options in `get`, only key and label count.
    Count,
}

/// The result of a query so far.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// A page of tuples.
    Found(Page),
    /// The answer to a query for one tuple.
    One(Option<Tuple>),
    /// The number of matching tuples.
    Counted(u64),
    /// The request waits. A [`Command::Answer`](super::Command) follows, or was issued already; at the latest at the
    /// deadline (see [`Space::on_tick`]).
    Waits,
    /// The search is not finished. The driver calls [`Space::go_on`] after other requests had their turn.
    GoesOn,
}

/// A query whose answer is not found yet.
#[derive(Debug)]
pub(super) struct Search {
    template: Template,
    get: Get,
    transaction: Option<TransactionId>,
    goal: Goal,
    /// Whether the request is registered as waiting.
    waits: bool,
    progress: Progress,
}

/// How far a search has got.
#[derive(Debug)]
struct Progress {
    /// Set while the search is still among the tuples that its own transaction has put, which come first.
    under: Option<TransactionId>,
    scan: Scan,
    /// The best match among the transaction's own tuples, and its rank.
    staged: Option<(Place, Rank)>,
    page: Page,
    room: Room,
    /// Tuples with this number or above are on no page. Otherwise a client that reads pages and puts tuples would never
    /// reach the end.
    end: u64,
    count: u64,
}

/// Where a matching tuple is.
enum Found {
    Stored(Place),
    /// In the staged tuples of the asking transaction.
    Staged(TransactionId, Place),
}

impl Progress {
    /// Goes on to the tuples that all may see.
    fn leave_staged(&mut self) {
        let left = self.scan.left;
        self.under = None;
        self.scan = Scan { left, ..Scan::default() };
    }
}

impl Space {
    /// Begins to look for an answer.
    pub fn ask(&mut self, now: Duration, question: &Question) -> Result<Outcome, SpaceError> {
        self.on_tick(now);
        self.check_card(question.asker.session)?;
        self.open_transaction(question.transaction)?;
        if !question.get.take {
            self.check_reads(question.transaction)?;
        }
        let takes = question.get.take && question.transaction.is_none() && question.goal != Goal::Count;
        self.check_unanswered(question.asker, takes)?;
        let get = question.get;
        let mut progress = Progress {
            under: question.transaction.filter(|_| get.after.is_none_or(|cursor| cursor.partition & STAGED != 0)),
            scan: Scan::default(),
            staged: None,
            page: Page::default(),
            room: Room::new(get.limit, get.page_bytes),
            end: get.after.map_or(self.next_number, |cursor| cursor.end),
            count: 0,
        };
        match self.step(question, &mut progress) {
            Ok(Some(Outcome::Waits)) if question.is_over(now) => Err(SpaceError::TimedOut),
            Ok(Some(Outcome::Waits)) => self.begin_waiting(question).map(|()| Outcome::Waits),
            Ok(Some(outcome)) => Ok(outcome),
            Ok(None) => self.put_off(now, question, progress),
            Err(error) => {
                self.forget(question.transaction, progress);
                Err(error)
            }
        }
    }

    /// Stores a search whose first step found no answer. A waiting request is registered now, so that it misses no
    /// tuple that arrives meanwhile.
    fn put_off(&mut self, now: Duration, question: &Question, progress: Progress) -> Result<Outcome, SpaceError> {
        let Question { asker, get, transaction, goal, .. } = *question;
        let waits = matches!(goal, Goal::Wait(_)) && !question.is_over(now);
        if let Err(error) = if waits { self.begin_waiting(question) } else { Ok(()) } {
            self.forget(transaction, progress);
            return Err(error);
        }
        let (template, get) = (question.template.clone(), get.clone());
        let search = Search { template, get, transaction, goal, waits, progress };
        self.searches.insert((asker.session, asker.request), search);
        Ok(Outcome::GoesOn)
    }

    /// Does the next step of a search.
    pub fn go_on(&mut self, now: Duration, asker: Asker) -> Result<Outcome, SpaceError> {
        self.on_tick(now);
        let asked = (asker.session, asker.request);
        let Some(mut search) = self.searches.remove(&asked) else { return Err(SpaceError::Cancelled) };
        let is_open = self.open_transaction(search.transaction);
        if is_open.is_err() || (search.waits && !self.asked.contains_key(&asked)) {
            self.forget(search.transaction, search.progress);
            // A request that waited has had its answer already, with the reason.
            return if search.waits { Ok(Outcome::Waits) } else { is_open.map(|()| Outcome::Waits) };
        }
        let Search { template, get, transaction, goal, progress, .. } = &mut search;
        let question = Question { asker, template, get, transaction: *transaction, goal: *goal };
        let outcome = match self.step(&question, progress) {
            Ok(Some(outcome)) => outcome,
            Ok(None) => {
                self.searches.insert(asked, search);
                return Ok(Outcome::GoesOn);
            }
            Err(error) => {
                self.forget(search.transaction, search.progress);
                return Err(error);
            }
        };
        match outcome {
            Outcome::Waits if !search.waits => return Err(SpaceError::TimedOut),
            Outcome::One(_) if search.waits => drop(self.leave(asker.session, asker.request)),
            _ => {}
        }
        Ok(outcome)
    }

    /// Drops all searches of a session that has ended.
    pub(super) fn forget_searches(&mut self, session: SessionId) {
        let theirs: Vec<_> = self.searches.keys().filter(|(of, _)| *of == session).copied().collect();
        for asked in theirs {
            let Some(search) = self.searches.remove(&asked) else { continue };
            self.forget(search.transaction, search.progress);
        }
    }

    fn forget(&mut self, transaction: Option<TransactionId>, progress: Progress) {
        match (progress.under, transaction) {
            (Some(_), Some(id)) => self.staged_by(id).into_iter().for_each(|store| store.forget(&progress.scan)),
            _ => self.store.forget(&progress.scan),
        }
    }

    pub(super) fn staged_by(&mut self, id: TransactionId) -> Option<&mut Store> {
        self.transactions.get_mut(&id)?.staged.as_deref_mut()
    }

    /// Looks at a bounded number of tuples. `None`: there are more to look at.
    fn step(&mut self, question: &Question, progress: &mut Progress) -> Result<Option<Outcome>, SpaceError> {
        progress.scan.refresh();
        let wanted = self.wanted(question);
        match question.goal {
            Goal::Count => {
                let ends = self.step_of_count(question, &wanted, progress)?;
                Ok(ends.then_some(Outcome::Counted(progress.count)))
            }
            Goal::Page if question.get.limit > 1 || question.get.after.is_some() => {
                let ends = self.step_of_page(question, &wanted, progress);
                Ok(ends.then(|| Outcome::Found(std::mem::take(&mut progress.page))))
            }
            goal => {
                let found = self.step_to_first(&wanted, question.transaction, progress);
                Ok(found.map(|found| match (found.and_then(|found| self.give_found(found, question)), goal) {
                    (None, Goal::Wait(_)) => Outcome::Waits,
                    (tuple, _) => Outcome::One(tuple),
                }))
            }
        }
    }

    /// Looks for the first wanted tuple. The outer `None`: there are more tuples to look at.
    fn step_to_first(
        &mut self,
        wanted: &Wanted,
        transaction: Option<TransactionId>,
        progress: &mut Progress,
    ) -> Option<Option<Found>> {
        if let Some(id) = progress.under {
            if let Some(staged) = self.staged_by(id) {
                let Looked::Done(found) = staged.find(wanted, &mut progress.scan) else { return None };
                progress.staged = found.map(|place| (place, staged.rank(place, wanted.order)));
            }
            progress.leave_staged();
            if let (Some((place, _)), Order::Any) = (progress.staged, wanted.order) {
                return Some(Some(Found::Staged(id, place)));
            }
        }
        let Looked::Done(stored) = self.store.find(wanted, &mut progress.scan) else { return None };
        let Some((id, (place, staged))) = transaction.zip(progress.staged) else {
            return Some(stored.map(Found::Stored));
        };
        if let Some(first) = stored.filter(|place| self.store.rank(*place, wanted.order) < staged) {
            return Some(Some(Found::Stored(first)));
        }
        if self.staged_by(id).is_some_and(|store| store.has_ranked(place, wanted.order, staged)) {
            return Some(Some(Found::Staged(id, place)));
        }
        // Another thread of the same transaction took the tuple meanwhile, so the search starts again.
        progress.under = transaction;
        None
    }

    fn give_found(&mut self, found: Found, question: &Question) -> Option<Tuple> {
        let Question { asker, get, transaction, .. } = *question;
        match found {
            Found::Stored(place) => Some(self.give(place, asker, get, transaction)),
            Found::Staged(id, place) => self.give_staged(id, place, get.take),
        }
    }

    /// Adds tuples to a page and returns whether the page is complete.
    fn step_of_page(&mut self, question: &Question, wanted: &Wanted, progress: &mut Progress) -> bool {
        let Question { asker, get, transaction, .. } = *question;
        if let Some(id) = progress.under {
            let after = get.after.map(|cursor| Cursor { partition: cursor.partition & !STAGED, ..cursor });
            let (room, end, scan) = (&mut progress.room, progress.end, &mut progress.scan);
            let Some(staged) = self.staged_by(id) else {
                progress.leave_staged();
                return self.step_of_page(question, wanted, progress);
            };
            let (places, looked) = staged.page(wanted, room, after, end, scan);
            let last = places.last().map(|last| staged.cursor(*last, end));
            let given = places.into_iter().filter_map(|place| self.give_staged(id, place, get.take));
            progress.page.tuples.extend(given);
            let Looked::Done(next) = looked else { return false };
            // The tuples that all may see are on the pages that follow.
            let next = next.or(last.filter(|_| progress.room.is_full()));
            progress.page.next = next.map(|cursor| Cursor { partition: cursor.partition | STAGED, ..cursor });
            if next.is_some() {
                return true;
            }
            progress.leave_staged();
        }
        let after = get.after.filter(|cursor| cursor.partition & STAGED == 0);
        let (places, looked) = self.store.page(wanted, &mut progress.room, after, progress.end, &mut progress.scan);
        for place in places {
            let tuple = self.give(place, asker, get, transaction);
            progress.page.tuples.push(tuple);
        }
        match looked {
            Looked::Done(next) => {
                progress.page.next = next;
                true
            }
            Looked::Tired => false,
        }
    }

    /// Adds to a count, and returns whether the count is complete. Counted tuples are noted as read.
    fn step_of_count(
        &mut self,
        question: &Question,
        wanted: &Wanted,
        progress: &mut Progress,
    ) -> Result<bool, SpaceError> {
        let (scan, count) = (&mut progress.scan, &mut progress.count);
        if let Some(id) = progress.under {
            if self.staged_by(id).is_some_and(|store| store.count(wanted, scan, |_| *count += 1) == Looked::Tired) {
                return Ok(false);
            }
            progress.leave_staged();
        }
        let (scan, count) = (&mut progress.scan, &mut progress.count);
        if !self.keeps_reads(question.transaction) {
            return Ok(self.store.count(wanted, scan, |_| *count += 1) == Looked::Done(()));
        }
        self.check_reads(question.transaction)?; // checked once per step, because a step is bounded
        let mut seen = Vec::new();
        let looked = self.store.count(wanted, scan, |number| seen.push(number));
        *count += seen.len() as u64;
        seen.into_iter().for_each(|number| self.note_read(question.transaction, number, true));
        Ok(looked == Looked::Done(()))
    }

    fn wanted<'a>(&self, question: &Question<'a>) -> Wanted<'a> {
        let (template, get) = (question.template, question.get);
        let order = get.order.unwrap_or(self.options.order);
        Wanted { template, key: get.key.as_deref(), label: get.label.as_deref(), order }
    }

    /// Refuses a request number that is in use: its last answer is not acknowledged, or it still searches or waits.
    fn check_unanswered(&self, asker: Asker, takes: bool) -> Result<(), SpaceError> {
        let asked = (asker.session, asker.request);
        let busy = takes && asker.acknowledges && self.unacknowledged.contains_key(&asked);
        let searches = !self.searches.is_empty() && self.searches.contains_key(&asked);
        match busy || searches || (!self.asked.is_empty() && self.asked.contains_key(&asked)) {
            true => Err(SpaceError::NumberTaken),
            false => Ok(()),
        }
    }

    fn begin_waiting(&mut self, question: &Question) -> Result<(), SpaceError> {
        let Question { asker, get, transaction, goal, .. } = *question;
        for field in [&get.key, &get.label].into_iter().flatten() {
            self.check_field(field)?;
        }
        let kind = if get.take { Kind::Taker } else { Kind::Reader };
        let template = Arc::new(question.template.clone());
        let (key, label) = (get.key.clone(), get.label.clone());
        let deadline = if let Goal::Wait(deadline) = goal { deadline } else { None };
        self.enrol(kind, Interest { asker, template, key, label, transaction, deadline, peeks: get.peeks })
    }

    /// Cancels a waiting request, which then gets no answer. `false`: it does not wait (any more).
    pub fn cancel(&mut self, session: SessionId, request: RequestId) -> bool {
        match self.asked.get(&(session, request)) {
            Some((Kind::Taker | Kind::Reader, _)) => self.leave(session, request).is_some(),
            _ => false,
        }
    }

    fn give(&mut self, place: Place, asker: Asker, get: &Get, transaction: Option<TransactionId>) -> Tuple {
        if !get.take {
            self.reads += 1;
            if !get.peeks {
                self.note_read(transaction, self.store.number(place), true);
            }
            return self.store.tuple(place);
        }
        let held = self.withdraw(place);
        let tuple = held.tuple.clone();
        self.hand_over(held, asker, transaction);
        tuple
    }

    /// Hands a tuple to its taker. It is held back until the taker's transaction commits, or until the taker
    /// acknowledges it, because the transaction may abort and the taker may die.
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

    /// A held tuple leaves the account of tuples that are held back.
    pub(super) fn let_go(&mut self, held: &Held) {
        self.held.0 -= 1;
        self.held.1 -= held.bytes();
    }
}

impl Question<'_> {
    /// Whether the deadline for waiting has passed.
    fn is_over(&self, now: Duration) -> bool {
        matches!(self.goal, Goal::Wait(Some(deadline)) if deadline <= now)
    }
}

/// The same queries in one call, for a caller that shares the space with no other.
impl Space {
    /// The tuples that match now, up to the limit of `get`.
    pub fn get(
        &mut self,
        now: Duration,
        asker: Asker,
        template: &Template,
        get: &Get,
        transaction: Option<TransactionId>,
    ) -> Result<Page, SpaceError> {
        match self.answer(now, &Question { asker, template, get, transaction, goal: Goal::Page })? {
            Outcome::Found(page) => Ok(page),
            Outcome::One(tuple) => Ok(Page { tuples: tuple.into_iter().collect(), next: None }),
            _ => Ok(Page::default()),
        }
    }

    /// One tuple that matches now, like [`Space::get`] with the limit 1.
    pub fn find(
        &mut self,
        now: Duration,
        asker: Asker,
        template: &Template,
        get: &Get,
        transaction: Option<TransactionId>,
    ) -> Result<Option<Tuple>, SpaceError> {
        match self.answer(now, &Question { asker, template, get, transaction, goal: Goal::Page })? {
            Outcome::One(tuple) => Ok(tuple),
            _ => Ok(None),
        }
    }

    /// One matching tuple: returned at once, or, if this returns `None`, delivered later by a
    /// [`Command::Answer`](super::Command).
    pub fn wait(
        &mut self,
        now: Duration,
        asker: Asker,
        template: &Template,
        get: &Get,
        deadline: Option<Duration>,
        transaction: Option<TransactionId>,
    ) -> Result<Option<Tuple>, SpaceError> {
        match self.answer(now, &Question { asker, template, get, transaction, goal: Goal::Wait(deadline) })? {
            Outcome::One(tuple) => Ok(tuple),
            _ => Ok(None),
        }
    }

    /// The number of matching tuples.
    pub fn count(
        &mut self,
        now: Duration,
        template: &Template,
        get: &Get,
        transaction: Option<TransactionId>,
    ) -> Result<u64, SpaceError> {
        let asker = Asker { session: SessionId(0), request: RequestId::MAX, acknowledges: false };
        match self.answer(now, &Question { asker, template, get, transaction, goal: Goal::Count })? {
            Outcome::Counted(count) => Ok(count),
            _ => Ok(0),
        }
    }

    fn answer(&mut self, now: Duration, question: &Question) -> Result<Outcome, SpaceError> {
        let mut outcome = self.ask(now, question)?;
        while outcome == Outcome::GoesOn {
            outcome = self.go_on(now, question.asker)?;
        }
        Ok(outcome)
    }
}
