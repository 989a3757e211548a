//! Accesses to pages of the loaded address space, as programs make them.

#![allow(unsafe_code)]

use crate::paging::{self, address_of};

/// Stores a word to a page, which maps it.
pub(super) fn touch(page: u64, value: u64) {
    // SAFETY: the page is in an area of the loaded address space: the access maps it.
    unsafe { (address_of(page) as *mut u64).write_volatile(value) };
}

/// The first word of a page.
pub(super) fn first_word(page: u64) -> u64 {
    // SAFETY: as in `touch`.
    unsafe { (address_of(page) as *const u64).read_volatile() }
}

/// As [`touch`]; `false` if there is no memory for the page.
pub(super) fn try_touch(page: u64, value: u64) -> bool {
    paging::probe::try_write(page, value)
}
