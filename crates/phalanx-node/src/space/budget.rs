//! Memory for messages that have begun to arrive: what all connections may hold of them together.
//!
//! Whoever finds no room is not read from until there is, but not for long, and is refused then. Room is asked for whole bodies
//! before their first byte is read, so those who have it can always go on.

use phalanx_core::error::SpaceError;
use phalanx_net::sync::lock;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A body up to this many bytes needs no room.
const FREE: u64 = 64 << 10;
/// Longest that it is waited without asking whether to go on, and at all: a system whose peer reads nothing for
/// [`super::bounds::SILENCE`] takes it for dead.
const PAUSE: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(5);
/// While others wait for the room that a message has, it must arrive with as many bytes in a second, after this time.
const LEAST_RATE: u64 = 1 << 20;
const GRACE: Duration = Duration::from_secs(60);

/// Bytes for bodies that are not complete.
#[derive(Debug)]
pub struct Budget {
    most: u64,
    /// Of one user. One who has nothing may have one body whatever its length.
    most_of_user: u64,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    bytes: u64,
    users: HashMap<Arc<str>, u64>,
    /// Who waits although their user has room: the first one is next, so that a long body is not overtaken for ever.
    waiting: VecDeque<u64>,
    last: u64,
}

/// Room for one body, until it is dropped.
#[derive(Debug)]
pub struct Room {
    budget: Arc<Budget>,
    user: Option<Arc<str>>,
    bytes: u64,
    until: Instant,
}

impl Budget {
    pub fn new(most: u64, most_of_user: u64) -> Arc<Budget> {
        Arc::new(Budget { most, most_of_user, state: Mutex::default(), freed: Condvar::new() })
    }

    /// Waits until there is room for a body; none: it needs none. An error: there was none in time, or `goes_on` said that
    /// nobody wants it any more. `user`: whose share it is of; none: nobody's.
    pub fn wait_for_room(
        self: &Arc<Budget>,
        user: Option<&Arc<str>>,
        bytes: u64,
        goes_on: impl Fn() -> bool,
    ) -> Result<Option<Room>, SpaceError> {
        if bytes <= FREE {
            return Ok(None);
        }
        let until = Instant::now() + PATIENCE;
        let mut state = lock(&self.state);
        state.last += 1;
        let number = state.last;
        while !self.has_room(&mut state, number, user, bytes) {
            if !goes_on() || Instant::now() >= until {
                let of_user = !state.waiting.contains(&number);
                state.forget(number);
                self.freed.notify_all();
                return Err(self.no_room(of_user));
            }
            let waited = self.freed.wait_timeout(state, PAUSE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.forget(number);
        state.bytes += bytes;
        user.iter().for_each(|user| *state.users.entry((*user).clone()).or_default() += bytes);
        self.freed.notify_all(); // there may be room for the next one too
        let until = Instant::now() + GRACE + Duration::from_secs(bytes / LEAST_RATE);
        Ok(Some(Room { budget: self.clone(), user: user.cloned(), bytes, until }))
    }

    fn no_room(&self, of_user: bool) -> SpaceError {
        let (what, most) = match of_user {
            true => ("bytes of one user's unfinished messages; send it again later", self.most_of_user),
            false => ("bytes of unfinished messages; send it again later", self.most),
        };
        SpaceError::Full { what: what.into(), most }
    }

    fn has_room(&self, state: &mut State, number: u64, user: Option<&Arc<str>>, bytes: u64) -> bool {
        let own = user.and_then(|user| state.users.get(user)).copied().unwrap_or(0);
        if own > 0 && own + bytes > self.most_of_user {
            state.forget(number); // does not stand in the way of other users
            return false;
        }
        if !state.waiting.contains(&number) {
            state.waiting.push_back(number);
        }
        state.waiting.front() == Some(&number) && (state.bytes == 0 || state.bytes + bytes <= self.most)
    }
}

impl State {
    fn forget(&mut self, number: u64) {
        self.waiting.retain(|one| *one != number);
    }
}

impl Room {
    /// Whether it has been held for too long while others wait for it.
    pub fn is_overdue(&self) -> bool {
        Instant::now() > self.until && !lock(&self.budget.state).waiting.is_empty()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut state = lock(&self.budget.state);
        state.bytes -= self.bytes;
        if let Some(user) = &self.user {
            let left = state.users.get_mut(user).map_or(0, |bytes| {
                *bytes -= self.bytes;
                *bytes
            });
            if left == 0 {
                state.users.remove(user);
            }
        }
        drop(state);
        self.budget.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn at_once(budget: &Arc<Budget>, user: &str, bytes: u64) -> Option<Room> {
        budget.wait_for_room(Some(&Arc::from(user)), bytes, || false).ok().flatten()
    }

    #[test]
    fn bodies_have_room_within_all_and_within_a_share() {
        let budget = Budget::new(10 * MB, 4 * MB);
        let first = at_once(&budget, "ada", 3 * MB).expect("there is room");
        assert!(at_once(&budget, "ada", 2 * MB).is_none(), "more than her share");
        let other = at_once(&budget, "bob", 6 * MB).expect("his first may be long");
        assert!(at_once(&budget, "eve", 2 * MB).is_none(), "more than there is");
        assert!(at_once(&budget, "eve", MB).is_some());
        drop(first);
        assert!(at_once(&budget, "ada", 4 * MB).is_some());
        drop(other);
        assert!(at_once(&budget, "eve", 20 * MB).is_some(), "alone");
        assert!(lock(&budget.state).users.is_empty() && lock(&budget.state).waiting.is_empty());
    }

    #[test]
    fn small_bodies_need_no_room() {
        let budget = Budget::new(MB, MB);
        let all = at_once(&budget, "ada", 5 * MB);
        assert!(all.is_some());
        assert_eq!(budget.wait_for_room(None, FREE, || panic!("waits")).map(|room| room.is_some()), Ok(false));
    }

    #[test]
    fn who_waits_gets_room_when_it_is_there_and_a_long_body_is_not_overtaken() {
        let budget = Budget::new(4 * MB, 4 * MB);
        let held = at_once(&budget, "ada", 3 * MB).expect("there is room");
        std::thread::scope(|scope| {
            let long = scope.spawn(|| budget.wait_for_room(Some(&Arc::from("bob")), 4 * MB, || true));
            let deadline = Instant::now() + Duration::from_secs(60);
            while lock(&budget.state).waiting.is_empty() && Instant::now() < deadline {
                std::thread::yield_now();
            }
            assert!(at_once(&budget, "eve", MB).is_none(), "bob was first");
            drop(held);
            assert!(long.join().expect("ends").is_ok_and(|room| room.is_some()));
        });
        assert_eq!(lock(&budget.state).bytes, 0);
    }
}
