//! A cell whose exclusive use is decided by a protocol elsewhere.

#![allow(unsafe_code)]

use core::cell::UnsafeCell;

/// Data that one side at a time may use; *which* side is decided by a lock or by the owner
/// protocol of the per-CPU lists, never by this type.
pub(crate) struct ExclusiveCell<T>(UnsafeCell<T>);

// SAFETY: the only access is `with_mut`, whose callers prove exclusion. What crosses threads is
// the `T`, hence `T: Send`.
unsafe impl<T: Send> Sync for ExclusiveCell<T> {}

impl<T> ExclusiveCell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Runs `f` on the data.
    ///
    /// # Safety
    ///
    /// Nobody else uses the data until `f` returns, and the last use by anybody else happened
    /// before this call.
    #[inline(always)]
    pub(crate) unsafe fn with_mut<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: exclusion is the caller's promise.
        f(unsafe { &mut *self.0.get() })
    }
}
