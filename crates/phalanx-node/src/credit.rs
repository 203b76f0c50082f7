//! Credit-based flow control: limits the bytes that are on their way to a receiver and not acknowledged yet.

use phalanx_net::sync::lock;
use std::sync::{Condvar, Mutex, PoisonError};

/// What is left of the window; `None` once the receiver is gone.
#[derive(Debug)]
pub struct Credit {
    window: usize,
    left: Mutex<Option<usize>>,
    changed: Condvar,
}

impl Credit {
    /// At most `window` bytes may be unacknowledged.
    pub fn new(window: usize) -> Credit {
        Credit { window, left: Mutex::new(Some(window)), changed: Condvar::new() }
    }

    /// Waits until `bytes` may be sent, which must be at most the window. Returns false if the receiver is gone.
    pub fn take(&self, bytes: usize) -> bool {
        let lacks = |left: &mut Option<usize>| left.is_some_and(|left| left < bytes);
        let waited = self.changed.wait_while(lock(&self.left), lacks);
        let mut left = waited.unwrap_or_else(PoisonError::into_inner);
        *left = left.map(|left| left - bytes);
        left.is_some()
    }

    /// The receiver has acknowledged `bytes`.
    pub fn give(&self, bytes: u32) {
        let mut left = lock(&self.left);
        *left = left.map(|left| left.saturating_add(bytes as usize).min(self.window));
        self.changed.notify_all();
    }

    /// The receiver is gone; every waiting sender returns.
    pub fn close(&self) {
        *lock(&self.left) = None;
        self.changed.notify_all();
    }
}
