//! The sizes of a run: memory, nodes, repetitions.

use crate::{Error, report::several};
use framewright::{NodeId, frame::PAGEBLOCK_FRAMES};

/// Frames in a GiB.
pub(super) const GIB: u64 = 1 << 18;

/// Frames in a pageblock.
const PAGEBLOCK: u64 = PAGEBLOCK_FRAMES as u64;

/// The maximum size of the zone in which contiguous runs are searched.
const CONTIGUOUS_ZONE: u64 = 16 * GIB;

/// CPUs of each node.
const CPUS_PER_NODE: u16 = 16;

/// Minimum memory of a machine: 4 GiB.
const LEAST: u64 = 4 * GIB;

/// Minimum memory of a node: 1 GiB.
const LEAST_PER_NODE: u64 = GIB;

/// A run of `large-memory`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeMemory {
    /// Frames of the machine.
    pub frames: u64,
    /// Nodes, with equal shares of the frames.
    pub nodes: u8,
    /// CPUs, in equal shares on the nodes.
    pub cpus: u16,
    /// Frames of the zones in which large blocks are compared, ascending.
    pub zones: [u64; 3],
    /// Frames of the zone in which contiguous runs are allocated while half of it is in use.
    pub half_used_zone: u64,
    /// Minimum number of operations on blocks of one order in one zone.
    pub operations: u64,
    /// Frames allocated one by one in each step of the part about nodes.
    pub singles: u64,
    /// The number of rounds. Each figure is the median over the rounds.
    pub rounds: u64,
}

impl LargeMemory {
    /// A machine of `frames` frames on `nodes` nodes, with the full number of repetitions.
    ///
    /// # Errors
    ///
    /// [`Error`] names the valid sizes.
    pub fn new(frames: u64, nodes: u8) -> Result<Self, Error> {
        if !(1..=NodeId::LIMIT).contains(&usize::from(nodes)) {
            return Err(Error::input(format_args!(
                "a machine has 1 to {} nodes, not {nodes}",
                NodeId::LIMIT
            )));
        }
        let least = LEAST.max(u64::from(nodes) * LEAST_PER_NODE);
        if frames < least {
            return Err(Error::input(format_args!(
                "{} MiB on {} are too little: the minimum is {} GiB",
                frames >> 8,
                several(nodes, "node"),
                least / GIB
            )));
        }
        let whole = |frames: u64| frames / PAGEBLOCK * PAGEBLOCK;
        Ok(Self {
            frames: whole(frames),
            nodes,
            cpus: u16::from(nodes) * CPUS_PER_NODE,
            zones: [whole(frames / 64), whole(frames / 4), whole(frames)],
            half_used_zone: whole(frames.min(CONTIGUOUS_ZONE)),
            operations: 4096,
            singles: 1 << 17,
            rounds: 9,
        })
    }

    /// This plan with fewer operations and rounds.
    #[must_use]
    pub fn quick(self) -> Self {
        Self { operations: 512, singles: 1 << 14, rounds: 3, ..self }
    }

    /// For tests: every part runs, figures are meaningless.
    #[cfg(test)]
    pub(super) fn tiny() -> Self {
        Self {
            frames: 4 * GIB,
            nodes: 2,
            cpus: 2,
            zones: [64 * PAGEBLOCK, 2 * GIB, 4 * GIB],
            half_used_zone: GIB,
            operations: 32,
            singles: 1 << 10,
            rounds: 2,
        }
    }
}

/// An amount of memory with its unit.
pub(super) fn size(frames: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(GIB << 10, "TiB"), (GIB, "GiB"), (GIB >> 10, "MiB")];
    match UNITS.iter().find(|(unit, _)| frames.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", frames / unit),
        None => several(frames, "frame"),
    }
}

/// The error of a violated guarantee, unless `kept`.
pub(super) fn promise(kept: bool, broken: impl FnOnce() -> String) -> Result<(), Error> {
    if kept { Ok(()) } else { Err(Error::broken(broken())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_take_their_share_of_the_machine() {
        let plan = LargeMemory::new(1024 * GIB, 4).unwrap();
        assert_eq!(plan.zones.map(size), ["16 GiB", "256 GiB", "1 TiB"]);
        assert_eq!((plan.cpus, size(plan.half_used_zone)), (64, "16 GiB".to_owned()));
        let small = LargeMemory::new(4 * GIB, 1).unwrap();
        assert_eq!(small.zones.map(size), ["64 MiB", "1 GiB", "4 GiB"]);
        assert_eq!(size(small.half_used_zone), "4 GiB");
    }

    #[test]
    fn impossible_sizes_are_refused_with_valid_ones() {
        let refusal = |frames, nodes| LargeMemory::new(frames, nodes).unwrap_err().to_string();
        assert_eq!(refusal(GIB, 0), "a machine has 1 to 64 nodes, not 0");
        assert_eq!(refusal(GIB, 65), "a machine has 1 to 64 nodes, not 65");
        let small = refusal(GIB, 2);
        assert_eq!(small, "1024 MiB on 2 nodes are too little: the minimum is 4 GiB");
        let narrow = refusal(4 * GIB, 8);
        assert_eq!(narrow, "4096 MiB on 8 nodes are too little: the minimum is 8 GiB");
    }
}
