//! The state of one page that moves.

use crate::types::{Order, Pfn};

/// The stage of a page in its migration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stage {
    /// The embedder has claimed the page.
    #[default]
    Claimed,
    /// The page has frames to move to.
    Ready,
    /// The page is locked and in no page table.
    Unmapped,
    /// The page is unmapped, and the new frames have its contents, too.
    Copied,
    /// The page is in the new frames, which belong to the embedder. The old ones belong to the
    /// library.
    Moved,
    /// The owner has freed the page: the old frames belong to the library.
    Gone,
}

/// The reason why a page makes no progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveFailure {
    /// The page is locked or in use. It may make progress soon.
    Busy,
    /// The page will not move.
    Refused,
}

/// A page, or a block of pages that move together. [`Claims`](super::Claims) creates it; at each
/// step the embedder sets the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Move {
    from: Pfn,
    to: Pfn,
    order: Order,
    /// New frames are reserved for the page. The page does not own them yet, and they were not
    /// returned.
    has_target: bool,
    stage: Stage,
    failure: Option<MoveFailure>,
}

impl Move {
    pub(super) fn claimed(from: Pfn, order: Order) -> Self {
        Self { from, order, ..Self::default() }
    }

    /// The first of the frames that the page is in, or was in before it moved.
    #[must_use]
    pub const fn from(&self) -> Pfn {
        self.from
    }

    /// The first of the frames that the page moves to. Not valid before [`Stage::Ready`].
    #[must_use]
    pub const fn to(&self) -> Pfn {
        self.to
    }

    /// The order of the page, which has 2^order frames.
    #[must_use]
    pub const fn order(&self) -> Order {
        self.order
    }

    /// The stage of the page.
    #[must_use]
    pub const fn stage(&self) -> Stage {
        self.stage
    }

    /// The reason why the page makes no progress; `None` if it does.
    #[must_use]
    pub const fn failure(&self) -> Option<MoveFailure> {
        self.failure
    }

    /// For [`Mover::unmap`](super::Mover::unmap): the page and its new frames are locked, and the
    /// page is in no page table.
    pub fn set_unmapped(&mut self) {
        self.advance(Stage::Ready, Stage::Unmapped);
    }

    /// For [`Mover::remap`](super::Mover::remap): the page is mapped in its new frames, unlocked,
    /// and no longer claimed.
    pub fn set_moved(&mut self) {
        self.advance(Stage::Copied, Stage::Moved);
        self.has_target &= self.stage != Stage::Moved;
    }

    /// For [`Mover::unmap`](super::Mover::unmap) and [`Mover::release`](super::Mover::release): the
    /// owner freed the page while it was claimed, and its frames belong to the library now.
    pub fn set_gone(&mut self) {
        if matches!(self.stage, Stage::Claimed | Stage::Ready) {
            self.stage = Stage::Gone;
        }
    }

    /// The page makes no progress for now. An unmapped page stays unmapped, for another try or for
    /// [`Mover::undo`](super::Mover::undo).
    pub fn set_busy(&mut self) {
        self.failure = Some(MoveFailure::Busy);
    }

    /// The page makes no progress, and another try would fail, too.
    pub fn set_refused(&mut self) {
        self.failure = Some(MoveFailure::Refused);
    }

    fn advance(&mut self, from: Stage, to: Stage) {
        if self.stage == from {
            (self.stage, self.failure) = (to, None);
        }
    }

    pub(super) fn set_target(&mut self, to: Pfn) {
        (self.to, self.has_target) = (to, true);
        self.advance(Stage::Claimed, Stage::Ready);
    }

    pub(super) fn set_copied(&mut self) {
        self.advance(Stage::Unmapped, Stage::Copied);
    }

    /// Returns the page to the stage before the unmap.
    pub(super) fn set_undone(&mut self) {
        if self.is_unmapped() {
            self.stage = Stage::Ready;
        }
    }

    /// Whether frames are reserved for the page and it is not unmapped, so that it does not need
    /// them.
    pub(super) fn has_spare_target(&self) -> bool {
        self.has_target && !self.is_unmapped()
    }

    /// Records that the new frames were returned.
    pub(super) fn clear_target(&mut self) {
        self.has_target = false;
        if self.stage == Stage::Ready {
            self.stage = Stage::Claimed;
        }
    }

    pub(super) fn clear_failure(&mut self) {
        self.failure = None;
    }

    pub(super) fn is_unmapped(&self) -> bool {
        matches!(self.stage, Stage::Unmapped | Stage::Copied)
    }

    /// Whether the page will not move, so that a release is its only further step.
    pub(super) fn is_refused(&self) -> bool {
        self.failure == Some(MoveFailure::Refused)
    }

    /// Whether the old frames belong to the library.
    pub(super) fn has_left_frames(&self) -> bool {
        matches!(self.stage, Stage::Moved | Stage::Gone)
    }
}
