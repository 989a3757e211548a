//! The configuration of a memory, and the errors in it.

use core::fmt;

use super::SideTables;
use crate::{
    platform::OwnerLock,
    tlb::MAX_CPUS,
    tuning::{Hardening, OwnerChoice, Tuning},
    types::{CpuId, FrameRange, NodeId, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Pfn, ZoneKind},
};

/// The maximum number of frames from the first to the last pageblock of a memory. With this limit, the frame
/// after a block of the largest order that starts at the last frame still has a 32-bit number.
const SPAN_MAX: u64 = u32::MAX as u64 + 1 - 2 * Order::MAX.frames();

/// Whether a range of the memory map is present from the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum Presence {
    /// The range is present.
    #[default]
    Present,
    /// The range may be added later ([`Memory::add_memory`](super::Memory::add_memory)).
    Absent,
    /// The range is added later in pieces of any length, in any order, for example as a boot loader
    /// reports them. Only frames of the range can be added. Costs one bit of metadata per frame of
    /// its zone.
    InPieces,
    /// The range is present and in use: by a boot allocator, an initrd, tables of the firmware. Its
    /// frames count as managed and as allocated
    /// ([`Memory::take_in_use`](super::Memory::take_in_use)).
    InUse,
}

/// A range of memory, as firmware reports it.
///
/// # Example
///
/// ```
/// use framewright::{FrameRange, MemoryRange, NodeId, ZoneKind};
///
/// // The first GiB, and 4 GiB from 16 GiB on, where memory may be plugged in later.
/// let gib = |start: u64, end: u64| FrameRange::inside(start << 30, end << 30).expect("whole frames");
/// let node = NodeId::new(0).expect("below the limit");
/// let map = [
///     MemoryRange::new(gib(0, 1), node, ZoneKind::Dma32),
///     MemoryRange::new(gib(16, 20), node, ZoneKind::Movable).absent(),
/// ];
/// assert_eq!(map[1].frames.frames(), 4 << 18);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct MemoryRange {
    /// The frames of the range.
    pub frames: FrameRange,
    /// The node of the range.
    pub node: NodeId,
    /// The kind of zone. All ranges of one kind on one node make up a zone.
    pub zone: ZoneKind,
    /// Whether the range is present from the start.
    pub presence: Presence,
}

impl MemoryRange {
    /// A range of `frames` in a zone of the given kind on a node, present from the start.
    #[must_use]
    pub const fn new(frames: FrameRange, node: NodeId, zone: ZoneKind) -> Self {
        Self { frames, node, zone, presence: Presence::Present }
    }

    /// The same range, absent until it is added.
    #[must_use]
    pub const fn absent(self) -> Self {
        Self { presence: Presence::Absent, ..self }
    }

    /// The same range, to be added later in pieces of any length.
    #[must_use]
    pub const fn in_pieces(self) -> Self {
        Self { presence: Presence::InPieces, ..self }
    }

    /// The same range, in use from the start.
    #[must_use]
    pub const fn in_use(self) -> Self {
        Self { presence: Presence::InUse, ..self }
    }

    fn is_present(&self) -> bool {
        matches!(self.presence, Presence::Present | Presence::InUse)
    }

    /// Whether the range is present from the start and free.
    pub(crate) fn is_free(&self) -> bool {
        self.presence == Presence::Present
    }

    pub(super) fn is_in_use(&self) -> bool {
        self.presence == Presence::InUse
    }
}

/// A range of kind [`ZoneKind::Normal`] on node 0.
impl From<FrameRange> for MemoryRange {
    fn from(frames: FrameRange) -> Self {
        Self::new(frames, NodeId::default(), ZoneKind::Normal)
    }
}

/// The configuration of a memory.
///
/// # Example
///
/// ```
/// use framewright::{Config, FrameRange, Pfn, SideTables, Tuning};
///
/// let map = [FrameRange::new(Pfn::new(0), Pfn::new(1 << 18)).unwrap().into()];
/// let mut tuning = Tuning::default();
/// tuning.set("pcp.batch", "31")?;
/// let config = Config::new(&map, 4)
///     .with_tuning(tuning)
///     .with_side_tables(SideTables::default().with_lru()); // for reclaim
/// assert_eq!(config.cpus, 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Config<'c> {
    /// The frames to manage: ascending, not overlapping, not empty. Gaps are holes.
    pub memory: &'c [MemoryRange],
    /// The number of CPUs that may ever use the memory.
    pub cpus: u16,
    /// The node of each CPU. CPUs beyond the end of the slice are on node 0.
    pub cpu_nodes: &'c [NodeId],
    /// The distances between nodes, row by row, as in the ACPI SLIT (10: local). If empty, all
    /// nodes are equally far from one another.
    pub distances: &'c [u8],
    /// Settings.
    pub tuning: Tuning,
    /// The optional side tables.
    pub side_tables: SideTables,
}

