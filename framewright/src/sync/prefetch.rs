//! Prefetching of cache lines.

#![allow(unsafe_code)]

use core::marker::PhantomData;

/// The address of an array of `T`, for prefetches only. It gives no access to the items.
pub(crate) struct Address<T> {
    start: usize,
    items: PhantomData<fn() -> T>,
}

impl<T> Address<T> {
    pub(crate) fn of(array: &[T]) -> Self {
        Self { start: array.as_ptr().expose_provenance(), items: PhantomData }
    }

    /// Hints that item `index` will be used soon.
    #[inline(always)]
    pub(crate) fn prefetch(&self, index: u32) {
        const LINE: usize = 64;
        let item = self.start.wrapping_add(index as usize * size_of::<T>());
        // A `for` loop over `step_by` calls several functions if a crate is built without optimisation.
        let mut line = 0;
        while line < size_of::<T>() {
            prefetch_line(item.wrapping_add(line));
            line += LINE;
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn prefetch_line(address: usize) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch is a hint and does not fault, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::without_provenance(address)) };
}

/// Does nothing: stable Rust has no such hint for other processors.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
fn prefetch_line(_address: usize) {}
