//! An area: a range of an address space that maps pages of a file (in Linux: a VMA).

use std::ops::Range;

use super::FileId;
use crate::{
    engine::{Cpu, ProgramLock},
    process::AddressSpace,
};

/// The number of pages that one page table maps. One lock protects a page table.
pub(super) const TABLE: u32 = 512;

/// The number of an area of a cache.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AreaId(pub(super) u32);

/// A range of an address space that maps pages of a file.
pub(super) struct Area {
    pub(super) space: AddressSpace,
    pub(super) file: FileId,
    /// The pages in the address space. The first page is the first one of a page table: a multiple
    /// of [`TABLE`].
    pub(super) pages: Range<u32>,
    pub(super) writable: bool,
    /// One lock per page table, as with Linux's split page table locks. It is created when it is first taken.
    locks: Vec<ProgramLock>,
}

impl Area {
    pub(super) fn new(
        space: AddressSpace,
        file: FileId,
        pages: Range<u32>,
        writable: bool,
    ) -> Self {
        assert!(
            pages.start.is_multiple_of(TABLE),
            "an area does not begin at a multiple of {TABLE}"
        );
        let tables = pages.len().div_ceil(TABLE as usize);
        Self { space, file, pages, writable, locks: vec![ProgramLock::default(); tables] }
    }

    /// The page of the address space that maps page `index` of the file, if the area includes it.
    pub(super) fn page_of(&self, index: u32) -> Option<u32> {
        let page = self.pages.start.checked_add(index)?;
        self.pages.contains(&page).then_some(page)
    }

    /// The page of the file that is mapped at `page` of the address space.
    pub(super) fn index(&self, page: u32) -> u32 {
        page - self.pages.start
    }

    /// Runs `body` under the lock of the page table that maps page `index` of the file. The
    /// simulated hardware sets accessed and dirty bits without the lock.
    pub(super) fn locked<T>(&self, cpu: Cpu<'_>, index: u32, body: impl FnOnce() -> T) -> T {
        self.locks[(index / TABLE) as usize].with(cpu, body)
    }
}
