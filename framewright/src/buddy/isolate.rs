//! Isolation: withholding a pageblock from allocation.
//!
//! An isolated pageblock is on no list and its free frames count nowhere, but frames freed into
//! it still merge. Frames of it that sit on per-CPU lists come home when those are drained,
//! because the type is read again under the zone lock.
//!
//! A pageblock that is allocated as a whole, or inside a larger block, stays folded: isolation
//! changes its type, and the type decides where it goes when it is freed.

use super::{Buddy, MigrateType};
use crate::types::PAGEBLOCK_FRAMES;

/// Why a pageblock could not be isolated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IsolationRefused {
    /// It is isolated already.
    AlreadyIsolated,
    /// It holds frames that cannot move.
    Pinned(u16),
}

impl Buddy<'_> {
    /// Withholds pageblock `index`, if what it holds can move.
    pub(crate) fn isolate(&mut self, index: u32) -> Result<(), IsolationRefused> {
        let pinned = self.pinned(index);
        if pinned > 0 && self.type_of(index) != MigrateType::Isolate {
            return Err(IsolationRefused::Pinned(pinned));
        }
        self.isolate_pinned(index)
    }

    /// Withholds pageblock `index`, whatever it holds.
    pub(crate) fn isolate_pinned(&mut self, index: u32) -> Result<(), IsolationRefused> {
        let from = self.type_of(index);
        if from == MigrateType::Isolate {
            return Err(IsolationRefused::AlreadyIsolated);
        }
        self.blocks[index as usize].type_before_isolation = from as u8;
        self.retag(index, MigrateType::Isolate, ());
        self.isolated += 1;
        Ok(())
    }

    /// Pageblocks that are isolated.
    #[inline(always)]
    pub(crate) fn isolated(&self) -> u64 {
        self.isolated
    }

    /// Frames in pageblock `index` that cannot move.
    fn pinned(&self, index: u32) -> u16 {
        let folded = self.lists.gigablocks.is_folded(index);
        match self.home_type(index) {
            MigrateType::Movable if folded => 0,
            _ if folded => PAGEBLOCK_FRAMES as u16,
            _ => self.blocks[index as usize].pinned,
        }
    }

    /// Makes pageblock `index` allocatable again, with the type it had. One that is absent stays
    /// so: it is not there, which is more than withheld.
    pub(crate) fn undo_isolate(&mut self, index: u32) {
        if self.type_of(index) == MigrateType::Isolate && !self.is_absent(index) {
            self.retag(index, self.home_type(index), ());
            self.isolated -= 1;
        }
    }
}
