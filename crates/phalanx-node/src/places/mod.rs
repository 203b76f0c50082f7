//! Limits how many user processes a machine runs at a time, over all users and programs, and divides the places fairly
//! among users.
//!
//! A program may use one place with several models at the same time, for example for an interpreter of its manager and for a
//! rank of its message passing job. The program itself decides which of the two computes. So a program holds as many places as
//! the model that uses most of them. All programs together hold no more than the machine has.

mod desk;
mod lent;

#[cfg(target_os = "linux")]
pub use desk::Wanted;
pub use desk::{Given, Overdue, Request, SHARE_PATIENCE};
pub use lent::known_as;

use desk::Desk;
use phalanx_core::wire::machines::Usage;
use phalanx_net::sync::lock;
use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long to wait for a place, because a program that has just ended may still be giving its places back.
const PATIENCE: Duration = Duration::from_secs(1);

/// A program of a user: the name proved by the user's certificate ([`known_as`] for users of other grids), and a token that the program chose. The token counts only
/// together with the name, so a user cannot use the places of another user's program.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holder {
    pub user: String,
    pub program: [u8; 16],
}

/// What a program uses its places for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    Interpreters,
    Ranks,
}

/// How many places each model of a program uses.
type Used = [u32; 2];

/// Counts the places in use.
#[derive(Debug)]
pub struct Places {
    capacity: u32,
    state: Mutex<State>,
    given_back: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Places in use by program. Programs that use none are not listed.
    used: HashMap<Holder, Used>,
    /// The most places of each grid to which the machine is lent.
    lent: BTreeMap<String, u32>,
    desk: Desk,
    weights: HashMap<String, u32>,
    /// Why nobody gets a place now. `None`: users do.
    closed: Option<String>,
}

/// Handle for the places that one model of one program uses.
#[derive(Debug, Clone)]
pub struct Share {
    places: Arc<Places>,
    holder: Holder,
    model: Model,
}

/// Places that are given back when this is dropped.
#[derive(Debug)]
struct Kept {
    share: Share,
    count: u32,
    /// The number of the manager's link that has them.
    session: Option<u64>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.share.give_back(self.count, self.session);
    }
}

impl Places {
    /// `weights`: how many places users get for each place of a user that is not named.
    pub fn new(capacity: u32, weights: HashMap<String, u32>) -> Arc<Places> {
        let state = State { weights, ..State::default() };
        Arc::new(Places { capacity, state: Mutex::new(state), given_back: Condvar::new() })
    }

    /// How many places are in use, and how many of them each user's ranks use.
    pub fn in_use(&self) -> (u32, BTreeMap<String, u32>) {
        let state = lock(&self.state);
        let mut ranks = BTreeMap::new();
        for (holder, used) in state.used.iter().filter(|(_, used)| used[Model::Ranks as usize] > 0) {
            *ranks.entry(holder.user.clone()).or_default() += used[Model::Ranks as usize];
        }
        (state.total(), ranks)
    }

    /// How many places programs other than this one use.
    pub fn in_use_beside(&self, program: &[u8; 16]) -> u32 {
        let state = lock(&self.state);
        let others = state.used.iter().filter(|(holder, _)| holder.program != *program);
        others.map(|(_, used)| used.iter().max().copied().unwrap_or_default()).sum()
    }

    /// From now on nobody gets a place, for this reason. `None`: users get places again. Places in use are not touched.
    pub fn close(&self, why: Option<String>) {
        lock(&self.state).closed = why;
        self.given_back.notify_all();
    }

    /// Why nobody gets a place now. `None`: users do.
    pub fn closed(&self) -> Option<String> {
        lock(&self.state).closed.clone()
    }

    pub fn share(self: &Arc<Places>, holder: Holder, model: Model) -> Share {
        Share { places: self.clone(), holder, model }
    }
}

impl State {
    /// Who holds the places, and who waits for some, as far as a user may know.
    fn usage(&self, capacity: u32, user: &str) -> Usage {
        let held = self.held();
        let own = held.get(user).copied().unwrap_or_default();
        let others = held.iter().filter(|(other, _)| *other != user).map(|(_, count)| *count);
        let (users, others) = (others.clone().filter(|count| *count > 0).count() as u32, others.sum());
        let (waiting, turn) = self.queue(user);
        Usage { capacity, own, others, users, waiting, turn }
    }

