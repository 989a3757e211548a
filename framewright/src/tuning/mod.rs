//! Settings: all thresholds, and all rules in which kernels differ.
//!
//! A [`Tuning`] is a plain value given at construction. Each field has a path (`pcp.batch`), a
//! default, a range and a source, listed in [`KEYS`]; programs set fields by path with
//! [`Tuning::set`]. To compare the states before and after a change, run one binary with two
//! settings. The default is the best known value.

mod compact;
mod compare;
mod error;
mod field;
mod keys;
#[cfg(feature = "compare")]
mod scan;
mod set;
mod spelling;

use crate::{platform::OwnerLock, types::ZoneKind};

pub use compact::{CompactMethod, CompactTuning};
pub use compare::needs_compare;
pub use error::TuningError;
pub use keys::{KEYS, Key};
#[cfg(feature = "compare")]
pub use scan::CompactRepairs;

/// A number that is derived from the machine unless it is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Auto {
    /// Derived from the machine.
    #[default]
    Auto,
    /// Set to this number.
    Fixed(u32),
}

impl Auto {
    /// The number that was set, or else the result of `derive`.
    pub fn or(self, derive: impl FnOnce() -> u32) -> u32 {
        match self {
            Auto::Auto => derive(),
            Auto::Fixed(value) => value,
        }
    }
}

/// The time at which the frames of a bulk free are selected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum BulkFree {
    /// Before the zone lock is taken, which then covers only the merge ("mm: free_pcppages_bulk:
    /// do not hold lock when picking pages to free", Lu, 2018).
    #[default]
    SelectBeforeLock,
    /// Under the zone lock, as Linux did before 4.17 and does again since 5.18. For comparison, with
    /// the feature `compare`.
    #[cfg(feature = "compare")]
    SelectUnderLock,
}

/// The method of taking a batch from a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum BulkTake {
    /// Takes all that is needed from a pageblock before the next one, up to 64 free frames (one
    /// word of its bitmap) in one step.
    #[default]
    Bulk,
    /// Each block is searched for and accounted for separately, under one hold of the lock, as in
    /// Linux. For comparison, with the feature `compare`.
    #[cfg(feature = "compare")]
    OneByOne,
    /// The smallest blocks first, regardless of their pageblock, as in Linux. Among blocks of equal
    /// size, the search starts at the pageblock of the last free. For comparison, with the feature
    /// `compare`: it examines all pageblocks under the zone lock, which takes long in a large
    /// memory.
    #[cfg(feature = "compare")]
    SmallestFirst,
}

/// The condition on which a free of order 1 to 4 drains the lists of its CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HighOrderDrain {
    /// Only the second of two consecutive such frees ("mm, pcp: avoid to drain PCP when process
    /// exit", Huang, 2023), and only after a burst: the CPU has freed at least
    /// [`PcpTuning::high_order_burst`] more frames than it has allocated, so other CPUs have
    /// allocated them.
    #[default]
    SecondConsecutive,
    /// Every such free after a burst, as in Linux 5.18 to 6.6.
    EveryFree,
}

/// The level of checks of raw frees (frees by frame number), from least to most.
/// [`CpuToken::free_raw`](crate::CpuToken::free_raw) lists the bad frees that each level detects.
/// No level detects a second free after the frames were allocated again as a block of the same
/// order. That free takes the block from its new owner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Hardening {
    /// Raw frees are not checked.
    Off,
    /// A raw free is checked at the call against a map of the heads of allocated blocks and against
    /// the lists of the caller's CPU. It is refused if the frames are free in the zone or on those
    /// lists, or are not a block of that order. A double free of frames on lists of other CPUs, or
    /// in the depot, is refused only when the second copy reaches the zone. Frees of
    /// [`Block`](crate::Block)s cost nothing extra.
    #[default]
    Checked,
    /// A byte per frame tells whether an allocated block starts there. So every bad free is refused
    /// at the call, no matter which list has the frames. Of two racing frees, one is refused. Every
    /// allocation and free updates that byte, and takes the try-lock of its CPU's lists
    /// ([`OwnerLock::Trylock`]).
    Tracked,
    /// As *tracked*. In addition, free frames are poisoned and wait in quarantine before they are
    /// handed out again ([`ParanoidTuning`]). Every allocation and free takes the zone lock.
    Paranoid,
}

