//! Isolation of pageblocks from allocation.
//!
//! An isolated pageblock is on no list and its free frames do not count as free, but frames that
//! are freed in it still merge. A drain of the per-CPU lists returns the frames of the pageblock to
//! it, because the type is read again under the zone lock.
//!
//! A pageblock that is allocated as one block, or inside a larger block, stays folded
//! (see [`folded`](super::folded)). Isolation changes only its type. When the block is freed, the
//! pageblock is isolated by this type.

use super::{Buddy, MigrateType};
use crate::types::PAGEBLOCK_FRAMES;

/// The reason why a pageblock could not be isolated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IsolationRefused {
    /// The pageblock is isolated already.
    AlreadyIsolated,
    /// The pageblock contains frames that cannot move.
    Unmovable(u16),
}

impl Buddy<'_> {
    /// Isolates pageblock `index`, unless it contains frames that cannot move.
    pub(crate) fn isolate(&mut self, index: u32) -> Result<(), IsolationRefused> {
        let unmovable = self.unmovable(index);
        if unmovable > 0 && self.type_of(index) != MigrateType::Isolate {
            return Err(IsolationRefused::Unmovable(unmovable));
        }
        self.isolate_any(index)
    }

    /// Isolates pageblock `index`, independent of its contents.
    pub(crate) fn isolate_any(&mut self, index: u32) -> Result<(), IsolationRefused> {
        let from = self.type_of(index);
        if from == MigrateType::Isolate {
            return Err(IsolationRefused::AlreadyIsolated);
        }
        self.blocks[index as usize].type_before_isolation = from as u8;
        self.change_type(index, MigrateType::Isolate, ());
        self.isolated += 1;
        Ok(())
    }

    /// Number of isolated pageblocks.
    #[inline(always)]
    pub(crate) fn isolated(&self) -> u64 {
        self.isolated
    }

    /// Number of frames in pageblock `index` that cannot move.
    fn unmovable(&self, index: u32) -> u16 {
        let folded = self.lists.gigablocks.is_folded(index);
        match self.unisolated_type(index) {
            MigrateType::Movable if folded => 0,
            _ if folded => PAGEBLOCK_FRAMES as u16,
            _ => self.blocks[index as usize].unmovable,
        }
    }

    /// Makes pageblock `index` allocatable again, with its previous type. An absent pageblock stays
    /// absent.
    pub(crate) fn undo_isolate(&mut self, index: u32) {
        if self.type_of(index) == MigrateType::Isolate && !self.is_absent(index) {
            self.change_type(index, self.unisolated_type(index), ());
            self.isolated -= 1;
        }
    }
}
