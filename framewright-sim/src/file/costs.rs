//! Costs of file pages in the kernel around the library.

use crate::machine;

/// Cycles per page, without those of the allocator, locks, flushes and clearing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileCosts {
    /// A fault, from the faulting instruction to its repetition.
    pub fault: u64,
    /// Mapping a page that is in the cache.
    pub map: u64,
    /// Adding a page to the cache: the tree, the request, and its completion.
    pub read: u64,
    /// In addition, for a page of a hole: the file system's search for its blocks.
    pub hole: u64,
    /// Reading the accessed bit of an entry.
    pub look: u64,
    /// Removing a page from a page table.
    pub unmap: u64,
    /// Removing a page from the cache.
    pub release: u64,
    /// Submitting the write of a page, and handling its completion.
    pub write: u64,
}

impl FileCosts {
    /// No costs: for schedules that look for bugs.
    pub const FREE: Self =
        Self { fault: 0, map: 0, read: 0, hole: 0, look: 0, unmap: 0, release: 0, write: 0 };
}

impl From<&machine::Costs> for FileCosts {
    /// The machine specifies the costs of faults, of reads of accessed bits, and of unmapping. The
    /// other figures are estimated: a few cache lines each, with one or two misses. Only the cost
    /// of holes was fitted, to 4.0 µs of system time per page, which lru-file-mmap-read took on
    /// a desktop machine with batched flushes (2015).
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
