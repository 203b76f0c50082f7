//! Bytes that may be on their way to somebody who has not yet said that it took them.

use phalanx_net::sync::lock;
use std::sync::{Condvar, Mutex, PoisonError};

/// What is left of the window; none: nobody is there any more.
#[derive(Debug)]
pub struct Credit {
    window: usize,
    left: Mutex<Option<usize>>,
    changed: Condvar,
}

impl Credit {
    /// At most so many bytes may be on their way.
    pub fn new(window: usize) -> Credit {
        Credit { window, left: Mutex::new(Some(window)), changed: Condvar::new() }
    }

    /// Waits until so many bytes may be sent, at most a window; false where nobody is there any more.
    pub fn take(&self, bytes: usize) -> bool {
        let lacks = |left: &mut Option<usize>| left.is_some_and(|left| left < bytes);
        let waited = self.changed.wait_while(lock(&self.left), lacks);
        let mut left = waited.unwrap_or_else(PoisonError::into_inner);
        *left = left.map(|left| left - bytes);
        left.is_some()
    }

    /// The other end took so many bytes.
    pub fn give(&self, bytes: u32) {
        let mut left = lock(&self.left);
        *left = left.map(|left| left.saturating_add(bytes as usize).min(self.window));
        self.changed.notify_all();
    }

    /// Nobody waits any more.
    pub fn close(&self) {
        *lock(&self.left) = None;
        self.changed.notify_all();
    }
}
