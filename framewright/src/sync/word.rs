//! Words through which CPUs agree without a lock.
//!
//! What the owner protocol of the per-CPU lists stands on is which of two plain stores and loads
//! another CPU sees first. On real machines that is the processor's business, and a word is an
//! atomic ([`PlainWord`]). A machine that *simulates* processors keeps the word itself: then it can
//! delay a store as a store buffer would, and it knows for which word a waiting CPU waits.

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
    /// What it holds.
    fn load(&self, platform: &P, order: Ordering) -> u32;
    /// Makes it hold `value`.
    fn store(&self, platform: &P, value: u32, order: Ordering);
    /// Makes it hold `new` if it holds `current`.
    ///
    /// # Errors
    ///
    /// What it held instead.
    fn compare_exchange(
        &self,
        platform: &P,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32>;
}

/// The word of every real machine: an atomic.
pub struct PlainWord(AtomicU32);

// SAFETY: it is such an atomic.
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
