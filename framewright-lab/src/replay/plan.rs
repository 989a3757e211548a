//! The machine to build: its zones, its CPUs, and its state at the start of the recording.
//!
//! The source is the snapshot or, without one, the minimum that the recording needs.

use framewright::frame::PAGEBLOCK_ORDER;
use framewright::{MigrateType, NodeId, ZoneKind};

use super::census::Held;
use super::survey::{PAGEBLOCK, SMALL_ORDERS, Survey, TYPES};
use crate::Error;
use crate::trace::Snapshot;
use crate::trace::snapshot::Zone;

/// The largest machine: 4 TiB. Its metadata is a few hundred MiB.
pub(super) const MOST_FRAMES: u64 = 1 << 30;
/// Spare frames of a machine without a snapshot: 256 MiB.
const SPARE_WITHOUT_SNAPSHOT: u64 = 1 << 16;

/// The machine and its state at the start.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The zones that have memory, ascending.
    pub(super) zones: Vec<ZonePlan>,
    /// CPUs.
    pub(super) cpus: u16,
    /// Whether it is from a snapshot; otherwise it is the minimum that the recording needs.
    pub(super) from_snapshot: bool,
}

/// A zone and its state at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ZonePlan {
    pub(super) node: NodeId,
    pub(super) kind: ZoneKind,
    /// Recorded frames of the zone: the first, and the end (exclusive).
    pub(super) recorded: [u64; 2],
    /// Number of its first pageblock.
    pub(super) first: u64,
    /// Pageblocks from the first to the last.
    pub(super) spanned: u64,
    /// Pageblocks that have frames.
    pub(super) pageblocks: u64,
    /// Managed frames; the frames that the recorded kernel kept for itself are holes.
    pub(super) managed: u64,
    /// Pageblocks by migratetype.
    pub(super) types: [TypePlan; TYPES],
    /// The lists of each CPU.
    pub(super) cpus: Vec<ListsPlan>,
}

/// The pageblocks of one migratetype.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TypePlan {
    /// Number of pageblocks that are not wholly free.
    pub(super) used: u64,
    /// Free blocks in those, by order.
    pub(super) free_blocks: [u64; SMALL_ORDERS],
    /// Number of free pageblocks with a buddy that is not free.
    pub(super) singles: u64,
    /// Pairs of buddies that are free.
    pub(super) pairs: u64,
    /// Number of used pageblocks without free frames, as far as known.
    pub(super) full: u64,
}

/// The lists of a CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListsPlan {
    /// Frames on them.
    pub(super) count: u64,
    /// The limit of frames on them.
    pub(super) high: u64,
    /// Blocks on them that the recording names; at most `count` frames.
    pub(super) known: Vec<Held>,
    /// Frames of these.
    known_frames: u64,
}

impl TypePlan {
    fn free_pageblocks(&self) -> u64 {
        self.pairs.saturating_mul(2).saturating_add(self.singles)
    }

    /// Number of pageblocks.
    pub(super) fn pageblocks(&self) -> u64 {
        self.used.saturating_add(self.free_pageblocks())
    }

    /// Frames that are free.
    pub(super) fn free_frames(&self) -> u64 {
        self.free_pageblocks().saturating_mul(PAGEBLOCK).saturating_add(self.small_frames())
    }

    /// Minimum number of pageblocks for its small free blocks, if each pageblock has a frame in
    /// use.
    pub(super) fn least_used(&self) -> u64 {
        self.small_frames().div_ceil(PAGEBLOCK - 1)
    }

    /// Adds the pageblocks of another zone.
    pub(super) fn add(&mut self, other: Self) {
        self.used += other.used;
        self.singles += other.singles;
        self.pairs += other.pairs;
        self.full += other.full;
        self.free_blocks.iter_mut().zip(other.free_blocks).for_each(|(sum, of)| *sum += of);
    }