/// Choice of the owner protocol of the per-CPU lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OwnerChoice {
    /// The protocol that the platform names. At [`Hardening::Tracked`]: the try-lock.
    #[default]
    Auto,
    /// This protocol.
    Fixed(OwnerLock),
}

/// Settings of the per-CPU lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PcpTuning {
    /// Frames moved between a list and the zone at once.
    pub batch: Auto,
    /// Fixes the size of the lists to managed/fraction/CPUs and switches auto-tuning off.
    /// 0 keeps auto-tuning.
    pub high_fraction: u32,
    /// The auto-tuned size of a CPU's lists never exceeds managed/divisor/CPUs, and no refill with blocks below order 9
    /// enlarges them beyond free/divisor/CPUs, with the frames that are free in the zone or on these lists.
    pub high_max_divisor: u32,
    /// Whether the free frames of the zone do not limit refills.
    #[cfg(feature = "compare")]
    pub refill_ignores_free: bool,
    /// If there are more CPUs than [`PcpTuning::high_max_divisor`], their number is the divisor,
    /// but at most this value. So the more CPUs there are, the smaller is the part of the zone on
    /// all lists together: a CPU cannot allocate from the lists of others.
    pub high_max_divisor_many: u32,
    /// A refill or bulk free moves at most batch << scale_max frames at once.
    pub scale_max: u32,
    /// The largest order with lists, up to 4; pageblocks have lists anyway. Larger blocks are allocated from the zone and
    /// freed to it.
    pub max_order: u32,
    /// A ring of orders 0 to 4 has space for this many batches of frames (1 to 4), and for at least 16 times as many
    /// blocks, but for at most 128 blocks.
    pub ring_batches: u32,
    /// Share of the last-level cache of one CPU, in frames; 0: unknown. If it is above three
    /// batches, high-order frees do not drain lists with less than a batch.
    pub cache_frames: u32,
    /// The time at which a bulk free selects its frames.
    pub bulk_free: BulkFree,
    /// The high-order frees that drain the lists.
    pub high_order_drain: HighOrderDrain,
    /// Whether one free returns all frames of a burst of high-order frees, also with
    /// [`HighOrderDrain::SecondConsecutive`].
    #[cfg(feature = "compare")]
    pub high_order_at_once: bool,
    /// The size of a burst. A high-order free drains only after about this many frames were freed
    /// in a row and, with [`HighOrderDrain::SecondConsecutive`], this many more were freed than
    /// allocated.
    pub high_order_burst: Auto,
    /// Slots per CPU for bundles, rounded up to a power of two. A bundle is a 64-bit mask of free
    /// frames within 64 neighbouring ones.
    pub bundle_slots: Auto,
    /// For this many blocks that a spill moves into the store, it looks at one slot for a bundle in a pageblock that has
    /// become sparse. These bundles return to the zone. 0: none.
    pub sweep_blocks: u32,
    /// The maximum number of pageblocks whose frames are returned under one hold of the zone lock. Also the maximum number
    /// of blocks that a free moves from a full ring to the store if the CPU has allocated since the last such move.
    /// Without allocations in between, the whole ring moves.
    pub hold_pageblocks: Auto,
    /// Lists that nobody trims are trimmed when the CPU has allocated this many times as many frames as they have not
    /// needed since the last trim. 0: no trim returns frames, not even one that the embedder requests.
    pub trim_after: u32,
}

impl Default for PcpTuning {
    fn default() -> Self {
        Self {
            batch: Auto::Auto,
            high_fraction: 0,
            high_max_divisor: 8,
            #[cfg(feature = "compare")]
            refill_ignores_free: false,
            high_max_divisor_many: 50,
            scale_max: 5,
            max_order: 4,
            ring_batches: 4,
            cache_frames: 0,
            bulk_free: BulkFree::default(),
            high_order_drain: HighOrderDrain::default(),
            #[cfg(feature = "compare")]
            high_order_at_once: false,
            high_order_burst: Auto::Auto,
            bundle_slots: Auto::Auto,
            sweep_blocks: 8,
            hold_pageblocks: Auto::Auto,
            trim_after: 32,
        }
    }
}

