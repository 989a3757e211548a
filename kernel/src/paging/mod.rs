//! Page tables, address spaces, and page faults.
//!
//! All memory is mapped at its physical address, in the first entry of every root. The second entry
//! belongs to the address space: 512 GiB, with page 0 at [`BASE`]. Programs are functions of the
//! kernel that access it.
//!
//! | module | job |
//! |---|---|
//! | `entry` | page-table entries |
//! | `space` | address spaces: their tables, and the CPUs that have them loaded |
//! | `area` | ranges of an address space with the same backing |
//! | `probe` | accesses to pages that may not be mapped |
//! | `fault` | page-fault handling |
//! | `unmap` | unmapping many pages with one flush |

mod area;
mod entry;
mod fault;
pub(crate) mod probe;
mod space;
mod unmap;

pub(crate) use area::{Area, Backing};
pub(crate) use entry::{Entry, Slot};
pub(crate) use fault::serve;
pub(crate) use space::{AddressSpace, Found, Space, flush_everything, map_high_memory};
pub(crate) use unmap::unmap;

use crate::frames;

/// The address of page 0 of an address space.
pub(crate) const BASE: u64 = 1 << 39;

/// The address of a page of the loaded address space.
#[inline(always)]
pub(crate) const fn address_of(page: u64) -> u64 {
    BASE + page * frames::BYTES
}

/// The page at an address; `None` if it is not in an address space.
#[inline(always)]
pub(crate) const fn page_of(address: u64) -> Option<u64> {
    match address.checked_sub(BASE) {
        Some(offset) if offset < BASE => Some(offset / frames::BYTES),
        _ => None,
    }
}
