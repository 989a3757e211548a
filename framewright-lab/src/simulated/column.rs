//! The columns of a comparison, each an allocator with its settings; and the memory of a machine's
//! nodes.

use framewright::{
    Config, FrameRange, MemoryRange, NodeId, Pfn, Tuning, ZoneKind,
    frame::PAGEBLOCK_FRAMES,
    tuning::{Auto, BulkFree, HighOrderDrain},
};
use framewright_peers::list_buddy;
use framewright_sim::machine::Spec;
use indexmap::IndexMap;

use crate::{Error, workloads::Side};
use std::fmt::Display;

/// One column of a comparison.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name.
    pub label: String,
    /// The allocator.
    pub design: Design,
    /// The settings that the result names.
    pub settings: IndexMap<String, String>,
}

/// An allocator and its settings.
#[derive(Clone, Copy, Debug)]
pub enum Design {
    /// The library.
    Framewright(Tuning),
    /// The classic design.
    ListBuddy(list_buddy::Tuning),
}

/// The same list sizes for every design: frames per batch, and the maximum on a CPU's lists.
/// Adaptive sizes are then off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListSizes {
    /// Frames per refill or bulk free.
    pub batch: u32,
    /// Frames on the lists of a CPU.
    pub high: u32,
}

impl Column {
    /// The library with the settings of a side.
    #[must_use]
    pub fn framewright(side: &Side) -> Self {
        let Side { label, tuning, settings } = side.clone();
        Self { label, design: Design::Framewright(tuning), settings }
    }

    /// The classic design, with the settings of a side as far as it has them. Its defaults are
    /// those of current kernels.
    #[must_use]
    pub fn list_buddy(label: &str, side: &Side) -> Self {
        let mut tuning = list_buddy::Tuning::default();
        let known = |(key, _): &(&String, &String)| adopt(key, &side.tuning, &mut tuning);
        let settings = side.settings.iter().filter(known);
        let settings = settings.map(|(key, value)| (key.clone(), value.clone())).collect();
        Self { label: label.to_owned(), design: Design::ListBuddy(tuning), settings }
    }

    /// The title of a run with this seed in a trace.
    pub(crate) fn title(&self, seed: u64) -> String {
        format!("{}, seed {seed}", self.label)
    }

    /// The error of a failed run with this seed.
    pub(crate) fn broken(&self, seed: u64, what: impl Display) -> Error {
        Error::broken(format_args!("{}, seed {seed}: {what}", self.label))
    }

    /// This column with lists of these sizes, for a zone of `zone` frames used by `cpus` CPUs.
    #[must_use]
    pub fn with_lists(mut self, sizes: ListSizes, zone: u64, cpus: u16) -> Self {
        let ListSizes { batch, high } = sizes;
        match &mut self.design {
            Design::Framewright(tuning) => {
                let (zone, most) = (zone as f64, f64::from(high) * f64::from(cpus.max(1)));
                tuning.pcp.batch = Auto::Fixed(batch);
                tuning.pcp.high_fraction = ((zone / most) as u32).clamp(8, 1_000_000);
                tuning.pcp.scale_max = 0;
            }
            Design::ListBuddy(tuning) => {
                (tuning.batch, tuning.high) = (Some(batch), Some(high));
                tuning.batch_scale_max = 0;
            }
        }
        self.settings.insert("lists".to_owned(), format!("{batch}/{high}"));
        self
    }
}

