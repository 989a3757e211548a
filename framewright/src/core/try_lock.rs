//! A lock that is tried, not waited for.

use crate::sync::{AtomicBool, Ordering};

/// A lock without data. Interrupts are not masked while it is held.
pub(crate) struct TryLock(AtomicBool);

impl TryLock {
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Takes the lock; `None` if it is held. The guard is constructed only on success, because
    /// dropping it releases the lock.
    pub(crate) fn try_lock(&self) -> Option<TryGuard<'_>> {
        let is_free = !self.0.swap(true, Ordering::Acquire);
        is_free.then(|| TryGuard(self))
    }
}

/// The lock, held until this value is dropped, also by a panic.
pub(crate) struct TryGuard<'l>(&'l TryLock);

impl Drop for TryGuard<'_> {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Release);
    }
}

#[cfg(all(test, not(framewright_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_refused_attempt_leaves_the_lock_held() {
        let lock = TryLock::new();
        let guard = lock.try_lock();
        assert!(guard.is_some());
        assert!((0..3).all(|_| lock.try_lock().is_none()));
        drop(guard);
        assert!(lock.try_lock().is_some());
    }
}
