//! Requests for places that wait, and the users that are asked to give places back.
//!
//! A free place goes to the waiting user that has fewest. If none is free, users that have more than their share are asked for
//! the rest ([`fairness`]). The executor takes places that these users do not give back in time. Only interpreters move: ranks
//! of message passing programs keep their places until they end. Before they start, their launcher may wait too ([`Wanted`]):
//! places within its user's share are kept for it until it takes all of them at once.

#[cfg(test)]
mod tests;
mod waiting;

use super::{Holder, Kept, Model, PATIENCE, Places, Share, State};
use crate::quota::Entered;
use phalanx_core::fairness::{self, Demand, from_largest, standing};
use phalanx_core::level::Levels;
use phalanx_core::wire::machines::Usage;
use phalanx_net::sync::lock;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use waiting::Waiting;

/// Time for a manager to give back places that it is asked for. A shorter time fires more instructions twice, a longer one lets
/// the other user wait. Managers wait 30 s for a requested interpreter.
pub const SHARE_PATIENCE: Duration = Duration::from_secs(10);
/// How long a request within its user's share waits at most, when places are neither given back nor can be taken.
const CLAIM_PATIENCE: Duration = Duration::from_secs(20);

/// A request for the place of one interpreter.
#[derive(Debug)]
pub struct Request {
    /// The number of the manager's link.
    pub session: u64,
    /// The manager's number for the interpreter.
    pub number: u32,
    pub holder: Holder,
    pub levels: Levels,
    /// The bytes of memory that the interpreter may use. `None`: what the machine gives.
    pub memory: Option<u64>,
    /// How many graphics processors are to be the interpreter's own.
    pub gpus: u32,
    /// Whether other users are asked to give a place back for it.
    pub waits: bool,
    pub since: Instant,
    /// Counts it among the waiting requests.
    pub entered: Entered,
}

/// A request that got its place. The place is given back when this is dropped.
#[derive(Debug)]
pub struct Given {
    pub request: Request,
    place: Kept,
}

impl Given {
    /// The request and the place.
    pub fn into_parts(self) -> (Request, Box<dyn std::any::Any + Send>) {
        (self.request, Box::new(self.place))
    }
}

/// What there is to do for a manager's link.
#[derive(Debug, Default)]
pub struct Look {
    /// Requests of this link that have a place now.
    pub given: Vec<Given>,
    /// Requests of this link that waited in vain.
    pub refused: Vec<Request>,
    /// How many interpreters the link may keep. `None`: all.
    pub keep: Option<u32>,
    /// Who holds the places, if requests of this link waited.
    pub usage: Option<Usage>,
    /// Whether requests of this link wait on, and other users are asked to give places back.
    pub waits: bool,
    /// The links, of any user, that did not give places back in time.
    pub overdue: Vec<Overdue>,
}

/// A link that did not give places back in time.
#[derive(Debug)]
pub struct Overdue {
    pub session: u64,
    /// How many of its interpreters are to be taken.
    pub interpreters: u32,
    /// Places that it had got for requests and not used yet. They are given back when these are dropped.
    pub unused: Vec<Given>,
}

#[derive(Debug, Default)]
pub(super) struct Desk {
    waiting: Waiting,
    /// Requests that have a place, and that their link has not yet seen.
    given: HashMap<u64, Vec<Given>>,
    links: HashMap<u64, Seated>,
    /// The places that launchers wait for, by a number for each launcher.
    wanted: BTreeMap<u64, (Holder, u32)>,
}

/// Places that a launcher waits for. Dropping it ends the wait.
#[derive(Debug)]
pub struct Wanted {
    places: Arc<Places>,
    number: u64,
}

impl Drop for Wanted {
    fn drop(&mut self) {
        lock(&self.places.state).desk.wanted.remove(&self.number);
        self.places.given_back.notify_all(); // places that were kept for the launcher
    }
}

/// The interpreters of one manager's link.
#[derive(Debug)]
struct Seated {
    holder: Holder,
    interpreters: u32,
    /// For each place that the manager is asked for: when it is taken.
    owed: VecDeque<Instant>,
}

impl Desk {
    /// Whether no request and no launcher waits for a place.
    pub(super) fn is_quiet(&self) -> bool {
        self.waiting.is_empty() && self.wanted.is_empty()
    }

    /// So many places are to be taken from a link: first those that it has not used yet.
    fn overdue(&mut self, session: u64, count: u32) -> Overdue {
        let mut unused = self.given.remove(&session).unwrap_or_default();
        let kept = unused.split_off(unused.len().min(count as usize));
        if !kept.is_empty() {
            self.given.insert(session, kept);
        }
        Overdue { session, interpreters: count - unused.len() as u32, unused }
    }

