//! The number of huge pages that a program could get now.
//!
//! **Without compaction** the number is counted. A request takes a free block of the size of a
//! pageblock or larger, of any migratetype except those that are kept for others (`HighAtomic`, `Isolate`).
//! The remaining free frames must not be fewer than the watermark *min* of the zone, its boost, and the
//! lowmem reserve that the zone keeps from movable requests.
//!
//! **With compaction** the number is bounded. Compaction moves pages within movable pageblocks, so it can
//! merge the free frames of movable pageblocks (and of CMA), and no others. The upper bound has no
//! further condition than the watermark. The lower bound is a share of the upper one. Reclaim is not part of either: a
//! request that may also reclaim can get more.
//!
//! Sources: Linux's documentation, sysctl/vm.rst (min_free_kbytes, lowmem_reserve_ratio) and
//! filesystems/proc.rst (buddyinfo, pagetypeinfo, zoneinfo). Page faults may use memory down to the watermark min;
//! this was measured with `--try`.

use framewright::frame::PAGEBLOCK_ORDER;

use super::Fragmentation;
use crate::trace::{Snapshot, snapshot::Zone};

/// The huge pages of all zones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HugePages {
    /// The order of a huge page.
    pub order: u8,
    /// Each zone that has memory and free blocks.
    pub zones: Vec<ZoneHugePages>,
}

/// The huge pages of one zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneHugePages {
    /// The node.
    pub node: u16,
    /// The zone.
    pub zone: String,
    /// Free blocks of a huge page, larger ones counted in huge pages.
    pub free: u64,
    /// The most huge pages that leave the watermark and the lowmem reserve free.
    pub above_watermark: u64,
    /// Huge pages without compaction.
    pub without: u64,
    /// Huge pages with compaction, without reclaim: the least and the most.
    pub with: [u64; 2],
}

/// The least number of huge pages with compaction, in percent of the most, unless more are free already. Pages
/// under writeback and pinned pages cannot be moved, and a request ends compaction that takes long; the tables do
/// not show how many. The number is an estimate. docs/inspect.md has measurements.
const LEAST_PERCENT: u64 = 70;

impl HugePages {
    /// Predicts the huge pages of all zones; no zones without buddyinfo.
    #[must_use]
    pub fn predict(tables: &Snapshot) -> Self {
        let order = tables.pageblock_order.unwrap_or(PAGEBLOCK_ORDER);
        let zones = tables.zones.iter().filter(|zone| zone.managed > 0);
        Self { order, zones: zones.filter_map(|zone| ZoneHugePages::of(zone, order)).collect() }
    }

    /// Huge pages without compaction, over all zones.
    #[must_use]
    pub fn without(&self) -> u64 {
        self.zones.iter().map(|zone| zone.without).sum()
    }

    /// Huge pages with compaction, over all zones: the least and the most.
    #[must_use]
    pub fn with(&self) -> [u64; 2] {
        [0, 1].map(|end| self.zones.iter().map(|zone| zone.with[end]).sum())
    }

    /// Bytes of a huge page.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        4096 << self.order
    }
}

impl ZoneHugePages {
    fn of(zone: &Zone, order: u8) -> Option<Self> {
        let of = Fragmentation::of(zone)?;
        let order = usize::from(order);
        let kept = |order| of_types(&of, &KEPT, |blocks| frames(blocks, order));
        let free = frames(&of.blocks, order).saturating_sub(kept(order)) >> order;
        let usable = zone.free.saturating_sub(kept(0));
        let above_watermark = usable.saturating_sub(watermark(zone)) >> order;
        let without = free.min(above_watermark);
        let most = (free + (mergeable(&of, order) >> order)).min(above_watermark).max(without);
        let least = without.max(most * LEAST_PERCENT / 100);
        Some(Self {
            node: zone.node,
            zone: zone.name.clone(),
            free,
            above_watermark,
            without,
            with: [least, most],
        })
    }
}

/// The frames that a movable request must leave free in a zone.
fn watermark(zone: &Zone) -> u64 {
    // Movable requests may use every kind of zone, so the largest reserve is theirs.
    let reserve = zone.protection.iter().max().copied().unwrap_or(0);
    zone.min.saturating_add(zone.boost).saturating_add(reserve)
}

/// Migratetypes whose free memory is kept for other requests.
const KEPT: [&str; 2] = ["HighAtomic", "Isolate"];
/// Migratetypes in whose pageblocks compaction moves pages.
const MOVED: [&str; 2] = ["Movable", "CMA"];

/// Frames of some migratetypes. `count` gets the free blocks of each.
fn of_types(of: &Fragmentation, names: &[&str], count: impl Fn(&[u64]) -> u64) -> u64 {
    let some = of.types.iter().filter(|of| names.contains(&of.name.as_str()));
    some.fold(0, |sum, of| sum.saturating_add(count(&of.blocks)))
}

/// Free frames in blocks smaller than a huge page that compaction can merge.
fn mergeable(of: &Fragmentation, order: usize) -> u64 {
    let small = |blocks: &[u64]| frames(&blocks[..order.min(blocks.len())], 0);
    if of.types.is_empty() {
        return small(&of.blocks);
    }
    of_types(of, &MOVED, small)
}

/// Frames in free blocks of `order` and above.
fn frames(blocks: &[u64], order: usize) -> u64 {
    let above = blocks.iter().enumerate().skip(order);
    above.fold(0, |sum, (order, count)| sum.saturating_add(count.saturating_mul(1 << order)))
}
