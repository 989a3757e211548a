//! Isolating a range of pageblocks, and finding the frames in use there: the first steps of
//! allocating a given range and of removing memory.

use core::ops::Range;

use super::MemoryCore;
use crate::{
    buddy::IsolationRefused,
    platform::Platform,
    types::{FrameRange, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Pfn, ZoneId},
    zone::{clip, pageblocks},
};

/// Isolated pageblocks of a zone. Dropping the value ends the isolation, also while a panic of the
/// embedder unwinds.
pub(crate) struct Isolation<'a, 'm, P: Platform> {
    memory: &'a MemoryCore<'m, P>,
    zone: ZoneId,
    blocks: Range<u32>,
}

impl<P: Platform> Drop for Isolation<'_, '_, P> {
    fn drop(&mut self) {
        let zone = &self.memory.zones[self.zone.index()];
        for block in self.blocks.clone() {
            zone.undo_isolate(&self.memory.platform, block);
        }
    }
}

impl<P: Platform> Isolation<'_, '_, P> {
    /// Leaves the pageblocks isolated.
    pub(crate) fn keep(mut self) {
        self.blocks.end = self.blocks.start;
    }
}

impl<'m, P: Platform> MemoryCore<'m, P> {
    /// Isolates one pageblock, unless it contains frames that cannot move. Does not drain the lists
    /// of CPUs.
    pub(crate) fn isolate_movable(
        &self,
        id: ZoneId,
        block: u32,
    ) -> Result<Isolation<'_, 'm, P>, IsolationRefused> {
        self.zones[id.index()].isolate(&self.platform, block)?;
        Ok(Isolation { memory: self, zone: id, blocks: block..block + 1 })
    }

    /// Isolates the pageblocks of frames `start` to `end` of a zone, all or none, and drains the
    /// CPU lists. From then on, no frame of these pageblocks is on a list.
    ///
    /// # Errors
    ///
    /// The first frame of a pageblock that is isolated already.
    pub(crate) fn isolate_range(
        &self,
        id: ZoneId,
        start: u32,
        end: u32,
    ) -> Result<Isolation<'_, 'm, P>, Pfn> {
        let isolation = self.isolate_undrained(id, start, end)?;
        self.drain_every_cpu(id);
        Ok(isolation)
    }

    /// As [`MemoryCore::isolate_range`], but does not drain the lists of CPUs.
    pub(crate) fn isolate_undrained(
        &self,
        id: ZoneId,
        start: u32,
        end: u32,
    ) -> Result<Isolation<'_, 'm, P>, Pfn> {
        let zone = &self.zones[id.index()];
        let blocks = pageblocks(start, end);
        let mut isolation =
            Isolation { memory: self, zone: id, blocks: blocks.start..blocks.start };
        for block in blocks {
            if zone.isolate_any(&self.platform, block).is_err() {
                return Err(zone.pfn(block << PAGEBLOCK_ORDER));
            }
            isolation.blocks.end = block + 1;
        }
        Ok(isolation)
    }

    /// Calls `in_the_way` with each run of allocated frames from `start` to `end`, and returns the
    /// number of these frames.
    pub(crate) fn report_in_use(
        &self,
        id: ZoneId,
        start: u32,
        end: u32,
        in_the_way: &mut dyn FnMut(FrameRange),
    ) -> u64 {
        let zone = &self.zones[id.index()];
        let mut frames = 0;
        for block in pageblocks(start, end) {
            // The embedder is called without the zone lock, so the runs are collected first. Two
            // runs are at least one frame apart, which bounds their number.
            let mut runs = [(0, 0); PAGEBLOCK_FRAMES / 2];
            let mut count = 0;
            let (first, last) = clip(block, start, end);
            zone.with(&self.platform, |buddy| {
                buddy.frames_in_use(first, last, &mut |from, to| {
                    runs[count] = (from, to);
                    count += 1;
                });
            });
            for &(from, to) in &runs[..count] {
                frames += u64::from(to - from);
                if let Some(range) = FrameRange::new(zone.pfn(from), zone.pfn(to)) {
                    in_the_way(range);
                }
            }
        }
        frames
    }
}
