//! Threads that reclaim has pause.

use std::{
    sync::{Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use framewright::reclaim::Pause;

use super::cache::locked;

/// Where all of them wait, whatever for: they are few, and each looks again.
#[derive(Default)]
pub(super) struct Pauses {
    lock: Mutex<()>,
    resumed: Condvar,
}

impl Pauses {
    /// Waits until a pause is over, and no longer than it may take.
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

    /// Has them look again.
    pub(super) fn resume(&self) {
        // Those who have looked already, and found nothing, are waiting when the lock is had.
        drop(locked(&self.lock));
        self.resumed.notify_all();
    }
}
