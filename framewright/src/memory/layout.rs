//! The layout of the metadata: its parts and their sizes.

mod parts;

use core::{
    fmt,
    mem::{MaybeUninit, align_of, size_of},
};

use super::{Config, InitError, SideTables, config::ZoneSpec};
use crate::{
    buddy::{Buddy, Bundle, Gigablock, Heads, Pageblock, PresentMap},
    compact::{SkipHints, ZoneCompaction},
    core::CpuState,
    hardening::Waiting,
    pcp::{BundleStore, CpuPages, DrainLog, Slot, bundle_slots},
    platform::{Platform, SpinLock},
    reclaim::{LruBatch, LruFlags, LruLink, LruNode, LruZone},
    sync::{AtomicBool, AtomicU8, AtomicU32, AtomicU64},
    tlb::{CpuFlushes, DeferredFrees, deferred_capacity},
    tuning::Hardening,
    types::{FrameRange, PAGEBLOCK_FRAMES, ZoneId},
    zone::{Chunk, Depot, Zone, Zonelists, depot_frames},
};

pub(super) use parts::carve;

/// The metadata that a configuration needs on a platform.
///
/// # Example
///
/// ```
/// use framewright::{Config, FrameRange, Layout, Pfn};
/// # use framewright_fakes::FakePlatform as Machine;
///
/// let map = [FrameRange::new(Pfn::new(0), Pfn::new(1 << 20)).unwrap().into()];
/// let layout = Layout::new::<Machine>(&Config::new(&map, 4))?;
/// println!("{} bytes, aligned to {}", layout.bytes(), layout.align());
/// println!("{layout}"); // the size of each part
/// assert!(layout.bytes_per_frame() < 0.5, "without the lists of CPUs");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    managed: u64,
    nodes: usize,
    zones: usize,
    /// Size and alignment of a zone, in bytes. They depend on the platform's lock type.
    zone: (usize, usize),
    pageblocks: usize,
    /// Whether there are maps of the heads of allocated blocks, for checking raw frees.
    heads: bool,
    /// Gigablocks of all zones: aligned ranges of 512 pageblocks, 1 GiB.
    gigablocks: usize,
    /// Words of the zones' sets of pageblocks.
    set_words: usize,
    ranges: usize,
    /// Pageblocks of zones whose memory is added in pieces.
    present_maps: usize,
    /// Ranges that are in use from the start.
    in_use: usize,
    /// Chunks of all depots.
    chunks: usize,
    /// Words of skip hints.
    skip_words: usize,
    cpus: usize,
    /// Size and alignment of the hot part of a CPU's lists, in bytes. They depend on the platform's
    /// atomic words.
    pages: (usize, usize),
    /// Slots in the bundle stores of one CPU, over all zones.
    slots: usize,
    /// Words of the sets of these slots.
    slot_sets: usize,
    side_tables: SideTables,
    /// Sizes and alignments of the reclaim state of a node, and of a CPU's LRU batch, in bytes.
    lru_node: (usize, usize),
    lru_batch: (usize, usize),
    /// Whether the zones have a byte of state per frame.
    states: bool,
    /// Slots in the quarantine of one CPU for one zone.
    quarantine: usize,
    /// Bytes of the drain log of a CPU for a zone (drained blocks whose events are not traced yet).
    /// They depend on the platform's lock type; 0 if the machine does not trace.
    drain_log: usize,
    /// Entries of the drain logs of a CPU, over all zones.
    logged: usize,
    /// Size and alignment of a CPU's flush requests, in bytes. They depend on the platform's atomic
    /// words.
    flushes: (usize, usize),
    /// The capacity for deferred frames, including those of a dropped batch.
    deferred: usize,
    /// Words of the groups of deferred frames.
    deferred_words: usize,
}

