//! Where the metadata goes, and what each part of it costs.

use core::{
    fmt,
    mem::{MaybeUninit, align_of, size_of},
};

use super::{
    Config, InitError, Planes, carve::Carver, config::ZoneSpec, cpus::CpuState, planes::PlaneArrays,
};
use crate::{
    buddy::{ABSENT, Buddy, Gigablock, Pageblock},
    frame::PAGEBLOCK_FRAMES,
    hardening::{Quarantine, States, Waiting},
    pcp::{BundleStore, CpuPages, Lists, Slot, bundle_slots},
    platform::{CpuId, OwnerLock, Platform},
    reclaim::{LruBatch, LruFlags, LruLink, LruNode, LruState, ZoneShare},
    sync::{AtomicBool, AtomicU8, AtomicU32},
    tlb::{CpuFlushes, Group, Parked, Tlb, parked_capacity},
    tuning::Hardening,
    zone::{
        Chunk, Depot, Distances, NodeFacts, NodeId, Place, Zone, ZoneId, Zonelists, depot_frames,
    },
};

/// How much metadata a configuration needs, on one type of machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    managed: u64,
    nodes: usize,
    zones: usize,
    /// Bytes and alignment of a zone: its lock is the machine's.
    zone: (usize, usize),
    pageblocks: usize,
    gigablocks: usize,
    set_words: usize,
    ranges: usize,
    /// Chunks of the depots.
    chunks: usize,
    cpus: usize,
    /// Bytes and alignment of the hot part of a CPU's lists: its words are the machine's.
    pages: (usize, usize),
    /// Slots of the stores of one CPU, over all zones.
    slots: usize,
    /// Words of their sets.
    slot_sets: usize,
    planes: Planes,
    /// Bytes and alignment of what reclaim keeps of a node, and of the batch of a CPU.
    lru_node: (usize, usize),
    lru_batch: (usize, usize),
    /// Whether the zones keep states of their frames.
    states: bool,
    /// Slots of the quarantine of a CPU for a zone.
    quarantine: usize,
    /// Bytes and alignment of what a CPU is asked to flush: a word of it is the machine's.
    flushes: (usize, usize),
    /// Frames that may wait for a flush.
    parked: usize,
}

impl Layout {
    /// Works out what `config` needs on machines of type `P`.
    ///
    /// # Errors
    ///
    /// [`InitError`] names what is wrong with the configuration.
    pub fn new<P: Platform>(config: &Config<'_>) -> Result<Self, InitError> {
        config.validate()?;
        let mut layout = Self {
            managed: config.managed(),
            nodes: config.nodes(),
            zones: 0,
            zone: (size_of::<Zone<'_, P>>(), align_of::<Zone<'_, P>>()),
            pageblocks: 0,
            gigablocks: 0,
            set_words: 0,
            ranges: 0,
            chunks: 0,
            cpus: usize::from(config.cpus),
            pages: (size_of::<CpuPages<'_, P>>(), align_of::<CpuPages<'_, P>>()),
            slots: 0,
            slot_sets: 0,
            planes: config.planes,
            lru_node: (size_of::<LruNode<'_, P>>(), align_of::<LruNode<'_, P>>()),
            lru_batch: (size_of::<LruBatch<P>>(), align_of::<LruBatch<P>>()),
            states: config.is_paranoid(),
            quarantine: quarantine_of(config),
            flushes: (size_of::<CpuFlushes<P>>(), align_of::<CpuFlushes<P>>()),
            parked: parked_of(config),
        };
        for zone in config.zones() {
            layout.zones += 1;
            layout.pageblocks += zone.pageblocks;
            layout.gigablocks += Buddy::gigablocks(zone.base, zone.pageblocks);
            layout.set_words += Buddy::set_words(zone.base, zone.pageblocks);
            layout.ranges += zone.ranges + zone.absent;
            layout.chunks += Depot::chunks(depot_of(config, zone));
            let slots = slots_of(config, zone);
            layout.slots += slots;
            layout.slot_sets += BundleStore::set_words(slots);
        }
        if layout.plane(config.planes.lru) >= u32::MAX as usize {
            return Err(InitError::SpanTooLarge);
        }
        Ok(layout)
    }

