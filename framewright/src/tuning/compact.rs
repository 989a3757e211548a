//! Compaction.

use crate::types::Order;

/// How compaction finds what to move, and where to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CompactMethod {
    /// By what the headers of pageblocks say: the emptiest movable ones are emptied into the
    /// fullest.
    #[default]
    Index,
    /// By two scanners that look at frames, one upward for pages to move, one downward for free
    /// frames: what Linux does. With the feature `scanners`.
    #[cfg(feature = "scanners")]
    Scan,
    /// Not at all, for comparison. Given ranges are emptied all the same.
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

/// Rules of the scanners that were wrong until Linux 3.14, which took six patches of V. Babka (2013);
/// each can be put back as it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompactRepairs {
    /// Cached positions are reset *before* a run reads them.
    pub reset_before_read: bool,
    /// The free scanner says how far it came even if it found nothing, so that a meeting of the
    /// scanners is noticed.
    pub detect_meeting: bool,
    /// What is left alone for its type is not marked to be skipped by everybody.
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
    /// How it finds what to move.
    pub method: CompactMethod,
    /// Rules of the scanners.
    pub repair: CompactRepairs,
    /// The scanners begin with a short look at the lists of free blocks, and the block that forms is
    /// kept for who waits for it.
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
            repair: CompactRepairs::default(),
            shortcuts: true,
            headers_per_piece: 64,
            migrate_budget: 512,
            extfrag_threshold: 500,
            proactiveness: 20,
        }
    }
}
