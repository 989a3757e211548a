//! Page tables, address spaces, and page faults.
//!
//! All memory is mapped at its own address, in the first entry of every root; the second belongs to
//! the address space: 512 GiB, page 0 of which is at [`BASE`]. Programs are functions of the kernel
//! that touch it.
//!
//! | module | job |
//! |---|---|
//! | `entry` | what a page-table entry says |
//! | `space` | address spaces: their tables, and which CPUs have them loaded |
//! | `area` | what is behind the pages of an address space |
//! | `probe` | touching a page that may not be mapped |
//! | `fault` | giving who faults his page |
//! | `unmap` | taking pages away, many at a time |

mod area;
mod entry;
mod fault;
pub(crate) mod probe;
mod space;
mod unmap;

pub(crate) use area::{Area, Backing};
pub(crate) use entry::{Entry, Slot};
pub(crate) use fault::serve;
pub(crate) use space::{AddressSpace, Found, Space, forget_everything, map_high_memory};
pub(crate) use unmap::unmap;

use crate::frames;

/// Where page 0 of an address space is.
pub(crate) const BASE: u64 = 1 << 39;

/// Where a page of the loaded address space is.
#[inline(always)]
pub(crate) const fn address_of(page: u64) -> u64 {
    BASE + page * frames::BYTES
}

/// The page that an address is in; `None` if it belongs to no address space.
#[inline(always)]
pub(crate) const fn page_of(address: u64) -> Option<u64> {
    match address.checked_sub(BASE) {
        Some(offset) if offset < BASE => Some(offset / frames::BYTES),
        _ => None,
    }
}