/// The description of a zone in a configuration.
#[derive(Clone, Copy)]
pub(super) struct ZoneSpec {
    pub(super) node: NodeId,
    pub(super) kind: ZoneKind,
    /// The first frame of the first pageblock.
    pub(super) base: Pfn,
    pub(super) pageblocks: usize,
    /// The number of present ranges.
    pub(super) ranges: usize,
    /// The number of absent ranges.
    pub(super) absent: usize,
    /// The number of frames in all ranges, absent ones included.
    pub(super) frames: u64,
    /// Whether some of its memory is added in pieces.
    pub(super) in_pieces: bool,
}

impl<'c> Config<'c> {
    /// The configuration of `memory` on `cpus` CPUs, all on node 0, with default settings.
    #[must_use]
    pub fn new(memory: &'c [MemoryRange], cpus: u16) -> Self {
        Self {
            memory,
            cpus,
            cpu_nodes: &[],
            distances: &[],
            tuning: Tuning::default(),
            side_tables: SideTables::default(),
        }
    }

    /// The same configuration with these [settings](Config::tuning).
    #[must_use]
    pub fn with_tuning(self, tuning: Tuning) -> Self {
        Self { tuning, ..self }
    }

    /// The same configuration with these [side tables](Config::side_tables).
    #[must_use]
    pub fn with_side_tables(self, side_tables: SideTables) -> Self {
        Self { side_tables, ..self }
    }

    /// The same configuration with CPUs on [these nodes](Config::cpu_nodes).
    #[must_use]
    pub fn with_cpu_nodes(self, cpu_nodes: &'c [NodeId]) -> Self {
        Self { cpu_nodes, ..self }
    }

    /// The same configuration with these [distances](Config::distances) between nodes.
    #[must_use]
    pub fn with_distances(self, distances: &'c [u8]) -> Self {
        Self { distances, ..self }
    }

    /// The node of a CPU.
    pub(super) fn node_of(&self, cpu: CpuId) -> NodeId {
        self.cpu_nodes.get(cpu.index()).copied().unwrap_or_default()
    }

    /// The number of nodes: the highest number of a node with memory or CPUs, plus one.
    #[inline(never)]
    pub(super) fn nodes(&self) -> usize {
        let of_memory = self.memory.iter().map(|range| range.node);
        let of_cpus = self.cpu_nodes.iter().copied();
        // A bit per node. Node 0 always exists.
        let used = of_memory.chain(of_cpus).fold(1u64, |used, node| used | 1 << node.get());
        used.ilog2() as usize + 1
    }

    /// The number of CPUs that share a node's zones. These are the CPUs on that node, or all CPUs
    /// if the node has none.
    #[inline(never)]
    pub(super) fn cpus_near(&self, node: NodeId) -> u64 {
        let near = (0..self.cpus).filter(|&cpu| self.node_of(CpuId::new(cpu)) == node).count();
        if near == 0 { u64::from(self.cpus) } else { near as u64 }
    }

    /// Whether freed frames stay in quarantine before they can be allocated again.
    pub(super) fn is_paranoid(&self) -> bool {
        self.tuning.hardening == Hardening::Paranoid
    }

    /// Ranges that are in use from the start.
    pub(super) fn in_use(&self) -> impl Iterator<Item = FrameRange> {
        self.memory.iter().filter(|range| range.is_in_use()).map(|range| range.frames)
    }

    /// Frames that are usually managed: present from the start, or added in pieces.
    pub(super) fn managed(&self) -> u64 {
        let usual = self.memory.iter().filter(|range| range.presence != Presence::Absent);
        usual.map(|range| range.frames.frames()).sum()
    }

    /// The zones, by node and kind.
    pub(super) fn zones(&self) -> impl Iterator<Item = ZoneSpec> {
        let mut place = 0;
        core::iter::from_fn(move || self.zone_from(&mut place))
    }

