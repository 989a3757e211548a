//! Touching pages that may not be mapped: what a CPU reaches by what it has cached.

#![allow(unsafe_code)]

use super::address_of;

/// The functions of `boot.s`, the first instruction of which may fault.
mod raw {
    unsafe extern "C" {
        pub(super) fn probe_read(address: u64, found: *mut u64) -> bool;
        pub(super) fn probe_write(address: u64, value: u64) -> bool;
        pub(super) fn try_write(address: u64, value: u64) -> bool;
    }
}

/// The first word of a page of the loaded address space; `None` if this CPU does not reach the page.
pub(crate) fn read(page: u64) -> Option<u64> {
    let mut found = 0;
    // SAFETY: a fault at that instruction is answered with `false`; reading disturbs nobody.
    unsafe { raw::probe_read(address_of(page), &raw mut found) }.then_some(found)
}

/// Writes the first word of a page of the loaded address space, as any program would; `false` if there is
/// no memory for it.
pub(crate) fn try_write(page: u64, value: u64) -> bool {
    // SAFETY: the page is in an area of the address space, so what it leads to belongs to whoever runs in
    // it; a fault that nobody serves is answered with `false`.
    unsafe { raw::try_write(address_of(page), value) }
}

/// Writes the first word of a page; whether this CPU reaches it.
///
/// # Safety
///
/// Whatever the page leads to, by an entry or by what this CPU has cached, belongs to the caller.
pub(crate) unsafe fn write(page: u64, value: u64) -> bool {
    // SAFETY: as in `read`; the caller vouches for the frame.
    unsafe { raw::probe_write(address_of(page), value) }
}
