//! Errors of the page cache.

use std::io;

use framewright::{AllocError, CpuError, Pfn};
use thiserror::Error;

use crate::HostError;

/// The reason why a page could not be used or written, or a pager could not run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PagingError {
    /// No frame could be allocated, even with reclaim.
    #[error("no frame for page {page}: {reason}")]
    OutOfMemory {
        /// The page.
        page: u32,
        /// The error of the library.
        reason: AllocError,
    },
    /// The store could not read a page.
    #[error("page {page} cannot be read: {reason}")]
    Unreadable {
        /// The page.
        page: u32,
        /// The error of the store.
        reason: io::Error,
    },
    /// Pages are still dirty, because the store could not write them.
    #[error("{pages} pages cannot be written and stay in memory; the first, page {page}: {reason}")]
    Unwritten {
        /// The number of these pages.
        pages: u64,
        /// The first of them.
        page: u32,
        /// The error of the store for it.
        reason: io::Error,
    },
    /// Written pages may not survive a loss of power, because the store could not make them durable.
    #[error("pages were written, but the store cannot make them durable: {reason}")]
    Unsynced {
        /// The error of the store.
        reason: io::Error,
    },
    /// A page has the maximum number of guards.
    #[error("page {page} has the maximum of {guards} guards; release some first")]
    TooManyGuards {
        /// The page.
        page: u32,
        /// The maximum number.
        guards: u32,
    },
    /// Dirty pages were not written, because they are in use.
    #[error("{pages} pages are in use, page {page} among them; release them first")]
    InUse {
        /// The number of these pages.
        pages: u64,
        /// One of them.
        page: u32,
    },
    /// The file is not that long.
    #[error("there is no page {page}: the file has {pages}")]
    NoSuchPage {
        /// The requested page.
        page: u32,
        /// The number of pages of the file.
        pages: u32,
    },
    /// The cache has no such file: the number is from another cache.
    #[error("the cache has {files} files, but no file {file}; the number is from another cache")]
    NoSuchFile {
        /// The number of the requested file.
        file: u32,
        /// Files of the cache.
        files: u32,
    },
    /// The memory has frames that do not exist on its machine, and so cannot contain pages.
    #[error(
        "page {page} got frame {frame}, which is not in the machine; create the memory with frames of \
         its machine only"
    )]
    ForeignFrame {
        /// The page.
        page: u32,
        /// The frame.
        frame: Pfn,
    },
    /// The cache was made for another machine.
    #[error("the cache was made for another machine; make one for the machine of this memory")]
    OtherMachine,
    /// Another pager runs with this memory, or another `Relief` serves it.
    #[error("another pager serves this memory; wait until it has ended")]
    Running,
    /// A run has ended with unwritten pages.
    #[error(
        "{pages} pages are not written; they are in memory, and lost with the cache: sync them in \
         another run"
    )]
    LeftUnwritten {
        /// Unwritten pages.
        pages: u64,
    },
    /// Every CPU is in use, one of them by background reclaim.
    #[error(
        "none of the {cpus} CPUs is free: background reclaim has the last, and threads the others; \
         build the machine with one more than there are threads"
    )]
    NoFreeCpu {
        /// CPUs of the machine.
        cpus: u16,
    },
    /// The memory was created without LRU lists.
    #[error("the memory has no LRU lists; make it with SideTables::with_lru")]
    NoLists,
    /// A thread could not be registered as a CPU.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The token of a CPU is in use.
    #[error(transparent)]
    Cpu(#[from] CpuError),
}