impl Layout {
    /// Computes the layout for `config` on platform `P`.
    ///
    /// # Errors
    ///
    /// [`InitError`] names the error in the configuration.
    pub fn new<P: Platform>(config: &Config<'_>) -> Result<Self, InitError> {
        config.validate()?;
        let deferred = deferred_of(config);
        let mut layout = Self {
            managed: config.managed(),
            nodes: config.nodes(),
            zones: 0,
            zone: (size_of::<Zone<'_, P>>(), align_of::<Zone<'_, P>>()),
            pageblocks: 0,
            heads: config.tuning.hardening != Hardening::Off,
            gigablocks: 0,
            set_words: 0,
            ranges: 0,
            present_maps: 0,
            in_use: config.in_use().count(),
            chunks: 0,
            skip_words: 0,
            cpus: usize::from(config.cpus),
            pages: (size_of::<CpuPages<'_, P>>(), align_of::<CpuPages<'_, P>>()),
            slots: 0,
            slot_sets: 0,
            side_tables: config.side_tables,
            lru_node: (size_of::<LruNode<'_, P>>(), align_of::<LruNode<'_, P>>()),
            lru_batch: (size_of::<LruBatch<P>>(), align_of::<LruBatch<P>>()),
            states: config.tuning.hardening >= Hardening::Tracked,
            quarantine: quarantine_of(config),
            drain_log: if P::TRACING { size_of::<SpinLock<P, DrainLog<'_>>>() } else { 0 },
            logged: 0,
            flushes: (size_of::<CpuFlushes<P>>(), align_of::<CpuFlushes<P>>()),
            deferred,
            deferred_words: DeferredFrees::words_for(deferred, config.cpus.into()),
        };
        for zone in config.zones() {
            layout.zones += 1;
            layout.pageblocks += zone.pageblocks;
            layout.gigablocks += Buddy::gigablocks(zone.base, zone.pageblocks);
            layout.set_words += Buddy::set_words(zone.base, zone.pageblocks);
            layout.ranges += zone.ranges + zone.absent;
            layout.present_maps += if zone.in_pieces { zone.pageblocks } else { 0 };
            layout.chunks += Depot::chunks(depot_of(config, zone));
            layout.skip_words += SkipHints::words(zone.pageblocks);
            let slots = slots_of(config, zone);
            layout.slots += slots;
            layout.slot_sets += BundleStore::set_words(slots);
            if P::TRACING {
                layout.logged += DrainLog::capacity(slots, layout.quarantine);
            }
        }
        if layout.side_table_len(config.side_tables.lru) >= u32::MAX as usize {
            return Err(InitError::SpanTooLarge);
        }
        Ok(layout)
    }

    /// The size of the metadata buffer, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.parts().map(|part| part.bytes.next_multiple_of(self.align())).sum()
    }

    /// The alignment of the metadata buffer, in bytes.
    #[must_use]
    pub fn align(&self) -> usize {
        let lru = self.lru_node.1.max(self.lru_batch.1);
        let own = align_of::<Pageblock>().max(self.pages.1).max(self.zone.1);
        own.max(self.flushes.1).max(lru)
    }

    /// The parts of the metadata, with the size of each.
    pub fn parts(&self) -> impl Iterator<Item = Part> + use<> {
        let rows = Zonelists::entries(self.nodes, self.zones);
        [
            Part::of_bytes("zones", self.zones * self.zone.0),
            Part::new::<ZoneId>("zonelists", rows, false),
            Part::new::<Pageblock>("pageblocks", self.pageblocks, false),
            Part::new::<Heads>("allocated heads", self.heads(), false),
            Part::new::<Gigablock>("gigablocks", self.gigablocks, false),
            Part::new::<AtomicU8>("pageblock types", self.pageblocks, false),
            Part::new::<u64>("pageblock sets", self.set_words, false),
            Part::new::<[u32; 2]>("memory map", self.ranges, false),
            Part::new::<PresentMap>("present frames", self.present_maps, false),
            Part::new::<InUse>("ranges in use", self.in_use, false),
            Part::new::<Chunk>("depots", self.chunks, false),
            Part::new::<ZoneCompaction<'_>>("compaction", self.zones, false),
            Part::new::<AtomicU64>("skip hints", self.skip_words, false),
            Part::new::<AtomicU32>(
                "owner table",
                self.side_table_len(self.side_tables.owners),
                false,
            )
            .optional(),
            Part::new::<AtomicU8>(
                "flags table",
                self.side_table_len(self.side_tables.flags),
                false,
            )
            .optional(),
            Part::new::<LruLink>(
                "LRU links table",
                self.side_table_len(self.side_tables.lru),
                false,
            )
            .optional(),
            Part::new::<LruFlags>(
                "LRU flags table",
                self.side_table_len(self.side_tables.lru),
                false,
            )
            .optional(),
            Part::of_bytes("LRU lists", self.lru_nodes() * self.lru_node.0).optional(),
            Part::new::<LruZone>("LRU zones", self.lru_zones(), false).optional(),
            Part::of_bytes("LRU batches", self.lru_batches() * self.lru_batch.0)
                .of_cpus()
                .optional(),
            Part::new::<AtomicU8>("state table", self.side_table_len(self.states), false)
                .optional(),
            Part::new::<u32>("deferred frames", self.deferred, false),
            Part::new::<u64>("deferred groups", self.deferred_words, false),
            Part::new::<CpuState>("CPUs", self.cpus, true),
            Part::of_bytes("CPU flushes", self.cpus * self.flushes.0).of_cpus(),
            Part::of_bytes("CPU lists", self.cpus * self.zones * self.pages.0).of_cpus(),
            Part::new::<Slot>("CPU list bundles", self.cpus * self.slots, true),
            Part::new::<u64>("CPU list sets", self.cpus * self.slot_sets, true),
            Part::new::<Waiting>("quarantine", self.waiting(), true).optional(),
            Part::of_bytes("drain logs", self.cpus * self.zones * self.drain_log)
                .of_cpus()
                .optional(),
            Part::new::<Bundle>("drain log entries", self.cpus * self.logged, true).optional(),
        ]
        .into_iter()
    }

