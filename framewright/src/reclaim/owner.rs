//! The embedder's side of reclaim: whoever owns the pages.
//!
//! What maps a page, whether it is dirty, and where it is stored is the embedder's knowledge; so
//! is every reference to it. Reclaim asks about pages, many at a time, and is told. A page is
//! named by its frame. All methods get slices of distinct frames with an answer slot for each, in
//! the same order; every slot is to be written.
//!
//! The order of the questions is the contract, because each answer may only become stale in one
//! direction after the next:
//!
//! ```text
//!  lock        who loses the race for a page leaves it alone
//!  referenced  used since the last look? then it stays (for now)
//!  unmap       no translation is left in any table; those cached are in the flush batch
//!  write_out   what is dirty, after the cached translations that could write are gone
//!  release     nobody but the cache refers to it, and only then: is it clean? Forget it
//!              ── flush ── and only now the frame is freed
//!  unlock      all that were locked and not released
//! ```
//!
//! None of them is called under a lock of the library, and none may call back into the reclaim
//! that is asking (but [`Lru`](super::Lru) is free to use).

use crate::{frame::Pfn, platform::Platform, tlb::FlushBatch};

use super::workingset::Shadow;

/// A page that the embedder has locked, at a newer_unlocked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PageState {
    /// Some address space maps it.
    pub mapped: bool,
    /// It differs from what is stored, or nothing is stored yet. What page tables know of it
    /// counts only after [`PageOwner::unmap`], which says so.
    pub dirty: bool,
    /// It is being written out: a [`Reclaim::written`](super::Reclaim::written) is due.
    pub writeback: bool,
    /// Somebody has locked it into memory: it goes to the unevictable list.
    pub unevictable: bool,
    /// A device may be reading from or writing to it: it cannot go away now.
    pub pinned: bool,
}

/// Who used a page since the last look. Asking forgets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reference {
    /// Translations through which it was accessed.
    pub young: u32,
    /// One of them belongs to a program's code.
    pub executable: bool,
    /// A mapping locks it into memory.
    pub locked: bool,
    /// It could not be found out without waiting.
    pub contended: bool,
}

/// What became of the translations of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unmapped {
    /// Some are left.
    #[default]
    StillMapped,
    /// None is left. Those that CPUs may have cached were added to the flush batch.
    Removed {
        /// The page is dirty, by its own books or by the translations.
        dirty: bool,
    },
    /// None was removed, because the store has no room for the page.
    StoreFull,
}

/// What became of a page that is to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WriteOut {
    /// Not now: the store is busy, or this page cannot be written by itself. It stays dirty.
    #[default]
    Refused,
    /// It is on its way, and under write-back until
    /// [`Reclaim::written`](super::Reclaim::written) is told.
    Started,
    /// It is stored already, and clean.
    Done,
    /// It could not be written. It stays dirty.
    Failed(WriteError),
}

/// Why a page could not be written.
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

/// What became of a page that is to be forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Released {
    /// Somebody else refers to it. It stays.
    #[default]
    Busy,
    /// It has become dirty again. It stays.
    Dirty,
    /// Nothing refers to it any more, and the frame is reclaim's.
    Released,
}

/// Whoever owns the pages on the LRU lists of a memory. See the module for the order of calls.
///
/// # Safety
///
/// A page that [`PageOwner::release`] answers [`Released::Released`] for was added to the lists as
/// a frame that the embedder owns as a block of order 0 of this memory; that ownership passes to
/// reclaim with the answer: nobody uses the frame from then on, but through translations in the
/// flush batch that [`PageOwner::unmap`] was given, in whose place no other is put. To that batch
/// translations are [added](FlushBatch::add), and nothing else is done: a batch that is
/// [finished](FlushBatch::finish), replaced or forgotten there frees frames unflushed, or loses them.
///
/// # Panics
///
/// A method should not panic. If one does, the lists and the memory stay consistent, and translations of
/// unmapped pages are flushed. However:
/// * the pages passed to the method, and others of their cluster, keep their locks and stay isolated: the
///   embedder unlocks them, and [puts them back](super::Lru::put_back);
/// * if [`PageOwner::release`] panics, the frames that it had answered [`Released::Released`] for leak, and
///   stay isolated.
#[allow(unsafe_code)]
pub unsafe trait PageOwner<P: Platform>: Sync {
    /// Tries to lock pages; `None` for those that somebody else has locked, without waiting.
    /// A locked page gets no new translations and is not forgotten by others until it is unlocked.
    fn lock(&self, frames: &[Pfn], out: &mut [Option<PageState>]);

    /// Unlocks pages.
    fn unlock(&self, frames: &[Pfn]);

    /// Who used the pages, which are locked or on the active list, since the last time.
    fn referenced(&self, frames: &[Pfn], out: &mut [Reference]);

    /// Removes all translations of locked pages, and adds each that a CPU may have cached to
    /// `batch`. Pages that have no copy elsewhere get their place in the store here.
    fn unmap(&self, frames: &[Pfn], batch: &mut FlushBatch<'_, '_, P>, out: &mut [Unmapped]);

    /// Begins to write locked pages, none of which is reachable through a translation that can
    /// write: for whatever the embedder maps in between it has to see to that itself.
    fn write_out(&self, frames: &[Pfn], out: &mut [WriteOut]);

    /// Forgets locked pages: makes sure that nobody but the cache refers to them, *then* that they
    /// are clean, then puts the shadow in their place ([`Reclaim::refault`](super::Reclaim) wants
    /// it back when the page is read again) and drops what else it keeps of them. The order
    /// matters: who had a reference may have dirtied the page before dropping it. Pages released
    /// are unlocked by that.
    fn release(&self, frames: &[Pfn], shadows: &[Shadow], out: &mut [Released]);

    /// Whether pages without a file behind them have somewhere to go, and room is left there.
    fn can_swap(&self) -> bool {
        false
    }

    /// Whether somebody writes dirty pages of files in the background when
    /// [woken](PageOwner::wake_writers). Where nobody does, reclaim writes them itself whenever
    /// it meets them.
    fn has_writers(&self) -> bool {
        false
    }

    /// All pages of a cluster were dirty, and nobody writes them yet: whoever does that in the
    /// background should begin.
    fn wake_writers(&self) {}
}
