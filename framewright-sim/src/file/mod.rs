//! Pages of files: a store, a page cache above it, and address spaces that map it.
//!
//! # Theory of operation
//!
//! A [`PageCache`] holds pages of *files* in frames. A file is mapped by *areas* of address spaces; who
//! touches a page that no entry of the page tables maps *faults*. If the page is in the cache, the fault
//! maps it, and up to 15 neighbours that are in the cache too; if it is not, up to 32 neighbours are
//! read from the [store](StoreSpec), and the program waits for them, in which time its CPU does
//! something else. A store to a page that is clean faults as well: that is how the kernel learns of it.
//! Dirty pages are *written back* in the background, a little while after they became dirty.
//!
//! What maps a frame is not written down anywhere. A frame knows its file and page; the file knows its
//! areas; and where a page would be in an area is arithmetic. Reclaim asks that way whether pages were
//! used, and takes them out of the page tables. What it does then, and in which order, is the library's:
//! the cache is its embedder here, as a kernel's own would be.
//!
//! As for [processes](crate::process), units that [check](crate::process::Mmu::checking) simulate every
//! access, and units that [measure](crate::process::Mmu::measuring) charge what it costs.
//!
//! | module      | job                                                              |
//! |-------------|------------------------------------------------------------------|
//! | `store`     | where pages come from and go to, how fast, and what fails        |
//! | `page`      | what is known of a frame                                         |
//! | `area`      | a range of an address space that shows a file                    |
//! | `cache`     | files, their pages, their areas                                  |
//! | `fault`     | touching pages: faults, mapping around, first stores             |
//! | `readahead` | reading neighbours                                               |
//! | `rmap`      | what maps frames: whether it was used; taking it away            |
//! | `writeback` | dirty pages on their way to the store                            |
//! | `release`   | taking pages out of the cache, and what must not be              |
//! | `shootdown` | flushing, as the library wants it done                           |
//! | `owner`     | the cache as the owner of pages that the library reclaims        |
//! | `mover`     | the same of pages that compaction moves                          |
//! | `writer`    | writing back in the background                                   |
//! | `pause`     | the wait queue of reclaim                                        |
//! | `keep`      | the library with a cache: what CPUs share                        |
//! | `background` | background reclaim of a node, on its CPUs in turn              |
//! | `hands`     | what a CPU serves faults with                                    |
//! | `seat`      | what a CPU does for its programs, and for the kernel             |
//! | `costs`     | what the kernel around the library takes                         |
//!
//! # Limits
//!
//! Files do not grow; an area shows a file from its first page on. Pages are never written by calls,
//! only through mappings. A page table of an area stays until the area goes.

mod area;
mod background;
mod cache;
mod costs;
mod fault;
mod hands;
mod keep;
mod mover;
mod owner;
mod page;
mod pause;
mod readahead;
mod release;
mod rmap;
mod seat;
mod shootdown;
mod store;
mod writeback;
mod writer;

use crate::engine::Cpu;
use thiserror::Error;

pub use area::AreaId;
pub use cache::{CacheStats, FileSpec, PageCache};
pub use costs::FileCosts;
pub use fault::Touched;
pub use keep::{Keep, Parts};
pub use rmap::Unmapped;
pub use seat::Seat;
pub use shootdown::FlushCosts;
pub use store::{Failures, StoreError, StoreSpec, StoreStats};
pub use writeback::Written;

#[cfg(test)]
mod tests;

/// Names a file of a cache.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId(pub(crate) u32);

/// Why a program cannot go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum FileTrouble {
    /// Nothing is mapped there, or not for stores: `SIGSEGV`.
    #[error("page {0} is not the program's")]
    NotAllowed(u32),
    /// The page cannot be read: `SIGBUS`.
    #[error("page {0} cannot be read")]
    Unreadable(u32),
    /// There is no frame, whatever was tried.
    #[error("out of memory")]
    OutOfMemory,
}

/// Where a cache gets frames on one CPU, and who keeps track of how its pages are used.
pub trait Supply {
    /// A program has faulted, or is about to go on: the CPU is in the kernel.
    fn entered(&mut self, cpu: Cpu<'_>) {
        let _ = cpu;
    }

    /// A frame for a page; `cleared` if nothing will be read into it. For pages that no program `needs`
    /// yet it is not tried twice.
    fn page(&mut self, cpu: Cpu<'_>, cleared: bool, needs: bool) -> Option<u32>;

    /// A cleared frame for a page table.
    fn table(&mut self, cpu: Cpu<'_>) -> Option<u32>;

    /// Gives frames back that nobody has seen, or reaches any more.
    fn give(&mut self, cpu: Cpu<'_>, frames: &[u32]);

    /// A frame holds a page of a file from now on. `shadow` is what was left when the page was
    /// reclaimed last.
    fn cached(&mut self, cpu: Cpu<'_>, frame: u32, shadow: Option<u64>);

    /// A page of a file, which is mapped, is about to become writable; its page table is locked. What
    /// CPUs may have cached of it from an earlier time has to be flushed first.
    fn becomes_writable(&mut self, cpu: Cpu<'_>, file: FileId) {
        let _ = (cpu, file);
    }
}
