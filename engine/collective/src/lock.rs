//! Locks that a panic of another holder does not poison.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after a panic of another holder: what is guarded so is whole at every instant.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
