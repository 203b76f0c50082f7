//! Limits how many files and folders an executor opens for its clients, so that some descriptors are left for the next
//! client.

use crate::transfer::system;
use phalanx_core::wire::files::MOST_OPEN;
use phalanx_net::sync::lock;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

/// One user gets at most this fraction of all descriptors, but at least those of one link.
const PART: usize = 4;

/// The descriptors for all users.
#[derive(Debug, Clone)]
pub struct Rooms(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most: usize,
    share: usize,
    /// Descriptors in use, by user.
    taken: Mutex<HashMap<String, usize>>,
}

/// The descriptors of one user, over all links.
#[derive(Debug, Clone)]
pub struct Room {
    all: Rooms,
    user: String,
}

/// Reserved descriptors. Dropping it releases them.
#[derive(Debug)]
pub struct Taken(Room, usize);

impl Rooms {
    /// Half of the open files that this process may have.
    pub fn half() -> Rooms {
        let most = system::most_open() / 2;
        Rooms::new(most, (most / PART).max(MOST_OPEN))
    }

    fn new(most: usize, share: usize) -> Rooms {
        Rooms(Arc::new(Shared { most, share, taken: Mutex::default() }))
    }

    pub fn of(&self, user: &str) -> Room {
        Room { all: self.clone(), user: user.to_owned() }
    }
}

impl Room {
    /// Without limit, for this machine's own files.
    pub fn endless() -> Room {
        Rooms::new(usize::MAX, usize::MAX).of("")
    }

    pub fn take(&self, count: usize) -> io::Result<Taken> {
        let Shared { most, share, taken } = &*self.all.0;
        let mut taken = lock(taken);
        let (all, own) = (taken.values().sum::<usize>(), taken.get(&self.user).copied().unwrap_or(0));
        let has_room = |taken: usize, most| taken.checked_add(count).is_some_and(|more| more <= most);
        if !has_room(own, *share) {
            return Err(io::Error::other(format!("{} has too many files and folders open there", self.user)));
        }
        if !has_room(all, *most) {
            return Err(io::Error::other("too many files and folders are open for users there"));
        }
        taken.insert(self.user.clone(), own + count);
        Ok(Taken(self.clone(), count))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let Taken(Room { all, user }, count) = self;
        let mut taken = lock(&all.0.taken);
        if let Some(own) = taken.get_mut(user) {
            *own -= *count;
            if *own == 0 {
                taken.remove(user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_again_when_something_is_closed() {
        let room = Rooms::new(3, 3).of("ada");
        let two = room.take(2).expect("there is room");
        assert!(room.clone().take(2).is_err());
        drop(two);
        assert!(room.take(3).is_ok());
        assert!(room.take(usize::MAX).is_err());
    }

    #[test]
    fn one_user_leaves_room_to_others() {
        let rooms = Rooms::new(8, 2);
        let own: Vec<_> = (0..2).map(|_| rooms.of("ada").take(1).expect("there is room")).collect();
        assert!(rooms.of("ada").take(1).is_err(), "over another link");
        assert!(rooms.of("bob").take(2).is_ok());
        drop(own);
        assert!(rooms.of("ada").take(2).is_ok() && lock(&rooms.0.taken).is_empty());
    }
}
