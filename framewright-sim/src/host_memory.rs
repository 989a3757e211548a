//! Hints about this host's memory.
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
pub(crate) fn expect_at(address: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for offset in (0..bytes).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, which faults on no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.wrapping_add(offset).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (address, bytes);
}

/// A buffer that was not used yet, and that every CPU of a simulated machine will use a part of: asks the
/// host for large pages under it. Where the host has none, or the buffer is small, nothing happens.
///
/// When 224 CPUs take turns, the host's translations of small pages are gone before they are needed
/// again, and looking them up was a third of a run.
pub fn in_large_pages<T>(buffer: &[T]) {
    // Several of that size may share a page; what is smaller is not worth a call.
    const LEAST: usize = 256 << 10;
    #[cfg(target_os = "linux")]
    {
        use rustix::{
            mm::{Advice, madvise},
            param::page_size,
        };
        let bytes = size_of_val(buffer);
        let start = buffer.as_ptr().cast_mut().cast::<u8>();
        let before = start.addr() % page_size();
        if bytes >= LEAST {
            let start = start.wrapping_sub(before).cast();
            // SAFETY: no content changes, whatever else lies on the pages of the buffer.
            let _ = unsafe { madvise(start, before + bytes, Advice::LinuxHugepage) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (buffer, LEAST);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_change_nothing_wherever_a_buffer_lies() {
        for len in [0, 1, 4095, 3 << 20] {
            let buffer = vec![7_u8; len];
            in_large_pages(&buffer);
            in_large_pages(buffer.get(1..).unwrap_or_default());
            expect(&buffer);
            assert!(buffer.iter().all(|&byte| byte == 7));
        }
    }
}
