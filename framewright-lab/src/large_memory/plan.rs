//! How much memory, on how many nodes, how often.

use framewright::{
    AllocError, CpuError, HotplugError, InitError, NodeId, Violation, frame::PAGEBLOCK_FRAMES,
};
use framewright_host::HostError;
use thiserror::Error;

/// Frames in a GiB.
pub(super) const GIB: u64 = 1 << 18;

/// Frames in a pageblock.
const PAGEBLOCK: u64 = PAGEBLOCK_FRAMES as u64;

/// The zone in which contiguous runs are looked for, unless the machine is smaller.
const HALF_FULL: u64 = 16 * GIB;

/// CPUs of each node.
const CPUS_PER_NODE: u16 = 16;

/// The least that a machine may have: 4 GiB.
const LEAST: u64 = 4 * GIB;

/// The least that a node may have: 1 GiB.
const LEAST_PER_NODE: u64 = GIB;

/// A machine that cannot be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum PlanError {
    /// No nodes, or more than there may be.
    #[error("a machine has 1 to {most} nodes, not {0}", most = NodeId::LIMIT)]
    Nodes(u8),
    /// Too little memory for the parts that divide it.
    #[error("{} MiB on {nodes} nodes are too little: give it at least {} GiB", frames >> 8, least / GIB)]
    TooSmall {
        /// Frames asked for.
        frames: u64,
        /// Nodes asked for.
        nodes: u8,
        /// Frames that would do.
        least: u64,
    },
}

/// A run of `large-memory`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeMemory {
    /// Frames of the machine.
    pub frames: u64,
    /// Nodes that they are on, in equal shares.
    pub nodes: u8,
    /// CPUs, in equal shares on the nodes.
    pub cpus: u16,
    /// Frames of the zones in which large blocks are compared, ascending.
    pub zones: [u64; 3],
    /// Frames of the zone in which contiguous runs are looked for.
    pub half_full: u64,
    /// Operations on blocks of one order in one zone, at least.
    pub operations: u64,
    /// Frames allocated one by one in each step of the part about nodes.
    pub singles: u64,
    /// Rounds that figures are medians of.
    pub rounds: u64,
}

impl LargeMemory {
    /// A machine of `frames` frames on `nodes` nodes, measured as published.
    ///
    /// # Errors
    ///
    /// [`PlanError`] says what there may be.
    pub fn new(frames: u64, nodes: u8) -> Result<Self, PlanError> {
        if !(1..=NodeId::LIMIT).contains(&usize::from(nodes)) {
            return Err(PlanError::Nodes(nodes));
        }
        let least = LEAST.max(u64::from(nodes) * LEAST_PER_NODE);
        if frames < least {
            return Err(PlanError::TooSmall { frames, nodes, least });
        }
        let whole = |frames: u64| frames / PAGEBLOCK * PAGEBLOCK;
        Ok(Self {
            frames: whole(frames),
            nodes,
            cpus: u16::from(nodes) * CPUS_PER_NODE,
            zones: [whole(frames / 64), whole(frames / 4), whole(frames)],
            half_full: whole(frames.min(HALF_FULL)),
            operations: 4096,
            singles: 1 << 17,
            rounds: 9,
        })
    }

    /// The same, with few rounds.
    #[must_use]
    pub fn quick(self) -> Self {
        Self { operations: 512, singles: 1 << 14, rounds: 3, ..self }
    }

    /// For tests: it has to work, its figures mean nothing.
    #[cfg(test)]
    pub(super) fn tiny() -> Self {
        Self {
            frames: 4 * GIB,
            nodes: 2,
            cpus: 2,
            zones: [64 * PAGEBLOCK, 2 * GIB, 4 * GIB],
            half_full: GIB,
            operations: 32,
            singles: 1 << 10,
            rounds: 2,
        }
    }
}

/// An amount of memory as people write it.
pub(super) fn size(frames: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(GIB << 10, "TiB"), (GIB, "GiB"), (GIB >> 10, "MiB")];
    match UNITS.iter().find(|(unit, _)| frames.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", frames / unit),
        None => format!("{frames} frames"),
    }
}

/// Why `large-memory` could not run to its end.
#[derive(Debug, Error)]
pub enum LargeMemoryError {
    /// The machine, or the buffer for its books, could not be had.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The memory could not be set up.
    #[error("cannot set up a memory of {}: {reason}", size(*frames))]
    Init {
        /// Frames asked for.
        frames: u64,
        /// What the library said.
        reason: InitError,
    },
    /// A CPU of the memory could not be claimed.
    #[error(transparent)]
    Cpu(#[from] CpuError),
    /// An allocation failed although memory is ample.
    #[error("{what}: {reason}")]
    Alloc {
        /// What was being done.
        what: &'static str,
        /// What the library said.
        reason: AllocError,
    },
    /// Memory could not be added or removed.
    #[error(transparent)]
    Hotplug(#[from] HotplugError),
    /// An invariant does not hold.
    #[error("the books do not add up: {0}")]
    Books(#[from] Violation),
    /// The library did what it must not.
    #[error("{0}")]
    Wrong(String),
}

impl LargeMemoryError {
    /// Whether the library is to blame, not what was asked for.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        !matches!(self, Self::Host(_) | Self::Init { .. } | Self::Cpu(_))
    }
}

/// A broken promise, unless `kept`.
pub(super) fn promise(kept: bool, broken: impl FnOnce() -> String) -> Result<(), LargeMemoryError> {
    if kept { Ok(()) } else { Err(LargeMemoryError::Wrong(broken())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_take_their_share_of_the_machine() {
        let plan = LargeMemory::new(1024 * GIB, 4).unwrap();
        assert_eq!(plan.zones.map(size), ["16 GiB", "256 GiB", "1 TiB"]);
        assert_eq!((plan.cpus, size(plan.half_full)), (64, "16 GiB".to_owned()));
        let small = LargeMemory::new(4 * GIB, 1).unwrap();
        assert_eq!(small.zones.map(size), ["64 MiB", "1 GiB", "4 GiB"]);
        assert_eq!(size(small.half_full), "4 GiB");
    }

    #[test]
    fn what_cannot_be_measured_is_refused_by_number() {
        let refusal = |frames, nodes| LargeMemory::new(frames, nodes).unwrap_err().to_string();
        assert_eq!(refusal(GIB, 0), "a machine has 1 to 64 nodes, not 0");
        assert_eq!(refusal(GIB, 65), "a machine has 1 to 64 nodes, not 65");
        let small = refusal(GIB, 2);
        assert_eq!(small, "1024 MiB on 2 nodes are too little: give it at least 4 GiB");
        let narrow = refusal(4 * GIB, 8);
        assert_eq!(narrow, "4096 MiB on 8 nodes are too little: give it at least 8 GiB");
    }
}
