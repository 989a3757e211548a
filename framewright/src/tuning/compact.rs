//! Compaction.

use crate::types::Order;

/// How compaction finds what to move, and where to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum CompactMethod {
    /// By what the headers of pageblocks say: the emptiest movable ones are emptied into the
    /// fullest.
    #[default]
    Index,
    /// By two scanners that look at frames, one upward for pages to move, one downward for free
    /// frames: what Linux does. For comparison, with the feature `compare`.
    #[cfg(feature = "compare")]
    Scan,
    /// Not at all, for comparison. Given ranges are emptied all the same.
    Off,
}

impl CompactMethod {
    /// Whether frames are scanned.
    pub(crate) const fn scans(self) -> bool {
        #[cfg(feature = "compare")]
        return matches!(self, Self::Scan);
        #[cfg(not(feature = "compare"))]
        false
    }
}

/// Compaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompactTuning {
    /// How it finds what to move.
    pub method: CompactMethod,
    /// Rules of the scanners.
    #[cfg(feature = "compare")]
    pub repair: super::CompactRepairs,
    /// The scanners begin with a short look at the lists of free blocks, and the block that forms is
    /// kept for who waits for it.
    #[cfg(feature = "compare")]
    pub shortcuts: bool,
    /// By index: headers that are looked at for one pageblock to empty.
    pub headers_per_piece: u32,
    /// By index: frames that move while one request waits, however often it tries, or what takes as long.
    pub migrate_budget: u32,
    /// Costly orders are left to reclaim where the fragmentation index is not above this.
    pub extfrag_threshold: u32,
    /// How much is done before anybody asks: 0 nothing, 100 the most.
    pub proactiveness: u32,
}

impl CompactTuning {
    /// Whether a run can tell a meeting of the scanners from contention. The index always can.
    pub(crate) const fn detects_meeting(&self) -> bool {
        #[cfg(feature = "compare")]
        return !self.method.scans() || self.repair.detect_meeting;
        #[cfg(not(feature = "compare"))]
        true
    }

    /// Frames that are free where a block of `order` is worth forming: as many as it has. By index
    /// that is all it takes, since what moves out of a pageblock has its place in what is free in
    /// others. Scanners take frames to move to before they know what forms: twice as many.
    pub(crate) fn room(&self, order: Order) -> u64 {
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
