//! Given ranges and memory that goes: what is in the way moves elsewhere. What somebody has in hand at the
//! moment is waited for, within [bounds](super::patience).

use super::{
    Compactor,
    anywhere::Anywhere,
    evacuate::{CutShort, Evacuated, Evacuation},
    patience::Patience,
};
use crate::{
    migrate::{Effort, MigrateMode},
    platform::Platform,
    types::{Extent, FrameRange, HotplugError, MigrateType, RangeError, ZoneId},
};

impl<'m, P: Platform> Compactor<'_, 'm, P> {
    /// As [`Memory::alloc_range`](crate::Memory::alloc_range), but moves what is in the way and can
    /// move.
    ///
    /// # Errors
    ///
    /// [`RangeError::Busy`] if frames are still in use then: `in_the_way` was told which. Nothing
    /// else has changed but where pages are. [`RangeError::Isolated`] if somebody withholds a pageblock for
    /// longer than compaction does, which is waited for.
    pub fn alloc_range(
        &mut self,
        range: FrameRange,
        migratetype: MigrateType,
        in_the_way: &mut dyn FnMut(FrameRange),
    ) -> Result<Extent<'m>, RangeError> {
        let (memory, mut patience) = (self.memory, Patience::new());
        loop {
            let clear = &mut |zone, start, end| {
                self.clear(zone, (start, end), true, &mut Patience::new());
            };
            match memory.alloc_range_clearing(range, migratetype, clear, in_the_way) {
                Err(RangeError::Isolated { .. }) if patience.waits(memory.platform()) => {}
                result => return result,
            }
        }
    }

    /// As [`Memory::remove_memory`](crate::Memory::remove_memory), but moves what is in the way and
    /// can move.
    ///
    /// # Errors
    ///
    /// [`HotplugError::Busy`] if frames are still in use then; [`HotplugError::Isolated`] as
    /// [`RangeError::Isolated`] from [`Compactor::alloc_range`].
    pub fn remove_memory(
        &mut self,
        range: FrameRange,
        in_the_way: &mut dyn FnMut(FrameRange),
    ) -> Result<(), HotplugError> {
        let (memory, mut patience) = (self.memory, Patience::new());
        loop {
            let clear = &mut |zone, start, end| {
                self.clear(zone, (start, end), true, &mut Patience::new());
            };
            match memory.remove_memory_clearing(range, clear, in_the_way) {
                Err(HotplugError::Isolated { .. }) if patience.waits(memory.platform()) => {}
                result => return result,
            }
        }
    }

    /// Moves what is in some frames of a zone, which are withheld, anywhere else. What lies elsewhere may be
    /// brought home, once.
    pub(super) fn clear(
        &mut self,
        zone: ZoneId,
        frames: (u32, u32),
        may_bring_home: bool,
        patience: &mut Patience,
    ) -> Evacuated {
        let mut all = Evacuated::default();
        loop {
            let now = self.clear_once(zone, frames, may_bring_home && !all.brought_home);
            all = all.and_then(now);
            if now.moved > 0 {
                *patience = Patience::new();
            }
            let is_put_off = now.left > 0 && now.cut_short == Some(CutShort::Contended);
            if !is_put_off || !patience.waits(self.memory.platform()) {
                return all;
            }
        }
    }

    fn clear_once(&mut self, zone: ZoneId, frames: (u32, u32), may_bring_home: bool) -> Evacuated {
        let site = self.site(zone);
        let mut room = Anywhere::new(site.at, self.memory);
        let effort = Effort::new(MigrateMode::Sync);
        let allowed = u64::MAX;
        let how =
            Evacuation { effort, all_or_none: false, may_bring_home, allowed, in_part: false };
        self.evacuate(site, frames, how, &mut room)
    }
}