    /// The fraction `part`/`whole` of these pageblocks, rounded down. The rest of a free block
    /// becomes smaller blocks.
    pub(super) fn scaled(&self, part: u64, whole: u64) -> Self {
        let (part, whole) = (u128::from(part), u128::from(whole.max(1)));
        let scale = |count: u64| (u128::from(count) * part / whole) as u64;
        let mut free_blocks = [0; SMALL_ORDERS];
        let mut rest = 0;
        for order in (0..SMALL_ORDERS).rev() {
            let blocks = u128::from(self.free_blocks[order]) * part + 2 * rest;
            free_blocks[order] = (blocks / whole) as u64;
            rest = blocks % whole;
        }
        let Self { used, singles, pairs, full, .. } = *self;
        let used = scale(used);
        let (singles, pairs) = (scale(singles), scale(pairs));
        Self { used, free_blocks, singles, pairs, full: scale(full).min(used) }
    }

    /// Frames of free blocks in pageblocks that are not wholly free.
    pub(super) fn small_frames(&self) -> u64 {
        let blocks = (0..).zip(self.free_blocks);
        blocks.fold(0, |sum, (order, blocks): (u32, u64)| {
            sum.saturating_add(blocks.saturating_mul(1 << order))
        })
    }
}

impl Plan {
    /// The machine of the recording.
    ///
    /// # Errors
    /// A zone with memory has a kind or a node that a memory cannot have.
    pub(super) fn from_snapshot(snapshot: &Snapshot, survey: &Survey) -> Result<Self, Error> {
        let order = snapshot.pageblock_order.unwrap_or(PAGEBLOCK_ORDER);
        let zones = snapshot.zones.iter().filter(|zone| zone.managed > 0);
        let zones: Result<Vec<_>, _> =
            zones.map(|zone| ZonePlan::of(zone, order, survey.cpus)).collect();
        let mut plan = Self { zones: zones?, cpus: survey.cpus, from_snapshot: true };
        plan.place();
        for &held in &survey.census.held {
            let zone = plan.zone_of(held.pfn);
            let cpus = &mut plan.zones[zone].cpus;
            if let Some(lists) = cpus.get_mut(usize::from(held.cpu)) {
                lists.know(held);
            }
        }
        Ok(plan)
    }

    /// A machine that is large enough for the recording: a block in use from the start (a stand-in)
    /// for every free without a recorded allocation, plus the recording's peak, plus a quarter,
    /// plus 256 MiB.
    pub(super) fn from_survey(survey: &Survey) -> Self {
        let in_use = survey.unseen_frames;
        let peak = in_use.saturating_add_signed(survey.peak);
        let frames = (peak + peak / 4 + SPARE_WITHOUT_SNAPSHOT).next_multiple_of(PAGEBLOCK);
        let mut zone = ZonePlan::untyped(NodeId::default(), ZoneKind::Normal, frames, in_use);
        zone.recorded = [0, u64::MAX];
        zone.cpus = vec![ListsPlan::default(); usize::from(survey.cpus)];
        let mut plan = Self { zones: vec![zone], cpus: survey.cpus, from_snapshot: false };
        plan.place();
        plan
    }

    /// Frames that all zones manage.
    pub(super) fn managed(&self) -> u64 {
        self.zones.iter().fold(0, |sum, zone| sum.saturating_add(zone.managed))
    }

    /// The zone of a recorded frame; the largest if that is unknown.
    pub(super) fn zone_of(&self, pfn: u64) -> usize {
        let holds = |zone: &ZonePlan| (zone.recorded[0]..zone.recorded[1]).contains(&pfn);
        let known = self.zones.iter().position(holds);
        let largest = || (0..self.zones.len()).max_by_key(|&zone| self.zones[zone].managed);
        known.or_else(largest).unwrap_or(0)
    }

