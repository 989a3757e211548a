//! Reverse mapping: from a frame to the page that maps it.
//!
//! A frame that a single address space maps has a word with the numbers of that space and of the
//! page. The word is in the library's side table of owners
//! ([`Memory::frame_owner`](framewright::Memory::frame_owner)).

use core::sync::atomic::Ordering;

use framewright::Pfn;

use crate::{
    memory,
    paging::{AddressSpace, Found, Slot},
};

/// The word of a frame of the kernel itself, or of an absent frame. Neither is a page of a program or
/// of a file.
pub(crate) const KERNEL: u32 = u32::MAX;
/// The word of a frame that was never used, or that the kernel itself has freed.
pub(crate) const NOTHING: u32 = 0;

/// Bits of a page number.
const PAGE_BITS: u32 = 26;

/// The only mapping of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mapping(u32);

impl Mapping {
    /// Page `page` of an address space.
    #[inline(always)]
    pub(crate) const fn new(space: u32, page: u64) -> Self {
        Self(space << PAGE_BITS | page as u32 & ((1 << PAGE_BITS) - 1))
    }

    /// The recorded mapping of `pfn`. The caller has to check that the entry of that page still
    /// names `pfn`.
    pub(crate) fn of(pfn: Pfn) -> Option<Self> {
        Some(Self(memory::memory().frame_owner(pfn)?.load(Ordering::Acquire)))
    }

    /// The number of the address space.
    pub(crate) const fn space(self) -> u32 {
        self.0 >> PAGE_BITS
    }

    /// The number of the page in that address space.
    pub(crate) const fn page(self) -> u64 {
        (self.0 & ((1 << PAGE_BITS) - 1)) as u64
    }

    /// Records that `pfn` is mapped by this page.
    #[inline(always)]
    pub(crate) fn record(self, pfn: Pfn) {
        set_word(pfn, self.0);
    }
}

/// Records the owner of `pfn`, in one word.
#[inline(always)]
pub(crate) fn set_word(pfn: Pfn, word: u32) {
    if let Some(owner) = memory::memory().frame_owner(pfn) {
        owner.store(word, Ordering::Release);
    }
}

/// The address space, the page number and the page-table entry that are recorded for `pfn`. The
/// result keeps the address space alive. It is not verified: if `pfn` is not a page of a program, the
/// entry may map another frame.
pub(crate) fn place_of(pfn: Pfn) -> Option<(Found, u64, &'static Slot)> {
    let mapping = Mapping::of(pfn)?;
    let space = AddressSpace::by_number(mapping.space())?;
    let slot = space.find(mapping.page())?;
    Some((space, mapping.page(), slot))
}

/// Whether `pfn` is a page of a program, or is being migrated.
pub(crate) fn is_of_program(pfn: Pfn) -> bool {
    place_of(pfn).is_some_and(|(_, _, slot)| slot.get().pfn() == pfn)
}

/// Whether `pfn` is a frame of the kernel itself, or absent.
pub(crate) fn is_own(pfn: Pfn) -> bool {
    Mapping::of(pfn).is_none_or(|mapping| mapping.0 == KERNEL)
}
