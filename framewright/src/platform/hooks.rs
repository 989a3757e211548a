//! Vocabulary of the simulation hooks: what work costs, which cache lines it touches, where a
//! schedule may switch.

/// Kinds of modelled work, charged per unit where it happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cost {
    /// Frames taken from the map of a pageblock, under the zone lock.
    TakeFrames,
    /// Frames merged into the map of a pageblock, under the zone lock.
    GiveFrames,
}

/// A logical cache line: never an address, so that runs are reproducible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Line {
    /// The free map of a pageblock.
    Map(u32),
    /// The header of a pageblock.
    Header(u32),
    /// The lists of a CPU.
    CpuLists(u16),
}

/// How a line is touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// A load that later work depends on.
    Read,
    /// A store.
    Write,
    /// A hint ahead of use.
    Prefetch,
}

/// Places where a simulator may switch CPUs or force a rare outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
