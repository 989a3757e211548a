//! Carving the arrays of a memory from the metadata buffer.

use core::mem::MaybeUninit;

use super::{InUse, Layout, depot_of, slots_of};
use crate::memory::{
    Config, InitError, carve::Carver, config::ZoneSpec, side_tables::SideTableArrays,
};
use crate::{
    buddy::{ABSENT, Buddy, Bundle, Gigablock, Heads, Pageblock, PresentFrames, PresentMap},
    compact::{SkipHints, ZoneCompaction},
    core::{CoreArrays, CpuState},
    hardening::{Quarantine, States, Waiting},
    pcp::{BundleStore, CpuPages, DrainLog, Slot},
    platform::{OwnerLock, Platform, Section, SpinLock},
    reclaim::{LruBatch, LruFlags, LruLink, LruNode, LruState, LruZone},
    sync::{AtomicBool, AtomicU8, AtomicU32, AtomicU64},
    tlb::{CpuFlushes, DeferredFrees, Tlb},
    types::{CpuId, NodeId, PAGEBLOCK_FRAMES, ZoneId},
    zone::{Chunk, Depot, Distances, NodeFacts, Zone, ZonePlacement, Zonelists},
};

/// The arrays of a memory, carved from a metadata buffer that [`Layout::accepts`].
pub(in crate::memory) struct Parts<'m, P: Platform> {
    pub(in crate::memory) core: CoreArrays<'m, P>,
    pub(in crate::memory) tlb: Tlb<'m, P>,
    pub(in crate::memory) compaction: &'m [ZoneCompaction<'m>],
    pub(in crate::memory) side_tables: SideTableArrays<'m>,
    pub(in crate::memory) in_use: &'m [InUse],
    pub(in crate::memory) lru: Option<LruState<'m, P>>,
}

/// Carves the arrays from a buffer and fills them: all present memory is free and movable, and all
/// CPU lists are empty with a limit of 0.
pub(in crate::memory) fn carve<'m, P: Platform>(
    layout: &Layout,
    config: &Config<'_>,
    owner_lock: OwnerLock,
    buffer: &'m mut [MaybeUninit<u8>],
) -> Result<Parts<'m, P>, InitError> {
    layout.accepts(buffer)?;
    let too_small = layout.too_small(buffer.len());
    carve_parts(layout, config, owner_lock, &mut Carver::new(buffer)).ok_or(too_small)
}

fn carve_parts<'m, P: Platform>(
    layout: &Layout,
    config: &Config<'_>,
    owner_lock: OwnerLock,
    carver: &mut Carver<'m>,
) -> Option<Parts<'m, P>> {
    let rows = carver.repeat(Zonelists::entries(layout.nodes, layout.zones), &ZoneId::default())?;
    let side_tables = SideTableArrays {
        owners: carver
            .repeat(layout.side_table_len(layout.side_tables.owners), &AtomicU32::new(0))?,
        flags: carver.repeat(layout.side_table_len(layout.side_tables.flags), &AtomicU8::new(0))?,
    };
    let cpus =
        carver.array(layout.cpus, |i| CpuState::new(config.node_of(CpuId::new(i as u16))))?;
    let lists = carve_lists(layout, config, owner_lock, carver)?;
    let drain_logs = if P::TRACING { carve_drain_logs(layout, config, carver)? } else { &[] };
    let mut arrays = ZoneArrays::carve(layout, config, carver)?;
    let mut specs = config.zones();
    let zones = carver
        .in_place(layout.zones, |_, place| Some(place.write(arrays.zone(config, specs.next()?))))?;
    let zonelists = build_zonelists(rows, layout, config, zones);
    let lru = if layout.side_tables.lru { Some(carve_lru(layout, zones, carver)?) } else { None };
    let tlb = carve_tlb(layout, config, zones, carver)?;
    let compaction = carve_compaction(layout, config, carver)?;
    let in_use = config.in_use().map(InUse::new);
    let in_use = carver.collect(layout.in_use, in_use)?;
    let core = CoreArrays { zones, zonelists, lists, drain_logs, cpus };
    Some(Parts { core, tlb, compaction, side_tables, in_use, lru })
}

fn carve_lru<'m, P: Platform>(
    layout: &Layout,
    zones: &[Zone<'m, P>],
    carver: &mut Carver<'m>,
) -> Option<LruState<'m, P>> {
    let frames = layout.side_table_len(true);
    let links: &'m [LruLink] = carver.repeat(frames, &LruLink::new())?;
    let flags = carver.repeat(frames, &LruFlags::new())?;
    let node = |i| LruNode::new(NodeId::new(i as u8).unwrap_or_default(), links);
    let nodes = carver.array(layout.nodes, node)?;
    let share = |i: usize| LruZone::new(&zones[i]);
    let shares = carver.array(layout.zones, share)?;
    let batches = carver
        .in_place(layout.cpus, |i, place| Some(place.write(LruBatch::new(CpuId::new(i as u16)))))?;
    Some(LruState { nodes, zones: shares, flags, batches, swap: AtomicBool::new(false) })
}

