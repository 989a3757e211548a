//! A CPU's use of the depot of a zone: the choice of blocks for the depot, and the return of blocks
//! from the depot to the buddy.

use super::{
    ListIndex, Lists, Sizing, cpu::ZoneOnCpu, lists::BYPASSES, packing::pack_outlined,
    refill::BatchGuard,
};
use crate::{
    buddy::{Bundle, Bundles},
    observe::DrainReason,
    platform::{Cost, Platform},
    tuning::Auto,
    types::Order,
    zone::{BlockKind, BlockStack, FlushScope},
};

/// Bundles of up to this many blocks go to the depot. The cost of freeing a bundle to the buddy does
/// not depend on the number of its blocks; the cost of the depot does.
const SMALL_BUNDLE: u32 = 2;

/// The blocks that leave the lists of a CPU for the zone.
pub(super) struct DrainBatch {
    /// Blocks for the buddy.
    pub(super) bundles: Bundles,
    /// Blocks for the depot, if the depot takes them.
    stack: BlockStack,
    /// Bundles of at most this many blocks go to the depot.
    max_blocks: u32,
    /// Frames that the depot can still take.
    depot_free: u64,
}

impl DrainBatch {
    /// An empty batch. All its blocks will go to the buddy.
    pub(super) const fn new() -> Self {
        Self { bundles: Bundles::new(), stack: BlockStack::new(), max_blocks: 0, depot_free: 0 }
    }

    /// Whether there are no blocks.
    pub(super) fn is_empty(&self) -> bool {
        self.bundles.is_empty() && self.stack.is_empty()
    }

    pub(super) fn frames(&self) -> u64 {
        self.bundles.frames() + self.stack.frames()
    }
}