    /// A link has given back the place of an interpreter.
    pub(super) fn gave_back(&mut self, session: u64) {
        let Some(seated) = self.links.get_mut(&session) else { return };
        seated.interpreters -= 1;
        seated.owed.pop_front();
        if seated.interpreters == 0 {
            self.links.remove(&session);
        }
    }
}

impl Places {
    /// Adds a request. The next [`Places::look`] says what became of it.
    pub fn request(&self, request: Request) {
        lock(&self.state).desk.waiting.push(request);
    }

    /// Whether this request of a link waits, or has a place that the link has not seen yet.
    pub fn is_open(&self, session: u64, number: u32) -> bool {
        let desk = &lock(&self.state).desk;
        desk.waiting.contains(session, number)
            || desk.given.get(&session).is_some_and(|given| given.iter().any(|it| it.request.number == number))
    }

    /// Gives free places to requests, decides which users are asked for places, and says what there is to do for a link.
    pub fn look(self: &Arc<Places>, session: u64, now: Instant) -> Look {
        let mut state = lock(&self.state);
        self.give(&mut state);
        let asked = state.ask(self.capacity);
        let given = state.desk.given.remove(&session).unwrap_or_default();
        let overdue = state.take_overdue(&asked, now);
        let waiting = state.desk.waiting.oldest(session).map(|oldest| oldest.holder.user.clone());
        let usage = waiting.map(|user| state.usage(self.capacity, &user));
        let refused = state.refuse(self.capacity, session, now, !asked.is_empty());
        if !refused.is_empty() {
            self.given_back.notify_all(); // places that were kept for these requests
        }
        let keep = asked.get(&session).map(|count| state.desk.links[&session].interpreters - count);
        let waits = state.desk.waiting.oldest(session).is_some_and(|oldest| oldest.waits);
        Look { given, refused, keep, usage, waits, overdue }
    }

    /// The links that did not give places back in time. The caller takes the places.
    pub fn overdue(&self, now: Instant) -> Vec<Overdue> {
        let mut state = lock(&self.state);
        let asked = state.ask(self.capacity);
        state.take_overdue(&asked, now)
    }

    /// Forgets a request that its manager has given up. Returns whether it had no answer yet.
    pub fn withdraw(&self, session: u64, number: u32) -> bool {
        let mut state = lock(&self.state);
        let (desk, mut dropped) = (&mut state.desk, None);
        let withdrawn = desk.waiting.remove(session, number);
        if let Some(given) = desk.given.get_mut(&session) {
            let index = given.iter().position(|it| it.request.number == number);
            dropped = index.map(|index| given.remove(index));
        }
        let waited = withdrawn.is_some() || dropped.is_some();
        drop(state); // dropping a place locks the state
        drop(dropped);
        if withdrawn.is_some() {
            self.given_back.notify_all(); // a place that was kept for the request
        }
        waited
    }

    /// Forgets the requests of a link while the places are closed. Returns their numbers.
    pub fn shut(&self, session: u64) -> Vec<u32> {
        let mut state = lock(&self.state);
        let given = state.desk.given.remove(&session).unwrap_or_default();
        let mut numbers = state.desk.waiting.numbers(session);
        state.desk.waiting.leave(session);
        drop(state); // dropping a place locks the state
        numbers.extend(given.into_iter().map(|given| given.request.number));
        numbers
    }

    /// Forgets the requests of a link that has ended.
    pub fn leave(&self, session: u64) {
        let mut state = lock(&self.state);
        let given = state.desk.given.remove(&session);
        let waited = state.desk.waiting.leave(session);
        drop(state); // dropping a place locks the state
        drop(given);
        if waited {
            self.given_back.notify_all(); // places that were kept for its requests
        }
    }

    /// Gives places to requests, first to those of the user that has fewest.
    fn give(self: &Arc<Places>, state: &mut State) {
        while let Some(request) = state.next(self.capacity) {
            let (session, holder) = (request.session, request.holder.clone());
            state.add(&holder, Model::Interpreters, 1);
            let seated = state.desk.links.entry(session).or_insert_with(|| Seated {
                holder: holder.clone(),
                interpreters: 0,
                owed: VecDeque::new(),
            });
            seated.interpreters += 1;
            let share = Share { places: self.clone(), holder, model: Model::Interpreters };
            let place = Kept { share, count: 1, session: Some(session) };
            state.desk.given.entry(session).or_default().push(Given { request, place });
        }
    }
}

impl Share {
    /// Waits for places for so many ranks: other users are asked for them, and free places are kept, as far as they are within the
    /// user's share. The wait replaces the `earlier` one in one step, so that no kept place goes to another user in between.
    pub fn want(&self, count: u32, earlier: Option<Wanted>) -> Wanted {
        let mut state = lock(&self.places.state);
        let wanted = &mut state.desk.wanted;
        let next = || wanted.last_key_value().map_or(0, |(last, _)| last + 1);
        let number = earlier.as_ref().map_or_else(next, |earlier| earlier.number);
        wanted.insert(number, (self.holder.clone(), count.min(self.places.capacity)));
        drop(state);
        earlier.unwrap_or_else(|| Wanted { places: self.places.clone(), number })
    }
}

