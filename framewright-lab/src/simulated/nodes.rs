//! The memory of a machine's nodes, as the library wants to hear it.

use framewright::{
    Config, FrameRange, MemoryRange, NodeId, Pfn, Tuning, ZoneKind, frame::PAGEBLOCK_FRAMES,
};
use framewright_sim::machine::Spec;

/// Memory, CPUs and distances of a machine.
pub(crate) struct Nodes {
    map: Vec<MemoryRange>,
    cpu_nodes: Vec<NodeId>,
    distances: Vec<u8>,
}

impl Nodes {
    /// `frames` frames on the nodes of a machine, divided among them as its own memory is, one node
    /// behind the other from frame 0.
    pub(crate) fn new(spec: &Spec, frames: u64) -> Self {
        let mut start = 0;
        let mut map = Vec::new();
        for node in 0..spec.nodes() {
            let share = u128::from(frames) * u128::from(spec.node_frames(node));
            let share = (share / u128::from(spec.frames().max(1))) as u64;
            let end = start + share.next_multiple_of(PAGEBLOCK_FRAMES as u64);
            if let Some(range) = FrameRange::new(Pfn::new(start), Pfn::new(end)) {
                map.push(MemoryRange::new(range, node_id(node), ZoneKind::Normal));
            }
            start = end;
        }
        let pairs = (0..spec.nodes()).flat_map(|from| (0..spec.nodes()).map(move |to| (from, to)));
        Self {
            map,
            cpu_nodes: (0..spec.cpus()).map(|cpu| node_id(spec.node_of(cpu))).collect(),
            distances: pairs.map(|(from, to)| spec.topology().distance(from, to)).collect(),
        }
    }

    /// A memory of these nodes.
    pub(crate) fn config(&self, tuning: Tuning) -> Config<'_> {
        Config {
            cpu_nodes: &self.cpu_nodes,
            distances: &self.distances,
            tuning,
            ..Config::new(&self.map, self.cpu_nodes.len() as u16)
        }
    }

    /// The frames of every node that has any, in order.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (u8, FrameRange)> {
        self.map.iter().map(|range| (range.node.get(), range.frames))
    }

    /// All frames.
    pub(crate) fn frames(&self) -> u64 {
        self.ranges().map(|(_, range)| range.frames()).sum()
    }
}

/// Machines have at most 64 nodes, which is what the library counts to.
fn node_id(node: u8) -> NodeId {
    NodeId::new(node).unwrap_or_default()
}
