//! The wait queue of threads that are paused in reclaim.

use std::{
    sync::{Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use framewright::reclaim::Pause;

use super::cache::locked;

/// One wait queue for all reasons: the waiters are few, and each checks its own condition after a
/// wake-up.
#[derive(Default)]
pub(super) struct Pauses {
    lock: Mutex<()>,
    resumed: Condvar,
}

impl Pauses {
    /// Waits until a pause is over or its time limit is reached.
    pub(super) fn wait(&self, pause: &Pause<'_>) {
        let end = Instant::now() + Duration::from_nanos(pause.at_most());
        let mut held = locked(&self.lock);
        while !pause.is_over() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.resumed.wait_timeout(held, left);
            held = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Wakes all waiters.
    pub(super) fn resume(&self) {
        // A waiter checks its condition and joins the wait queue under the lock. So after this
        // line, every waiter that missed the change is on the wait queue.
        drop(locked(&self.lock));
        self.resumed.notify_all();
    }
}