    /// Bytes per managed frame, without the optional parts and those that grow with the number of
    /// CPUs.
    #[must_use]
    pub fn bytes_per_frame(&self) -> f64 {
        let bytes: usize = self
            .parts()
            .filter(|part| !part.per_cpu && !part.optional)
            .map(|part| part.bytes)
            .sum();
        bytes as f64 / self.managed as f64
    }

    /// Bytes of all parts that grow with the number of CPUs, mostly those of CPU lists.
    #[must_use]
    pub fn cpu_list_bytes(&self) -> usize {
        self.parts().filter(|part| part.per_cpu).map(|part| part.bytes).sum()
    }

    /// The number of pageblocks with a map of the heads of allocated blocks: all or none.
    fn heads(&self) -> usize {
        if self.heads { self.pageblocks } else { 0 }
    }

    /// The number of entries of a side table; 0 if it is not wanted.
    fn side_table_len(&self, wanted: bool) -> usize {
        if wanted { self.pageblocks * PAGEBLOCK_FRAMES } else { 0 }
    }

    fn lru_nodes(&self) -> usize {
        if self.side_tables.lru { self.nodes } else { 0 }
    }

    fn lru_zones(&self) -> usize {
        if self.side_tables.lru { self.zones } else { 0 }
    }

    fn lru_batches(&self) -> usize {
        if self.side_tables.lru { self.cpus } else { 0 }
    }

    /// The maximum number of blocks in quarantine, over all CPUs and zones.
    fn waiting(&self) -> usize {
        self.cpus * self.zones * self.quarantine
    }

    /// Checks the size and alignment of `buffer`.
    pub(super) fn accepts(&self, buffer: &[MaybeUninit<u8>]) -> Result<(), InitError> {
        if buffer.len() < self.bytes() {
            return Err(self.too_small(buffer.len()));
        }
        if !buffer.as_ptr().addr().is_multiple_of(self.align()) {
            return Err(InitError::MetadataMisaligned { align: self.align() });
        }
        Ok(())
    }

    fn too_small(&self, given: usize) -> InitError {
        InitError::MetadataTooSmall { needed: self.bytes(), given }
    }
}

/// The number of slots in the bundle store of a CPU for a zone.
pub(super) fn slots_of(config: &Config<'_>, zone: ZoneSpec) -> usize {
    if config.is_paranoid() {
        // Freed frames go to quarantine, so the store is never used.
        return bundle_slots(&config.tuning.pcp, 0, 1).min(64);
    }
    bundle_slots(&config.tuning.pcp, zone.frames, config.cpus_near(zone.node))
}

/// The maximum number of frames in the depot of a zone.
fn depot_of(config: &Config<'_>, zone: ZoneSpec) -> u64 {
    if config.is_paranoid() {
        // There are no CPU lists that could exchange blocks.
        return 0;
    }
    depot_frames(&config.tuning.zone, zone.frames, config.cpus_near(zone.node))
}

/// The number of slots in the quarantine of a CPU for a zone.
fn quarantine_of(config: &Config<'_>) -> usize {
    if config.is_paranoid() { config.tuning.paranoid.quarantine as usize } else { 0 }
}

/// The capacity for deferred frames, including those of a dropped batch.
fn deferred_of(config: &Config<'_>) -> usize {
    deferred_capacity(&config.tuning.tlb, config.managed(), config.cpus.into())
}

/// One part of the metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The name of the part.
    pub name: &'static str,
    /// Its size, in bytes.
    pub bytes: usize,
    /// Whether its size grows with the number of CPUs instead of the amount of memory.
    pub per_cpu: bool,
    /// Whether the part exists only if the configuration asks for it, or if the platform traces.
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

/// The total size, and one line for each part that is not empty.
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, aligned to {}", self.bytes(), self.align())?;
        self.parts().filter(|part| part.bytes > 0).try_for_each(|part| write!(f, "\n{part}"))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} bytes", self.name, self.bytes)
    }
}

/// A range of the memory map that is in use from the start.
pub(super) struct InUse {
    pub(super) frames: FrameRange,
    /// Whether the frames were taken as an extent, or some of them were freed by frame number.
    pub(super) handed_out: AtomicBool,
}

impl InUse {
    fn new(frames: FrameRange) -> Self {
        Self { frames, handed_out: AtomicBool::new(false) }
    }

    pub(super) fn overlaps(&self, range: FrameRange) -> bool {
        self.frames.start() < range.end() && range.start() < self.frames.end()
    }
}
