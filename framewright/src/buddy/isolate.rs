//! Isolation: withholding a pageblock from allocation.
//!
//! An isolated pageblock is on no list and its free frames count nowhere, but frames freed into
//! it still merge. Frames of it that sit on per-CPU lists come home when those are drained,
//! because the type is read again under the zone lock.

use super::{Buddy, MigrateType};

/// Why a pageblock could not be isolated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IsolationRefused {
    /// It is isolated already.
    AlreadyIsolated,
    /// It holds frames that cannot move.
    Pinned(u16),
}

impl Buddy<'_> {
    /// Withholds pageblock `index`.
    pub(crate) fn isolate(&mut self, index: u32) -> Result<(), IsolationRefused> {
        let from = self.type_of(index);
        if from == MigrateType::Isolate {
            return Err(IsolationRefused::AlreadyIsolated);
        }
        self.unfold(index);
        let block = &mut self.blocks[index as usize];
        if block.pinned > 0 {
            return Err(IsolationRefused::Pinned(block.pinned));
        }
        block.type_before_isolation = from as u8;
        self.retag(index, MigrateType::Isolate);
        Ok(())
    }

    /// Makes pageblock `index` allocatable again, with the type it had.
    pub(crate) fn undo_isolate(&mut self, index: u32) {
        if self.type_of(index) == MigrateType::Isolate {
            let before = self.blocks[index as usize].type_before_isolation;
            self.retag(index, MigrateType::from_number(before).unwrap_or(MigrateType::Movable));
        }
    }
}