    /// The first zone at or after `place`, a counter over the zone kinds of all nodes. `place` is
    /// then after that zone.
    #[inline(never)]
    fn zone_from(&self, place: &mut usize) -> Option<ZoneSpec> {
        let kinds = ZoneKind::ALL.len();
        while *place < self.nodes() * kinds {
            let (node, kind) = (*place / kinds, ZoneKind::ALL[*place % kinds]);
            *place += 1;
            let zone = self.zone(NodeId::new(node as u8).unwrap_or_default(), kind);
            if zone.is_some() {
                return zone;
            }
        }
        None
    }

    fn zone(&self, node: NodeId, kind: ZoneKind) -> Option<ZoneSpec> {
        let ranges = self.memory.iter().filter(|range| range.node == node && range.zone == kind);
        let first = ranges.clone().next()?;
        let mut spec = ZoneSpec {
            node,
            kind,
            base: first.frames.start().align_down(Order::PAGEBLOCK),
            pageblocks: 0,
            ranges: 0,
            absent: 0,
            frames: 0,
            in_pieces: false,
        };
        let mut end = 0;
        for range in ranges {
            end = range.frames.end().get().next_multiple_of(PAGEBLOCK_FRAMES as u64);
            spec.frames += range.frames.frames();
            spec.ranges += usize::from(range.is_present());
            spec.absent += usize::from(!range.is_present());
            spec.in_pieces |= range.presence == Presence::InPieces;
        }
        spec.pageblocks = ((end - spec.base.get()) >> PAGEBLOCK_ORDER) as usize;
        Some(spec)
    }

    /// The present ranges of a zone, or the absent ones, relative to its base.
    pub(super) fn ranges_of(
        &self,
        zone: ZoneSpec,
        present: bool,
    ) -> impl Iterator<Item = [u32; 2]> {
        let of_zone = move |range: &&MemoryRange| {
            range.node == zone.node && range.zone == zone.kind && range.is_present() == present
        };
        let frame = move |pfn: Pfn| (pfn.get() - zone.base.get()) as u32;
        self.memory
            .iter()
            .filter(of_zone)
            .map(move |range| [frame(range.frames.start()), frame(range.frames.end())])
    }

    pub(super) fn validate(&self) -> Result<(), InitError> {
        if let Some(key) = self.tuning.first_invalid() {
            return Err(InitError::BadTuning { path: key.path, range: key.range });
        }
        if self.cpus == 0 {
            return Err(InitError::NoCpus);
        }
        if usize::from(self.cpus) > MAX_CPUS {
            return Err(InitError::TooManyCpus { given: self.cpus });
        }
        // The frames are not summed, because the map is not checked yet and the sum could overflow.
        let is_absent = |range: &MemoryRange| range.presence == Presence::Absent;
        if self.memory.iter().all(|range| is_absent(range) && range.frames.frames() > 0) {
            return Err(InitError::NoMemory);
        }
        let biased = self.tuning.owner_lock == OwnerChoice::Fixed(OwnerLock::Biased);
        if self.tuning.hardening == Hardening::Tracked && biased {
            return Err(InitError::TrackedAndBiased);
        }
        let nodes = self.nodes();
        if !self.distances.is_empty() && self.distances.len() != nodes * nodes {
            return Err(InitError::BadDistances { nodes, given: self.distances.len() });
        }
        self.validate_map()
    }

    fn validate_map(&self) -> Result<(), InitError> {
        for (index, range) in self.memory.iter().enumerate() {
            let frames = range.frames;
            if frames.frames() == 0 {
                return Err(InitError::EmptyRange { index });
            }
            if frames.end() > Pfn::MAX {
                return Err(InitError::AddressTooHigh { index });
            }
            let whole = frames.start().is_aligned(Order::PAGEBLOCK)
                && frames.end().is_aligned(Order::PAGEBLOCK);
            if range.presence == Presence::Absent && !whole {
                return Err(InitError::AbsentNotWhole { index });
            }
            let Some(before) = index.checked_sub(1).map(|before| self.memory[before].frames) else {
                continue;
            };
            if frames.start() < before.start() {
                return Err(InitError::Unsorted { index });
            }
            if frames.start() < before.end() {
                return Err(InitError::Overlapping { index });
            }
        }
        let (Some(first), Some(last)) = (self.memory.first(), self.memory.last()) else {
            return Err(InitError::NoMemory);
        };
        let end = last.frames.end().get().next_multiple_of(PAGEBLOCK_FRAMES as u64);
        let span = end - first.frames.start().align_down(Order::PAGEBLOCK).get();
        if span > SPAN_MAX {
            return Err(InitError::SpanTooLarge);
        }
        Ok(())
    }
}