fn carve_tlb<'m, P: Platform>(
    layout: &Layout,
    config: &Config<'_>,
    zones: &[Zone<'m, P>],
    carver: &mut Carver<'m>,
) -> Option<Tlb<'m, P>> {
    let cpus = carver.array(layout.cpus, |_| CpuFlushes::new())?;
    let groups = carver.repeat(layout.deferred_words, &0)?;
    let frames = carver.repeat(layout.deferred, &0)?;
    let base = zones.iter().map(Zone::base).min().unwrap_or_default();
    let tuning = config.tuning.tlb;
    let deferred = DeferredFrees::new(base, layout.cpus, groups, frames);
    Some(Tlb::new(tuning, layout.managed, cpus, deferred))
}

fn carve_compaction<'m>(
    layout: &Layout,
    config: &Config<'_>,
    carver: &mut Carver<'m>,
) -> Option<&'m [ZoneCompaction<'m>]> {
    let mut hints: &[AtomicU64] = carver.repeat(layout.skip_words, &AtomicU64::new(0))?;
    let zones = config.zones().map(|zone| {
        let words = SkipHints::words(zone.pageblocks);
        let hints = hints.split_off(..words).unwrap_or_default();
        ZoneCompaction::new((zone.pageblocks * PAGEBLOCK_FRAMES) as u32, hints)
    });
    let zones = carver.collect(layout.zones, zones)?;
    Some(zones)
}

/// The parts of the arrays that no zone has taken yet. Each zone takes its part from the front.
struct ZoneArrays<'m> {
    pageblocks: &'m mut [Pageblock],
    /// Empty if raw frees are not checked.
    heads: &'m [Heads],
    gigablocks: &'m mut [Gigablock],
    types: &'m [AtomicU8],
    /// Empty unless the zones have states of their frames.
    states: &'m [AtomicU8],
    sets: &'m mut [u64],
    ranges: &'m [[u32; 2]],
    /// The maps of present frames, for the zones whose memory is added in pieces.
    present: &'m [PresentMap],
    chunks: &'m mut [Chunk],
    /// The number of zones that have taken their parts.
    taken: usize,
    /// The number of side-table entries that zones have taken.
    side_table_start: usize,
}

impl<'m> ZoneArrays<'m> {
    fn carve(layout: &Layout, config: &Config<'_>, carver: &mut Carver<'m>) -> Option<Self> {
        Some(Self {
            pageblocks: carver.repeat(layout.pageblocks, &Pageblock::empty())?,
            heads: carver.repeat(layout.heads(), &Heads::none())?,
            gigablocks: carver.repeat(layout.gigablocks, &Gigablock::empty())?,
            types: carver.repeat(layout.pageblocks, &AtomicU8::new(ABSENT))?,
            states: carver.repeat(layout.side_table_len(layout.states), &AtomicU8::new(0))?,
            sets: carver.repeat(layout.set_words, &0)?,
            ranges: carve_ranges(layout, config, carver)?,
            present: carver.repeat(layout.present_maps, &PresentMap::none())?,
            chunks: carver.repeat(layout.chunks, &Chunk::EMPTY)?,
            taken: 0,
            side_table_start: 0,
        })
    }

    /// Creates the next zone. The layout computed the sizes of the arrays in the same way, so every
    /// zone gets its part.
    fn zone<P: Platform>(&mut self, config: &Config<'_>, spec: ZoneSpec) -> Zone<'m, P> {
        let count = spec.pageblocks;
        let pageblocks = self.pageblocks.split_off_mut(..count).unwrap_or_default();
        let types = self.types.split_off(..count).unwrap_or_default();
        let gigablocks = Buddy::gigablocks(spec.base, count);
        let gigablocks = self.gigablocks.split_off_mut(..gigablocks).unwrap_or_default();
        let set_words = Buddy::set_words(spec.base, count);
        let sets = self.sets.split_off_mut(..set_words).unwrap_or_default();
        let ranges = self.ranges.split_off(..spec.ranges).unwrap_or_default();
        let absent = self.ranges.split_off(..spec.absent).unwrap_or_default();
        let heads = self.heads.split_off(..count).unwrap_or_default();
        let maps = if spec.in_pieces { count } else { 0 };
        let maps = self.present.split_off(..maps).unwrap_or_default();
        let present = PresentFrames::new(ranges, maps);
        let mut buddy = Buddy::new(spec.base, pageblocks, gigablocks, types, present, sets, heads);
        buddy.add_present();
        buddy.set_emptying_above(config.tuning.zone.emptying_above);
        #[cfg(feature = "compare")]
        buddy.set_any_refill_ends_emptying(config.tuning.zone.any_refill_ends_emptying);
        #[cfg(feature = "compare")]
        buddy.set_rest_breaks_pageblock(config.tuning.zone.rest_breaks_pageblock);
        let limit = depot_of(config, spec);
        let chunks = self.chunks.split_off_mut(..Depot::chunks(limit)).unwrap_or_default();
        let depot = Depot::new(chunks, limit);
        let side_table_start = self.side_table_start;
        self.side_table_start += count * PAGEBLOCK_FRAMES;
        let (node, kind, base) = (spec.node, spec.kind, spec.base);
        let id = ZoneId::new(self.taken);
        self.taken += 1;
        let place = ZonePlacement { id, node, kind, base, present, absent, side_table_start };
        let states = self.states.split_off(..count * PAGEBLOCK_FRAMES);
        Zone::new(buddy, depot, types, states.map(|bytes| States::new(bytes, spec.base)), place)
    }
}

/// The ranges of all zones: of each zone the present ones, then the absent ones.
fn carve_ranges<'m>(
    layout: &Layout,
    config: &Config<'_>,
    carver: &mut Carver<'m>,
) -> Option<&'m [[u32; 2]]> {
    let ranges = carver.repeat(layout.ranges, &[0; 2])?;
    let mut slots = ranges.iter_mut();
    for zone in config.zones() {
        for present in [true, false] {
            for (range, slot) in config.ranges_of(zone, present).zip(&mut slots) {
                *slot = range;
            }
        }
    }
    Some(ranges)
}

