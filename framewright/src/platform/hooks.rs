//! Vocabulary of the simulation hooks: what work costs, which cache lines it touches, where a
//! schedule may switch, who uses what exclusively.
//!
//! The library says *what* happens and *how much* of it; what that costs is the machine's own
//! knowledge. So there are no prices here: a simulator multiplies the count of each [`Cost`] with
//! a number of instructions that it measured, and each [`Line`] with the distance it has to come.
//! What a kind of work includes is chosen so that its instructions can be measured: a fit over
//! runs with more and fewer of them.

use super::CpuId;
use crate::zone::ZoneId;

/// Kinds of modelled work, charged per unit where it happens: also under the zone lock, between
/// [`Platform::enter`](super::Platform::enter) and [`Platform::leave`](super::Platform::leave).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Cost {
    /// An allocation that a ring serves, from the call to the return.
    HotAlloc,
    /// A free that a ring takes, from the call to the return.
    HotFree,
    /// Frames taken from the map of a pageblock, under the zone lock.
    TakeFrames,
    /// Frames merged into the map of a pageblock, under the zone lock.
    GiveFrames,
}

/// A logical cache line: never an address, so that runs are reproducible.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Line {
    /// What a zone publishes for readers without its lock: free frames, which orders there are.
    ZoneWords(ZoneId),
    /// A line of the index that finds pageblocks: list heads, sets.
    ZoneIndex(ZoneId, u32),
    /// The free map of a pageblock.
    Map(ZoneId, u32),
    /// The header of a pageblock.
    Header(ZoneId, u32),
    /// The map of a gigablock.
    Gigablock(ZoneId, u32),
    /// The hot line of a CPU's lists for a zone: lengths, owner, counts.
    CpuLists(ZoneId, CpuId),
    /// A line of the store behind them: 64 bytes of slots.
    CpuStore(ZoneId, CpuId, u32),
}

/// How a line is touched.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Access {
    /// A load.
    Read,
    /// A store, or a load that a store will follow.
    Write,
    /// A hint ahead of use: nobody waits for it.
    Prefetch,
}

/// Whether later work has to wait for a line that is not at hand.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Miss {
    /// What comes next is found through it: misses add up.
    Dependent,
    /// Its address is known beforehand and others are like it: misses overlap.
    Independent,
}

/// What somebody uses exclusively.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Section {
    /// The lists of a CPU for a zone, as their owner or as a drainer.
    Lists(ZoneId, CpuId),
    /// The buddy of a zone, under its lock.
    Zone(ZoneId),
}

/// Places where a simulator may switch CPUs or force a rare outcome.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Site {
    /// An owner is about to use its lists.
    EnterLists,
    /// A refill from the zone.
    Refill,
    /// A bulk free to the zone.
    BulkFree,
    /// An allocation in the slow path.
    SlowPath,
    /// A remote drain.
    Drain,
}
