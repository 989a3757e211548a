//! Locks, acquired in order of arrival. A CPU that waits for long halts.

use core::sync::atomic::{AtomicU32, Ordering};

use framewright::sync::RawLock;

use super::Machine;
use crate::wait::{self, Event};

/// A ticket lock.
pub(crate) struct QueuedLock {
    /// The next ticket.
    next: AtomicU32,
    /// The ticket that holds the lock.
    served: AtomicU32,
}

impl QueuedLock {
    /// A lock that is not held.
    pub(crate) const fn open() -> Self {
        Self { next: AtomicU32::new(0), served: AtomicU32::new(0) }
    }

    /// The event that a ticket is served.
    fn event(&self, ticket: u32) -> Event {
        Event::ticket(core::ptr::from_ref(self) as u64, ticket)
    }

    fn acquire(&self) {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        if self.served.load(Ordering::Acquire) != ticket {
            self.wait_for(ticket);
        }
    }

    #[cold]
    #[inline(never)]
    fn wait_for(&self, ticket: u32) {
        let mut spins = 0u32;
        while self.served.load(Ordering::Acquire) != ticket {
            wait::once(self.event(ticket), spins);
            spins = spins.wrapping_add(1).max(1);
        }
    }

    fn release(&self) {
        // A swap instead of a store, because it is a full barrier: either the load of `next` below
        // sees the ticket of another CPU, or that CPU sees the lock free.
        let served = self.served.load(Ordering::Relaxed).wrapping_add(1);
        self.served.swap(served, Ordering::AcqRel);
        if self.next.load(Ordering::Relaxed) != served {
            self.wake(served);
        }
    }

    #[cold]
    #[inline(never)]
    fn wake(&self, ticket: u32) {
        wait::wake(self.event(ticket));
    }
}

// SAFETY: a ticket is taken once and served once; acquiring the lock synchronises with its last
// release.
unsafe impl RawLock<Machine> for QueuedLock {
    fn new() -> Self {
        Self::open()
    }

    fn lock(&self, _: &Machine) {
        self.acquire();
    }

    unsafe fn unlock(&self, _: &Machine) {
        self.release();
    }

    fn is_held(&self, _: &Machine) -> bool {
        self.next.load(Ordering::Relaxed) != self.served.load(Ordering::Relaxed)
    }
}
