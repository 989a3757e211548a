//! [`Probe`], the simulation hooks, and their types: kinds of work, cache lines, schedule points, and data in exclusive
//! use.
//!
//! The library reports kinds and amounts of work, not times, because times depend on the machine. A
//! simulator multiplies the count of each [`Cost`] by a measured number of instructions. It charges
//! each access to a [`Line`] by the distance over which the cache line is transferred. The kinds of
//! work are chosen so that a fit over runs with different counts determines the instructions of
//! each.
//!
//! A CPU has its blocks in *rings* (one array per list) and in the *store* behind the rings, as
//! *bundles*: masks of free blocks within 64 neighbouring frames. The *depot* of a zone has stacks
//! of single blocks, which move from one CPU to another.

use crate::types::{CpuId, NodeId, ZoneId};

/// Kinds of modelled work. Each unit is charged where it happens, which may be under the zone lock,
/// between [`Probe::enter`] and [`Probe::leave`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Cost {
    // ---- the hot path: each unit is a whole call
    /// An allocation from a ring.
    HotAlloc,
    /// A free to a ring.
    HotFree,

    /// A free that does not go directly to the list of single movable frames: the choice of its list.
    OtherList,

    // ---- behind the rings, without the zone lock
    /// An allocation that found its ring empty: the path to the store behind it, and sizing.
    SlowAlloc,
    /// A free that found its ring full: the path to the store behind it, and sizing.
    SlowFree,
    /// Runs of neighbouring frames that go to or from a ring together.
    RingRuns,
    /// Frames that go to or from a ring one at a time.
    RingFrames,
    /// Bundles put into the store.
    StoreBundles,
    /// Bundles selected to leave the lists, many at a time.
    SelectBundles,
    /// Bundles selected to leave the lists, one at a time: from rings, or under the zone lock.
    SelectSingly,
    /// Blocks that were removed from the bundles of a batch on its way to the zone, or joined to bundles
    /// again.
    LooseBlocks,
    /// A request to the zone: the watermark check before, the counters after it.
    Refill,
    /// A batch on its way to the zone, and the counters after it.
    BulkFree,
    /// Zones that a request tried after the first one.
    WalkZones,

    // ---- under the zone lock
    /// One hold of the lock: uncontended acquisition, release, and the published counts.
    ZoneHold,
    /// Pageblocks that a batch selected, and from which it took blocks.
    TakePageblocks,
    /// Bundles of single frames taken.
    TakeBundles,
    /// Bundles of larger blocks taken, below the order of a pageblock. Each is searched for.
    TakeHighOrder,
    /// Frames in the taken bundles. Together with [`Cost::GiveFrames`], [`Cost::DepotBlocks`] and
    /// [`Cost::WholePageblocks`] they account for all frames that moved under a hold.
    TakeFrames,
    /// Pageblocks to which a batch gave blocks.
    GivePageblocks,
    /// Bundles given that are one frame each.
    GiveSingles,
    /// Other bundles given, of orders below that of a pageblock.
    GiveBundles,
    /// Frames given, in bundles or single.
    GiveFrames,
    /// Stacks of the depot that a batch used or searched.
    DepotStacks,
    /// Blocks copied to or from stacks of the depot.
    DepotBlocks,
    /// Pageblocks moved to another list because their largest block or their fullness changed.
    Relist,
    /// Groups of up to 64 neighbouring pageblocks, each taken or given as a whole.
    PageblockWords,
    /// Pageblocks taken or given as a whole.
    WholePageblocks,
    /// Searches for a pageblock of another type.
    Fallback,
    /// Pageblocks that a search passed.
    Search,
    /// Frames that compaction examined one by one.
    ScanFrames,
    /// Pageblocks from which a specific block or range was taken, or to which it was given.
    RangePageblocks,
    /// Pageblocks that were isolated, added, removed, or changed their type.
    ChangePageblocks,

    // ---- reclaim
    /// One hold of an LRU lock: uncontended acquisition, release, and the published counts.
    LruHold,
    /// Pages put on a list or taken off under the LRU lock.
    LruMoves,
    /// Pages that a scan skipped under the LRU lock.
    LruSkips,
    /// Pages whose references a pass checked, without any lock.
    ReclaimPages,
}

