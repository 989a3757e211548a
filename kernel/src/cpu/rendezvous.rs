//! A barrier for all CPUs.

use core::sync::atomic::{AtomicUsize, Ordering};

use super::online;
use crate::wait::{self, Event};

/// A reusable barrier for all CPUs.
pub(crate) struct Rendezvous(AtomicUsize);

impl Rendezvous {
    /// A barrier at which no CPU waits.
    pub(crate) const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// Waits until all CPUs have called this.
    pub(crate) fn meet(&self) {
        let before = self.0.fetch_add(1, Ordering::AcqRel);
        let all = (before / online() + 1) * online();
        if before + 1 == all {
            wait::wake(Event::SERVED);
        }
        wait::until(Event::SERVED, || self.0.load(Ordering::Acquire) >= all);
    }
}
