//! Compaction.

use crate::types::Order;

/// How compaction finds pages to move, and frames to move them to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CompactMethod {
    /// By the headers of pageblocks: the emptiest movable pageblocks are emptied into the fullest.
    #[default]
    Index,
    /// By two scanners that examine frames, one upward for pages to move, one downward for free
    /// frames, as in Linux. With the feature `scanners`.
    #[cfg(feature = "scanners")]
    Scan,
    /// No compaction, for comparison. Given ranges are emptied nevertheless.
    Off,
}

impl CompactMethod {
    /// Whether frames are scanned.
    pub(crate) const fn scans(self) -> bool {
        #[cfg(feature = "scanners")]
        return matches!(self, Self::Scan);
        #[cfg(not(feature = "scanners"))]
        false
    }
}

/// Rules of the scanners that were wrong until six patches of V. Babka (2013) in Linux 3.14. Each
/// repair can be switched off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompactRepairs {
    /// Cached positions are reset *before* a run reads them.
    pub reset_before_read: bool,
    /// The free scanner records its position even if it found nothing, so that a meeting of the
    /// scanners is noticed.
    pub detect_meeting: bool,
    /// A pageblock that a run leaves out because of its type gets no skip hint, which would apply to
    /// all runs.
    pub unmarked_types: bool,
    /// Cached positions are reset as soon as the scanners meet.
    pub reset_on_meeting: bool,
}

impl Default for CompactRepairs {
    fn default() -> Self {
        Self {
            reset_before_read: true,
            detect_meeting: true,
            unmarked_types: true,
            reset_on_meeting: true,
        }
    }
}

/// Compaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompactTuning {
    /// How pages to move are found.
    pub method: CompactMethod,
    /// Rules of the scanners.
    pub repair: CompactRepairs,
    /// The scanners search the free lists first, and the formed block is captured for the request that
    /// waits.
    pub shortcuts: bool,
    /// By index: headers that are examined in one piece of a search, which holds the zone lock.
    pub headers_per_piece: u32,
    /// By index: frames that may be moved while one request waits, over all its attempts, or work that
    /// takes as long.
    pub migrate_budget: u32,
    /// Costly orders are left to reclaim if the fragmentation index is not above this.
    pub extfrag_threshold: u32,
    /// How much background compaction does before any request needs it: 0 nothing, 100 the most.
    pub proactiveness: u32,
}

impl CompactTuning {
    /// Number of frames that must be free for an attempt to form a block of `order`. By index that is
    /// the size of the block, because pages move into frames that are free elsewhere. Scanners take
    /// target frames before they know which block will form: they need twice as many.
    pub(crate) fn frames_needed(&self, order: Order) -> u64 {
        if self.method.scans() { 2 * order.frames() } else { order.frames() }
    }
}

impl Default for CompactTuning {
    fn default() -> Self {
        Self {
            method: CompactMethod::default(),
            repair: CompactRepairs::default(),
            shortcuts: true,
            headers_per_piece: 64,
            migrate_budget: 512,
            extfrag_threshold: 500,
            proactiveness: 20,
        }
    }
}