/// Copies the setting called `key`. Returns whether the classic design has it.
fn adopt(key: &str, from: &Tuning, to: &mut list_buddy::Tuning) -> bool {
    match key {
        "pcp.bulk_free" => {
            to.bulk_free = match from.pcp.bulk_free {
                BulkFree::SelectUnderLock => list_buddy::BulkFree::SelectUnderLock,
                _ => list_buddy::BulkFree::SelectBeforeLock,
            };
        }
        "pcp.high_order_drain" => {
            to.high_order_drain = match from.pcp.high_order_drain {
                HighOrderDrain::SecondConsecutive => list_buddy::HighOrderDrain::SecondConsecutive,
                HighOrderDrain::EveryFree => list_buddy::HighOrderDrain::EveryFree,
            };
        }
        "pcp.batch" => to.batch = given(from.pcp.batch),
        "pcp.high_fraction" => to.high_fraction = from.pcp.high_fraction,
        "pcp.scale_max" => to.batch_scale_max = from.pcp.scale_max as u8,
        "pcp.cache_frames" => {
            to.cache_frames = (from.pcp.cache_frames > 0).then_some(from.pcp.cache_frames);
        }
        "zone.watermark_scale" => to.watermark_scale_factor = from.zone.watermark_scale,
        _ => return false,
    }
    true
}

fn given(value: Auto) -> Option<u32> {
    match value {
        Auto::Auto => None,
        Auto::Fixed(value) => Some(value),
    }
}

/// Memory, CPUs and distances of a machine.
pub(crate) struct Nodes {
    map: Vec<MemoryRange>,
    cpu_nodes: Vec<NodeId>,
    distances: Vec<u8>,
}

impl Nodes {
    /// `frames` frames on the nodes of a machine, in the proportions of its own memory, one node
    /// after the other from frame 0.
    pub(crate) fn new(spec: &Spec, frames: u64) -> Self {
        let mut start = 0;
        let mut map = Vec::new();
        for node in 0..spec.nodes() {
            let share = u128::from(frames) * u128::from(spec.node_frames(node));
            let share = (share / u128::from(spec.frames().max(1))) as u64;
            let end = start + share.next_multiple_of(PAGEBLOCK_FRAMES as u64);
            // A node without memory has no range.
            let range = FrameRange::new(Pfn::new(start), Pfn::new(end));
            if let Some(range) = range.filter(|range| range.frames() > 0) {
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

    /// The same frames, with the lower part of each range as zone DMA32, and one frame in `share`
    /// as zone Normal.
    pub(crate) fn with_dma32(self, share: u64) -> Self {
        let split = |range: MemoryRange| {
            let (start, end) = (range.frames.start(), range.frames.end());
            let size = range.frames.frames() / share / PAGEBLOCK_FRAMES as u64;
            let middle = Pfn::new(end.get() - size * PAGEBLOCK_FRAMES as u64);
            [(start, middle, ZoneKind::Dma32), (middle, end, ZoneKind::Normal)].map(
                |(start, end, kind)| {
                    Some(MemoryRange::new(FrameRange::new(start, end)?, range.node, kind))
                },
            )
        };
        let map = self.map.iter().copied().flat_map(split).flatten().collect();
        Self { map, ..self }
    }

    /// A memory of these nodes.
    pub(crate) fn config(&self, tuning: Tuning) -> Config<'_> {
        Config::new(&self.map, self.cpu_nodes.len() as u16)
            .with_cpu_nodes(&self.cpu_nodes)
            .with_distances(&self.distances)
            .with_tuning(tuning)
    }

    /// The frames of every node with memory, in order.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (u8, FrameRange)> {
        self.map.iter().map(|range| (range.node.get(), range.frames))
    }

    /// All frames.
    pub(crate) fn frames(&self) -> u64 {
        self.ranges().map(|(_, range)| range.frames()).sum()
    }
}

/// Machines have at most 64 nodes, the library's maximum.
fn node_id(node: u8) -> NodeId {
    NodeId::new(node).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_of_the_frames_is_in_zone_normal() {
        let spec = Spec::uniform(1).unwrap();
        let nodes = Nodes::new(&spec, 10 << 9);
        let frames = nodes.frames();
        let nodes = nodes.with_dma32(3);
        assert_eq!(nodes.frames(), frames);
        let zones: Vec<_> = nodes.map.iter().map(|it| (it.zone, it.frames.frames() >> 9)).collect();
        assert_eq!(zones, [(ZoneKind::Dma32, 7), (ZoneKind::Normal, 3)]);
    }
}
