//! File pages: a storage device (*store*), a page cache above the store, and address spaces that
//! map files.
//!
//! # Theory of operation
//!
//! A [`PageCache`] holds pages of *files* in frames. *Areas* of address spaces map a file. An
//! access to a page that no page-table entry maps causes a *fault*. If the page is in the cache,
//! the fault maps it and up to 15 neighbours that are in the cache too. Otherwise a group of up to
//! 32 pages is read from the [store](StoreSpec), and the program waits for them while its CPU does
//! other work. A store to a clean page faults too, so the kernel marks the page dirty. Dirty pages
//! are *written back* in the background, some time after they became dirty.
//!
//! The mappings of a frame are not stored. Reclaim computes them to collect accessed bits and to
//! remove page-table entries: a frame has its file and page, and a file has its areas. The library
//! makes all other decisions of reclaim: the cache is an embedder of the library, as a kernel's
//! page cache would be. As for [processes](crate::process), memory-management units that
//! [check](crate::process::Mmu::checking) simulate every access, and units that
//! [measure](crate::process::Mmu::measuring) charge its cost.
//!
//! | module      | job                                                              |
//! |-------------|------------------------------------------------------------------|
//! | `store`     | the store of pages: its speed and its errors                     |
//! | `page`      | the state of a frame that holds a file page                      |
//! | `area`      | a range of an address space that maps a file                     |
//! | `cache`     | files, their pages, their areas                                  |
//! | `fault`     | page faults: missing pages, fault-around, first stores           |
//! | `readahead` | reading a group of adjacent pages                                |
//! | `rmap`      | the mappings of frames: accessed bits, unmapping                 |
//! | `writeback` | writing dirty pages to the store                                 |
//! | `release`   | removing pages from the cache                                    |
//! | `shootdown` | the library's TLB shootdown, with its costs                      |
//! | `owner`     | the cache as the owner of pages that the library reclaims        |
//! | `mover`     | the cache as the owner of pages that compaction migrates         |
//! | `writer`    | background write-back                                            |
//! | `pause`     | the wait queue of paused reclaim                                 |
//! | `kernel_state` | the library with a cache: the state that CPUs share            |
//! | `kswapd`    | background reclaim of a node in steps                            |
//! | `background` | background reclaim of a node, on its CPUs in turn               |
//! | `fault_allocator` | the allocator of page faults                               |
//! | `cpu_context` | the context of a CPU: its program, and the kernel's work        |
//! | `costs`     | costs of kernel code outside the library                         |
//!
//! # Limits
//!
//! The size of a file is constant. An area maps a file from its first page. Pages are written only
//! through mappings, never by calls. A page table of an area stays until the cache is dissolved.

mod area;
mod background;
mod cache;
mod costs;
mod cpu_context;
mod fault;
mod fault_allocator;
mod kernel_state;
mod kswapd;
mod mover;
mod owner;
mod page;
mod pause;
mod readahead;
mod release;
mod rmap;
mod shootdown;
mod store;
mod writeback;
mod writer;

use crate::engine::Cpu;
use thiserror::Error;

pub use area::AreaId;
pub use cache::{CacheStats, FileSpec, PageCache};
pub use costs::FileCosts;
pub use cpu_context::CpuContext;
pub use fault::Touched;
pub use kernel_state::{KernelState, Parts};
pub use kswapd::{KswapdSteps, StepDone};
pub use rmap::Unmapped;
pub use shootdown::FlushCosts;
pub use store::{Failures, StoreError, StoreSpec, StoreStats};
pub use writeback::Written;

#[cfg(test)]
mod tests;

/// The number of a file of a cache.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId(pub(crate) u32);

/// The reason why an access of a program failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum FileAccessError {
    /// The page is not mapped, or stores to it are not allowed: `SIGSEGV`.
    #[error("page {0} is not mapped, or not writable")]
    NotAllowed(u32),
    /// The page cannot be read from the store: `SIGBUS`.
    #[error("page {0} cannot be read")]
    Unreadable(u32),
    /// No frame could be allocated, even after reclaim.
    #[error("out of memory")]
    OutOfMemory,
}

/// The allocator of frames for a cache on one CPU. The cache also reports the use of its pages
/// here.
pub trait Supply {
    /// The CPU is in the kernel: a program has faulted, or is about to continue.
    fn entered(&mut self, cpu: Cpu<'_>) {
        let _ = cpu;
    }

    /// Allocates a frame for a page, `cleared` if nothing will be read into it. The request
    /// `may_retry` if a program needs the page, but not for read-ahead.
    fn page(&mut self, cpu: Cpu<'_>, cleared: bool, may_retry: bool) -> Option<u32>;

    /// Allocates a cleared frame for a page table.
    fn table(&mut self, cpu: Cpu<'_>) -> Option<u32>;

    /// Frees frames that were not used, or that have no translations any more.
    fn give(&mut self, cpu: Cpu<'_>, frames: &[u32]);

    /// Adds a file page in `frame` to the LRU lists. `shadow` is the entry that the last eviction
    /// of the page has left in the cache.
    fn cached(&mut self, cpu: Cpu<'_>, frame: u32, shadow: Option<u64>);

    /// A mapped page of a file is about to become writable; its page table is locked. Deferred
    /// flushes of the file have to be done first.
    fn becomes_writable(&mut self, cpu: Cpu<'_>, file: FileId) {
        let _ = (cpu, file);
    }
}
