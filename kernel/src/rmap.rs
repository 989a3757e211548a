//! Reverse mapping: from a frame to what maps it.
//!
//! A frame of an address space alone has one word, which says which page of which: the library's plane
//! of owners ([`Memory::frame_owner`](framewright::Memory::frame_owner)) keeps it.

use core::sync::atomic::Ordering;

use framewright::Pfn;

use crate::memory;

/// Bits of a page number.
const PAGE_BITS: u32 = 26;

/// The only place where a frame is mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mapping(u32);

impl Mapping {
    /// Page `page` of an address space.
    #[inline(always)]
    pub(crate) const fn new(space: u32, page: u64) -> Self {
        Self(space << PAGE_BITS | page as u32 & ((1 << PAGE_BITS) - 1))
    }

    /// Where `pfn` is mapped, if it is a page of an address space: whoever asks looks there.
    pub(crate) fn of(pfn: Pfn) -> Option<Self> {
        Some(Self(memory::memory().frame_owner(pfn)?.load(Ordering::Acquire)))
    }

    /// The number of the address space.
    pub(crate) const fn space(self) -> u32 {
        self.0 >> PAGE_BITS
    }

    /// The page there.
    pub(crate) const fn page(self) -> u64 {
        (self.0 & ((1 << PAGE_BITS) - 1)) as u64
    }

    /// Writes down that `pfn` is mapped there.
    #[inline(always)]
    pub(crate) fn record(self, pfn: Pfn) {
        if let Some(owner) = memory::memory().frame_owner(pfn) {
            owner.store(self.0, Ordering::Release);
        }
    }
}
