//! Lock words.
//!
//! Each platform has its own type of lock word ([`RawLock`]): a queued spinlock on hardware, a
//! modelled one in a simulator. [`SpinFlag`] is a ready-made lock word for platforms that need no
//! better one.

#![allow(unsafe_code)]

use super::{AtomicBool, Ordering};

/// A machine that can wait for a lock. Each [`Platform`](crate::Platform) implements it.
pub trait LockWait {
    /// The body of a loop that waits for a lock; `spins` counts the calls of one loop, from 0.
    fn wait_for_lock(&self, spins: u32);
}

/// A lock word.
///
/// # Safety
///
/// The lock excludes: from a successful acquisition to the matching `unlock` no other acquisition
/// succeeds, and everything before `unlock` happens before the next acquisition.
pub unsafe trait RawLock<P>: Send + Sync {
    /// A lock that is not held.
    fn new() -> Self;
    /// Acquires the lock; waits through [`Platform::wait`](crate::Platform::wait).
    fn lock(&self, platform: &P);
    /// Releases the lock.
    ///
    /// # Safety
    ///
    /// The caller holds the lock.
    unsafe fn unlock(&self, platform: &P);
    /// Whether the lock is held at the moment. A hint for work that is skipped rather than waited
    /// for. A lock that cannot tell returns `false`.
    fn is_held(&self, _platform: &P) -> bool {
        false
    }
}

/// A test-and-test-and-set lock: one word, unfair, for locks that are rarely contended.
pub struct SpinFlag(AtomicBool);

// SAFETY: acquisition is a compare-exchange from open to held with acquire ordering, and release is
// a store with release ordering. So holders exclude each other and synchronise.
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