    /// Places in use, over all programs.
    fn total(&self) -> u32 {
        self.used.values().map(|used| used.iter().max().copied().unwrap_or_default()).sum()
    }

    /// Places of the `total` that are not available to this model of a program: those of other programs, and those that it
    /// uses itself.
    fn taken(&self, total: u32, holder: &Holder, model: Model) -> u32 {
        let own = self.used.get(holder).copied().unwrap_or_default();
        total - own.iter().max().copied().unwrap_or_default() + own[model as usize]
    }

    fn add(&mut self, holder: &Holder, model: Model, count: u32) {
        self.used.entry(holder.clone()).or_default()[model as usize] += count;
    }

    fn remove(&mut self, holder: &Holder, model: Model, count: u32) {
        let Some(own) = self.used.get_mut(holder) else { return };
        own[model as usize] -= count;
        if *own == [0, 0] {
            self.used.remove(holder);
        }
    }
}

impl Share {
    /// How many more places the model can take. Places that other users wait for, within their shares, do not count.
    pub fn free(&self) -> u32 {
        self.places.capacity.saturating_sub(self.taken(&lock(&self.places.state)))
    }

    /// Who holds the places, and who waits for some, as far as the user may know.
    pub fn usage(&self) -> Usage {
        lock(&self.places.state).usage(self.places.capacity, &self.holder.user)
    }

    fn taken(&self, state: &State) -> u32 {
        let capacity = self.places.capacity;
        if state.closed.is_some() {
            return capacity;
        }
        let claimed = state.claimed_by_others(capacity, &self.holder.user);
        let taken = state.taken(state.total(), &self.holder, self.model).saturating_add(claimed);
        taken.max(capacity.saturating_sub(state.lent_room(capacity, &self.holder, self.model)))
    }

    /// How many places the model could take, if other users gave back what they have above their shares.
    pub fn fair(&self) -> u32 {
        let state = lock(&self.places.state);
        if state.closed.is_some() {
            return 0;
        }
        let free = self.places.capacity.saturating_sub(self.taken(&state));
        let fair = state.fair(self.places.capacity, &self.holder).min(state.lent_fair(&self.holder));
        free.max(fair)
    }

    /// Takes `count` places: all or none. Waits up to one second for them. The error says how many are taken.
    pub fn take(&self, count: u32) -> Result<(), u32> {
        let full = |state: &mut State| self.taken(state).saturating_add(count) > self.places.capacity;
        let waited = self.places.given_back.wait_timeout_while(lock(&self.places.state), PATIENCE, full);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        if full(&mut state) {
            return Err(self.taken(&state));
        }
        state.add(&self.holder, self.model, count);
        Ok(())
    }

    fn give_back(&self, count: u32, session: Option<u64>) {
        let mut state = lock(&self.places.state);
        state.remove(&self.holder, self.model, count);
        if let Some(session) = session {
            state.desk.gave_back(session);
        }
        self.places.given_back.notify_all();
    }

