//! Words for protocols between CPUs without a lock.
//!
//! The owner protocol of the per-CPU lists depends on the order in which another CPU sees plain stores
//! and loads. On real machines the processor decides that, and a word is an atomic ([`PlainWord`]). A
//! machine that *simulates* processors implements the word itself. Then it can delay a store like a
//! store buffer, and it knows the word that a waiting CPU waits for.

#![allow(unsafe_code)]

use super::{AtomicU32, Ordering};

/// A word of 32 bits that several CPUs load and store.
///
/// Like locks, words live in the metadata of a memory and are never dropped.
///
/// # Safety
///
/// Implementations are atomic and order other accesses as the same operations of
/// [`core::sync::atomic::AtomicU32`] do.
pub unsafe trait RawWord<P>: Send + Sync {
    /// A word that holds `value`.
    fn new(value: u32) -> Self;
    /// The value of the word.
    fn load(&self, platform: &P, order: Ordering) -> u32;
    /// Stores `value`.
    fn store(&self, platform: &P, value: u32, order: Ordering);
    /// Stores `new` if the word holds `current`.
    ///
    /// # Errors
    ///
    /// The value that the word holds instead.
    fn compare_exchange(
        &self,
        platform: &P,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32>;
}

/// An atomic: the word of every real machine.
pub struct PlainWord(AtomicU32);

// SAFETY: all operations are those of an `AtomicU32`.
unsafe impl<P> RawWord<P> for PlainWord {
    #[inline(always)]
    fn new(value: u32) -> Self {
        Self(AtomicU32::new(value))
    }

    #[inline(always)]
    fn load(&self, _: &P, order: Ordering) -> u32 {
        self.0.load(order)
    }

    #[inline(always)]
    fn store(&self, _: &P, value: u32, order: Ordering) {
        self.0.store(value, order);
    }

    #[inline(always)]
    fn compare_exchange(
        &self,
        _: &P,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        self.0.compare_exchange(current, new, success, failure)
    }
}