    /// Bytes of metadata in all.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.parts().map(|part| part.bytes.next_multiple_of(self.align())).sum()
    }

    /// Alignment the buffer needs, in bytes.
    #[must_use]
    pub fn align(&self) -> usize {
        let lru = self.lru_node.1.max(self.lru_batch.1);
        let own = align_of::<Pageblock>().max(self.pages.1).max(self.zone.1);
        own.max(self.flushes.1).max(lru)
    }

    /// The parts of the metadata and what each costs.
    pub fn parts(&self) -> impl Iterator<Item = Part> + use<> {
        let rows = Zonelists::entries(self.nodes, self.zones);
        [
            Part::of_bytes("zones", self.zones * self.zone.0),
            Part::new::<ZoneId>("zonelists", rows, false),
            Part::new::<Pageblock>("pageblocks", self.pageblocks, false),
            Part::new::<Gigablock>("gigablocks", self.gigablocks, false),
            Part::new::<AtomicU8>("pageblock types", self.pageblocks, false),
            Part::new::<u64>("pageblock sets", self.set_words, false),
            Part::new::<[u32; 2]>("memory map", self.ranges, false),
            Part::new::<Chunk>("depots", self.chunks, false),
            Part::new::<AtomicU32>("owner plane", self.plane(self.planes.owners), false).optional(),
            Part::new::<AtomicU8>("flags plane", self.plane(self.planes.flags), false).optional(),
            Part::new::<LruLink>("LRU links plane", self.plane(self.planes.lru), false).optional(),
            Part::new::<LruFlags>("LRU flags plane", self.plane(self.planes.lru), false).optional(),
            Part::of_bytes("LRU lists", self.lru_nodes() * self.lru_node.0).optional(),
            Part::new::<ZoneShare>("LRU zones", self.lru_zones(), false).optional(),
            Part::of_bytes("LRU batches", self.lru_batches() * self.lru_batch.0)
                .of_cpus()
                .optional(),
            Part::new::<AtomicU8>("state plane", self.plane(self.states), false).optional(),
            Part::new::<u32>("parked frames", self.parked, false),
            Part::new::<Group>("parked groups", Parked::groups_for(self.parked), false),
            Part::new::<CpuState>("CPUs", self.cpus, true),
            Part::of_bytes("CPU flushes", self.cpus * self.flushes.0).of_cpus(),
            Part::of_bytes("CPU lists", self.cpus * self.zones * self.pages.0).of_cpus(),
            Part::new::<Slot>("CPU list bundles", self.cpus * self.slots, true),
            Part::new::<u64>("CPU list sets", self.cpus * self.slot_sets, true),
            Part::new::<Waiting>("quarantine", self.waiting(), true).optional(),
        ]
        .into_iter()
    }

    /// Bytes per managed frame, without optional planes and CPU lists.
    #[must_use]
    pub fn bytes_per_frame(&self) -> f64 {
        let bytes: usize = self
            .parts()
            .filter(|part| !part.per_cpu && !part.optional)
            .map(|part| part.bytes)
            .sum();
        bytes as f64 / self.managed as f64
    }

    /// Bytes of CPU lists, over all CPUs.
    #[must_use]
    pub fn cpu_list_bytes(&self) -> usize {
        self.parts().filter(|part| part.per_cpu).map(|part| part.bytes).sum()
    }

    /// Entries of a plane.
    fn plane(&self, wanted: bool) -> usize {
        if wanted { self.pageblocks * PAGEBLOCK_FRAMES } else { 0 }
    }

    fn lru_nodes(&self) -> usize {
        if self.planes.lru { self.nodes } else { 0 }
    }

    fn lru_zones(&self) -> usize {
        if self.planes.lru { self.zones } else { 0 }
    }

    fn lru_batches(&self) -> usize {
        if self.planes.lru { self.cpus } else { 0 }
    }

    /// Blocks that may wait in quarantine, over all CPUs and zones.
    fn waiting(&self) -> usize {
        self.cpus * self.zones * self.quarantine
    }

    /// Whether `buffer` will do.
    pub(super) fn accepts(&self, buffer: &[MaybeUninit<u8>]) -> Result<(), InitError> {
        if buffer.len() < self.bytes() {
            return Err(self.too_small(buffer.len()));
        }
        if buffer.as_ptr().align_offset(self.align()) != 0 {
            return Err(InitError::MetadataMisaligned { align: self.align() });
        }
        Ok(())
    }

    fn too_small(&self, given: usize) -> InitError {
        InitError::MetadataTooSmall { needed: self.bytes(), given }
    }
}

/// Slots in the store of a CPU for a zone.
pub(super) fn slots_of(config: &Config<'_>, zone: ZoneSpec) -> usize {
    if config.is_paranoid() {
        // Nothing is ever stored.
        return bundle_slots(&config.tuning.pcp, 0, 1).min(64);
    }
    bundle_slots(&config.tuning.pcp, zone.frames, config.cpus_near(zone.node))
}

