//! Frees that the hot path cannot serve, and draining.
//!
//! Each hold of the zone lock drains at most 64 bundles to the buddy, in at most `pcp.hold_pageblocks`
//! pageblocks, and at most a `BlockStack` of blocks to the depot. The blocks are selected before the lock
//! is taken ([`BulkFree::SelectBeforeLock`](crate::tuning::BulkFree)).

use super::{ListIndex, Lists, OwnedZoneOnCpu, cpu::ZoneOnCpu, depot::DrainBatch, lists::Pushed};
use crate::{
    buddy::{Bundle, Bundles, Refusals},
    observe::DrainReason,
    platform::{Cost, Platform, Site},
    types::{Event, MigrateType, Order, Pfn},
};

/// The frames that must leave the lists after a free, and the reason.
#[derive(Clone, Copy)]
pub(super) struct Due {
    pub(super) reason: DrainReason,
    pub(super) frames: u64,
    /// Whether one batch is enough. The next spill, or the next free of order 1 to 4, drains another batch, so that no free
    /// waits for more than one.
    pub(super) is_bounded: bool,
}

impl Due {
    const NOTHING: Self = Self::now(DrainReason::Threshold, 0);

    /// All of the frames leave.
    pub(super) const fn now(reason: DrainReason, frames: u64) -> Self {
        Self { reason, frames, is_bounded: false }
    }

    /// One batch leaves, of up to the given number of frames.
    fn bounded(reason: DrainReason, frames: u64) -> Self {
        Self { reason, frames, is_bounded: true }
    }
}

impl<P: Platform> OwnedZoneOnCpu<'_, '_, P> {
    /// Frees a block to its list, or to the zone if it has none. Returns the refusal of this block
    /// if hardening refuses it at the call. At the level *checked*, a block on a list is checked
    /// when it returns to the zone.
    pub(crate) fn free(&mut self, frame: u32, order: Order) -> Refusals {
        self.platform.cost(Cost::SlowFree, 1);
        if let Err(refusals) = self.retire(frame, order) {
            return refusals;
        }
        let mut leaving = DrainBatch::new();
        let mut scattered = false;
        let pushed = self.enter(|at, lists| {
            let list = at.list_of_freed(lists, frame, order)?;
            leaving.bundles.limit_pageblocks(lists.sizing.hold_pageblocks());
            if lists.bypasses > 0 {
                at.pass_on(lists, list, &mut leaving);
            }
            let before = at.pages.len(list);
            let pushed = lists.push(at.context(), list, frame, &mut leaving.bundles);
            if pushed == Pushed::SwitchedOff {
                return None;
            }
            if pushed == Pushed::Spilled && !list.is_emptying() {
                let moved = before + 1 - at.pages.len(list);
                at.sweep(lists, moved as u32, &mut leaving.bundles);
            }
            scattered = lists.bypasses > 0 && pushed == Pushed::Spilled;
            if !leaving.bundles.is_empty() && (!list.is_emptying() || lists.burst.lasts()) {
                at.set_depot_share(&lists.sizing, &mut leaving, DrainReason::Capacity);
                at.move_to_depot_share(&mut leaving);
            }
            if list.is_emptying() {
                at.pages.traffic.count_free(list, order);
                return Some((list, Due::NOTHING));
            }
            let mut due = at.count_free(lists, (list, order), pushed == Pushed::Spilled);
            if at.platform.force(Site::BulkFree) {
                due.frames = 0;
            }
            at.pages.publish(&lists.sizing);
            Some((list, due))
        });
        let Some(Some((list, due))) = pushed else {
            return self.free_past_rings(frame, order);
        };
        if !leaving.is_empty() {
            let reason = match list.is_emptying() {
                true => DrainReason::Emptying,
                false => DrainReason::Capacity,
            };
            self.count_drain(reason, leaving.frames());
            self.give_leaving(&mut leaving);
        }
        if scattered {
            // Before the frees, these prefetches would compete with those of the blocks that are freed.
            self.enter(|at, lists| at.prefetch_next(lists, list));
        }
        if due.frames > 0 {
            self.drain_frames(list, due);
        }
        Refusals::default()
    }

    /// Returns all blocks of the lists to the zone.
    pub(crate) fn drain(&mut self, reason: DrainReason) {
        if let Some(list) = ListIndex::from_number(0) {
            self.drain_frames(list, Due::now(reason, u64::MAX));
        }
    }

    /// Trims the lists, and returns the surplus of the depot.
    pub(crate) fn trim(&mut self) {
        let (allocated, _) = self.pages.traffic.frames();
        let frames = self.enter(|at, lists| at.begin_trim(lists, allocated)).unwrap_or(0);
        if let Some(list) = ListIndex::from_number(0) {
            self.drain_frames(list, Due::now(DrainReason::Trim, frames));
        }
        self.trim_whole_depot();
    }

    /// Returns `due` to the zone, one batch per hold of its lock.
    #[inline(never)]
    fn drain_frames(&mut self, list: ListIndex, due: Due) {
        #[cfg(feature = "compare")]
        if self.tuning.pcp.bulk_free == crate::tuning::BulkFree::SelectUnderLock {
            return self.drain_choosing_under_lock(list, due);
        }
        let mut left = due.frames;
        while left > 0 {
            let mut leaving = DrainBatch::new();
            let moved = self.enter(|at, lists| {
                at.set_depot_share(&lists.sizing, &mut leaving, due.reason);
                leaving.bundles.limit_pageblocks(lists.sizing.hold_pageblocks());
                let all_leave = !due.is_bounded || due.reason == DrainReason::HighOrder;
                let list = if all_leave { list } else { lists.leaving(list) };
                let moved = at.select_leaving(lists, list, left, &mut leaving);
                lists.sizing.drained(due.reason, moved);
                moved
            });
            let moved = moved.unwrap_or(0);
            if moved == 0 {
                return;
            }
            self.count_drain(due.reason, moved);
            self.give_leaving(&mut leaving);
            left = left.saturating_sub(moved);
            if due.is_bounded {
                return;
            }
        }
    }
}

