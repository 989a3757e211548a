//! Frees in pageblocks with the flag [`EMPTYING`](crate::buddy::EMPTYING) (sparsely used pageblocks
//! that are to become free): the freed blocks return to the zone.
//!
//! The blocks wait on a short ring, so that the zone lock is taken once for several of them. While
//! a CPU frees without allocating, as at the end of a process, more blocks of the same words will
//! come. The blocks then also wait in the store, where neighbours are joined. They return to the
//! zone, a batch at a time, when the CPU next allocates from an empty ring.

use super::{
    ListIndex, Lists, OwnedZoneOnCpu,
    depot::DrainBatch,
    index::RING,
    packing::pack,
    pages::ListsContext,
    probes::{probe_packed, probe_selected},
    sizing::LONG_LISTS,
};
use crate::{
    buddy::Bundles,
    observe::DrainReason,
    platform::{Cost, Platform},
};

impl<'m> Lists<'m> {
    /// Makes space on the full ring of a list of emptying pageblocks: the oldest blocks of the ring go to `leaving`. But
    /// during a burst of frees, if the CPU may hold [`LONG_LISTS`] frames, all blocks go to the store. Returns
    /// the number of blocks that the caller is to move there.
    #[inline(never)]
    pub(super) fn begin_spill_emptying(
        &mut self,
        context: ListsContext<'_, 'm, impl Platform>,
        list: ListIndex,
        leaving: &mut Bundles,
    ) -> usize {
        let waits =
            self.burst.update(context.pages.traffic.frames()) && self.sizing.high() >= LONG_LISTS;
        if waits {
            // During the burst the ring is as long as those of other lists, and spills as rarely.
            context.pages.set_limit(list, RING);
            return context.pages.len(list);
        }
        self.leave_ring(context, list, leaving);
        context.pages.set_limit(list, self.sizing.ring_limit(list));
        0
    }

    /// If the store has more frames than the CPU may hold after a spill during a burst, about a quarter of that limit
    /// goes to `leaving`.
    pub(super) fn end_spill_emptying(
        &mut self,
        context: ListsContext<'_, 'm, impl Platform>,
        list: ListIndex,
        leaving: &mut Bundles,
    ) {
        let high = u64::from(self.sizing.high());
        if self.stored > high {
            // These are more frames than one spill adds, so that the zone lock is taken rarely.
            self.select_bundles(context, list, self.stored - high / 4 * 3, leaving);
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
        let (len, order) = (context.pages.len(list), list.order());
        let ring = self.ring(list);
        let mut rest = &ring[..len];
        leaving.extend(order, || {
            let (bundle, used) = pack(rest, order)?;
            probe_packed(context, rest.get(..used));
            context.cost(Cost::SelectBundles, 1);
            rest = rest.get(used..)?;
            Some((bundle, used))
        });
        let left = rest.len();
        ring.copy_within(len - left..len, 0);
        context.pages.set_len(list, left);
    }

    /// Whether blocks of emptying pageblocks are in the store, or more of them on a ring than its
    /// usual limit. Both arise only in a burst of frees.
    pub(super) fn has_emptying(&self, context: ListsContext<'_, 'm, impl Platform>) -> bool {
        // Most of these rings are empty, and then the limit is not calculated.
        let is_long = |list| match context.pages.len(list) {
            0 => false,
            len => len > self.sizing.ring_limit(list),
        };
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
        self.set_stored(context, self.stored - moved);
    }
}

impl<P: Platform> OwnedZoneOnCpu<'_, '_, P> {
    /// Returns a batch of the blocks of emptying pageblocks, from the store and the rings, to the
    /// zone.
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
