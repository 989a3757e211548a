//! The embedder's side of reclaim: the owner of the pages.
//!
//! The embedder knows the mappings of a page, whether the page is dirty, where it is stored, and
//! which references to it exist. Reclaim isolates pages in *clusters*, and asks about many pages of
//! a cluster at a time. A page is identified by its frame. The methods for pages get slices of
//! distinct frames. If they answer, there is an answer slot for each frame in the same order, and the
//! method must write every slot.
//!
//! The order of the calls is part of the contract, because each call relies on the answers to the
//! calls before it:
//!
//! ```text
//!  lock        pages that are locked already are left alone
//!  referenced  used since the last scan? then the page stays (for now)
//!  unmap       no page table has a translation any more; cached ones are in the flush batch
//!  write_out   dirty pages, after the cached translations that could write are flushed
//!  release     checks that only the cache refers to the page, then that it is clean; drops it
//!              ── flush ── and only now the frame is freed
//!  unlock      all pages that were locked and not released
//! ```
//!
//! No method is called under a lock of the library. A method must not call
//! [`Reclaim`](super::Reclaim), which is calling it. It may call [`Lru`](super::Lru).

use crate::{
    platform::Platform,
    tlb::Unmapping,
    types::{NodeId, Pfn},
};

/// The state of a page that the embedder has locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PageState {
    /// An address space maps the page.
    pub mapped: bool,
    /// The page differs from its stored copy, or has none. Dirty bits in page tables count only
    /// when [`PageOwner::unmap`] reports them.
    pub dirty: bool,
    /// The page is under writeback: a call of [`Reclaim::written`](super::Reclaim::written) will
    /// follow.
    pub writeback: bool,
    /// The page is locked into memory, and goes to the unevictable list.
    pub unevictable: bool,
    /// A device may access the page, so it cannot be reclaimed now.
    pub pinned: bool,
}

/// The uses of a page since the last call. The call clears them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reference {
    /// Number of translations through which the page was accessed.
    pub young: u32,
    /// One of the translations is executable.
    pub executable: bool,
    /// A mapping locks the page into memory.
    pub locked: bool,
    /// The uses could not be determined without waiting.
    pub contended: bool,
}

/// The result of unmapping a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unmapped {
    /// Some translations are left.
    #[default]
    StillMapped,
    /// No translation is left. Those that CPUs may have cached were added to the flush batch.
    Removed {
        /// Whether the page is dirty, by its own state or by a dirty bit of a translation.
        dirty: bool,
    },
    /// No translation was removed, because the swap area is full.
    StoreFull,
}

/// The result of writing a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WriteOut {
    /// Not written now, because the store is busy or the page cannot be written alone. It stays
    /// dirty.
    #[default]
    Refused,
    /// The write has started. The page is under writeback until the embedder calls
    /// [`Reclaim::written`](super::Reclaim::written).
    Started,
    /// The page is stored, and clean.
    Done,
    /// The write failed. The page stays dirty.
    Failed(WriteError),
}

/// The reason why a page could not be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum WriteError {
    /// The device failed (EIO).
    Io,
    /// The store is full (ENOSPC).
    NoSpace,
}

impl core::fmt::Display for WriteError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            WriteError::Io => "the device failed",
            WriteError::NoSpace => "the store is full",
        })
    }
}

impl core::error::Error for WriteError {}

/// The result of releasing a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Released {
    /// There are other references to the page. It stays.
    #[default]
    Busy,
    /// The page has become dirty again. It stays.
    Dirty,
    /// Nothing refers to the page any more, and reclaim owns its frame.
    Released,
}

/// The record of an evicted page. The embedder stores it in place of the page, and passes it back
/// when the page is read again. Every value is valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(transparent)]
pub struct Shadow(u64);

/// Bits of a shadow below the clock: node and workingset.
const TAG_BITS: u32 = 7;

impl Shadow {
    pub(super) fn new(node: NodeId, clock: u64, workingset: bool) -> Self {
        Self(clock << TAG_BITS | u64::from(node.get()) << 1 | u64::from(workingset))
    }

