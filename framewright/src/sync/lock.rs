//! Locks.
//!
//! [`SpinLock`] owns the data it protects and masks interrupts while it is held, so that a
//! zone may be used from interrupt handlers. The lock word itself is the platform's
//! ([`RawLock`]): a queued spinlock on hardware, a modelled one in a simulator. [`SpinFlag`] is
//! a ready-made lock word for machines that need nothing better.

#![allow(unsafe_code)]

use super::{AtomicBool, ExclusiveCell, Ordering};
use crate::platform::{Platform, Section, Wait};

/// A lock word.
///
/// # Safety
///
/// Implementations exclude: from a successful acquisition to the matching `unlock` no other
/// acquisition succeeds, and everything before `unlock` happens before the next acquisition.
pub unsafe trait RawLock<P: Platform>: Send + Sync {
    /// An open lock.
    fn new() -> Self;
    /// Acquires; waits through [`Platform::wait`].
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
unsafe impl<P: Platform> RawLock<P> for SpinFlag {
    fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    #[inline]
    fn lock(&self, platform: &P) {
        let mut spins = 0;
        while self.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            while self.0.load(Ordering::Relaxed) {
                platform.wait(Wait::Lock, spins);
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

/// Data under a lock of the platform, used with interrupts masked.
pub struct SpinLock<P: Platform, T> {
    raw: P::Lock,
    section: Section,
    data: ExclusiveCell<T>,
}

impl<P: Platform, T: Send> SpinLock<P, T> {
    /// An open lock over `data`, whose exclusive use a machine hears of as `section`.
    pub fn new(section: Section, data: T) -> Self {
        Self { raw: P::Lock::new(), section, data: ExclusiveCell::new(data) }
    }

    /// Whether somebody holds it just now: a hint.
    #[cfg(feature = "scanners")]
    pub fn is_held(&self, platform: &P) -> bool {
        self.raw.is_held(platform)
    }

    /// Runs `f` under the lock with interrupts masked.
    ///
    /// `f` must not panic, wait, call back into the embedder, or take another lock: the zone
    /// lock is the innermost one. (A panic leaves the lock held for ever, which stops the
    /// machine but corrupts nothing.)
    #[inline(always)]
    pub fn with<R>(&self, platform: &P, f: impl FnOnce(&mut T) -> R) -> R {
        let irq = platform.irq_save();
        self.raw.lock(platform);
        platform.enter(self.section);
        // SAFETY: we hold the lock until after `f` has returned, and the lock excludes.
        let result = unsafe { self.data.with_mut(f) };
        platform.leave(self.section);
        // SAFETY: acquired above.
        unsafe { self.raw.unlock(platform) };
        platform.irq_restore(irq);
        result
    }
}