    /// Places the zones at their recorded positions if they fit there, and otherwise one after the
    /// other.
    fn place(&mut self) {
        let ends = self.zones.iter().map(|zone| zone.first + zone.spanned);
        let starts = self.zones.iter().skip(1).map(|zone| zone.first);
        let roomy = self.zones.iter().all(|zone| zone.spanned >= zone.pageblocks);
        let spanned = self.zones.iter().fold(0, |sum: u64, zone| sum.saturating_add(zone.spanned));
        let affordable = spanned <= MOST_FRAMES / PAGEBLOCK;
        if roomy && affordable && ends.zip(starts).all(|(end, start)| end <= start) {
            return;
        }
        let mut first = 0u64;
        for zone in &mut self.zones {
            (zone.first, zone.spanned) = (first, zone.pageblocks);
            // Pairs of buddies stay pairs.
            first = first.saturating_add(zone.pageblocks).next_multiple_of(2);
        }
    }
}

impl ZonePlan {
    /// A zone of the snapshot; `pageblock_order` is the recorded machine's.
    fn of(zone: &Zone, pageblock_order: u8, cpus: u16) -> Result<Self, Error> {
        let kind = ZoneKind::ALL.into_iter().find(|kind| kind.name() == zone.name);
        let node = u8::try_from(zone.node).ok().and_then(NodeId::new);
        let Some((kind, node)) = kind.zip(node) else {
            return Err(Error::input(format_args!(
                "node {}, zone {}: a memory has nodes below 64, and on each the zones DMA, DMA32, Normal \
                 and Movable",
                zone.node, zone.name
            )));
        };
        let taken = zone.managed - zone.free;
        let planned = Self::typed(node, kind, zone, pageblock_order);
        let mut plan = planned.unwrap_or_else(|| Self::untyped(node, kind, zone.managed, taken));
        if let Some(start) = zone.start_pfn
            && zone.spanned > 0
        {
            let end = start.saturating_add(zone.spanned);
            plan.recorded = [start, end];
            plan.first = start / PAGEBLOCK;
            plan.spanned = end.div_ceil(PAGEBLOCK) - plan.first;
        }
        plan.cpus = vec![ListsPlan::default(); usize::from(cpus)];
        for recorded in &zone.cpus {
            // A CPU of the snapshot that is not in the recording was idle all the time.
            let cpu = usize::from(recorded.cpu.min(cpus - 1));
            plan.cpus[cpu].count += recorded.count;
            plan.cpus[cpu].high = plan.cpus[cpu].high.max(recorded.high);
        }
        Ok(plan)
    }

    /// A zone with known sizes only: free memory is in the largest possible blocks.
    pub(super) fn untyped(node: NodeId, kind: ZoneKind, managed: u64, taken: u64) -> Self {
        let pageblocks = managed.div_ceil(PAGEBLOCK);
        let holes = pageblocks.saturating_mul(PAGEBLOCK) - managed;
        let used = (taken + holes).div_ceil(PAGEBLOCK);
        let rest = used.saturating_mul(PAGEBLOCK) - holes - taken;
        let free = pageblocks - used;
        let movable = TypePlan {
            used,
            free_blocks: std::array::from_fn(|order| rest >> order & 1),
            singles: free % 2,
            pairs: free / 2,
            full: 0,
        };
        let mut types = [TypePlan::default(); TYPES];
        types[MigrateType::Movable as usize] = movable;
        let (recorded, first, spanned, cpus) = ([0, 0], 0, 0, Vec::new());
        Self { node, kind, recorded, first, spanned, pageblocks, managed, types, cpus }
    }