/// Frames that the depot of a zone may hold.
fn depot_of(config: &Config<'_>, zone: ZoneSpec) -> u64 {
    if config.is_paranoid() {
        // No CPU lists that blocks could go between.
        return 0;
    }
    depot_frames(&config.tuning.zone, zone.frames, config.cpus_near(zone.node))
}

/// Slots in the quarantine of a CPU for a zone.
fn quarantine_of(config: &Config<'_>) -> usize {
    if config.is_paranoid() { config.tuning.paranoid.quarantine as usize } else { 0 }
}

/// Frames that may wait for a flush.
fn parked_of(config: &Config<'_>) -> usize {
    parked_capacity(&config.tuning.tlb, config.managed(), config.cpus.into())
}

/// Arrays cut out of a metadata buffer that [`Layout::accepts`].
pub(super) struct Parts<'m, P: Platform> {
    pub(super) zones: &'m [Zone<'m, P>],
    pub(super) zonelists: Zonelists<'m>,
    /// The lists of every CPU for every zone: all CPUs for the first zone, then the next.
    pub(super) lists: &'m [CpuPages<'m, P>],
    pub(super) cpus: &'m [CpuState],
    pub(super) tlb: Tlb<'m, P>,
    pub(super) planes: PlaneArrays<'m>,
    pub(super) lru: Option<LruState<'m, P>>,
}

/// Cuts the arrays out of a buffer and fills them: all present memory free and movable, all lists
/// closed.
pub(super) fn carve<'m, P: Platform>(
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
    let rows =
        carver.array(Zonelists::entries(layout.nodes, layout.zones), |_| ZoneId::default())?;
    let planes = PlaneArrays {
        owners: carver.array(layout.plane(layout.planes.owners), |_| AtomicU32::new(0))?,
        flags: carver.array(layout.plane(layout.planes.flags), |_| AtomicU8::new(0))?,
    };
    let cpus =
        carver.array(layout.cpus, |i| CpuState::new(config.node_of(CpuId::new(i as u16))))?;
    let lists = carve_lists(layout, config, owner_lock, carver)?;
    let mut arrays = ZoneArrays::carve(layout, config, carver)?;
    let zones =
        carver.collect(layout.zones, config.zones().map(|spec| arrays.zone(config, spec)))?;
    let zonelists = build_zonelists(rows, layout, config, zones);
    let lru = if layout.planes.lru { Some(carve_lru(layout, zones, carver)?) } else { None };
    let tlb = carve_tlb(layout, config, zones, carver)?;
    Some(Parts { zones, zonelists, lists, cpus, tlb, planes, lru })
}

fn carve_lru<'m, P: Platform>(
    layout: &Layout,
    zones: &[Zone<'m, P>],
    carver: &mut Carver<'m>,
) -> Option<LruState<'m, P>> {
    let frames = layout.plane(true);
    let links: &'m [LruLink] = carver.array(frames, |_| LruLink::new())?;
    let flags = carver.array(frames, |_| LruFlags::new())?;
    let node = |i| LruNode::new(NodeId::new(i as u8).unwrap_or_default(), links);
    let nodes = carver.array(layout.nodes, node)?;
    let share = |i: usize| ZoneShare::new(&zones[i]);
    let shares = carver.array(layout.zones, share)?;
    let batches = carver.array(layout.cpus, |i| LruBatch::new(CpuId::new(i as u16)))?;
    Some(LruState { nodes, zones: shares, flags, batches, swap: AtomicBool::new(false) })
}

fn carve_tlb<'m, P: Platform>(
    layout: &Layout,
    config: &Config<'_>,
    zones: &[Zone<'m, P>],
    carver: &mut Carver<'m>,
) -> Option<Tlb<'m, P>> {
    let cpus = carver.array(layout.cpus, |_| CpuFlushes::new())?;
    let groups = carver.array(Parked::groups_for(layout.parked), |_| Group::EMPTY)?;
    let frames = carver.array(layout.parked, |_| 0)?;
    let base = zones.iter().map(Zone::base).min().unwrap_or_default();
    let tuning = config.tuning.tlb;
    Some(Tlb::new(tuning, layout.managed, cpus, Parked::new(base, groups, frames)))
}

