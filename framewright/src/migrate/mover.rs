//! The embedder's part of migration.

#![allow(unsafe_code)]

use super::Move;
use crate::{
    platform::Platform,
    tlb::{Flushed, Unmapping},
    types::{FrameRange, Order, Pfn},
};

/// The conditions that migration may wait for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum MigrateMode {
    /// Nothing: a contended lock ends the claim of pages ([`ClaimEnd::Contended`]).
    Async,
    /// Locks, but not the end of writeback. A dirty page moves only if its owner can move it
    /// without writing it.
    SyncLight,
    /// Anything.
    Sync,
}

/// The limits of a migration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// The conditions that it may wait for.
    pub mode: MigrateMode,
    /// Whether I/O may be started.
    pub may_io: bool,
    /// Whether file systems may be called. If not, pages of files do not move.
    pub may_fs: bool,
}

impl Effort {
    /// The given mode, with I/O and file systems allowed.
    #[must_use]
    pub const fn new(mode: MigrateMode) -> Self {
        Self { mode, may_io: true, may_fs: true }
    }
}

/// The way to lock pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locking {
    /// Without waiting, because several pages are locked at once, and waiting could deadlock.
    Try,
    /// Waiting as far as the mode allows, because only one page is locked.
    Wait,
}

/// The pages that a mover has claimed.
#[derive(Debug)]
pub struct Claims<'w> {
    moves: &'w mut [Move],
    used: usize,
}

impl<'w> Claims<'w> {
    pub(crate) fn new(moves: &'w mut [Move]) -> Self {
        Self { moves, used: 0 }
    }

    /// Adds the page of 2^order frames at `pfn`. Returns `false` if all slots are used: then the
    /// page must not be claimed.
    #[must_use = "if no slot is left, the page must not be claimed"]
    pub fn push(&mut self, pfn: Pfn, order: Order) -> bool {
        let Some(slot) = self.moves.get_mut(self.used) else { return false };
        *slot = Move::claimed(pfn, order);
        self.used += 1;
        true
    }

    /// Calls `claim` for each of `frames` in ascending order, while slots are unused, and adds the
    /// pages of order 0 that it claims. For owners whose pages all have order 0.
    pub fn take_pages(&mut self, frames: FrameRange, mut claim: impl FnMut(Pfn) -> bool) {
        for pfn in (frames.start().get()..frames.end().get()).map(Pfn::new) {
            if self.is_full() {
                return;
            }
            if claim(pfn) {
                let pushed = self.push(pfn, Order::ZERO);
                debug_assert!(pushed, "a slot is left");
            }
        }
    }

    /// Whether all slots are used.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.used == self.moves.len()
    }

    /// The frame after the last page.
    pub(crate) fn last_end(&self) -> Option<Pfn> {
        let last = self.moves.get(self.used.checked_sub(1)?)?;
        Some(last.from().offset(last.order().frames()))
    }

    /// Number of pages.
    pub(crate) fn len(&self) -> usize {
        self.used
    }
}

/// The result of claiming pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClaimEnd {
    /// All frames were examined, or all slots are used.
    Done,
    /// A lock that the claim needs is held, and the mode forbids waiting for it.
    Contended,
    /// Too many pages are isolated already.
    TooMany,
}

/// An embedder's steps of a migration, which the [module](super) describes. All methods but
/// [`Mover::claim`] get slices, and no method is called under a lock of the library.
///
/// # Safety
///
/// * A claimed page is allocated to the embedder, all 2^order frames of it, and may be freed as one
///   block of that order. The embedder changes a [`Move`] by its methods only, and does not put one
///   in the place of another.
/// * A page is claimed at most once at a time. From then until the page is moved, gone, or
///   released, its frames are not freed. If the owner frees the page meanwhile, the embedder calls
///   [`Move::set_gone`] instead.
/// * A page that was [set unmapped](Move::set_unmapped) is not accessed until it is remapped or
///   undone, except through stale translations that were added to the batch.
/// * After a page was set moved or gone, its old frames are not accessed any more.
///
/// # Panics
///
/// A method should not panic. If one does, unmapped pages are undone, all claims on the pages of the call
/// end, and no frame is lost, with these exceptions:
/// * if [`Mover::claim`] panics, the embedder has to end the claims that were collected until then;
/// * if [`Mover::release`] panics, its pages stay in the state in which it left them;
/// * if [`Mover::undo`] panics, its pages stay claimed in the state in which it left them, and their new
///   frames leak.
pub unsafe trait Mover<P: Platform> {
    /// Claims the pages that occupy any of `frames`, in ascending order. Each of the frames was
    /// allocated, on the lists of a CPU, in the depot, or waiting for a flush a moment ago; the
    /// embedder may have freed it since.
    fn claim(&self, frames: FrameRange, effort: &Effort, claims: &mut Claims<'_>) -> ClaimEnd;

    /// Locks each page and its new frames, removes the page from every page table, and adds the
    /// removed translations to `batch`, without a flush. Calls [`Move::set_unmapped`] for each page
    /// that is unmapped then, and leaves the others as they were.
    fn unmap(
        &self,
        moves: &mut [Move],
        effort: &Effort,
        locking: Locking,
        batch: &mut Unmapping<'_, '_, '_, P>,
    );

    /// Maps each page in its new frames, which already have its contents, unlocks the page, and
    /// calls [`Move::set_moved`]. Pages for which this fails stay as they are.
    fn remap(&self, moves: &mut [Move], effort: &Effort, flushed: &Flushed<'_>);

    /// Maps each of these unmapped pages in its old frames again, and unlocks it. The pages stay
    /// claimed.
    fn undo(&self, moves: &[Move]);

    /// Ends the claims on these pages, which did not move. Calls [`Move::set_gone`] for those that
    /// their owners have freed meanwhile.
    fn release(&self, moves: &mut [Move]);
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn pages_are_claimed_until_the_slots_are_full() {
        let mut moves = [0; 2].map(|at| Move::claimed(Pfn::new(at), Order::ZERO));
        let mut claims = Claims::new(&mut moves);
        let mut offered = Vec::new();
        let frames = FrameRange::new(Pfn::new(10), Pfn::new(20)).unwrap();
        claims.take_pages(frames, |pfn| {
            offered.push(pfn.get());
            pfn.get() % 2 == 1
        });
        assert_eq!(offered, [10, 11, 12, 13], "a page was claimed without a slot, or too few were");
        assert_eq!((claims.len(), claims.last_end()), (2, Some(Pfn::new(14))));
    }
}
