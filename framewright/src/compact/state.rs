//! Compaction state per zone: hints only, read and written without a lock.

use super::{cursor::SearchCursor, deferral::Deferral, skip::SkipHints};
use crate::{observe::CompactCounters, sync::AtomicU64};

/// The compaction state of a zone.
pub(crate) struct ZoneCompaction<'m> {
    /// Pageblocks that are not worth searching for now.
    pub(super) skip: SkipHints<'m>,
    /// Deferral of compaction for requests. With the scanners, also of background compaction.
    pub(super) deferral: Deferral,
    /// Deferral of background compaction by index.
    pub(super) background: Deferral,
    /// Deferral of forming pageblocks for the huge-page reserve. It does not defer compaction for
    /// requests.
    pub(super) huge_reserve: Deferral,
    #[cfg(feature = "compare")]
    pub(super) scan: super::scan::ScanState,
    /// Position of the index search for single pageblocks.
    pub(super) cursor: SearchCursor,
    /// Position of the index search for runs of pageblocks.
    pub(super) runs: SearchCursor,
    pub(crate) counters: CompactCounters,
}

impl<'m> ZoneCompaction<'m> {
    /// The state of a zone of `frames` frames, holes included; `skip` has a bit for each pageblock.
    #[cfg_attr(
        not(feature = "compare"),
        expect(unused_variables, reason = "scanners have positions")
    )]
    pub(crate) fn new(frames: u32, skip: &'m [AtomicU64]) -> Self {
        Self {
            skip: SkipHints::new(skip),
            deferral: Deferral::new(),
            background: Deferral::new(),
            huge_reserve: Deferral::new(),
            #[cfg(feature = "compare")]
            scan: super::scan::ScanState::new(frames),
            cursor: SearchCursor::new(),
            runs: SearchCursor::new(),
            counters: CompactCounters::new(),
        }
    }
}
