//! A cell for data that a lock or a protocol elsewhere protects.

#![allow(unsafe_code)]

use core::cell::UnsafeCell;

/// Data that only one thread may use at a time. A lock, or the owner protocol of the per-CPU lists, ensures this; the
/// type does not check it.
pub(crate) struct ExclusiveCell<T>(UnsafeCell<T>);

// SAFETY: the only access is `with_mut`, and its callers prove exclusion. Several threads use the
// `T` in turn, hence `T: Send`.
unsafe impl<T: Send> Sync for ExclusiveCell<T> {}

impl<T> ExclusiveCell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// The place of the data in a cell, to initialise it there.
    ///
    /// # Safety
    ///
    /// `cell` points to memory for a cell.
    pub(crate) unsafe fn place(cell: *mut Self) -> *mut T {
        // SAFETY: the field is in the memory of the cell. Nothing is read.
        UnsafeCell::raw_get(unsafe { &raw const (*cell).0 })
    }

    /// Runs `f` on the data.
    ///
    /// # Safety
    ///
    /// No other thread uses the data until `f` returns, and every earlier use by another thread
    /// happened before this call.
    #[inline(always)]
    pub(crate) unsafe fn with_mut<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: exclusion is the caller's promise.
        f(unsafe { &mut *self.0.get() })
    }
}
