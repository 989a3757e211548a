//! Given ranges, contiguous runs and memory that goes: what is in the way moves elsewhere.

use super::{
    Compactor,
    evacuate::{Evacuation, contents},
    room::Room,
};
use crate::{
    alloc::MigrateType,
    frame::{Extent, FrameRange, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER},
    memory::{Contiguous, HotplugError, RangeError},
    migrate::{Effort, MigrateMode},
    platform::Platform,
    zone::ZoneId,
};

/// Runs that are tried before a contiguous request gives up.
const TRIES: u32 = 5;

impl<'m, P: Platform> Compactor<'_, 'm, P> {
    /// As [`Memory::alloc_range`](crate::Memory::alloc_range), but moves what is in the way and can
    /// move.
    ///
    /// # Errors
    ///
    /// [`RangeError::Busy`] if frames are still in use then: `in_the_way` was told which. Nothing
    /// else has changed but where pages are.
    pub fn alloc_range(
        &mut self,
        range: FrameRange,
        migratetype: MigrateType,
        in_the_way: &mut dyn FnMut(FrameRange),
    ) -> Result<Extent<'m>, RangeError> {
        let memory = self.memory;
        let clear = &mut |zone, start, end| self.clear(zone, start, end);
        memory.alloc_range_clearing(range, migratetype, clear, in_the_way)
    }

    /// As [`Memory::alloc_contiguous`](crate::Memory::alloc_contiguous), but moves what is in the way
    /// where no run of free frames is long enough.
    ///
    /// # Errors
    ///
    /// [`RangeError::NotFound`] if a few runs of movable frames that were tried could not be emptied
    /// either.
    pub fn alloc_contiguous(&mut self, wanted: &Contiguous) -> Result<Extent<'m>, RangeError> {
        let memory = self.memory;
        match memory.alloc_contiguous(wanted) {
            Err(RangeError::NotFound) => {}
            result => return result,
        }
        for (id, _) in memory.candidates(self.cpu, wanted.request()) {
            if let Some(extent) = self.empty_a_run(id, wanted) {
                return Ok(extent);
            }
        }
        Err(RangeError::NotFound)
    }

    /// As [`Memory::remove_memory`](crate::Memory::remove_memory), but moves what is in the way and
    /// can move.
    ///
    /// # Errors
    ///
    /// [`HotplugError::Busy`] if frames are still in use then.
    pub fn remove_memory(
        &mut self,
        range: FrameRange,
        in_the_way: &mut dyn FnMut(FrameRange),
    ) -> Result<(), HotplugError> {
        let memory = self.memory;
        let clear = &mut |zone, start, end| self.clear(zone, start, end);
        memory.remove_memory_clearing(range, clear, in_the_way)
    }

    /// Moves what is in frames `start` to `end`, which are withheld, anywhere else.
    fn clear(&mut self, zone: ZoneId, start: u32, end: u32) {
        let site = self.site(zone);
        let mut room = Room::anywhere(site.at, self.memory);
        let effort = Effort::new(MigrateMode::Sync);
        let how =
            Evacuation { effort, all_or_none: false, may_bring_home: true, allowed: u64::MAX };
        self.evacuate(site, (start, end), how, &mut room);
    }

    /// Takes a run of pageblocks that hold movable frames only.
    fn empty_a_run(&mut self, id: ZoneId, wanted: &Contiguous) -> Option<Extent<'m>> {
        let site = self.site(id);
        let zone = site.at.zone;
        let frames = u32::try_from(wanted.frames()).ok()?;
        let (low, high) = match wanted.bounds() {
            Some(range) => zone.clip(range)?,
            None => (0, zone.spanned() as u32),
        };
        let align = wanted.align().max(Order::PAGEBLOCK).frames();
        let mut tries = 0;
        let mut start = low;
        while tries < TRIES {
            let aligned = zone.pfn(start).get().next_multiple_of(align);
            start = u32::try_from(aligned - zone.base().get()).ok()?;
            let end = start.checked_add(frames).filter(|&end| end <= high)?;
            match self.last_obstacle(id, start, end) {
                Some(block) => start = (block + 1) << PAGEBLOCK_ORDER,
                None => {
                    let range = FrameRange::new(zone.pfn(start), zone.pfn(end))?;
                    let of = wanted.request().migratetype();
                    if let Ok(extent) = self.alloc_range(range, of, &mut |_| ()) {
                        return Some(extent);
                    }
                    tries += 1;
                    start += PAGEBLOCK_FRAMES as u32;
                }
            }
        }
        None
    }

    /// The last pageblock between two frames that holds what will not move.
    fn last_obstacle(&self, id: ZoneId, start: u32, end: u32) -> Option<u32> {
        let site = self.site(id);
        let blocks = start >> PAGEBLOCK_ORDER..end.div_ceil(PAGEBLOCK_FRAMES as u32);
        blocks.rev().find(|&block| {
            let held = contents(site, block);
            !held.of.is_requestable() || held.pinned > 0
        })
    }
}