impl<'m, P: Platform> ZoneOnCpu<'_, 'm, P> {
    /// Frees a block to the zone, bypassing the lists.
    pub(crate) fn free_to_zone(&self, frame: u32, order: Order) -> Refusals {
        match self.retire(frame, order) {
            Ok(()) => self.give_one(frame, order),
            Err(refusals) => refusals,
        }
    }

    /// Frees up to a batch of single frames to the zone under one hold of its lock.
    pub(crate) fn free_frames_to_zone(&self, frames: impl Iterator<Item = u32>) {
        let mut bundles = Bundles::new();
        for frame in frames {
            if self.retire(frame, Order::ZERO).is_ok()
                && bundles.push(Bundle::of(frame, Order::ZERO)).is_some()
            {
                bundles.join_last();
            }
        }
        let frames = bundles.frames();
        let refusals = self.give_and_count(&bundles);
        self.report(refusals);
        self.pages.counters.zone_frees.add(u64::from(bundles.blocks()));
        self.pages.counters.pgfree.add(frames);
    }

    /// Returns a block that was just freed to the zone.
    pub(super) fn give_one(&self, frame: u32, order: Order) -> Refusals {
        let frames = order.frames();
        self.count_lock(frames);
        let refusals = self.zone.give(self.platform, &[Bundle::of(frame, order)]);
        self.report(refusals);
        if refusals.count == 0 {
            self.pages.counters.zone_frees.add(1);
            self.pages.counters.pgfree.add(frames);
        }
        refusals
    }

    /// Counts a free to a list. Returns the number of frames that must leave now by the sizing
    /// rules.
    fn count_free(
        &self,
        lists: &mut Lists<'m>,
        (list, order): (ListIndex, Order),
        spilled: bool,
    ) -> Due {
        let held = || self.pages.held();
        let owed = lists.sizing.on_free(&self.pages.traffic, (list, order), spilled, held);
        if owed > 0 || !spilled {
            return match lists.sizing.drains_at_once() {
                true => Due::now(DrainReason::HighOrder, owed),
                false => Due::bounded(DrainReason::HighOrder, owed),
            };
        }
        // Other rings are not counted: they hold little (`Sizing::ring_limit`).
        let held = lists.stored + ((self.pages.len(list) as u64) << order.get());
        let frames = lists.sizing.on_spill(held, self.zone_free().is_low);
        if frames > 0 {
            return Due::bounded(DrainReason::Threshold, frames);
        }
        Due::bounded(DrainReason::Trim, self.trim_by_traffic(lists))
    }

    /// Frames to return to the zone after a spill, because they were not needed during much traffic.
    fn trim_by_traffic(&self, lists: &mut Lists<'m>) -> u64 {
        let (allocated, _) = self.pages.traffic.frames();
        if lists.trims.is_due(allocated, self.tuning.pcp.trim_after) {
            let frames = self.begin_trim(lists, allocated);
            lists.trims.spread(frames);
        }
        lists.trims.next_batch()
    }

    /// Begins a trim, after `allocated` frames were allocated in all. Returns the number of frames to return to the zone.
    fn begin_trim(&self, lists: &mut Lists<'m>, allocated: u64) -> u64 {
        let unneeded = lists.trims.begin(lists.stored, allocated);
        // Without lists, the frames are in quarantine.
        if self.tuning.pcp.trim_after > 0 && self.has_lists() { unneeded } else { 0 }
    }

    /// Returns all blocks of the lists to the zone, or some that are not needed if the reason is a trim, for a drainer
    /// that is inside the lists. Calls `log` with each batch before the zone gets it. Returns the refused blocks, which
    /// the caller reports when it is outside again.
    pub(crate) fn drain_inside(
        &self,
        lists: &mut Lists<'m>,
        reason: DrainReason,
        log: impl Fn(&[Bundle]),
    ) -> Refusals {
        let mut refusals = Refusals::default();
        let Some(list) = ListIndex::from_number(0) else { return refusals };
        let mut batch = Bundles::new();
        batch.limit_pageblocks(lists.sizing.hold_pageblocks());
        let mut left = match reason {
            DrainReason::Trim => self.begin_trim(lists, self.pages.traffic.frames().0),
            _ => u64::MAX,
        };
        loop {
            let moved = lists.select_bundles(self.context(), list, left, &mut batch);
            if moved == 0 {
                return refusals;
            }
            left = left.saturating_sub(moved);
            self.count_drain(reason, moved);
            log(batch.as_slice());
            refusals.merge(self.give_and_count(&batch));
            batch.clear();
        }
    }

    pub(super) fn count_drain(&self, reason: DrainReason, frames: u64) {
        self.pages.counters.drains[reason as usize].add(1);
        self.pages.counters.drained_frames.add(frames);
    }

    /// Traces blocks that have left the lists.
    pub(crate) fn trace_drained(&self, blocks: impl Iterator<Item = (Pfn, Order)>) {
        if !P::TRACING {
            return;
        }
        for (pfn, order) in blocks {
            let frame = (pfn.get() - self.zone.base().get()) as u32;
            let of = self.zone.type_number(frame);
            let migratetype = MigrateType::from_number(of).unwrap_or(MigrateType::Movable);
            self.platform.trace(self.id, &Event::PagePcpuDrain { pfn, order, migratetype });
        }
    }
}