impl State {
    /// The request that gets a free place: the first one, of the user that has fewest.
    fn next(&mut self, capacity: u32) -> Option<Request> {
        let total = self.total();
        if self.closed.is_some() || self.desk.waiting.is_empty() || (total >= capacity && !self.has_spare()) {
            return None;
        }
        let (held, waiting, kept) = (self.held(), &self.desk.waiting, self.kept_for_ranks(capacity));
        let kept_from =
            |user: &str| kept.iter().filter(|(other, _)| *other != user).map(|(_, count)| count).sum::<u32>();
        let fits = |it: &Request| {
            let taken = self.taken(total, &it.holder, Model::Interpreters);
            let room = self.lent_free(&it.holder, Model::Interpreters);
            taken.saturating_add(kept_from(&it.holder.user)) < capacity && room > 0
        };
        let firsts = waiting.users().filter_map(|user| Some((user, waiting.first(user, fits)?)));
        let stands = |user: &str| standing(held.get(user).copied().unwrap_or_default(), self.weight(user));
        let next = firsts.min_by_key(|(user, (turn, _))| (stands(user), *turn));
        let (session, number) = next.map(|(_, (_, it))| (it.session, it.number))?;
        self.desk.waiting.remove(session, number)
    }

    /// Whether a program has places for its ranks that it may use for interpreters too.
    fn has_spare(&self) -> bool {
        self.used.values().any(|[interpreters, ranks]| ranks > interpreters)
    }

    /// The places that each user has.
    pub(super) fn held(&self) -> HashMap<String, u32> {
        let mut held = HashMap::new();
        for (holder, used) in &self.used {
            *held.entry(holder.user.clone()).or_default() += used.iter().max().copied().unwrap_or_default();
        }
        held
    }

    /// The weight of a user.
    pub(super) fn weight(&self, user: &str) -> u32 {
        self.weights.get(user).copied().unwrap_or(1)
    }

    /// How many users wait, and the number of this one among them in the order in which free places are given. 0: it does not wait.
    pub(super) fn queue(&self, user: &str) -> (u32, u32) {
        let place = |user: &str, it: &Demand| {
            let first = self.desk.waiting.first(user, |_| true).map_or(u64::MAX, |(turn, _)| turn);
            (standing(it.held, it.weight), first, user.to_owned())
        };
        let demands = self.demands();
        let waiting = demands.iter().filter(|(_, it)| it.waiting > 0).map(|(user, it)| place(user, it));
        let places: Vec<_> = waiting.collect();
        let own = places.iter().find(|(.., other)| other == user);
        let turn = own.map_or(0, |own| 1 + places.iter().filter(|other| *other < own).count() as u32);
        (places.len() as u32, turn)
    }

    /// What each user has and wants.
    pub(super) fn demands(&self) -> BTreeMap<&str, Demand> {
        let mut demands: BTreeMap<&str, Demand> = BTreeMap::new();
        for (holder, [interpreters, ranks]) in &self.used {
            let demand = demands.entry(&holder.user).or_default();
            demand.held += interpreters.max(ranks);
            demand.movable += interpreters.saturating_sub(*ranks);
        }
        for (user, count) in self.desk.waiting.patient() {
            demands.entry(user).or_default().waiting = count;
        }
        for (user, count) in self.wanted() {
            let demand = demands.entry(user).or_default();
            demand.waiting = demand.waiting.saturating_add(count);
        }
        demands.iter_mut().for_each(|(user, demand)| demand.weight = self.weight(user));
        self.cut_to_lent(&mut demands);
        demands
    }

    /// The places that each user's launchers wait for, beside those of their programs' interpreters.
    fn wanted(&self) -> HashMap<&str, u32> {
        let mut wanted: HashMap<&str, u32> = HashMap::new();
        for (holder, count) in self.desk.wanted.values() {
            let all = wanted.entry(&holder.user).or_default();
            *all = all.saturating_add(count.saturating_sub(self.movable(holder)));
        }
        wanted
    }

    /// The places that each user's launchers wait for, within the user's share.
    fn kept_for_ranks(&self, capacity: u32) -> Vec<(String, u32)> {
        if self.desk.wanted.is_empty() {
            return Vec::new();
        }
        let wanted = self.wanted();
        let kept = |(user, claim): (String, u32)| {
            let wanted = wanted.get(&user[..]).copied()?;
            Some((user, claim.min(wanted)))
        };
        self.claims(capacity).into_iter().filter_map(kept).collect()
    }

