//! Draining by [`BulkFree::SelectUnderLock`](crate::tuning::BulkFree): the blocks are selected under
//! the zone lock. For comparison only.

use super::{
    ListIndex, Lists, OwnedZoneOnCpu,
    bulk_free::list_order,
    cpu::ZoneOnCpu,
    depot::DrainBatch,
    drain::Due,
    packing::pack_outlined,
    pages::ListsContext,
    probes::{probe_packed, probe_slot},
};
use crate::{
    buddy::{Bundle, Bundles, Refusals},
    platform::{Cost, Platform},
    types::Order,
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
                let moved = at.select_and_give(lists, list, left, &mut gone, &mut refusals);
                lists.sizing.drained(due.reason, moved);
                moved
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

impl<'m> Lists<'m> {
    /// Selects one bundle: from the store, beginning with `list`; else from the rings; else from
    /// the quarantine. Pageblocks are not in the store, so for a list of them its ring comes first.
    fn select_one(
        &mut self,
        context: ListsContext<'_, 'm, impl Platform>,
        list: ListIndex,
    ) -> Option<Bundle> {
        context.cost(Cost::SelectSingly, 1);
        if list.order() == Order::PAGEBLOCK
            && let Some(bundle) = self.select_from_ring(context, list)
        {
            return Some(bundle);
        }
        let mut stored = self.store.pop(list);
        if stored.is_none() && self.stored > 0 {
            stored = list_order(list).find_map(|list| self.store.pop(list));
        }
        if let Some(bundle) = stored {
            self.set_stored(context, self.stored - bundle.frame_count());
            probe_slot(context, &self.store, list, bundle.word);
            return Some(bundle);
        }
        let of_ring = list_order(list).find_map(|list| self.select_from_ring(context, list));
        of_ring.or_else(|| self.release(context))
    }

    /// The coldest block of a ring, with the blocks of the same word that follow it.
    fn select_from_ring(
        &mut self,
        context: ListsContext<'_, 'm, impl Platform>,
        list: ListIndex,
    ) -> Option<Bundle> {
        let len = context.pages.len(list);
        let ring = self.ring(list);
        let (bundle, used) = pack_outlined(&ring[..len], list.order())?;
        probe_packed(context, ring.get(..used));
        ring.copy_within(used..len, 0);
        context.pages.set_len(list, len - used);
        Some(bundle)
    }
}
