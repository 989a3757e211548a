//! Getting hold of this host's memory ahead of use.
//!
//! What a simulated machine keeps is far larger than the caches of the host, and its CPUs take turns
//! every few microseconds: much of the time of a run goes into waiting for it. Nothing here changes
//! what is simulated.

#![allow(unsafe_code)]

/// Has the host's processor get hold of a value, if it knows how to.
#[inline(always)]
pub fn expect<T>(value: &T) {
    expect_at((&raw const *value).cast(), size_of::<T>());
}

/// The same for so many bytes from an address; whatever that is, nothing is read.
#[inline(always)]
pub(super) fn expect_at(address: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for offset in (0..bytes).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, which faults on no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.wrapping_add(offset).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (address, bytes);
}
