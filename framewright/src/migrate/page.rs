//! One page on its way from its frames to others.

use crate::types::{Order, Pfn};

/// How far a page has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stage {
    /// The embedder has claimed it.
    #[default]
    Claimed,
    /// There are frames for it to move to.
    Ready,
    /// It is locked and in no page table.
    Unmapped,
    /// The same, and its contents are in the new frames too.
    Copied,
    /// It is in the new frames, which are the embedder's; the old ones are the library's.
    Moved,
    /// Its owner has let go of it: the old frames are the library's.
    Gone,
}

/// Why a page does not get further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveFailure {
    /// Somebody has it locked, or uses it: it may get further soon.
    Busy,
    /// It will not move.
    Refused,
}

/// A page, or a block of pages that move together, on its way. Made by [`Claims`](super::Claims);
/// the embedder says at each step what became of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Move {
    from: Pfn,
    to: Pfn,
    order: Order,
    /// The new frames are reserved for it: it does not own them yet, and they have not been given
    /// back.
    has_target: bool,
    stage: Stage,
    failure: Option<MoveFailure>,
}

impl Move {
    pub(super) fn claimed(from: Pfn, order: Order) -> Self {
        Self { from, order, ..Self::default() }
    }

    /// First of the frames it is in, or was.
    #[must_use]
    pub const fn from(&self) -> Pfn {
        self.from
    }

    /// First of the frames it moves to; nothing to go by before it is [`Stage::Ready`].
    #[must_use]
    pub const fn to(&self) -> Pfn {
        self.to
    }

    /// It is 2^order frames.
    #[must_use]
    pub const fn order(&self) -> Order {
        self.order
    }

    /// How far it has come.
    #[must_use]
    pub const fn stage(&self) -> Stage {
        self.stage
    }

    /// What keeps it from getting further.
    #[must_use]
    pub const fn failure(&self) -> Option<MoveFailure> {
        self.failure
    }

    /// For [`Mover::unmap`](super::Mover::unmap): it is locked, its new frames are, and it is in no
    /// page table.
    pub fn set_unmapped(&mut self) {
        self.advance(Stage::Ready, Stage::Unmapped);
    }

    /// For [`Mover::remap`](super::Mover::remap): everybody finds it in its new frames, and it is
    /// unlocked and no longer claimed.
    pub fn set_moved(&mut self) {
        self.advance(Stage::Copied, Stage::Moved);
        self.has_target &= self.stage != Stage::Moved;
    }

    /// For [`Mover::unmap`](super::Mover::unmap) and [`Mover::release`](super::Mover::release): its
    /// owner let go of it while it was claimed, and its frames are the library's now.
    pub fn set_gone(&mut self) {
        if matches!(self.stage, Stage::Claimed | Stage::Ready) {
            self.stage = Stage::Gone;
        }
    }

    /// It does not get further for now. Unmapped, it stays so, for another try or for
    /// [`Mover::undo`](super::Mover::undo).
    pub fn set_busy(&mut self) {
        self.failure = Some(MoveFailure::Busy);
    }

    /// The same, and trying again is in vain.
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

    /// Back to where it was before it was unmapped.
    pub(super) fn set_undone(&mut self) {
        if self.is_unmapped() {
            self.stage = Stage::Ready;
        }
    }

    /// Whether frames are reserved for it that it does not need, because it is not unmapped.
    pub(super) fn has_spare_target(&self) -> bool {
        self.has_target && !self.is_unmapped()
    }

    /// Its target was given back.
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

    /// Whether nothing will become of it any more but a release.
    pub(super) fn is_refused(&self) -> bool {
        self.failure == Some(MoveFailure::Refused)
    }

    /// Whether its old frames are the library's.
    pub(super) fn is_settled(&self) -> bool {
        matches!(self.stage, Stage::Moved | Stage::Gone)
    }
}
