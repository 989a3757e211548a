//! The costs of the library's work, in tenths of an instruction: the library's kinds of work, and
//! the machine's parameters `library.*`, which state the source of each figure.

use crate::{engine::Model, machine::Library};
use framewright::platform::Cost;

/// The costs of work on a machine.
#[derive(Clone, Copy)]
pub(super) struct Prices {
    library: Library,
    /// Cycles of the hottest operations, computed once: the two divisions would take longer than
    /// the rest of the hook.
    hot_alloc: u64,
    hot_free: u64,
}

impl Prices {
    pub(super) fn new(library: Library, model: &Model) -> Self {
        let one = |cost| cycles(tenths(&library, cost), model);
        Self { library, hot_alloc: one(Cost::HotAlloc), hot_free: one(Cost::HotFree) }
    }

    /// Cycles of `count` units of work.
    #[inline(always)]
    pub(super) fn of(&self, cost: Cost, count: u32, model: &Model) -> u64 {
        match (cost, count) {
            (Cost::HotAlloc, 1) => self.hot_alloc,
            (Cost::HotFree, 1) => self.hot_free,
            _ => cycles(tenths(&self.library, cost) * u64::from(count), model),
        }
    }
}

fn cycles(tenths: u64, model: &Model) -> u64 {
    model.instructions(tenths.div_ceil(10))
}

/// Tenths of an instruction for one unit of `cost`. Kinds without a parameter are free.
#[inline(always)]
#[must_use]
pub fn tenths(prices: &Library, cost: Cost) -> u64 {
    match cost {
        Cost::HotAlloc => prices.hot_alloc,
        Cost::HotFree => prices.hot_free,
        Cost::OtherList => prices.other_list,
        Cost::SlowAlloc => prices.slow_alloc,
        Cost::SlowFree => prices.slow_free,
        Cost::RingRuns => prices.ring_runs,
        Cost::RingFrames => prices.ring_frames,
        Cost::StoreBundles => prices.store_bundles,
        Cost::SelectBundles => prices.select_bundles,
        Cost::SelectSingly => prices.select_singly,
        Cost::LooseBlocks => prices.loose_blocks,
        Cost::Refill => prices.refill,
        Cost::BulkFree => prices.bulk_free,
        Cost::WalkZones => prices.walk_zones,
        Cost::ZoneHold => prices.zone_hold,
        Cost::TakePageblocks => prices.take_pageblocks,
        Cost::TakeBundles => prices.take_bundles,
        Cost::TakeHighOrder => prices.take_high_order,
        Cost::TakeFrames => prices.take_frames,
        Cost::GivePageblocks => prices.give_pageblocks,
        Cost::GiveSingles => prices.give_singles,
        Cost::GiveBundles => prices.give_bundles,
        Cost::GiveFrames => prices.give_frames,
        Cost::DepotStacks => prices.depot_stacks,
        Cost::DepotBlocks => prices.depot_blocks,
        Cost::Relist => prices.relist,
        Cost::PageblockWords => prices.pageblock_words,
        Cost::WholePageblocks => prices.whole_pageblocks,
        Cost::Fallback => prices.fallback,
        Cost::Search | Cost::ScanFrames => prices.search,
        Cost::RangePageblocks => prices.range_pageblocks,
        Cost::ChangePageblocks => prices.change_pageblocks,
        Cost::LruHold => prices.lru_hold,
        Cost::LruMoves => prices.lru_moves,
        Cost::LruSkips => prices.lru_skips,
        Cost::ReclaimPages => prices.reclaim_pages,
        _ => 0,
    }
}