/// The arrays of all zones, of which each takes its part off the front.
struct ZoneArrays<'m> {
    pageblocks: &'m mut [Pageblock],
    gigablocks: &'m mut [Gigablock],
    types: &'m [AtomicU8],
    /// Empty unless the zones keep states.
    states: &'m [AtomicU8],
    sets: &'m mut [u64],
    ranges: &'m [[u32; 2]],
    chunks: &'m mut [Chunk],
    /// Zones that have taken theirs.
    taken: usize,
    /// Entries of the planes that zones have taken.
    planes_at: usize,
}

impl<'m> ZoneArrays<'m> {
    fn carve(layout: &Layout, config: &Config<'_>, carver: &mut Carver<'m>) -> Option<Self> {
        let mut map = config.zones().flat_map(|zone| config.ranges_of(zone));
        Some(Self {
            pageblocks: carver.array(layout.pageblocks, |_| Pageblock::empty())?,
            gigablocks: carver.array(layout.gigablocks, |_| Gigablock::empty())?,
            types: carver.array(layout.pageblocks, |_| AtomicU8::new(ABSENT))?,
            states: carver.array(layout.plane(layout.states), |_| AtomicU8::new(0))?,
            sets: carver.array(layout.set_words, |_| 0)?,
            ranges: carver.array(layout.ranges, |_| map.next().unwrap_or_default())?,
            chunks: carver.array(layout.chunks, |_| Chunk::EMPTY)?,
            taken: 0,
            planes_at: 0,
        })
    }

    /// The next zone. The arrays were sized by the same sums, so that every zone finds its part.
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
        let checked = config.tuning.hardening != Hardening::Off;
        let buddy = Buddy::new(spec.base, pageblocks, gigablocks, types, ranges, sets, checked);
        let limit = depot_of(config, spec);
        let chunks = self.chunks.split_off_mut(..Depot::chunks(limit)).unwrap_or_default();
        let depot = Depot::new(chunks, limit);
        let planes_at = self.planes_at;
        self.planes_at += count * PAGEBLOCK_FRAMES;
        let (node, kind, base) = (spec.node, spec.kind, spec.base);
        let id = ZoneId::new(self.taken);
        self.taken += 1;
        let place = Place { id, node, kind, base, ranges, absent, planes_at };
        let states = self.states.split_off(..count * PAGEBLOCK_FRAMES);
        Zone::new(buddy, depot, types, states.map(|bytes| States::new(bytes, spec.base)), place)
    }
}

fn carve_lists<'m, P: Platform>(
    layout: &Layout,
    config: &Config<'_>,
    owner_lock: OwnerLock,
    carver: &mut Carver<'m>,
) -> Option<&'m [CpuPages<'m, P>]> {
    let mut slots: &mut [Slot] = carver.array(layout.cpus * layout.slots, |_| Slot::default())?;
    let mut sets: &mut [u64] = carver.array(layout.cpus * layout.slot_sets, |_| 0)?;
    let mut waiting: &mut [Waiting] = carver.array(layout.waiting(), |_| Waiting::default())?;
    let cpus = layout.cpus;
    let mut of_zones =
        config.zones().flat_map(|zone| core::iter::repeat_n(slots_of(config, zone), cpus));
    let lists = carver.array(cpus * layout.zones, |i| {
        let count = of_zones.next().unwrap_or_default();
        // The arrays were sized by the same sums.
        let slots = slots.split_off_mut(..count).unwrap_or_default();
        let sets = sets.split_off_mut(..BundleStore::set_words(count)).unwrap_or_default();
        let waiting = waiting.split_off_mut(..layout.quarantine).unwrap_or_default();
        let lists = Lists::new(BundleStore::new(slots, sets), Quarantine::new(waiting));
        let whose = (ZoneId::new(i / cpus), CpuId::new((i % cpus) as u16));
        CpuPages::new(owner_lock, whose, lists)
    })?;
    Some(lists)
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

/// One part of the metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// What it is.
    pub name: &'static str,
    /// What it costs.
    pub bytes: usize,
    /// Whether it grows with the CPUs instead of the memory.
    pub per_cpu: bool,
    /// Whether it is there only because the embedder asked for it.
    pub optional: bool,
}

impl Part {
    fn new<T>(name: &'static str, count: usize, per_cpu: bool) -> Self {
        Self { per_cpu, ..Self::of_bytes(name, count * size_of::<T>()) }
    }

    fn of_bytes(name: &'static str, bytes: usize) -> Self {
        Self { name, bytes, per_cpu: false, optional: false }
    }

    fn of_cpus(self) -> Self {
        Self { per_cpu: true, ..self }
    }

    fn optional(self) -> Self {
        Self { optional: true, ..self }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} bytes", self.name, self.bytes)
    }
}
