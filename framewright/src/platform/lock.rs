//! [`SpinLock`]: data under the lock word of a machine. Interrupts are masked while the lock is held, so
//! that a zone may be used from interrupt handlers.

use super::{Platform, Section, Wait};
use crate::sync::{ExclusiveCell, LockWait, RawLock};

impl<P: Platform> LockWait for P {
    #[inline(always)]
    fn wait_for_lock(&self, spins: u32) {
        self.wait(Wait::Lock, spins);
    }
}

/// Data under a lock of the platform, used with interrupts masked.
pub(crate) struct SpinLock<P: Platform, T> {
    raw: P::Lock,
    section: Section,
    data: ExclusiveCell<T>,
}

impl<P: Platform, T: Send> SpinLock<P, T> {
    /// A lock over `data`, not held. `section` is its name in reports to the
    /// [`Probe`](super::Probe).
    pub(crate) fn new(section: Section, data: T) -> Self {
        Self { raw: P::Lock::new(), section, data: ExclusiveCell::new(data) }
    }

    /// Whether the lock is held at the moment: a hint.
    pub(crate) fn is_held(&self, platform: &P) -> bool {
        self.raw.is_held(platform)
    }

    /// Runs `f` under the lock with interrupts masked.
    ///
    /// `f` must not panic, wait, call back into the embedder, or take another lock: a spin lock is
    /// innermost in the lock order. (A panic leaves the lock held for ever, which stops the
    /// machine but corrupts nothing.)
    #[inline(always)]
    pub(crate) fn with<R>(&self, platform: &P, f: impl FnOnce(&mut T) -> R) -> R {
        let irq = platform.irq_save();
        self.raw.lock(platform);
        platform.enter(self.section);
        // SAFETY: this CPU holds the lock until `f` has returned, and the lock excludes all others.
        let result = unsafe { self.data.with_mut(f) };
        platform.leave(self.section);
        // SAFETY: acquired above.
        unsafe { self.raw.unlock(platform) };
        platform.irq_restore(irq);
        result
    }
}
