//! Meeting: all CPUs wait for one another.

use core::sync::atomic::{AtomicUsize, Ordering};

use super::online;
use crate::wait::{self, Event};

/// A place where all CPUs meet, as often as they like.
pub(crate) struct Rendezvous(AtomicUsize);

impl Rendezvous {
    /// Nobody is there yet.
    pub(crate) const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// Waits until all CPUs have come.
    pub(crate) fn meet(&self) {
        let before = self.0.fetch_add(1, Ordering::AcqRel);
        let all = (before / online() + 1) * online();
        if before + 1 == all {
            wait::wake(Event::SERVED);
        }
        wait::until(Event::SERVED, || self.0.load(Ordering::Acquire) >= all);
    }
}