/// Settings of zones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ZoneTuning {
    /// The min watermarks of all zones together, in frames. The zone Movable is not included.
    pub min_free: Auto,
    /// The minimum distance between two watermarks, in 1/10000 of the zone.
    pub watermark_scale: u32,
    /// The maximum boost of the watermarks after a fallback that mixes migratetypes in a pageblock,
    /// in 1/10000 of the high watermark; 0: no boost.
    pub watermark_boost: u32,
    /// The maximum of the huge-page reserve of a zone, in 1/10000 of the zone; 0: no reserve. The
    /// reserve grows when requests for huge pages find no free block.
    pub huge_reserve: u32,
    /// Linux's `lowmem_reserve_ratio`, by kind of zone: a zone reserves (frames of the higher zones
    /// of its node) / ratio frames against requests that could use those higher zones; 0: none.
    pub reserve_ratios: [u32; ZoneKind::COUNT],
    /// The maximum number of pageblocks from which one refill takes frames.
    pub refill_pageblocks: u32,
    /// A pageblock with more free frames than this is sparse: frames that are freed in it return to
    /// the zone, until refills have filled it; 512: no pageblock is sparse.
    pub emptying_above: u32,
    /// Whether any refill that takes frames from a sparse pageblock ends its emptying: not only one that leaves at
    /// most `emptying_above` free frames in it, or the second one in a row.
    #[cfg(feature = "compare")]
    pub any_refill_ends_emptying: bool,
    /// Whether a batch breaks a wholly free pageblock for its last frames, even if it has some already.
    #[cfg(feature = "compare")]
    pub rest_breaks_pageblock: bool,
    /// The method of taking a batch.
    pub bulk_take: BulkTake,
    /// Whether a request for a larger block also needs enough free memory in larger blocks: for each order below
    /// its own, the blocks of that order stop to count, and the watermark is halved. Compaction by scanners then
    /// continues until the zone passes this test above its low watermark. Off: one free block that is large enough
    /// is sufficient.
    #[cfg(feature = "compare")]
    pub watermark_by_order: bool,
    /// The depot of a zone, through which frames pass from CPU to CPU, may hold at most 1/divisor
    /// of the frames of the zone; 0: no depot.
    pub depot_divisor: Auto,
}

impl Default for ZoneTuning {
    fn default() -> Self {
        Self {
            min_free: Auto::Auto,
            watermark_scale: 10,
            watermark_boost: 15_000,
            huge_reserve: 1_000,
            reserve_ratios: [256, 256, 32, 0],
            refill_pageblocks: 16,
            emptying_above: 6,
            #[cfg(feature = "compare")]
            any_refill_ends_emptying: false,
            #[cfg(feature = "compare")]
            rest_breaks_pageblock: false,
            bulk_take: BulkTake::default(),
            #[cfg(feature = "compare")]
            watermark_by_order: false,
            depot_divisor: Auto::Auto,
        }
    }
}

/// Settings of the slow path of allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct AllocTuning {
    /// Rounds of reclaim without progress after which a request counts as out of memory.
    pub retries: u32,
    /// Consecutive rounds of reclaim that may free frames without serving the request, before the embedder
    /// decides whether the request fails.
    pub progress_retries: u32,
    /// Rounds in which compaction forms a block that another request takes, before the priority of
    /// compaction is raised; a quarter of them for costly orders.
    pub compaction_retries: u32,
    /// Whether types are mixed in a pageblock only after reclaim and compaction were tried, and
    /// background work is woken for whole pageblocks.
    pub defrag_mode: bool,
}

impl Default for AllocTuning {
    fn default() -> Self {
        Self { retries: 16, progress_retries: 256, compaction_retries: 16, defrag_mode: false }
    }
}

/// Settings of reclaim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ReclaimTuning {
    /// Share of anonymous pages in the cost balance of reclaim, out of 200; 0: they are never reclaimed.
    pub swappiness: u32,
    /// The number of pages that are isolated from a list at once.
    pub cluster: u32,
    /// The number of additions to LRU lists and moves between them that a CPU collects before it
    /// takes the LRU lock.
    pub lru_batch: u32,
    /// Rounds in a row without progress after which background reclaim stops for a node, until
    /// another task reclaims memory of that node.
    pub max_failures: u32,
    /// The number of pages that a request scans without success. After that, it also reclaims clean file pages that
    /// were referenced once.
    pub referenced_scan_max: u32,
}