    /// How many places ranks of a program can have, if other users give back what is above their shares.
    pub(super) fn fair(&self, capacity: u32, holder: &Holder) -> u32 {
        let mut demands = self.demands();
        demands.entry(&holder.user).or_default().weight = self.weight(&holder.user);
        let Some(user) = demands.keys().position(|user| *user == holder.user) else { return 0 };
        let all: Vec<Demand> = demands.values().copied().collect();
        self.movable(holder).saturating_add(fairness::reach(capacity, &all, user, capacity))
    }

    /// Places that users other than this one wait for, within their shares.
    pub(super) fn claimed_by_others(&self, capacity: u32, user: &str) -> u32 {
        if self.desk.is_quiet() {
            return 0;
        }
        let claims = self.claims(capacity);
        claims.iter().filter(|(other, _)| *other != user).map(|(_, claim)| claim).sum()
    }

    /// For each user, how many of the requests that wait are within the user's share.
    pub(super) fn claims(&self, capacity: u32) -> HashMap<String, u32> {
        let demands = self.demands();
        let all: Vec<Demand> = demands.values().copied().collect();
        let claims = demands.keys().zip(fairness::claims(capacity, &all));
        claims.map(|(user, claim)| ((*user).to_owned(), claim)).collect()
    }

    /// How many places each link is asked for. Links that are asked for none are not listed.
    fn ask(&self, capacity: u32) -> HashMap<u64, u32> {
        let mut asked = HashMap::new();
        if self.desk.is_quiet() {
            return asked;
        }
        let demands = self.demands();
        let all: Vec<Demand> = demands.values().copied().collect();
        let mut counts = fairness::asked(capacity, &all);
        self.ask_within_lent(&demands, &mut counts);
        for (user, count) in demands.keys().zip(counts).filter(|(_, count)| *count > 0) {
            let links: Vec<(&u64, &Seated)> =
                self.desk.links.iter().filter(|(_, it)| it.holder.user == **user).collect();
            let owned: Vec<u32> = links.iter().map(|(_, it)| it.interpreters).collect();
            let limits: Vec<u32> = links.iter().map(|(_, it)| it.interpreters.min(self.movable(&it.holder))).collect();
            let each = links.iter().zip(from_largest(count, &owned, &limits));
            asked.extend(each.filter(|(_, count)| *count > 0).map(|((session, _), count)| (**session, count)));
        }
        asked
    }

    /// The interpreters of a program whose places it does not use for ranks too.
    pub(super) fn movable(&self, holder: &Holder) -> u32 {
        self.used.get(holder).map_or(0, |[interpreters, ranks]| interpreters.saturating_sub(*ranks))
    }

    /// Remembers since when each link is asked for places. Returns the links that are late.
    fn owe(&mut self, asked: &HashMap<u64, u32>, now: Instant) -> Vec<(u64, u32)> {
        let mut overdue = Vec::new();
        for (session, seated) in &mut self.desk.links {
            let count = asked.get(session).copied().unwrap_or_default() as usize;
            let surplus = seated.owed.len().saturating_sub(count);
            seated.owed.drain(..surplus);
            seated.owed.resize(count, now + SHARE_PATIENCE);
            let late = seated.owed.iter().filter(|until| **until <= now).count();
            if late > 0 {
                // The caller takes them now. If it does not, they are taken after the same time.
                seated.owed.drain(..late);
                seated.owed.resize(count, now + SHARE_PATIENCE);
                overdue.push((*session, late as u32));
            }
        }
        overdue
    }

    /// Takes from the desk what late links have not used yet, and says what else is to be taken from them.
    fn take_overdue(&mut self, asked: &HashMap<u64, u32>, now: Instant) -> Vec<Overdue> {
        let late = self.owe(asked, now);
        late.into_iter().map(|(session, count)| self.desk.overdue(session, count)).collect()
    }

    /// Removes the requests of a link that wait no longer. A request within its user's share waits while places `move`.
    fn refuse(&mut self, capacity: u32, session: u64, now: Instant, moves: bool) -> Vec<Request> {
        let waits = |request: &Request| now.saturating_duration_since(request.since);
        let Some(oldest) = self.desk.waiting.oldest(session).filter(|oldest| waits(oldest) >= PATIENCE) else {
            return Vec::new();
        };
        let user = &oldest.holder.user;
        let mut claim = if moves { self.claims(capacity).get(user).copied().unwrap_or_default() } else { 0 };
        let mut over = Vec::new();
        for request in self.desk.waiting.of(user) {
            let is_claimed = request.waits && claim > 0;
            claim -= u32::from(is_claimed);
            let patience = if is_claimed { CLAIM_PATIENCE } else { PATIENCE };
            if request.session == session && waits(request) >= patience {
                over.push(request.number);
            }
        }
        over.into_iter().filter_map(|number| self.desk.waiting.remove(session, number)).collect()
    }
}