    /// Like [`Share::take`], but gives the places back when the returned value is dropped.
    pub fn keep(&self, count: u32) -> io::Result<Box<dyn Any + Send>> {
        if let Some(why) = self.places.closed() {
            return Err(io::Error::other(format!("it is closed: {why}")));
        }
        match self.take(count) {
            Ok(()) => Ok(Box::new(Kept { share: self.clone(), count, session: None })),
            Err(taken) => Err(io::Error::other(format!("{taken} of its {} places are in use", self.places.capacity))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(places: &Arc<Places>, user: &str, program: u8, model: Model) -> Share {
        places.share(Holder { user: user.to_owned(), program: [program; 16] }, model)
    }

    #[test]
    fn the_models_of_a_program_use_the_same_places() {
        let places = Places::new(4, HashMap::new());
        let interpreters = share(&places, "ada", 1, Model::Interpreters);
        let ranks = share(&places, "ada", 1, Model::Ranks);
        let kept = interpreters.keep(4).map(drop).is_ok().then(|| interpreters.keep(4));
        assert_eq!((interpreters.free(), ranks.free()), (0, 4));
        let both = ranks.keep(3);
        assert_eq!(ranks.free(), 1);
        drop((kept, both));
        assert_eq!((interpreters.free(), ranks.free()), (4, 4));
        assert!(lock(&places.state).used.is_empty());
    }

    #[test]
    fn places_in_use_are_counted_once_and_ranks_by_user() {
        let places = Places::new(9, HashMap::new());
        let keep =
            |user, program, model, count| share(&places, user, program, model).keep(count).expect("there is room");
        let _kept = [
            keep("ada", 1, Model::Interpreters, 2),
            keep("ada", 1, Model::Ranks, 3),
            keep("ada", 2, Model::Ranks, 1),
            keep("bob", 1, Model::Interpreters, 2),
        ];
        assert_eq!(places.in_use(), (6, BTreeMap::from([("ada".to_owned(), 4)])));
        assert_eq!((places.in_use_beside(&[1; 16]), places.in_use_beside(&[2; 16])), (1, 5));
    }

    #[test]
    fn a_user_is_told_who_holds_the_places_and_no_other_users_name() {
        let places = Places::new(4, HashMap::new());
        let ranks = |user, program| share(&places, user, program, Model::Ranks);
        assert_eq!(ranks("ada", 1).usage().to_string(), "0 of 4 places are taken");
        let _ada = ranks("ada", 1).keep(1).expect("all are free");
        let _bob = ranks("bob", 2).keep(2).expect("three are free");
        let mine = ranks("ada", 3);
        let told = "3 of 4 places are taken, 1 by your own programs and 2 by another user";
        assert_eq!(mine.usage().to_string(), told);
        let _eve = ranks("eve", 4).keep(1).expect("one is free");
        assert_eq!(mine.usage().holders().as_deref(), Some("1 by your own programs and 3 by 2 other users"));
        let wanted = mine.want(1, None);
        assert!(mine.usage().to_string().ends_with("; no other user waits"), "{}", mine.usage());
        let _others = (ranks("bob", 2).want(1, None), ranks("zoe", 5).want(1, None));
        let turns = ["zoe", "ada", "bob"].map(|user| ranks(user, 9).usage().turn);
        assert_eq!(turns, [1, 2, 3], "the user with fewest places is first");
        assert!(mine.usage().to_string().ends_with("; of 3 users who wait you are number 2"));
        drop(wanted);
        assert_eq!((mine.usage().turn, mine.usage().waiting), (0, 2));
    }

    #[test]
    fn closed_places_are_given_to_nobody_and_open_again() {
        let places = Places::new(4, HashMap::new());
        let (ranks, interpreters) =
            (share(&places, "ada", 1, Model::Ranks), share(&places, "ada", 2, Model::Interpreters));
        let _kept = interpreters.keep(1).expect("all are free");
        places.close(Some("its owner uses it".to_owned()));
        assert_eq!((ranks.free(), ranks.fair(), places.in_use().0), (0, 0, 1));
        let refused = ranks.keep(1).map(drop).expect_err("it is closed").to_string();
        assert_eq!(refused, "it is closed: its owner uses it");
        places.close(None);
        assert_eq!((ranks.free(), ranks.keep(3).is_ok()), (3, true));
    }

    #[test]
    fn two_uses_of_one_model_need_a_place_each() {
        let places = Places::new(2, HashMap::new());
        let (one, other) = (share(&places, "ada", 1, Model::Ranks), share(&places, "ada", 1, Model::Ranks));
        let _kept = one.keep(2).expect("all are free");
        assert_eq!(other.take(1), Err(2));
    }

    #[test]
    fn other_programs_and_other_users_share_nothing() {
        let places = Places::new(4, HashMap::new());
        let _interpreters = share(&places, "ada", 1, Model::Interpreters).keep(2).expect("all are free");
        let _ranks = share(&places, "ada", 1, Model::Ranks).keep(3).expect("two are its own, two are free");
        for other in [share(&places, "ada", 2, Model::Ranks), share(&places, "eve", 1, Model::Ranks)] {
            assert_eq!(other.free(), 1);
            assert_eq!(other.take(2), Err(3));
        }
    }
}
