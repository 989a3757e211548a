//! What the embedder does for migration.

#![allow(unsafe_code)]

use super::Move;
use crate::{
    platform::Platform,
    tlb::{Flushed, Unmapping},
    types::{FrameRange, Order, Pfn},
};

/// What may be waited for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum MigrateMode {
    /// Nothing: the first contention ends it.
    Async,
    /// Locks, but no pages that are being written out; dirty pages only if they move without being
    /// written out.
    SyncLight,
    /// Whatever it takes.
    Sync,
}

/// How hard to try, and what must be left alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// What may be waited for.
    pub mode: MigrateMode,
    /// Whether I/O may be started.
    pub may_io: bool,
    /// Whether file systems may be called into. Where not, pages of files do not move.
    pub may_fs: bool,
}

impl Effort {
    /// Everything is allowed.
    #[must_use]
    pub const fn new(mode: MigrateMode) -> Self {
        Self { mode, may_io: true, may_fs: true }
    }
}

/// How to lock pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locking {
    /// Without waiting: several pages are locked at once.
    Try,
    /// Waiting, as far as the mode allows: there is one page only.
    Wait,
}

/// Where pages that are claimed go.
#[derive(Debug)]
pub struct Claims<'w> {
    moves: &'w mut [Move],
    used: usize,
}

impl<'w> Claims<'w> {
    pub(crate) fn new(moves: &'w mut [Move]) -> Self {
        Self { moves, used: 0 }
    }

    /// Adds the page of 2^order frames from `pfn`. `false` if there is no room: then it must not be
    /// claimed.
    #[must_use = "without room the page must not be claimed"]
    pub fn push(&mut self, pfn: Pfn, order: Order) -> bool {
        let Some(slot) = self.moves.get_mut(self.used) else { return false };
        *slot = Move::claimed(pfn, order);
        self.used += 1;
        true
    }

    /// Adds those pages of one frame in `frames`, ascending, that `claim` claims, as long as there is
    /// room: what most owners do, whose pages all are of order 0.
    pub fn take_pages(&mut self, frames: FrameRange, mut claim: impl FnMut(Pfn) -> bool) {
        for pfn in (frames.start().get()..frames.end().get()).map(Pfn::new) {
            if self.is_full() {
                return;
            }
            if claim(pfn) {
                let pushed = self.push(pfn, Order::ZERO);
                debug_assert!(pushed, "there is room");
            }
        }
    }

    /// Whether there is no more room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.used == self.moves.len()
    }

    /// The frame behind the last page.
    pub(crate) fn last_end(&self) -> Option<Pfn> {
        let last = self.moves.get(self.used.checked_sub(1)?)?;
        Some(last.from().offset(last.order().frames()))
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.used
    }
}

/// How claiming ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClaimEnd {
    /// All frames were looked at, or there was no room for more.
    Done,
    /// A lock that has to be had first is somebody else's, and the mode is not to wait for it.
    Contended,
    /// So many pages are claimed already that no more should be.
    TooMany,
}

/// How an embedder moves what it owns: see the [module](super) for the steps. All are over slices,
/// and none is called under a lock of the library.
///
/// # Safety
///
/// * What is claimed is allocated to the embedder, all 2^order frames of it, and may be freed as one
///   block of that order. Moves change by their methods only: none is put in another's place.
/// * A page is claimed at most once at a time, and from then until it is moved, gone, or released
///   its frames are not freed by anybody else: its owner's letting go is what [`Move::set_gone`]
///   says instead.
/// * What is [set unmapped](Move::set_unmapped) is used by nobody until it is remapped or undone,
///   but through translations that were added to the batch.
/// * Once a page is set moved or gone, nobody uses its old frames.
///
/// # Panics
///
/// A method should not panic. If one does, pages that are unmapped are undone, all claims on the pages that
/// were being moved end, and no frame is lost, with these exceptions:
/// * if [`Mover::claim`] panics, the embedder has to end the claims that were collected by then;
/// * if [`Mover::release`] panics, its pages stay in the state in which it has left them;
/// * if [`Mover::undo`] panics, its pages stay claimed in the state in which it has left them, and their
///   target frames leak.
pub unsafe trait Mover<P: Platform> {
    /// Claims pages that have any of `frames`, ascending; these are allocated, or lie on the lists of a
    /// CPU, or were freed a moment ago.
    fn claim(&self, frames: FrameRange, effort: &Effort, claims: &mut Claims<'_>) -> ClaimEnd;

    /// Locks each page and its new frames, and takes it out of every page table into `batch`, which
    /// is not flushed here. Says of each whether it is [unmapped](Move::set_unmapped) now; it is
    /// left as it was otherwise.
    fn unmap(
        &self,
        moves: &mut [Move],
        effort: &Effort,
        locking: Locking,
        batch: &mut Unmapping<'_, '_, '_, P>,
    );

    /// The contents of these are in their new frames too. Makes everybody find them there, unlocks
    /// them, and says so ([`Move::set_moved`]); leaves the others as they are.
    fn remap(&self, moves: &mut [Move], effort: &Effort, flushed: &Flushed<'_>);

    /// Makes everybody find these, which were unmapped, where they were, and unlocks them. They
    /// stay claimed.
    fn undo(&self, moves: &[Move]);

    /// These, which did not move, are no longer claimed; or [gone](Move::set_gone), if their owners
    /// have let go of them meanwhile.
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
        assert_eq!(offered, [10, 11, 12, 13], "nobody is claimed for whom there is no room");
        assert_eq!((claims.len(), claims.last_end()), (2, Some(Pfn::new(14))));
    }
}