impl<'m, P: Platform> ZoneOnCpu<'_, 'm, P> {
    /// Whether blocks that leave the lists may go to the depot. With few CPUs only those of a CPU that frees the frames
    /// of others may, unless a setting demands a depot: blocks that the CPU will allocate itself better return to their
    /// pageblocks.
    fn uses_depot(&self, sizing: &Sizing) -> bool {
        sizing.is_contended()
            || sizing.frees_of_others()
            || self.tuning.zone.depot_divisor != Auto::Auto
    }

    /// Decides which blocks go to the depot from now on, by the reason of the drain. The blocks of a
    /// requested drain go to the buddy, and so do all blocks while the zone is below its high watermark.
    /// Otherwise all blocks of a burst of high-order frees go to the depot, because they were allocated on
    /// another CPU and will soon be allocated there again.
    #[inline(never)]
    pub(super) fn set_depot_share(
        &self,
        sizing: &Sizing,
        leaving: &mut DrainBatch,
        reason: DrainReason,
    ) {
        leaving.max_blocks = match reason {
            DrainReason::Capacity | DrainReason::Threshold if self.uses_depot(sizing) => {
                SMALL_BUNDLE
            }
            DrainReason::HighOrder => u32::MAX,
            _ => return,
        };
        if !self.zone_free().is_low {
            leaving.depot_free = self.zone.depot_free_frames();
        }
    }

    /// Moves about `frames` frames out of the lists. Returns their number.
    pub(super) fn select_leaving(
        &self,
        lists: &mut Lists<'m>,
        list: ListIndex,
        frames: u64,
        leaving: &mut DrainBatch,
    ) -> u64 {
        let mut moved = 0;
        loop {
            moved +=
                lists.select_bundles(self.context(), list, frames - moved, &mut leaving.bundles);
            let for_depot = self.move_to_depot_share(leaving);
            if !for_depot || moved >= frames {
                break;
            }
        }
        // Frees are scattered: the next blocks probably have no neighbours in the store, either.
        if leaving.max_blocks == SMALL_BUNDLE && leaving.stack.frames() * 4 > moved * 3 {
            lists.bypasses = BYPASSES;
        }
        moved
    }

    /// Prefetches the metadata of the blocks of a ring that will leave next while frees are scattered.
    pub(super) fn prefetch_next(&self, lists: &mut Lists<'m>, list: ListIndex) {
        let next = self.pages.len(list).min(lists.sizing.hold_pageblocks() as usize);
        self.zone.prefetch_frames(self.platform, &lists.ring(list)[..next]);
    }

    /// While frees are scattered, moves the blocks of a full ring to the blocks for the depot. They are neither
    /// packed nor do they pass the store, because another CPU will allocate them one by one.
    #[inline(never)]
    pub(super) fn pass_on(&self, lists: &mut Lists<'m>, list: ListIndex, leaving: &mut DrainBatch) {
        let (len, limit) = (self.pages.len(list), self.pages.limit(list));
        if limit == 0 || len < limit || list.is_emptying() {
            return;
        }
        self.set_depot_share(&lists.sizing, leaving, DrainReason::Capacity);
        let (order, of) = (list.order(), list.migratetype() as u8);
        let Some(blocks) = lists.ring(list).get(..len) else { return };
        let Some(kind) = BlockKind::of(order, of) else { return };
        let fits = (len as u64) << order.get() <= leaving.depot_free;
        let has_type = |&frame: &u32| self.zone.type_number(frame) == of;
        if fits && blocks.iter().all(has_type) && leaving.stack.add_run(kind, blocks) {
            self.platform.cost(Cost::LooseBlocks, len as u32);
            self.pages.set_len(list, 0);
            lists.bypasses = lists.bypasses.saturating_sub(len as u16);
        }
    }

    /// Moves small bundles from the blocks for the buddy to the blocks for the depot. Returns
    /// whether there were any.
    pub(super) fn move_to_depot_share(&self, leaving: &mut DrainBatch) -> bool {
        let DrainBatch { bundles, stack, max_blocks, depot_free } = leaving;
        if *depot_free == 0 {
            return false;
        }
        let before = stack.len();
        bundles.retain(|bundle| {
            let kind = BlockKind::of(bundle.order, self.zone.type_number(bundle.word * 64));
            let frames = bundle.frame_count();
            let is_small = bundle.blocks() <= *max_blocks
                && frames <= *depot_free
                && kind.is_some_and(|kind| stack.add(kind, bundle));
            if is_small {
                *depot_free -= frames;
            }
            !is_small
        });
        let for_depot = stack.len() - before;
        self.platform.cost(Cost::LooseBlocks, for_depot as u32);
        for_depot > 0
    }

    /// Frees all leaving blocks to the zone under one hold of its lock. Blocks that the depot does
    /// not take go to the buddy.
    pub(super) fn give_leaving(&self, leaving: &mut DrainBatch) {
        let DrainBatch { bundles, stack, .. } = leaving;
        if P::TRACING {
            let batch = BatchGuard { cpu: *self, taken: bundles, stack: Some(stack) };
            let of_stack = batch.stack.iter().flat_map(|stack| self.blocks_of_stack(stack));
            self.trace_drained(self.blocks_of(bundles.as_slice()).chain(of_stack));
            core::mem::forget(batch);
        }
        if stack.is_empty() {
            return self.give(bundles);
        }
        self.platform.cost(Cost::BulkFree, 1);
        self.zone.prefetch(self.platform, bundles);
        let for_depot = stack.frames();
        let refusals = self.zone.give_with_depot(self.platform, bundles.as_slice(), stack);
        let taken_in = for_depot - stack.frames();
        self.count_lock(bundles.frames() + taken_in);
        self.pages.counters.to_depot.add(taken_in);
        self.pages.counters.refused_frames.add(refusals.frames);
        self.report(refusals);
        self.give_stack(stack);
        self.trim_depot();
    }

    /// Frees blocks to the buddy.
    pub(super) fn give_stack(&self, stack: &mut BlockStack) {
        if !stack.is_empty() {
            self.sort_and_give(stack);
        }
    }

    #[inline(never)]
    fn sort_and_give(&self, stack: &mut BlockStack) {
        stack.sort();
        self.platform.cost(Cost::LooseBlocks, stack.len() as u32);
        let mut bundles = Bundles::new();
        bundles.limit_pageblocks(self.pages.hold_pageblocks());
        for (kind, blocks) in stack.runs() {
            let mut rest = blocks;
            while let Some((bundle, used)) = pack_outlined(rest, kind.order()) {
                rest = &rest[used..];
                self.add_or_give(bundle, &mut bundles);
            }
        }
        self.give(&bundles);
        stack.clear();
    }

    fn add_or_give(&self, bundle: Bundle, bundles: &mut Bundles) {
        if bundles.is_full() {
            self.give(bundles);
            bundles.clear();
        }
        bundles.push(bundle);
    }

    /// Returns to the buddy as many frames as were in the depot at the start of the call. The caller
    /// is not inside the lists.
    pub(crate) fn empty_depot(&self) {
        let mut left = self.zone.in_depot();
        while left > 0 {
            match self.shrink_depot(FlushScope::For(None, Order::ZERO)) {
                0 => return,
                frames => left = left.saturating_sub(frames),
            }
        }
    }

    /// Returns up to a chunk of the depot's blocks, of a kind that `which` selects, to the buddy.
    /// The result is the number of frames; 0 if the depot has no such blocks.
    pub(super) fn shrink_depot(&self, which: FlushScope) -> u64 {
        if self.zone.in_depot() == 0 {
            return 0;
        }
        let mut stack = BlockStack::new();
        self.zone.flush_depot(self.platform, which, &mut stack);
        let frames = stack.frames();
        self.count_lock(frames);
        self.give_stack(&mut stack);
        frames
    }

    /// If the depot has surplus (blocks that were not used in the last interval), returns up to a chunk of
    /// blocks of one kind with surplus to the buddy. Ends the depot's interval when its time is over.
    /// Returns the number of frames. Called after each refill from the zone, and after each drain of blocks into the
    /// depot.
    pub(super) fn trim_depot(&self) -> u64 {
        if self.zone.depot_interval_ended(self.platform) {
            self.zone.end_depot_interval(self.platform);
            self.count_lock(0);
        }
        if self.zone.depot_has_surplus() { self.shrink_depot(FlushScope::Surplus) } else { 0 }
    }

    /// Returns all surplus of the depot to the buddy.
    pub(crate) fn trim_whole_depot(&self) {
        while self.trim_depot() > 0 {}
    }
}
