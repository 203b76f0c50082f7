//! Memory budget for messages that have begun to arrive, shared by all connections.
//!
//! While there is no room for a message, its connection is not read. After a short wait the message is refused. Room is granted
//! for whole bodies before their first byte is read, so a connection that holds room can always go on.

use phalanx_core::error::SpaceError;
use phalanx_net::sync::lock;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A body of up to this many bytes needs no room.
const FREE: u64 = 64 << 10;
/// Longest pause between two checks whether to go on (`PAUSE`), and the longest wait for room (`PATIENCE`). The wait must stay
/// below [`super::bounds::SILENCE`], because a peer that reads nothing for that long is considered dead.
const PAUSE: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(5);
/// While other messages wait for room, a message that holds some must arrive at this rate, in bytes per second. `GRACE` is
/// added to the time that this gives it.
const LEAST_RATE: u64 = 1 << 20;
const GRACE: Duration = Duration::from_secs(60);

/// The budget: bytes for bodies that have not arrived completely.
#[derive(Debug)]
pub struct Budget {
    most: u64,
    /// Most bytes of one user. A user who holds nothing may still have one body of any length.
    most_of_user: u64,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    bytes: u64,
    users: HashMap<Arc<str>, u64>,
    /// Messages that wait although their user has room. They are served in order, so that a stream of short bodies does not
    /// starve a long one.
    waiting: VecDeque<u64>,
    last: u64,
}

/// Room for one body. Dropping it gives the room back.
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

    /// Waits until there is room for a body. `None`: the body is small enough to need none. An error: there was no room in
    /// time, or `goes_on` returned false. `user`: the user whose share is charged, if any.
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
            state.forget(number); // so that this message does not block other users
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
    /// Whether this room has been held for too long while other messages wait for room.
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
