//! What can go wrong while pages come and go.

use std::io;

use framewright::{AllocError, CpuError, Pfn};
use thiserror::Error;

use crate::HostError;

/// Why a page could not be had, or not be stored.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PagingError {
    /// No frame could be had, however hard reclaim tried.
    #[error("no frame for page {page}: {reason}")]
    OutOfMemory {
        /// The page.
        page: u32,
        /// What the library said.
        reason: AllocError,
    },
    /// The store could not read it.
    #[error("page {page} cannot be read: {reason}")]
    Unreadable {
        /// The page.
        page: u32,
        /// What the store said.
        reason: io::Error,
    },
    /// Pages are dirty still, because the store could not write them.
    #[error("{pages} pages cannot be written and stay in memory; the first, page {page}: {reason}")]
    Unwritten {
        /// How many.
        pages: u64,
        /// The first of them.
        page: u32,
        /// What the store said of it.
        reason: io::Error,
    },
    /// What was written may not outlast a loss of power: the store could not see to it.
    #[error("pages were written, but the store cannot say that they are there to stay: {reason}")]
    Unsynced {
        /// What the store said.
        reason: io::Error,
    },
    /// A page is used by as many guards as can be counted.
    #[error("page {page} is in use {guards} times, and cannot be once more; release some first")]
    TooManyGuards {
        /// The page.
        page: u32,
        /// How many there can be.
        guards: u32,
    },
    /// Pages are in use that should be written, or go.
    #[error("{pages} pages are in use, page {page} among them; release them first")]
    InUse {
        /// How many.
        pages: u64,
        /// One of them.
        page: u32,
    },
    /// The file is not that long.
    #[error("there is no page {page}: the file has {pages}")]
    NoSuchPage {
        /// The page asked for.
        page: u32,
        /// How many there are.
        pages: u32,
    },
    /// The cache has no such file: the number is from another cache.
    #[error("the cache has {files} files, and none of number {file}; it is from another cache")]
    NoSuchFile {
        /// The number of the requested file.
        file: u32,
        /// Files of the cache.
        files: u32,
    },
    /// The memory has frames that do not exist on its machine: they cannot hold pages.
    #[error(
        "page {page} got frame {frame}, which the machine has not; make the memory of the frames of \
         its machine"
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
    /// The memory was made without LRU lists.
    #[error("the memory has no LRU lists; make it with SideTables {{ lru: true }}")]
    NoLists,
    /// A thread could not be had.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A CPU of the memory could not be had.
    #[error(transparent)]
    Cpu(#[from] CpuError),
}