    /// The value as a number, to be stored.
    #[must_use]
    pub const fn into_raw(self) -> u64 {
        self.0
    }

    /// Makes a shadow from a number. With a number that is not from [`Shadow::into_raw`], the page may
    /// be added to the wrong list, which is harmless.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    pub(super) fn node(self) -> NodeId {
        NodeId::new((self.0 >> 1) as u8 & 63).unwrap_or_default()
    }

    pub(super) fn was_workingset(self) -> bool {
        self.0 & 1 != 0
    }

    /// The advance of the clock since the eviction, modulo the bits of the clock in a shadow.
    pub(super) fn distance(self, now: u64) -> u64 {
        (now << TAG_BITS).wrapping_sub(self.0 >> TAG_BITS << TAG_BITS) >> TAG_BITS
    }
}

/// The owner of the pages on the LRU lists of a memory. The methods are called in the order above.
///
/// # Safety
///
/// If [`PageOwner::release`] answers [`Released::Released`] for a page, its frame was a block of
/// order 0 of this memory that the embedder owned when it added the page to the lists. The answer
/// passes that ownership to reclaim. From then on the frame is not accessed, except through stale
/// translations that [`PageOwner::unmap`] [added](Unmapping::add) to the flush batch, and no new
/// translations replace them.
///
/// # Panics
///
/// A method should not panic. If one does, the lists and the memory stay consistent, and
/// translations of unmapped pages are flushed. However:
/// * The pages passed to the method, and others of their cluster, keep their locks and stay
///   isolated. The embedder unlocks them, and [puts them back](super::Lru::put_back).
/// * If [`PageOwner::release`] panics, the frames for which it had answered [`Released::Released`]
///   leak, and stay isolated.
#[allow(unsafe_code)]
pub unsafe trait PageOwner<P: Platform>: Sync {
    /// Tries to lock pages without waiting. The answer for a page that is locked already is `None`.
    /// Until the page is unlocked, it gets no new translations, and only the holder of the lock may
    /// release it.
    fn lock(&self, frames: &[Pfn], out: &mut [Option<PageState>]);

    /// Unlocks pages.
    fn unlock(&self, frames: &[Pfn]);

    /// Reports and clears the uses of pages that are locked, or isolated from an active list.
    fn referenced(&self, frames: &[Pfn], out: &mut [Reference]);

    /// Removes all translations of locked pages, and adds each that a CPU may have cached to
    /// `batch`. Assigns a place in the store (a swap slot) to each page without a stored copy.
    fn unmap(&self, frames: &[Pfn], batch: &mut Unmapping<'_, '_, '_, P>, out: &mut [Unmapped]);

    /// Starts to write locked pages. No translation allows a CPU to store to them. If the embedder
    /// maps such a page during the write, it must ensure that the write is correct.
    fn write_out(&self, frames: &[Pfn], out: &mut [WriteOut]);

    /// Releases locked pages. The steps for a page are: check that only the cache has a reference. *Then* check that
    /// the page is clean. Then replace the page in the cache with its shadow, which
    /// [`Lru::refault`](super::Lru::refault) gets when the page is read again, and drop all other
    /// state of the page. The order matters, because the holder of a
    /// reference may have dirtied the page before it dropped the reference. Releasing a page also unlocks it.
    fn release(&self, frames: &[Pfn], shadows: &[Shadow], out: &mut [Released]);

    /// Whether anonymous pages can be swapped out: there is a swap area and it is not full.
    fn can_swap(&self) -> bool {
        false
    }

    /// Whether the embedder writes dirty pages of files in the background after
    /// [`PageOwner::wake_writers`]. If not, reclaim writes the dirty pages that it scans.
    fn has_writers(&self) -> bool {
        false
    }

    /// Called when all pages of a cluster were dirty and not under writeback: the background
    /// writers should start.
    fn wake_writers(&self) {}
}
