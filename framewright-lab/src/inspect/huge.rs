//! The number of huge pages that a program could get now.
//!
//! **Without compaction** the number is counted. A request takes a free block of the size of a
//! pageblock or larger, of any migratetype except those that are kept for others (`HighAtomic`, `Isolate`).
//! The remaining free frames must not be fewer than the watermark *min* of the zone, its boost, and the
//! lowmem reserve that the zone keeps from movable requests.
//!
//! **With compaction** the number is an interval. It is the limit of requests that wait and are repeated, without what
//! reclaim adds. With the flags of all frames ([`ZonePages`]), the library's compaction forms huge pages in a memory of the
//! same state, and the interval is around their number. From the tables alone, it is around the number of huge pages that
//! the movable free memory has room for, and wider.
//!
//! Sources: Linux's documentation, sysctl/vm.rst (min_free_kbytes, lowmem_reserve_ratio) and
//! filesystems/proc.rst (buddyinfo, pagetypeinfo, zoneinfo). Page faults may use memory down to the watermark min;
//! this was measured with `--try`.

use framewright::frame::PAGEBLOCK_ORDER;

use super::{Fragmentation, Look, pages::ZonePages, simulate};
use crate::trace::snapshot::Zone;

/// The huge pages of all zones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HugePages {
    /// The order of a huge page.
    pub order: u8,
    /// The source of the numbers with compaction.
    pub basis: Basis,
    /// Each zone that has memory and free blocks.
    pub zones: Vec<ZoneHugePages>,
}

/// The best table that a prediction with compaction has, from the worst to the best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// Free blocks: all free memory counts as movable.
    #[default]
    Buddyinfo,
    /// Free blocks by migratetype.
    Pagetypeinfo,
    /// The flags of all frames.
    Kpageflags,
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

/// The interval around the number of huge pages that the library's compaction forms, in percent of it. docs/inspect.md
/// has measurements.
const OF_COMPACTED: [u64; 2] = [83, 118];
/// From the tables alone, these shares of the frames on CPU lists, and of the free memory in pageblocks that are not
/// movable, count as movable, in percent.
const OF_CPU_LISTS: u64 = 80;
const OF_UNMOVABLE: u64 = 60;
/// The interval around the number of huge pages in movable free memory, in percent of it.
const OF_MOVABLE: [u64; 2] = [60, 115];
/// The interval that other programs can reach by taking and freeing memory in the seconds that the requests need, in
/// percent of the huge pages that are free, and of those above the watermark.
const OF_FREE: [u64; 2] = [90, 110];

impl HugePages {
    /// Predicts the huge pages of all zones; no zones without buddyinfo.
    #[must_use]
    pub fn predict(look: &Look) -> Self {
        let order = look.tables.pageblock_order.unwrap_or(PAGEBLOCK_ORDER);
        let zones = look.tables.zones.iter().filter(|zone| zone.managed > 0);
        // The library's huge pages have this size only.
        let pages = |zone| look.pages_of(zone).filter(|_| order == PAGEBLOCK_ORDER);
        let zones = zones.filter_map(|zone| ZoneHugePages::of(zone, pages(zone), order));
        let (bases, zones): (Vec<_>, Vec<_>) = zones.unzip();
        Self { order, basis: bases.into_iter().min().unwrap_or_default(), zones }
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
    fn of(zone: &Zone, pages: Option<&ZonePages>, order: u8) -> Option<(Basis, Self)> {
        let of = Fragmentation::of(zone)?;
        let order = usize::from(order);
        let kept = |order| of_types(&of, &KEPT, |blocks| frames(blocks, order));
        let free = frames(&of.blocks, order).saturating_sub(kept(order)) >> order;
        let on_cpu_lists = zone.held_by_cpus();
        let above = |on_cpu_lists: u64| {
            let usable = zone.free.saturating_add(on_cpu_lists).saturating_sub(kept(0));
            usable.saturating_sub(watermark(zone)) >> order
        };
        let without = free.min(above(0));
        let above_all = above(on_cpu_lists);
        let (basis, expected, around) = match pages.and_then(|of| compacted(of, zone)) {
            Some(compacted) => (Basis::Kpageflags, compacted, OF_COMPACTED),
            None => {
                let (basis, small) = small_frames(&of, order);
                let added = small.saturating_add(percent(on_cpu_lists, OF_CPU_LISTS));
                (basis, free.saturating_add(added >> order), OF_MOVABLE)
            }
        };
        let expected = expected.min(above_all);
        let least = percent(expected, around[0]).max(percent(without, OF_FREE[0]));
        let most = percent(expected, around[1]).min(percent(above_all, OF_FREE[1])).max(without);
        let of = Self {
            node: zone.node,
            zone: zone.name.clone(),
            free,
            above_watermark: above(0),
            without,
            with: [least, most],
        };
        Some((basis, of))
    }
}

/// The huge pages that the library's compaction forms in a zone whose frames are known; `None` if the library cannot
/// have such a memory.
fn compacted(pages: &ZonePages, zone: &Zone) -> Option<u64> {
    let pageblocks = pages.settled(zone.held_by_cpus());
    let formed = simulate::huge_pages(&pageblocks, watermark(zone) / pages.step)?;
    Some(formed * pages.step.get())
}

fn percent(of: u64, percent: u64) -> u64 {
    of.saturating_mul(percent) / 100
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

/// Free frames in blocks smaller than a huge page, as far as they count as movable.
fn small_frames(of: &Fragmentation, order: usize) -> (Basis, u64) {
    let small = |blocks: &[u64]| frames(&blocks[..order.min(blocks.len())], 0);
    let all = small(&of.blocks);
    if of.types.is_empty() {
        return (Basis::Buddyinfo, all);
    }
    let movable = of_types(of, &MOVED, small);
    let kept = of_types(of, &KEPT, small);
    let others = all.saturating_sub(movable).saturating_sub(kept);
    let counted = movable.saturating_add(percent(others, OF_UNMOVABLE));
    (Basis::Pagetypeinfo, counted)
}

/// Frames in free blocks of `order` and above.
fn frames(blocks: &[u64], order: usize) -> u64 {
    let above = blocks.iter().enumerate().skip(order);
    above.fold(0, |sum, (order, count)| sum.saturating_add(count.saturating_mul(1 << order)))
}
