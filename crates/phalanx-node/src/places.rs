//! How many processes of users a machine has at a time, over all users and programs.

use phalanx_net::sync::lock;
use std::any::Any;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// For a place to become free: a program that has just ended may still be giving its places back.
const PATIENCE: Duration = Duration::from_secs(1);

/// Places that are counted, and given back.
#[derive(Debug)]
pub struct Places {
    capacity: u32,
    taken: Mutex<u32>,
    given_back: Condvar,
}

/// Gives places back when it is dropped.
struct Kept {
    places: Arc<Places>,
    count: u32,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.places.give_back(self.count);
    }
}

impl Places {
    pub fn new(capacity: u32) -> Places {
        Places { capacity, taken: Mutex::new(0), given_back: Condvar::new() }
    }

    /// How many nobody has now.
    pub fn free(&self) -> u32 {
        self.capacity.saturating_sub(*lock(&self.taken))
    }

    /// Takes so many, all or none; waits a moment for them. An error says how many are taken by others.
    pub fn take(&self, count: u32) -> Result<(), u32> {
        let full = |taken: &mut u32| taken.saturating_add(count) > self.capacity;
        let waited = self.given_back.wait_timeout_while(lock(&self.taken), PATIENCE, full);
        let mut taken = waited.unwrap_or_else(PoisonError::into_inner).0;
        if full(&mut taken) {
            return Err(*taken);
        }
        *taken += count;
        Ok(())
    }

    pub fn give_back(&self, count: u32) {
        *lock(&self.taken) -= count;
        self.given_back.notify_all();
    }

    /// The same as [`Places::take`], until what it gives is dropped.
    pub fn keep(self: &Arc<Places>, count: u32) -> io::Result<Box<dyn Any + Send>> {
        match self.take(count) {
            Ok(()) => Ok(Box::new(Kept { places: self.clone(), count })),
            Err(taken) => Err(io::Error::other(format!("{taken} of its {} places are in use", self.capacity))),
        }
    }
}
