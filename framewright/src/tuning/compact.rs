//! Settings of compaction.

use crate::types::Order;

/// The method by which compaction finds pages to move, and frames to move them to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum CompactMethod {
    /// By the headers of pageblocks: the emptiest movable pageblocks are emptied into the fullest.
    #[default]
    Index,
    /// By two scanners that examine frames, one upward for pages to move, one downward for free
    /// frames, as in Linux. With the feature `compare`.
    #[cfg(feature = "compare")]
    Scan,
    /// No compaction, for comparison. Given ranges are emptied nevertheless.
    Off,
}

impl CompactMethod {
    /// Whether the method is two scanners.
    pub(crate) const fn scans(self) -> bool {
        #[cfg(feature = "compare")]
        return matches!(self, Self::Scan);
        #[cfg(not(feature = "compare"))]
        false
    }
}

/// Settings of compaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CompactTuning {
    /// The method.
    pub method: CompactMethod,
    /// Repairs of the scanners' rules.
    #[cfg(feature = "compare")]
    pub repair: super::CompactRepairs,
    /// The scanners search the free lists first, and the formed block is captured for the request that
    /// waits.
    #[cfg(feature = "compare")]
    pub shortcuts: bool,
    /// With [`CompactMethod::Index`](super::CompactMethod): the number of pageblock headers that a
    /// search examines under one hold of the zone lock.
    pub headers_per_piece: u32,
    /// With [`CompactMethod::Index`](super::CompactMethod): the budget of one request over all its
    /// attempts, in frames moved for each pageblock that its block spans. Other work counts as the
    /// number of frames that could be moved in the same time. An attempt at the highest priority
    /// (`Sync`) starts with the whole budget again.
    pub migrate_budget: u32,
    /// Costly orders are left to reclaim if the fragmentation index (0 to 1000) is not above this.
    pub extfrag_threshold: u32,
    /// The effort of background compaction before any request needs it, from 0 (none) to 100.
    pub proactiveness: u32,
}

impl CompactTuning {
    /// Whether a run can tell a meeting of the scanners from contention. Always true with
    /// [`CompactMethod::Index`](super::CompactMethod).
    pub(crate) const fn detects_meeting(&self) -> bool {
        #[cfg(feature = "compare")]
        return !self.method.scans() || self.repair.detect_meeting;
        #[cfg(not(feature = "compare"))]
        true
    }

    /// Number of frames that must be free for an attempt to form a block of `order`. With
    /// [`CompactMethod::Index`](super::CompactMethod) this is the size of the block, because its pages move into free
    /// frames elsewhere. Scanners need twice as many, because they take target frames before they know which block will
    /// form.
    pub(crate) fn frames_needed(&self, order: Order) -> u64 {
        if self.method.scans() { 2 * order.frames() } else { order.frames() }
    }
}

impl Default for CompactTuning {
    fn default() -> Self {
        Self {
            method: CompactMethod::default(),
            #[cfg(feature = "compare")]
            repair: super::CompactRepairs::default(),
            #[cfg(feature = "compare")]
            shortcuts: true,
            headers_per_piece: 64,
            migrate_budget: 512,
            extfrag_threshold: 500,
            proactiveness: 20,
        }
    }
}
