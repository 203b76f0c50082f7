//! Locks whose holder may have panicked: what they guard is never left half-changed by a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits for the lock.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