    /// A zone from buddyinfo and pagetypeinfo; `None` if they are missing, or contradict zoneinfo,
    /// the required table.
    pub(super) fn typed(
        node: NodeId,
        kind: ZoneKind,
        zone: &Zone,
        pageblock_order: u8,
    ) -> Option<Self> {
        let mut types = pageblocks_by_type(zone, pageblock_order)?;
        let whole = types.iter().map(TypePlan::free_pageblocks).fold(0, u64::saturating_add);
        let used: u64 = types.iter().map(|plan| plan.used).fold(0, u64::saturating_add);
        let pageblocks = whole.saturating_add(used).max(zone.managed.div_ceil(PAGEBLOCK));
        let movable = &mut types[MigrateType::Movable as usize];
        movable.used += pageblocks - whole.saturating_add(used).min(pageblocks);
        let used = pageblocks - whole;
        // Frames that are not free are in use, on CPU lists, or not managed.
        let fits = |plan: &TypePlan| plan.small_frames() <= plan.used.saturating_mul(PAGEBLOCK);
        let small = types.iter().map(TypePlan::small_frames).fold(0, u64::saturating_add);
        let holes = pageblocks.saturating_mul(PAGEBLOCK) - zone.managed;
        let needed = small.saturating_add(holes).saturating_add(zone.held_by_cpus());
        let most = zone.managed.max(zone.present).max(zone.spanned);
        let consistent = pageblocks <= most.div_ceil(PAGEBLOCK) + 1
            && types.iter().all(fits)
            && needed <= used.saturating_mul(PAGEBLOCK);
        let plan = Self { types, pageblocks, ..Self::untyped(node, kind, zone.managed, 0) };
        consistent.then_some(plan)
    }
}

impl ListsPlan {
    /// Frames on the lists that belong to no known block.
    pub(super) fn unknown(&self) -> u64 {
        self.count - self.known_frames
    }

    /// Notes a block that was on these lists, up to the snapshot's count.
    fn know(&mut self, held: Held) {
        if self.unknown() >= 1 << held.order {
            self.known.push(held);
            self.known_frames += 1 << held.order;
        }
    }
}

/// The pageblocks of a zone, converted to the library's; `None` without pagetypeinfo.
fn pageblocks_by_type(zone: &Zone, pageblock_order: u8) -> Option<[TypePlan; TYPES]> {
    if zone.types.is_empty() {
        return None;
    }
    let mut plans = [TypePlan::default(); TYPES];
    let uncapped = uncapped(zone);
    for (lists, free_blocks) in zone.types.iter().zip(uncapped) {
        let plan = match lists.name.as_str() {
            "Unmovable" => &mut plans[MigrateType::Unmovable as usize],
            "Reclaimable" => &mut plans[MigrateType::Reclaimable as usize],
            // Free memory of CMA and of the high-atomic reserve counts as movable.
            _ => &mut plans[MigrateType::Movable as usize],
        };
        let mut whole = 0;
        for (order, &blocks) in free_blocks.iter().enumerate() {
            match order.checked_sub(SMALL_ORDERS) {
                None => plan.free_blocks[order] += blocks,
                Some(0) => {
                    plan.singles += blocks;
                    whole += blocks;
                }
                Some(beyond) => {
                    plan.pairs += blocks << (beyond - 1);
                    whole += blocks << beyond;
                }
            }
        }
        let pageblocks = match i32::from(pageblock_order) - i32::from(PAGEBLOCK_ORDER) {
            larger @ 0.. => lists.pageblocks.saturating_mul(1 << larger),
            smaller => lists.pageblocks >> -smaller,
        };
        plan.used = plan.used.saturating_add(pageblocks.saturating_sub(whole));
    }
    Some(plans)
}

/// Free blocks of each type by order. The kernel stops counting a list at 100,000. In that case
/// buddyinfo gives the difference, unless two types reached the cap at the same order.
pub(crate) fn uncapped(zone: &Zone) -> Vec<Vec<u64>> {
    let mut types: Vec<Vec<u64>> = zone.types.iter().map(|of| of.free_blocks.clone()).collect();
    for (order, &all) in zone.free_blocks.iter().enumerate() {
        let at = |blocks: &[u64]| blocks.get(order).copied().unwrap_or(0);
        let sum = types.iter().fold(0u64, |sum, blocks| sum.saturating_add(at(blocks)));
        let capped = zone.types.iter().position(|of| of.capped && at(&of.free_blocks) >= CAP);
        if let Some(of) = capped {
            types[of][order] += all.saturating_sub(sum);
        }
    }
    types
}

/// The cap of the kernel's count of a free list.
const CAP: u64 = 100_000;
