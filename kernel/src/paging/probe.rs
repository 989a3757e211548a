//! Accesses to pages that may not be mapped: they show which translations a CPU has cached.

#![allow(unsafe_code)]

use super::address_of;

/// Functions of `boot.s` whose first instruction may fault.
mod raw {
    unsafe extern "C" {
        pub(super) fn probe_read(address: u64, found: *mut u64) -> bool;
        pub(super) fn probe_write(address: u64, value: u64) -> bool;
        pub(super) fn try_write(address: u64, value: u64) -> bool;
    }
}

/// The first word of a page of the loaded address space; `None` if the access faults.
pub(crate) fn read(page: u64) -> Option<u64> {
    let mut found = 0;
    // SAFETY: a fault at that instruction returns `false`; a read has no effect.
    unsafe { raw::probe_read(address_of(page), &raw mut found) }.then_some(found)
}

/// Writes the first word of a page of the loaded address space, as a program would; `false` if
/// there is no memory for it.
pub(crate) fn try_write(page: u64, value: u64) -> bool {
    // SAFETY: the page is in an area of the address space, so its frame belongs to the program that
    // runs in it. A fault that is not handled returns `false`.
    unsafe { raw::try_write(address_of(page), value) }
}

/// Writes the first word of a page. Returns `false` if the access faults.
///
/// # Safety
///
/// The frame of the page, by its entry or by a cached translation, belongs to the caller.
pub(crate) unsafe fn write(page: u64, value: u64) -> bool {
    // SAFETY: as in `read`; the caller owns the frame.
    unsafe { raw::probe_write(address_of(page), value) }
}
