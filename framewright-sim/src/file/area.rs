//! An area: a range of an address space that shows pages of a file.

use std::{cell::OnceCell, ops::Range};

use super::FileId;
use crate::{
    engine::{Cpu, LockId},
    process::AddressSpace,
};

/// Pages whose entries one page table holds, and one lock protects.
pub(super) const TABLE: u32 = 512;

/// Names an area of a cache.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AreaId(pub(super) u32);

/// See the module.
pub(super) struct Area {
    pub(super) space: AddressSpace,
    pub(super) file: FileId,
    /// Its pages in the address space; begins at a page table.
    pub(super) pages: Range<u32>,
    pub(super) writable: bool,
    /// One lock per page table, as on large machines; made when first taken.
    locks: Vec<OnceCell<LockId>>,
}

impl Area {
    pub(super) fn new(
        space: AddressSpace,
        file: FileId,
        pages: Range<u32>,
        writable: bool,
    ) -> Self {
        assert!(pages.start.is_multiple_of(TABLE), "an area begins where a page table does");
        let tables = pages.len().div_ceil(TABLE as usize);
        Self { space, file, pages, writable, locks: vec![OnceCell::new(); tables] }
    }

    /// Where the page `index` of the file is in the address space, if the area shows it.
    pub(super) fn shows(&self, index: u32) -> Option<u32> {
        let page = self.pages.start.checked_add(index)?;
        self.pages.contains(&page).then_some(page)
    }

    /// Which page of the file is at `page` of the address space.
    pub(super) fn index(&self, page: u32) -> u32 {
        page - self.pages.start
    }

    /// Does something while nobody else changes entries of the table that page `index` of the file
    /// is in. Hardware sets bits in them all the same.
    pub(super) fn locked<T>(&self, cpu: Cpu<'_>, index: u32, body: impl FnOnce() -> T) -> T {
        let lock = *self.locks[(index / TABLE) as usize].get_or_init(|| cpu.new_lock());
        cpu.lock(lock);
        let result = body();
        cpu.unlock(lock);
        result
    }
}
