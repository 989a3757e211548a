//! What the kernel around the library takes for pages of files.

use crate::machine;

/// Cycles per page, without what the allocator, locks, flushes and clearing take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileCosts {
    /// A fault, from the instruction that faults until it is tried again.
    pub fault: u64,
    /// Mapping a page that is in the cache.
    pub map: u64,
    /// Putting a page into the cache: the tree, the request, its end.
    pub read: u64,
    /// Besides, for a page of a hole: what a file system takes to find that there is nothing.
    pub hole: u64,
    /// Looking whether an entry was used.
    pub look: u64,
    /// Taking a page out of a page table.
    pub unmap: u64,
    /// Taking a page out of the cache.
    pub release: u64,
    /// Sending a page to the store, and hearing of its end.
    pub write: u64,
}

impl FileCosts {
    /// Nothing costs anything: for hunts.
    pub const FREE: Self =
        Self { fault: 0, map: 0, read: 0, hole: 0, look: 0, unmap: 0, release: 0, write: 0 };
}

impl From<&machine::Costs> for FileCosts {
    /// Faults, looks and unmapping as the machine says. The rest is estimated: a few cache lines each, of
    /// which one or two are not at hand. But for holes: these were fitted to 4.0 us of system time per page,
    /// which lru-file-mmap-read took on four CPUs with batched flushes (2015).
    fn from(costs: &machine::Costs) -> Self {
        Self {
            fault: costs.fault.service,
            map: 120,
            read: 700,
            hole: 5_000,
            look: costs.fault.look,
            unmap: costs.fault.unmap,
            release: 500,
            write: 1500,
        }
    }
}
