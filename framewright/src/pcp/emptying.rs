//! Frees in pageblocks with the flag [`EMPTYING`](crate::buddy::EMPTYING) (sparsely used pageblocks
//! that are to become free): the freed blocks return to the zone.
//!
//! The blocks wait on a short ring, so that the zone lock is taken once for several of them. While
//! a CPU frees without allocating, as at the end of a process, more blocks of the same words will
//! come. The blocks then also wait in the store, where neighbours are joined. They return to the
//! zone, a batch at a time, when the CPU next allocates from an empty ring.
//!
//! Blocks that were freed before their pageblock got the flag are in the store, on the list of their type. Spills look for
//! them, at a few slots each: at one for some blocks that move, so that the cost of a free does not depend on the size of
//! the store, and each slot is looked at in time.

use super::{
    ListIndex, Lists, OwnedZoneOnCpu, cpu::ZoneOnCpu, depot::DrainBatch, index::RING,
    pages::ListsContext, probes::probe_swept, sizing::LONG_LISTS,
};
use crate::{buddy::Bundles, observe::DrainReason, platform::Platform, types::Order};

/// While many CPUs share the zone, a CPU that found the zone lock held reuses this many blocks before it looks again.
const POSTPONED: u16 = 64;

impl<'m> Lists<'m> {
    /// Makes space on the full ring of a list of emptying pageblocks. During a burst of frees all
    /// blocks go to the store. If the store then has more frames than the CPU may hold, about a
    /// quarter of that limit goes to `leaving`. Otherwise the oldest blocks of the ring go to
    /// `leaving`.
    #[inline(never)]
    pub(super) fn spill_emptying(
        &mut self,
        context: ListsContext<'_, 'm, impl Platform>,
        list: ListIndex,
        leaving: &mut Bundles,
    ) {
        if !self.burst.lasts() {
            self.leave_ring(context, list, u64::MAX, leaving);
            context.pages.set_limit(list, self.sizing.ring_limit(list));
            return;
        }
        // During the burst the ring is as long as those of other lists, and spills as rarely.
        context.pages.set_limit(list, RING);
        self.spill(context, list, context.pages.len(list), leaving);
        let high = u64::from(self.sizing.high());
        if self.stored > high {
            // These are more frames than one spill adds, so that the zone lock is taken rarely.
            self.select_bundles(context, list, self.stored - high / 4 * 3, leaving);
        }
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
        for list in ListIndex::emptying() {
            self.leave_store(context, list, u64::MAX, leaving);
            self.leave_ring(context, list, u64::MAX, leaving);
        }
    }
}

impl<'m, P: Platform> ZoneOnCpu<'_, 'm, P> {
    /// The list for a block that is freed; `None` if it has none. Blocks of emptying pageblocks return to the zone, with two
    /// exceptions. If many CPUs share the zone, they are reused while its lock is held, so that hardly a free waits for it. In
    /// a burst of frees, short lists overflow into the zone anyway.
    pub(super) fn list_of_freed(
        &self,
        lists: &mut Lists<'m>,
        frame: u32,
        order: Order,
    ) -> Option<ListIndex> {
        let list = ListIndex::freeing(order, self.zone.type_and_emptying(frame))?;
        let is_full = self.pages.len(list) >= self.pages.limit(list);
        if !list.is_emptying() || !is_full {
            return Some(list);
        }
        let waits = || lists.postponed > 0 || self.zone.is_locked(self.platform);
        let returns = match lists.burst.update(self.pages.traffic.frames()) {
            true => lists.sizing.bounds().1 >= LONG_LISTS.into(),
            false => !lists.sizing.is_contended() || !waits(),
        };
        if returns {
            return Some(list);
        }
        lists.postponed = lists.postponed.checked_sub(1).unwrap_or(POSTPONED);
        ListIndex::freeing(order, self.zone.type_number(frame))
    }

    /// Moves bundles of the store to `leaving` whose pageblocks have become sparse since their blocks were freed. A spill
    /// of `moved` blocks looks at a few slots, so that no free takes long.
    pub(super) fn sweep(&self, lists: &mut Lists<'m>, moved: u32, leaving: &mut Bundles) {
        let slots = moved.checked_div(self.tuning.pcp.sweep_blocks).unwrap_or(0);
        if slots == 0 || lists.sizing.is_contended() && self.zone.is_locked(self.platform) {
            return;
        }
        let leaves = |word: u32| self.zone.is_emptying(word * 64);
        let before = leaving.as_slice().len();
        let taken = lists.store.sweep(slots, leaves, leaving);
        let selected = leaving.as_slice().len() - before;
        probe_swept(self.context(), &lists.store, slots, selected);
        lists.set_stored(self.context(), lists.stored - taken);
    }
}

impl<P: Platform> OwnedZoneOnCpu<'_, '_, P> {
    /// Returns a batch of the blocks of emptying pageblocks, from the store and the rings, to the
    /// zone.
    #[cold]
    #[inline(never)]
    pub(super) fn return_emptying(&mut self) {
        let mut leaving = DrainBatch::new();
        self.enter(|at, lists| {
            at.set_depot_share(&lists.sizing, &mut leaving, DrainReason::Capacity);
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