/// The reason why a memory could not be created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InitError {
    /// A memory needs a CPU.
    NoCpus,
    /// A memory has at most [`MAX_CPUS`] CPUs.
    TooManyCpus {
        /// The number of CPUs in the configuration.
        given: u16,
    },
    /// The value of a setting is out of range.
    BadTuning {
        /// The key of the setting.
        path: &'static str,
        /// The values allowed.
        range: &'static str,
    },
    /// The memory map has no range that is present or added in pieces.
    NoMemory,
    /// The number of distances is not the square of the number of nodes.
    BadDistances {
        /// The number of nodes.
        nodes: usize,
        /// The number of distances.
        given: usize,
    },
    /// An absent range does not consist of whole pageblocks.
    AbsentNotWhole {
        /// The index of the range.
        index: usize,
    },
    /// A range of the memory map is empty.
    EmptyRange {
        /// Its index.
        index: usize,
    },
    /// A range of the memory map starts below the one before.
    Unsorted {
        /// Its index.
        index: usize,
    },
    /// A range of the memory map overlaps the one before.
    Overlapping {
        /// Its index.
        index: usize,
    },
    /// A range of the memory map reaches beyond [`Pfn::MAX`].
    AddressTooHigh {
        /// Its index.
        index: usize,
    },
    /// The settings require the biased owner lock, which needs remote barriers, but the platform
    /// has none.
    NoRemoteBarrier,
    /// The settings require the biased owner lock at
    /// [`Hardening::Tracked`](crate::tuning::Hardening::Tracked), which needs the try-lock.
    TrackedAndBiased,
    /// The first and the last frame are more than 16 TiB minus 2 GiB apart. Or, with [LRU lists](SideTables::lru), the
    /// zones together span 16 TiB or more.
    SpanTooLarge,
    /// The buffer for metadata is too small.
    MetadataTooSmall {
        /// The size needed, in bytes.
        needed: usize,
        /// The size of the buffer, in bytes.
        given: usize,
    },
    /// The buffer for metadata is not aligned as needed.
    MetadataMisaligned {
        /// The alignment needed, in bytes.
        align: usize,
    },
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InitError::NoCpus => f.write_str("a memory needs at least one CPU"),
            InitError::TooManyCpus { given } => {
                write!(f, "a memory has at most {MAX_CPUS} CPUs; {given} were asked for")
            }
            InitError::BadTuning { path, range } => {
                write!(f, "the value of the setting '{path}' is not allowed; it takes {range}")
            }
            InitError::NoMemory => {
                f.write_str("the memory map has no memory that is present or added in pieces")
            }
            InitError::BadDistances { nodes, given } => {
                let needed = nodes * nodes;
                write!(f, "{nodes} nodes need {needed} distances, or none; {given} were given")
            }
            InitError::AbsentNotWhole { index } => write!(
                f,
                "range {index} of the memory map is absent and does not consist of whole pageblocks \
                 of {PAGEBLOCK_FRAMES} frames"
            ),
            InitError::EmptyRange { index } => {
                write!(f, "range {index} of the memory map is empty")
            }
            InitError::Unsorted { index } => {
                write!(f, "range {index} of the memory map starts below range {}", index - 1)
            }
            InitError::Overlapping { index } => {
                write!(f, "range {index} of the memory map overlaps range {}", index - 1)
            }
            InitError::AddressTooHigh { index } => {
                write!(f, "range {index} of the memory map reaches beyond {}", Pfn::MAX)
            }
            InitError::NoRemoteBarrier => f.write_str(
                "owner_lock=biased needs remote barriers, which this machine does not have; \
                 use owner_lock=trylock",
            ),
            InitError::TrackedAndBiased => f.write_str(
                "hardening=tracked needs the try-lock of the per-CPU lists, so owner_lock=biased \
                 cannot be used with it; use owner_lock=auto or trylock",
            ),
            InitError::SpanTooLarge => {
                f.write_str(
                    "the memory map spans more than 16 TiB minus 2 GiB; or, with LRU lists, its zones together span \
                     16 TiB or more",
                )
            }
            InitError::MetadataTooSmall { needed, given } => {
                write!(f, "the metadata buffer has {given} bytes; {needed} are needed")
            }
            InitError::MetadataMisaligned { align } => {
                write!(f, "the metadata buffer must start at a multiple of {align} bytes")
            }
        }
    }
}

impl core::error::Error for InitError {}
