//! Lock words.
//!
//! The lock word of a machine is its own ([`RawLock`]): a queued spinlock on hardware, a modelled one
//! in a simulator. [`SpinFlag`] is a ready-made lock word for machines that need nothing better.

#![allow(unsafe_code)]

use super::{AtomicBool, Ordering};

/// A machine that can wait for a lock. Each [`Platform`](crate::Platform) is one.
pub trait LockWait {
    /// The body of a loop that waits for a lock; `spins` counts the calls of one loop, from 0.
    fn wait_for_lock(&self, spins: u32);
}

/// A lock word.
///
/// # Safety
///
/// Implementations exclude: from a successful acquisition to the matching `unlock` no other
/// acquisition succeeds, and everything before `unlock` happens before the next acquisition.
pub unsafe trait RawLock<P>: Send + Sync {
    /// An open lock.
    fn new() -> Self;
    /// Acquires; waits through [`Platform::wait`](crate::Platform::wait).
    fn lock(&self, platform: &P);
    /// Releases.
    ///
    /// # Safety
    ///
    /// The caller holds the lock.
    unsafe fn unlock(&self, platform: &P);
    /// Whether somebody holds it just now: a hint, by which who can as well do without leaves the lock
    /// to others. A lock that cannot tell says no.
    fn is_held(&self, _platform: &P) -> bool {
        false
    }
}

/// A test-and-test-and-set lock: one word, unfair, good where contention is rare.
pub struct SpinFlag(AtomicBool);

// SAFETY: acquisition is a compare-exchange from open to held with acquire ordering, release a
// store with release ordering; so holders exclude and synchronise.
unsafe impl<P: LockWait> RawLock<P> for SpinFlag {
    fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    #[inline]
    fn lock(&self, platform: &P) {
        let mut spins = 0;
        while self.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            while self.0.load(Ordering::Relaxed) {
                platform.wait_for_lock(spins);
                spins = spins.saturating_add(1);
            }
        }
    }

    #[inline]
    unsafe fn unlock(&self, _platform: &P) {
        self.0.store(false, Ordering::Release);
    }

    #[inline]
    fn is_held(&self, _platform: &P) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