/// A logical cache line: never an address, so that runs are reproducible.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Line {
    /// The words that a zone publishes for readers without its lock: free frames, and available orders.
    ZoneWords(ZoneId),
    /// A line of the index that finds pageblocks. Line 0 holds counts and the map of non-empty lists,
    /// which every holder of the lock uses; the next lines are the heads of lists.
    ZoneIndex(ZoneId, u32),
    /// The free map of a pageblock.
    Map(ZoneId, u32),
    /// The map of the allocated blocks of a pageblock, which hardening reads.
    Heads(ZoneId, u32),
    /// The header of a pageblock.
    Header(ZoneId, u32),
    /// A part of the map of a gigablock (512 pageblocks): 64 pageblocks.
    Gigablock(ZoneId, u32),
    /// A line of the depot of a zone: the heads of its stacks, then the stacks.
    Depot(ZoneId, u32),
    /// The hot line of a CPU's lists for a zone: lengths, owner, counts.
    CpuLists(ZoneId, CpuId),
    /// A line of the store behind a CPU's rings: 64 bytes of slots.
    CpuStore(ZoneId, CpuId, u32),
    /// The heads and lengths of the LRU lists of a node.
    LruNode(NodeId),
    /// The links of eight neighbouring pages of a node on LRU lists.
    LruLinks(NodeId, u32),
}

/// The kind of access to a cache line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Access {
    /// A load.
    Read,
    /// A store, or a load that a store will follow.
    Write,
    /// A prefetch, for which the CPU does not wait.
    Prefetch,
}

/// Whether later work has to wait for a line that is not cached.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Miss {
    /// The next access depends on the contents of the line: misses add up.
    Dependent,
    /// The address does not depend on earlier misses: misses overlap.
    Independent,
}

/// Data that only one CPU uses at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Section {
    /// The lists of a CPU for a zone, used by that CPU or by a CPU that drains them.
    Lists(ZoneId, CpuId),
    /// The buddy of a zone, under its lock.
    Zone(ZoneId),
    /// The LRU lists of a node, under their lock.
    Lru(NodeId),
    /// The LRU additions and moves that a CPU has batched, under the lock of the batch.
    LruBatch(CpuId),
    /// The frames that wait for a flush, under their lock.
    DeferredFrees,
    /// The log of drained blocks from the lists of a CPU for a zone, under its lock. Only with tracing.
    DrainLog(ZoneId, CpuId),
}

/// Points at which a simulator may switch CPUs, and may force rare outcomes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Site {
    /// An owner is about to use its lists. Forced: the owner is refused, as if a drainer used the
    /// lists.
    EnterLists,
    /// A request is about to take from a zone. Forced: nothing of the order is free there.
    Refill,
    /// Frames are about to be given to a zone. Forced: the frames selected to leave the lists of a CPU
    /// stay until a later free.
    BulkFree,
    /// An allocation is on the slow path. Forced: a zone and its lists are skipped. If all zones
    /// are skipped, [`Relief`](super::Relief) is called, and the request may fail as usual.
    SlowPath,
    /// A CPU is about to announce that it drains the lists of another CPU. Cannot be forced.
    Drain,
    /// A pass of reclaim is about to take or put back pages, or to call the owner of pages. Cannot
    /// be forced.
    Reclaim,
    /// The requests to CPUs to flush, or the epochs of their flushes, are about to be read or changed.
    /// Cannot be forced.
    Flush,
}

/// Hooks for a simulator. The library calls these methods where the work happens, also under its locks.
/// A machine that does not simulate defines none of them.
pub trait Probe {
    /// Whether the hooks are used. If it is `false`, the compiler also removes the computations
    /// that are needed only for hooks. It has to be `true` if a hook does something.
    const LISTENING: bool = false;

    /// Simulation: `count` units of modelled work of kind `cost`.
    #[inline(always)]
    fn cost(&self, cost: Cost, count: u32) {
        let _ = (cost, count);
    }

    /// Simulation: an access to a logical cache line; `miss` tells whether the next access waits
    /// for it.
    #[inline(always)]
    fn touch(&self, line: Line, access: Access, miss: Miss) {
        let _ = (line, access, miss);
    }

    /// Simulation: the caller's exclusive use of a section begins. No other CPU may be in the
    /// section.
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

    /// Simulation: whether to force the rare outcome at `site`, as [`Site`] describes it. With
    /// `false` the outcome is the real one. Must not always be `true`, because requests that must
    /// not fail would retry for ever.
    #[inline(always)]
    fn force(&self, site: Site) -> bool {
        let _ = site;
        false
    }
}
