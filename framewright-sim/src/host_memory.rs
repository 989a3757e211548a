//! Hints about the memory of the host.
//!
//! The state of a simulated machine is much larger than the caches of the host, and another
//! simulated CPU runs every few microseconds. Waits for memory are therefore a large part of the
//! time of a run. These hints change nothing in the simulation.

#![allow(unsafe_code)]

/// Prefetches a value into the host's caches, on x86-64; on other processors, does nothing.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    prefetch_at((&raw const *value).cast(), size_of::<T>());
}

/// Prefetches `bytes` bytes from an address. Any address is allowed, because nothing is read.
#[inline(always)]
pub(crate) fn prefetch_at(address: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // A `for` loop over `step_by` calls several functions if a crate is built without optimisation.
        let mut offset = 0;
        while offset < bytes {
            // SAFETY: a hint, which faults on no address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(address.wrapping_add(offset).cast()) };
            offset += 64;
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (address, bytes);
}

/// Asks the host for huge pages under a new buffer, of which every CPU of a simulated machine will
/// use a part. Does nothing if the host has no huge pages or the buffer is small.
///
/// When 224 CPUs take turns, the TLB entries of small pages are evicted before they are used again.
/// Page-table walks were a third of the time of a run.
pub fn in_huge_pages<T>(buffer: &[T]) {
    // Several buffers of this size may share a huge page. For smaller ones, the call costs more
    // than it saves.
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
            // SAFETY: the advice changes no contents, whatever else is on the pages of the buffer.
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
            in_huge_pages(&buffer);
            in_huge_pages(buffer.get(1..).unwrap_or_default());
            prefetch(&buffer);
            assert!(buffer.iter().all(|&byte| byte == 7));
        }
    }
}
