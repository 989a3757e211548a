//! Given ranges, contiguous runs and memory that goes: what is in the way moves elsewhere. What somebody
//! has in hand at the moment is waited for, within [bounds](super::patience).

use super::{
    Compactor,
    anywhere::Anywhere,
    evacuate::{CutShort, Evacuated, Evacuation, contents, within},
    patience::Patience,
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
        // One for all runs: who is in the way in one is so in the next.
        let mut patience = Patience::new();
        for (id, at) in memory.candidates(self.cpu, wanted.request()) {
            let mut moved = 0;
            loop {
                if let Some(extent) = self.empty_a_run(id, wanted, &mut moved, &mut patience) {
                    return Ok(extent);
                }
                // What is withheld was passed over.
                if !at.zone.withholds() || !patience.waits(memory.platform()) {
                    break;
                }
            }
        }
        Err(RangeError::NotFound)
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
    fn clear(
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

    /// The same a pageblock at a time, the last one first, until something stays in one; how many frames
    /// moved. What is empty then lies behind, where the search for a run goes on: it is not in vain.
    fn clear_backwards(
        &mut self,
        zone: ZoneId,
        (start, end): (u32, u32),
        patience: &mut Patience,
    ) -> u64 {
        let mut all = Evacuated::default();
        for block in pageblocks(start, end).rev() {
            all = all.and_then(self.clear(
                zone,
                clip(block, start, end),
                !all.brought_home,
                patience,
            ));
            if all.left > 0 {
                break;
            }
        }
        all.moved
    }

    /// Takes a run of pageblocks of a zone that hold movable frames only. Which of these do not move
    /// turns out when they are tried; then the search goes on behind them. `moved` grows by what moved.
    fn empty_a_run(
        &mut self,
        id: ZoneId,
        wanted: &Contiguous,
        moved: &mut u64,
        patience: &mut Patience,
    ) -> Option<Extent<'m>> {
        let zone = self.site(id).at.zone;
        let frames = u32::try_from(wanted.frames()).ok()?;
        let (low, high) = match wanted.bounds() {
            Some(range) => zone.clip(range)?,
            None => (0, zone.spanned() as u32),
        };
        let align = wanted.align().max(Order::PAGEBLOCK).frames();
        let mut start = low;
        while *moved <= IN_VAIN * wanted.frames() {
            let aligned = zone.pfn(start).get().next_multiple_of(align);
            start = u32::try_from(aligned - zone.base().get()).ok()?;
            let end = start.checked_add(frames).filter(|&end| end <= high)?;
            let obstacle = match self.last_obstacle(id, (start, end), wanted.request()) {
                Some(block) => block,
                None => match self.clear_run(id, (start, end), wanted.request(), moved, patience) {
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
        patience: &mut Patience,
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
            &mut |zone, start, end| *moved += self.clear_backwards(zone, (start, end), patience),
            &mut |stayed| last = block_of(stayed.end().get() - 1),
        );
        result.map_err(|error| match error {
            RangeError::Isolated { at } => block_of(at.get()),
            _ => last,
        })
    }
}
