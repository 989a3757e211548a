//! Trace events of compaction.

use core::fmt;

use crate::frame::{FrameRange, Pfn};

/// A tracepoint of the kernel's `compaction` group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompactEvent {
    /// A run over a zone begins, or has ended: where the scanners are.
    Run {
        /// First frame of the zone.
        zone_start: Pfn,
        /// What the migrate scanner looks at next.
        migrate: Pfn,
        /// The end of what the free scanner looks at next.
        free: Pfn,
        /// The end of the zone.
        zone_end: Pfn,
        /// Whether it may wait.
        sync: bool,
        /// What it came to, if it has ended.
        status: Option<&'static str>,
    },
    /// The migrate scanner has claimed pages.
    IsolatePages {
        /// The frames it looked at.
        range: FrameRange,
        /// How many steps that took.
        scanned: u64,
        /// How many frames were claimed.
        taken: u64,
    },
    /// Pages were moved, or were not.
    MigratePages {
        /// Frames whose pages moved.
        moved: u64,
        /// Frames whose pages did not.
        failed: u64,
    },
}

impl CompactEvent {
    /// The kernel's name for it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Run { status: None, .. } => "mm_compaction_begin",
            Self::Run { status: Some(_), .. } => "mm_compaction_end",
            Self::IsolatePages { .. } => "mm_compaction_isolate_migratepages",
            Self::MigratePages { .. } => "mm_compaction_migratepages",
        }
    }
}

impl fmt::Display for CompactEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run { zone_start, migrate, free, zone_end, sync, status } => {
                let mode = if *sync { "sync" } else { "async" };
                write!(
                    f,
                    "zone_start={:#x} migrate_pfn={:#x} free_pfn={:#x} zone_end={:#x}, mode={mode}",
                    zone_start.get(),
                    migrate.get(),
                    free.get(),
                    zone_end.get()
                )?;
                status.map_or(Ok(()), |status| write!(f, " status={status}"))
            }
            Self::IsolatePages { range, scanned, taken } => write!(
                f,
                "range=({:#x} ~ {:#x}) nr_scanned={scanned} nr_taken={taken}",
                range.start().get(),
                range.end().get()
            ),
            Self::MigratePages { moved, failed } => {
                write!(f, "nr_migrated={moved} nr_failed={failed}")
            }
        }
    }
}