fn carve_lists<'m, P: Platform>(
    layout: &Layout,
    config: &Config<'_>,
    owner_lock: OwnerLock,
    carver: &mut Carver<'m>,
) -> Option<&'m [CpuPages<'m, P>]> {
    let mut slots: &mut [Slot] = carver.repeat(layout.cpus * layout.slots, &Slot::default())?;
    let mut sets: &mut [u64] = carver.repeat(layout.cpus * layout.slot_sets, &0)?;
    let mut waiting: &mut [Waiting] = carver.repeat(layout.waiting(), &Waiting::default())?;
    let cpus = layout.cpus;
    let mut of_zones =
        config.zones().flat_map(|zone| core::iter::repeat_n(slots_of(config, zone), cpus));
    let lists = carver.in_place(cpus * layout.zones, |i, place| {
        let count = of_zones.next().unwrap_or_default();
        // The layout computed the sizes of the arrays in the same way, so no part is missing.
        let slots = slots.split_off_mut(..count).unwrap_or_default();
        let sets = sets.split_off_mut(..BundleStore::set_words(count)).unwrap_or_default();
        let waiting = waiting.split_off_mut(..layout.quarantine).unwrap_or_default();
        let (store, quarantine) = (BundleStore::new(slots, sets), Quarantine::new(waiting));
        Some(CpuPages::init(place, owner_lock, owner_of(layout, i), store, quarantine))
    })?;
    Some(lists)
}

/// The zone and CPU of the lists with this index.
fn owner_of(layout: &Layout, lists: usize) -> (ZoneId, CpuId) {
    let cpus = layout.cpus.max(1);
    (ZoneId::new(lists / cpus), CpuId::new((lists % cpus) as u16))
}

fn carve_drain_logs<'m, P: Platform>(
    layout: &Layout,
    config: &Config<'_>,
    carver: &mut Carver<'m>,
) -> Option<&'m [SpinLock<P, DrainLog<'m>>]> {
    let mut entries: &mut [Bundle] =
        carver.repeat(layout.cpus * layout.logged, &Bundle::default())?;
    let capacity = |zone| DrainLog::capacity(slots_of(config, zone), layout.quarantine);
    let mut of_zones =
        config.zones().flat_map(|zone| core::iter::repeat_n(capacity(zone), layout.cpus));
    let logs = carver.array(layout.cpus * layout.zones, |i| {
        // The layout computed the number of entries in the same way, so no part is missing.
        let count = of_zones.next().unwrap_or_default();
        let log = DrainLog::new(entries.split_off_mut(..count).unwrap_or_default());
        let (zone, cpu) = owner_of(layout, i);
        SpinLock::new(Section::DrainLog(zone, cpu), log)
    })?;
    Some(logs)
}

fn build_zonelists<'m, P: Platform>(
    rows: &'m mut [ZoneId],
    layout: &Layout,
    config: &Config<'_>,
    zones: &[Zone<'m, P>],
) -> Zonelists<'m> {
    let distances = Distances { table: config.distances, nodes: layout.nodes };
    let with = |mask: u64, node: NodeId| mask | 1 << node.get();
    let has_memory = zones.iter().map(Zone::node).fold(0, with);
    let has_cpus = (0..config.cpus).map(|cpu| config.node_of(CpuId::new(cpu))).fold(0, with);
    let facts = NodeFacts::new(distances, has_memory, has_cpus);
    let zone = |id: ZoneId| (zones[id.index()].node(), zones[id.index()].kind());
    Zonelists::build(rows, facts, zone, layout.zones)
}
