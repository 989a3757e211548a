//! Given ranges, contiguous runs and memory that goes: what is in the way moves elsewhere.

use super::{
    Compactor,
    anywhere::Anywhere,
    evacuate::{Evacuated, Evacuation, contents, within},
};
use crate::{
    alloc::{MigrateType, Request},
    frame::{Extent, FrameRange, Order, PAGEBLOCK_ORDER},
    memory::{Contiguous, HotplugError, RangeError},
    migrate::{Effort, MigrateMode},
    platform::Platform,
    zone::{ZoneId, clip, pageblocks},
};

/// Pages that may move in vain before a contiguous request gives up on a zone: as many as fill so many of
/// the runs that are wanted.
const IN_VAIN: u64 = 4;

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
        let clear = &mut |zone, start, end| _ = self.clear(zone, (start, end));
        memory.alloc_range_clearing(range, migratetype, clear, in_the_way)
    }

    /// As [`Memory::alloc_contiguous`](crate::Memory::alloc_contiguous), but moves what is in the way
    /// where no run of free frames is long enough.
    ///
    /// # Errors
    ///
    /// [`RangeError::NotFound`] if no run can be emptied either without touching the reserve, or if
    /// much has moved in vain: pages as many as several such runs hold, in each zone.
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
        let clear = &mut |zone, start, end| _ = self.clear(zone, (start, end));
        memory.remove_memory_clearing(range, clear, in_the_way)
    }

    /// Moves what is in frames `start` to `end`, which are withheld, anywhere else.
    fn clear(&mut self, zone: ZoneId, (start, end): (u32, u32)) -> Evacuated {
        let site = self.site(zone);
        let mut room = Anywhere::new(site.at, self.memory);
        let effort = Effort::new(MigrateMode::Sync);
        let how =
            Evacuation { effort, all_or_none: false, may_bring_home: true, allowed: u64::MAX };
        self.evacuate(site, (start, end), how, &mut room)
    }

    /// The same a pageblock at a time, the last one first, until something stays in one; how many frames
    /// moved. What is empty then lies behind, where the search for a run goes on: it is not in vain.
    fn clear_backwards(&mut self, zone: ZoneId, (start, end): (u32, u32)) -> u64 {
        let mut moved = 0;
        for block in pageblocks(start, end).rev() {
            let cleared = self.clear(zone, clip(block, start, end));
            moved += cleared.moved;
            if cleared.left > 0 {
                break;
            }
        }
        moved
    }

    /// Takes a run of pageblocks of a zone that hold movable frames only. Which of these do not move
    /// turns out when they are tried; then the search goes on behind them.
    fn empty_a_run(&mut self, id: ZoneId, wanted: &Contiguous) -> Option<Extent<'m>> {
        let zone = self.site(id).at.zone;
        let frames = u32::try_from(wanted.frames()).ok()?;
        let (low, high) = match wanted.bounds() {
            Some(range) => zone.clip(range)?,
            None => (0, zone.spanned() as u32),
        };
        let align = wanted.align().max(Order::PAGEBLOCK).frames();
        let (mut start, mut moved) = (low, 0);
        while moved <= IN_VAIN * wanted.frames() {
            let aligned = zone.pfn(start).get().next_multiple_of(align);
            start = u32::try_from(aligned - zone.base().get()).ok()?;
            let end = start.checked_add(frames).filter(|&end| end <= high)?;
            let obstacle = match self.last_obstacle(id, (start, end), wanted.request()) {
                Some(block) => block,
                None => match self.clear_run(id, (start, end), wanted.request(), &mut moved) {
                    Ok(extent) => return Some(extent),
                    Err(block) => block,
                },
            };
            start = (obstacle + 1) << PAGEBLOCK_ORDER;
        }
        None
    }

    /// The last pageblock between two frames that holds what will not move, or from which on so much is free
    /// that the reserve would be touched by who takes it: the next run may begin behind it.
    fn last_obstacle(&self, id: ZoneId, (start, end): (u32, u32), request: Request) -> Option<u32> {
        let site = self.site(id);
        let allowed = site.at.zone.allowed(request.last_access());
        let mut free = 0;
        for block in pageblocks(start, end).rev() {
            let held = contents(site, block);
            if !held.of.is_requestable() || held.pinned > 0 {
                return Some(block);
            }
            let (first, last) = clip(block, start, end);
            let ours = within(&held.map, first, last);
            free += u64::from(ours.iter().map(|word| word.count_ones()).sum::<u32>());
            if free > allowed {
                return Some(block);
            }
        }
        None
    }

    /// Empties frames `start` to `end` and takes them; `moved` grows by what moved. If something has
    /// stayed: the last pageblock that holds some of it.
    fn clear_run(
        &mut self,
        id: ZoneId,
        (start, end): (u32, u32),
        request: Request,
        moved: &mut u64,
    ) -> Result<Extent<'m>, u32> {
        let (memory, base) = (self.memory, self.site(id).at.zone.base());
        let first = start >> PAGEBLOCK_ORDER;
        let block_of = |pfn: u64| ((pfn - base.get()) >> PAGEBLOCK_ORDER) as u32;
        let range =
            FrameRange::new(base.offset(start.into()), base.offset(end.into())).ok_or(first)?;
        let mut last = first;
        let result = memory.alloc_range_clearing(
            range,
            request.migratetype(),
            &mut |zone, start, end| *moved += self.clear_backwards(zone, (start, end)),
            &mut |stayed| last = block_of(stayed.end().get() - 1),
        );
        result.map_err(|error| match error {
            RangeError::Isolated { at } => block_of(at.get()),
            _ => last,
        })
    }
}
