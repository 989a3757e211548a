//! Draining by [`BulkFree::SelectUnderLock`](crate::tuning::BulkFree): the blocks are selected under
//! the zone lock. For comparison only.

use super::{ListIndex, Lists, OwnedZoneOnCpu, cpu::ZoneOnCpu, depot::DrainBatch, drain::Due};
use crate::{
    buddy::{Bundles, Refusals},
    platform::{Cost, Platform},
};

impl<P: Platform> OwnedZoneOnCpu<'_, '_, P> {
    /// Returns `due` to the zone, one batch per hold of its lock.
    pub(super) fn drain_choosing_under_lock(&mut self, list: ListIndex, due: Due) {
        let mut left = due.frames;
        while left > 0 {
            let mut gone = Bundles::new();
            let mut refusals = Refusals::default();
            let moved = self.enter(|at, lists| {
                // Nothing goes to the depot. The watermark is read nevertheless, so that this method
                // differs from the default one only in the selection under the lock.
                at.set_depot_share(&lists.sizing, &mut DrainBatch::new(), due.reason);
                gone.limit_pageblocks(lists.sizing.hold_pageblocks());
                at.select_and_give(lists, list, left, &mut gone, &mut refusals)
            });
            let moved = moved.unwrap_or(0);
            self.report(refusals);
            if moved == 0 {
                return;
            }
            self.count_drain(due.reason, moved);
            self.trace_drained(self.blocks_of(gone.as_slice()));
            left = left.saturating_sub(moved);
            if due.is_bounded {
                return;
            }
        }
    }
}

impl<'m, P: Platform> ZoneOnCpu<'_, 'm, P> {
    /// Selects about `frames` frames of the lists under the zone lock, and frees them to the zone.
    /// Appends the blocks to `gone`, and counts refused ones in `refusals`.
    fn select_and_give(
        &self,
        lists: &mut Lists<'m>,
        list: ListIndex,
        frames: u64,
        gone: &mut Bundles,
        refusals: &mut Refusals,
    ) -> u64 {
        self.platform.cost(Cost::BulkFree, 1);
        let mut moved = 0;
        *refusals = self.zone.give_selected(self.platform, || {
            let bundle = (moved < frames && !gone.is_full())
                .then(|| lists.select_one(self.context(), list))??;
            moved += bundle.frame_count();
            gone.push(bundle);
            Some(bundle)
        });
        self.count_lock(moved);
        self.pages.counters.refused_frames.add(refusals.frames);
        moved
    }
}
