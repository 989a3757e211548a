//! Frees in pageblocks with the flag [`EMPTYING`](crate::buddy::EMPTYING): the freed blocks return to the zone.
//!
//! The blocks wait on a short ring, so that the zone lock is taken once for several of them. While a CPU frees without
//! allocating, as at the end of a process, more blocks of the same words will come. Then the blocks also wait in the
//! store, where neighbours meet, and the CPU's next allocations that need more than a ring return them.

use super::{
    ListIndex, Lists, OwnedZoneOnCpu,
    depot::DrainBatch,
    lists::leave,
    packing::pack,
    pages::{ListsContext, RING},
    probes::{probe_packed, probe_selected},
    sizing::LONG_LISTS,
};
use crate::{
    buddy::Bundles,
    observe::DrainReason,
    platform::{Cost, Platform},
};

/// A CPU that has freed this many frames in a row is in a burst of frees.
const BURST: u64 = 256;

/// The traffic of a CPU, for detecting bursts of frees.
#[derive(Clone, Copy, Default)]
pub(super) struct Burst {
    /// Frames allocated and freed at the last spill.
    seen: (u64, u64),
    /// Frames freed when the CPU last allocated.
    start: u64,
    lasts: bool,
}

impl Burst {
    /// Whether the CPU is in a burst of frees, after it has allocated and freed `traffic` frames. A few allocations do
    /// not end a burst.
    fn update(&mut self, traffic: (u64, u64)) -> bool {
        let (allocated, freed) = (traffic.0 - self.seen.0, traffic.1 - self.seen.1);
        if allocated > freed / 2 {
            self.start = traffic.1;
        }
        self.seen = traffic;
        self.lasts = traffic.1 - self.start >= BURST;
        self.lasts
    }

    /// Whether the CPU was in a burst of frees at the last spill. In a zone that many CPUs share, blocks without
    /// neighbours then go to the depot, like those of other pageblocks: the maps would take the lock for too long.
    pub(super) fn lasts(self) -> bool {
        self.lasts
    }
}

impl<'m> Lists<'m> {
    /// Makes space on the full ring of a list of emptying pageblocks. During a burst of frees all blocks go to the
    /// store, and as many frames leave it as come if the CPU has as many as it may hold. Otherwise the oldest blocks go
    /// to `leaving`.
    #[inline(never)]
    pub(super) fn spill_emptying(
        &mut self,
        context: ListsContext<'_, 'm, impl Platform>,
        list: ListIndex,
        leaving: &mut Bundles,
    ) {
        let waits =
            self.burst.update(context.pages.traffic.frames()) && self.sizing.high() >= LONG_LISTS;
        if !waits {
            self.leave_ring(context, list, leaving);
            context.pages.set_limit(list, self.sizing.ring_limit(list));
            return;
        }
        // A longer ring, so that spills of the burst are as rare as those of other lists.
        context.pages.set_limit(list, RING);
        self.spill(context, list, context.pages.len(list), leaving);
        let high = u64::from(self.sizing.high());
        if self.stored() > high {
            // More than one spill has brought, so that the zone lock is taken rarely.
            self.select_bundles(context, list, self.stored() - high / 4 * 3, leaving);
        }
    }

    /// Moves the oldest blocks of a ring to `leaving`, until that is full.
    #[inline(never)]
    pub(super) fn leave_ring(
        &mut self,
        context: ListsContext<'_, 'm, impl Platform>,
        list: ListIndex,
        leaving: &mut Bundles,
    ) {
        let len = context.pages.len(list);
        let mut at = 0;
        while !leaving.is_full()
            && let Some((bundle, used)) = pack(&self.ring(list)[at..len], list.order())
        {
            probe_packed(context, self.ring(list).get(at..at + used));
            context.cost(Cost::SelectBundles, 1);
            leave(leaving, bundle);
            at += used;
        }
        self.ring(list).copy_within(at..len, 0);
        context.pages.set_len(list, len - at);
    }

    /// Whether more blocks of emptying pageblocks wait than after a burst has ended.
    pub(super) fn has_emptying(&self, context: ListsContext<'_, 'm, impl Platform>) -> bool {
        let is_long = |list| context.pages.len(list) > self.sizing.ring_limit(list);
        self.store.emptying() > 0 || ListIndex::emptying().any(is_long)
    }

    /// Moves blocks of emptying pageblocks to `leaving`, until that is full.
    #[inline(never)]
    fn select_emptying(
        &mut self,
        context: ListsContext<'_, 'm, impl Platform>,
        leaving: &mut Bundles,
    ) {
        let mut moved = 0;
        for list in ListIndex::emptying() {
            let before = leaving.as_slice().len();
            moved += self.store.pop_many(list, u64::MAX, leaving);
            probe_selected(context, &self.store, list, leaving.as_slice().iter().skip(before));
            self.leave_ring(context, list, leaving);
        }
        self.set_stored(context, self.stored() - moved);
    }
}

impl<P: Platform> OwnedZoneOnCpu<'_, '_, P> {
    /// Returns a batch of the blocks of emptying pageblocks in the store to the zone.
    #[cold]
    #[inline(never)]
    pub(super) fn return_emptying(&mut self) {
        let mut leaving = DrainBatch::new();
        self.set_depot_share(&mut leaving, DrainReason::Capacity);
        self.enter(|at, lists| {
            leaving.bundles.limit_pageblocks(lists.sizing.hold_pageblocks());
            lists.select_emptying(at.context(), &mut leaving.bundles);
            at.move_to_depot_share(&mut leaving);
        });
        if !leaving.is_empty() {
            self.count_drain(DrainReason::Emptying, leaving.frames());
            self.give_leaving(&mut leaving);
        }
    }
}
