//! Nodes, CPUs and zones, from plain numbers.
//!
//! Ranges of memory follow one another, with or without gaps. Each range has a node and a kind. So
//! a zone may have holes, may be partly or wholly absent, may be smaller than a pageblock, may
//! share a pageblock with the next zone, and may lie within another zone. Nodes may have no memory,
//! or no CPUs.

use framewright::{FrameRange, MemoryRange, NodeId, Pfn, Presence, ZoneKind};

const PAGEBLOCK: u64 = 512;
/// The maximum number of units in a map.
const UNITS_MAX: u64 = 12 * PAGEBLOCK;
/// The varied distances between nodes. There are only a few, so that some nodes are equally far.
const DISTANCES: [u8; 8] = [20, 20, 20, 10, 11, 21, 32, 255];

/// A range of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeSpec {
    /// The number of units between the previous range and this one.
    pub gap: u16,
    /// The length in units.
    pub length: u16,
    /// The node, the kind, the shape and the presence, with a few bits each.
    pub place: u8,
}

impl RangeSpec {
    fn node(self, nodes: u8) -> NodeId {
        node(self.place % 8 % nodes)
    }

    fn kind(self) -> ZoneKind {
        const KINDS: [ZoneKind; 4] =
            [ZoneKind::Normal, ZoneKind::Movable, ZoneKind::Dma32, ZoneKind::Dma];
        KINDS[usize::from(self.place >> 3 & 3)]
    }

    /// Whether the range is absent at first. Only whole pageblocks can be absent.
    fn is_absent(self) -> bool {
        self.place >> 5 == 7
    }

    /// Whether the range is added in pieces.
    fn is_in_pieces(self) -> bool {
        self.place >> 5 == 6
    }

    /// Whether the range is in use from the start.
    fn is_in_use(self) -> bool {
        self.place >> 5 == 5
    }

    /// The first frame and the end of the range. It begins at `at` or later.
    fn frames(self, at: u64, left: u64, unit: u64) -> (u64, u64) {
        let (gap, length) = (u64::from(self.gap % 700), u64::from(self.length));
        let start = at + gap * unit;
        let clamp = |units: u64| (units * unit).clamp(1, left.max(1));
        match self.place >> 5 & 3 {
            0 => (start, start + clamp(length % 1600)),
            // The range has a few frames.
            1 => (start, start + clamp(1 + length % 40)),
            // The range extends to the end of a pageblock.
            2 => (start, (start + clamp(length % 900)).next_multiple_of(PAGEBLOCK)),
            // The range consists of whole pageblocks.
            _ => {
                let start = start.next_multiple_of(PAGEBLOCK);
                (start, (start + clamp(length % 900)).next_multiple_of(PAGEBLOCK))
            }
        }
    }
}

/// The properties of a machine that affect a memory manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The first frame of the map.
    pub base: u64,
    /// The ranges, in ascending order.
    pub range_specs: Vec<RangeSpec>,
    /// The number of nodes minus one.
    pub nodes: u8,
    /// The node of each CPU. Empty: one CPU on node 0.
    pub cpus: Vec<u8>,
    /// The values that the table of distances repeats. Empty: no table.
    pub distances: Vec<u8>,
    /// The number of frames in a unit of gaps and lengths, minus one.
    pub unit: u8,
}

impl Topology {
    fn nodes(&self) -> u8 {
        self.nodes % 8 + 1
    }

    /// The memory map.
    pub fn map(&self) -> Vec<MemoryRange> {
        let unit = u64::from(self.unit) + 1;
        let (mut at, mut left) = (self.base, UNITS_MAX * unit);
        let mut map: Vec<MemoryRange> = Vec::new();
        for range_spec in &self.range_specs {
            let (node, kind) = (range_spec.node(self.nodes()), range_spec.kind());
            let (start, end) = range_spec.frames(at, left, unit);
            if left == 0 {
                break;
            }
            left = left.saturating_sub(end - start);
            let range = MemoryRange::new(range(start, end), node, kind);
            map.push(match range_spec {
                _ if range_spec.is_absent() => range.absent(),
                _ if range_spec.is_in_pieces() => range.in_pieces(),
                _ if range_spec.is_in_use() => range.in_use(),
                _ => range,
            });
            at = end;
        }
        let comes_later = [Presence::Absent, Presence::InPieces];
        if map.iter().all(|range| comes_later.contains(&range.presence)) {
            // The steps need some memory from the start.
            map.push(range(at, at + 600).into());
        }
        map
    }

    /// The node of each CPU.
    pub fn cpu_nodes(&self) -> Vec<NodeId> {
        if self.cpus.is_empty() {
            return vec![node(0)];
        }
        self.cpus.iter().map(|cpu| node(cpu % self.nodes())).collect()
    }

    /// The table of distances: a row for each node up to the highest one with memory or CPUs.
    pub fn table(&self, map: &[MemoryRange], cpu_nodes: &[NodeId]) -> Vec<u8> {
        if self.distances.is_empty() {
            return Vec::new();
        }
        let nodes = count_nodes(map, cpu_nodes);
        let mut next = self.distances.iter().cycle();
        let mut distance = |i: usize| {
            let remote = DISTANCES[usize::from(*next.next().unwrap()) % DISTANCES.len()];
            if i / nodes == i % nodes { 10 } else { remote }
        };
        (0..nodes * nodes).map(&mut distance).collect()
    }
}

/// The number of nodes up to the highest one with memory or CPUs.
pub fn count_nodes(map: &[MemoryRange], cpu_nodes: &[NodeId]) -> usize {
    let of_memory = map.iter().map(|range| range.node);
    of_memory.chain(cpu_nodes.iter().copied()).map(|node| node.index() + 1).max().unwrap_or(1)
}

/// The node with this number, which is below the limit.
pub fn node(number: u8) -> NodeId {
    NodeId::new(number).expect("a node that may exist")
}

fn range(start: u64, end: u64) -> FrameRange {
    FrameRange::new(Pfn::new(start), Pfn::new(end)).expect("a range")
}
