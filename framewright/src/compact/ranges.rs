//! Emptying given ranges, and memory that is to be removed. The caller waits, within
//! [bounds](super::retries), for locks and pageblocks that others hold for a short time.

use core::ops::Range;

use super::{
    Compactor,
    any_zone::AnyZoneTargets,
    evacuate::{EarlyEnd, Evacuated, EvacuationOptions},
    retries::RetryBudget,
};
use crate::{
    migrate::{Effort, MigrateMode},
    platform::Platform,
    types::{Extent, FrameRange, HotplugError, MigrateType, RangeError, ZoneId},
};

impl<'m, P: Platform> Compactor<'_, 'm, P> {
    /// As [`Memory::alloc_range`](crate::Memory::alloc_range), but first moves movable pages out of
    /// the range.
    ///
    /// # Errors
    ///
    /// [`RangeError::Busy`] if frames are still in use afterwards; `in_the_way` has been called for
    /// them. Pages may have moved, but nothing else has changed. [`RangeError::Isolated`] if a
    /// pageblock stays isolated for longer than the call waits.
    pub fn alloc_range(
        &mut self,
        range: FrameRange,
        migratetype: MigrateType,
        in_the_way: &mut dyn FnMut(FrameRange),
    ) -> Result<Extent<'m>, RangeError> {
        let (memory, mut retries) = (self.memory, RetryBudget::new());
        loop {
            let evacuate = &mut |zone, start, end| {
                self.evacuate_range(zone, start..end, true, &mut RetryBudget::new());
            };
            match memory.alloc_range(range, migratetype, evacuate, in_the_way) {
                Err(RangeError::Isolated { .. }) if retries.wait_slice(memory.platform()) => {}
                result => return result,
            }
        }
    }

    /// As [`Memory::remove_memory`](crate::Memory::remove_memory), but first moves movable pages
    /// out of the range.
    ///
    /// # Errors
    ///
    /// [`HotplugError::Busy`] if frames are still in use afterwards; [`HotplugError::Isolated`] for
    /// the same reason as [`RangeError::Isolated`] from [`Compactor::alloc_range`].
    pub fn remove_memory(
        &mut self,
        range: FrameRange,
        in_the_way: &mut dyn FnMut(FrameRange),
    ) -> Result<(), HotplugError> {
        let (memory, mut retries) = (self.memory, RetryBudget::new());
        loop {
            let evacuate = &mut |zone, start, end| {
                self.evacuate_range(zone, start..end, true, &mut RetryBudget::new());
            };
            match memory.remove_memory(range, evacuate, in_the_way) {
                Err(HotplugError::Isolated { .. }) if retries.wait_slice(memory.platform()) => {}
                result => return result,
            }
        }
    }

    /// Migrates the pages out of isolated frames of a zone, to any other frames. With `may_drain`,
    /// free frames on CPU lists, in the depot and in deferred frees are returned to the zone, at
    /// most once.
    pub(super) fn evacuate_range(
        &mut self,
        zone: ZoneId,
        frames: Range<u32>,
        may_drain: bool,
        retries: &mut RetryBudget,
    ) -> Evacuated {
        let mut all = Evacuated::default();
        loop {
            let now =
                self.evacuate_range_once(zone, frames.clone(), may_drain && !all.drained_lists);
            all = all.and_then(now);
            if now.moved > 0 {
                *retries = RetryBudget::new();
            }
            let is_contended = now.left > 0 && now.early_end == Some(EarlyEnd::Contended);
            if !is_contended || !retries.wait_slice(self.memory.platform()) {
                return all;
            }
        }
    }

    fn evacuate_range_once(
        &mut self,
        zone: ZoneId,
        frames: Range<u32>,
        may_drain: bool,
    ) -> Evacuated {
        let ctx = self.zone_context(zone);
        let mut targets = AnyZoneTargets::new(ctx.on_cpu, self.memory);
        let effort = Effort::new(MigrateMode::Sync);
        let budget = u64::MAX;
        let options = EvacuationOptions {
            effort,
            all_or_none: false,
            may_drain,
            budget,
            may_be_partial: false,
        };
        self.evacuate(ctx, frames, options, &mut targets)
    }
}