impl Default for ReclaimTuning {
    fn default() -> Self {
        Self {
            swappiness: 60,
            cluster: 64,
            lru_batch: 63,
            max_failures: 16,
            referenced_scan_max: 8192,
        }
    }
}

/// The additional measures of [`Hardening::Paranoid`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ParanoidTuning {
    /// Whether frames are filled with a pattern when they are freed, which is checked when they are
    /// allocated again. Needs a platform that can write to frames
    /// ([`Platform::poison`](crate::Platform::poison)).
    pub poison: bool,
    /// The size of the quarantine of each CPU for each zone, in frames; 0: none. Frames in
    /// quarantine cannot be allocated until more frames are freed or memory runs short. Blocks
    /// larger than the quarantine do not enter it.
    pub quarantine: u32,
}

impl Default for ParanoidTuning {
    fn default() -> Self {
        Self { poison: true, quarantine: 256 }
    }
}

/// The time at which translations of unmapped pages are flushed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum FlushBatching {
    /// Page by page, as kernels did before "mm: send one IPI per CPU to TLB flush all entries after
    /// unmapping pages" (Gorman, 2015).
    Off,
    /// A page that may have been stored to is flushed at once, so that it can be written out. All
    /// other pages are flushed together at the end of a batch. This is that series as first posted.
    CleanOnly,
    /// One flush per batch, as in Linux. Dirty pages are flushed before they are written out.
    All,
    /// As all, but a batch without dirty pages is not flushed at its end. Freeing its frames is deferred until
    /// every CPU has flushed for another reason, the frames are needed, or their contents are about to
    /// change.
    #[default]
    Lazy,
}

/// Settings of TLB flushes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TlbTuning {
    /// The time at which translations are flushed.
    pub batching: FlushBatching,
    /// The number of frames that are flushed at once. With [`FlushBatching::All`], smaller batches
    /// are deferred until together they have that many frames. Auto: 32 for every CPU, at least 64,
    /// and at most 1/400 of the memory.
    pub batch: Auto,
    /// The maximum number of frames that are unmapped and not flushed with [`FlushBatching::Lazy`],
    /// deferred or in unfinished batches. 256, plus 32 for every CPU, are always allowed. Auto:
    /// 1/200 of the memory.
    pub deferred_max: Auto,
    /// Pages of one address space that are flushed one by one; more of them, and pages of several address
    /// spaces, need a full flush.
    pub single_page_flush_ceiling: u32,
}

impl Default for TlbTuning {
    fn default() -> Self {
        Self {
            batching: FlushBatching::default(),
            batch: Auto::Auto,
            deferred_max: Auto::Auto,
            single_page_flush_ceiling: 33,
        }
    }
}

/// All settings of a memory. Start with [`Tuning::default`], and change settings with [`Tuning::set`] or by assigning
/// fields.
///
/// # Example
///
/// ```
/// use framewright::{Tuning, tuning::Hardening};
///
/// let mut tuning = Tuning::default();
/// tuning.set("hardening", "tracked")?;
/// assert_eq!(tuning.hardening, Hardening::Tracked);
/// assert_eq!(tuning.get("pcp.batch")?.to_string(), "auto");
/// let error = tuning.set("pcp.bach", "31").unwrap_err();
/// assert!(error.to_string().contains("pcp.batch"), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Tuning {
    /// Per-CPU lists.
    pub pcp: PcpTuning,
    /// Zones and watermarks.
    pub zone: ZoneTuning,
    /// The slow path.
    pub alloc: AllocTuning,
    /// Reclaim.
    pub reclaim: ReclaimTuning,
    /// TLB flushes.
    pub tlb: TlbTuning,
    /// Compaction.
    pub compact: CompactTuning,
    /// Checks of raw frees.
    pub hardening: Hardening,
    /// Additional measures of the highest level of hardening.
    pub paranoid: ParanoidTuning,
    /// Owner protocol of the per-CPU lists.
    pub owner_lock: OwnerChoice,
}

#[cfg(test)]
mod tests;
