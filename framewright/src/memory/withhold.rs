//! Withholding a stretch of a zone: the first step of taking a given range and of removing
//! memory, and naming what is in the way.

use super::Memory;
use crate::{
    frame::{FrameRange, PAGEBLOCK_FRAMES, Pfn},
    platform::Platform,
    zone::{ZoneId, clip, pageblocks},
};

impl<P: Platform> Memory<'_, P> {
    /// Withholds the pageblocks of frames `start` to `end` of a zone, all or none, and brings
    /// home what CPU lists hold of them: when this returns, none of their frames is on a list,
    /// and none will be.
    ///
    /// # Errors
    ///
    /// The first frame of a pageblock that is withheld by somebody else.
    pub(super) fn withhold(&self, id: ZoneId, start: u32, end: u32) -> Result<(), Pfn> {
        let zone = &self.zones[id.index()];
        for block in pageblocks(start, end) {
            if zone.isolate_pinned(&self.platform, block).is_err() {
                let first = block * PAGEBLOCK_FRAMES as u32;
                if start < first {
                    self.release(id, start, first);
                }
                return Err(zone.pfn(first));
            }
        }
        self.drain_every_cpu(id);
        Ok(())
    }

    /// Undoes [`Memory::withhold`].
    pub(super) fn release(&self, id: ZoneId, start: u32, end: u32) {
        for block in pageblocks(start, end) {
            self.zones[id.index()].undo_isolate(&self.platform, block);
        }
    }

    /// Tells `in_the_way` which frames are allocated, and says how many they are.
    pub(super) fn report_in_use(
        &self,
        id: ZoneId,
        start: u32,
        end: u32,
        in_the_way: &mut dyn FnMut(FrameRange),
    ) -> u64 {
        let zone = &self.zones[id.index()];
        let mut frames = 0;
        for block in pageblocks(start, end) {
            // The embedder is told when the lock is free again. A pageblock has no more runs.
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
