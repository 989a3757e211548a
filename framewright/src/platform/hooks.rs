//! [`Probe`], the simulation hooks, and their vocabulary: what work costs, which cache lines it touches, where a
//! schedule may switch, who uses what exclusively.
//!
//! The library says *what* happens and *how much* of it; what that costs is the machine's own
//! knowledge. So there are no prices here: a simulator multiplies the count of each [`Cost`] with
//! a number of instructions that it measured, and each [`Line`] with the distance it has to come.
//! What a kind of work includes is chosen so that its instructions can be measured: a fit over
//! runs with more and fewer of them.

use crate::types::{CpuId, NodeId, ZoneId};

/// Kinds of modelled work, charged per unit where it happens: also under the zone lock, between
/// [`Probe::enter`] and [`Probe::leave`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Cost {
    // ---- the hot path: each is a whole call
    /// An allocation that a ring serves.
    HotAlloc,
    /// A free that a ring takes.
    HotFree,

    // ---- behind the rings, without the zone lock
    /// An allocation that found its ring empty: the way to what is behind it, and sizing.
    SlowAlloc,
    /// A free that found its ring full: the way to what is behind it, and sizing.
    SlowFree,
    /// Neighbours that go to or from a ring in one piece.
    RingRuns,
    /// Frames that go to or from a ring one at a time.
    RingFrames,
    /// Bundles put into the store.
    StoreBundles,
    /// Bundles chosen to leave the lists, many at a time.
    SelectBundles,
    /// Bundles chosen to leave the lists, one at a time: from rings, or under the zone lock.
    SelectSingly,
    /// Blocks that were picked out of the bundles of a batch on its way to the zone, or put together
    /// to bundles again.
    LooseBlocks,
    /// A request to the zone: whether it may, and what to book afterwards.
    Refill,
    /// A batch on its way to the zone, and what to book afterwards.
    BulkFree,
    /// Zones that a request looked at behind the first.
    WalkZones,

    // ---- under the zone lock
    /// One hold of the lock: acquisition where nobody waits, release, what is published.
    ZoneHold,
    /// Pageblocks that a batch chose and took from.
    TakePageblocks,
    /// Bundles taken, of orders below that of a pageblock.
    TakeBundles,
    /// Frames in them. With those given, [`Cost::DepotBlocks`] and [`Cost::WholePageblocks`] they
    /// are all that was moved under a hold.
    TakeFrames,
    /// Pageblocks that a batch gave to.
    GivePageblocks,
    /// Bundles given, of orders below that of a pageblock.
    GiveBundles,
    /// Frames in them.
    GiveFrames,
    /// Stacks of the depot that a batch went to or came from, or was looked for on.
    DepotStacks,
    /// Blocks copied to or from them.
    DepotBlocks,
    /// Pageblocks moved to another list because their largest block or their fullness changed.
    Relist,
    /// Pageblocks that come or go as a whole.
    WholePageblocks,
    /// Searches for a pageblock of another type.
    Fallback,
    /// Pageblocks that a search passed.
    Search,
    /// Frames that compaction looked at one by one.
    ScanFrames,
    /// Pageblocks of given ranges and specific blocks, taken from or given to.
    RangePageblocks,
    /// Pageblocks that were isolated, came, went, or changed their type.
    ChangePageblocks,

    // ---- reclaim
    /// One hold of an LRU lock: acquisition where nobody waits, release, what is published.
    LruHold,
    /// Pages put on a list or taken off under it.
    LruMoves,
    /// Pages that a scan passed over under it.
    LruSkips,
    /// Pages that a pass judged, without any lock.
    ReclaimPages,
}

/// A logical cache line: never an address, so that runs are reproducible.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Line {
    /// What a zone publishes for readers without its lock: free frames, which orders there are.
    ZoneWords(ZoneId),
    /// A line of the index that finds pageblocks. Line 0, counts and which lists there are, is
    /// used by every holder of the lock; those behind it are the heads of lists.
    ZoneIndex(ZoneId, u32),
    /// The free map of a pageblock.
    Map(ZoneId, u32),
    /// The map of its allocated blocks, which hardening reads.
    Heads(ZoneId, u32),
    /// The header of a pageblock.
    Header(ZoneId, u32),
    /// A part of the map of a gigablock: 64 pageblocks.
    Gigablock(ZoneId, u32),
    /// A line of the depot of a zone: the heads of its stacks, then the stacks.
    Depot(ZoneId, u32),
    /// The hot line of a CPU's lists for a zone: lengths, owner, counts.
    CpuLists(ZoneId, CpuId),
    /// A line of the store behind them: 64 bytes of slots.
    CpuStore(ZoneId, CpuId, u32),
    /// The heads and lengths of the LRU lists of a node.
    LruNode(NodeId),
    /// The links of eight neighbouring pages of a node on LRU lists.
    LruLinks(NodeId, u32),
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
    /// The LRU lists of a node, under their lock.
    Lru(NodeId),
    /// The batch of moves of a CPU, under its lock.
    LruBatch(CpuId),
    /// The frames that wait for a flush, under their lock.
    DeferredFrees,
}

/// Places where a simulator may switch CPUs, and what it may force to happen there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Site {
    /// An owner is about to use its lists. Forced: it is turned away, as by a drainer.
    EnterLists,
    /// A request is about to take from a zone. Forced: nothing of the order is free there.
    Refill,
    /// Frames are about to be given to a zone. Forced: what is due to leave the lists of a CPU
    /// stays until a later free.
    BulkFree,
    /// An allocation is on the slow path. Forced: a zone is passed over, lists and all; if every
    /// one is, relief is asked for, and the request fails as others do.
    SlowPath,
    /// A drainer is about to disturb an owner. Cannot be forced.
    Drain,
    /// A pass of reclaim is between two questions to the owner of pages. Cannot be forced.
    Reclaim,
    /// What CPUs were asked to flush, or have flushed, is about to be read or changed. Cannot be
    /// forced.
    Flush,
}

/// Hooks for a simulator. The library calls these methods where the work happens, also under its locks.
/// A machine that does not simulate defines none of them.
pub trait Probe {
    /// Whether the hooks listen. Where it is `false` the compiler removes even what
    /// would only be worked out for them; where one of them does something, it has to be `true`.
    const LISTENING: bool = false;

    /// Simulation: `count` units of modelled work of kind `cost`.
    #[inline(always)]
    fn cost(&self, cost: Cost, count: u32) {
        let _ = (cost, count);
    }

    /// Simulation: a logical cache line is read or written; `miss` says whether what comes next
    /// waits for it.
    #[inline(always)]
    fn touch(&self, line: Line, access: Access, miss: Miss) {
        let _ = (line, access, miss);
    }

    /// Simulation: the caller's exclusive use of a section begins. Nobody else may be inside.
    #[inline(always)]
    fn enter(&self, section: Section) {
        let _ = section;
    }

    /// Simulation: the caller's exclusive use of a section ends.
    #[inline(always)]
    fn leave(&self, section: Section) {
        let _ = section;
    }

    /// Simulation: a point at which a schedule may switch CPUs.
    #[inline(always)]
    fn point(&self, site: Site) {
        let _ = site;
    }

    /// Simulation: whether to force the rare outcome at `site`, as [`Site`] describes it. `false`
    /// wherever rare paths come by themselves; not always `true`, or requests that may not fail
    /// try for ever.
    #[inline(always)]
    fn force(&self, site: Site) -> bool {
        let _ = site;
        false
    }
}
