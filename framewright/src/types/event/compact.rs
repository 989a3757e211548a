//! Trace events of compaction.

use core::fmt;

use crate::types::{FrameRange, NodeId, Order, Pfn, Request, ZoneKind};

/// A scanner of compaction, or the search of `compact.method=index` that takes the scanner's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scanner {
    /// The scanner that isolates pages to move.
    Migrate,
    /// The scanner that isolates free frames as targets of moves.
    Free,
    /// The free scanner's search of the free lists.
    FastFree,
}

/// A step of deferral: after a failure, some attempts of compaction are refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeferStep {
    /// Compaction was refused because of earlier failures.
    Refused,
    /// Compaction failed, so the deferral begins or grows.
    Failed,
    /// Compaction succeeded, so the deferral ends.
    Reset,
}

/// A tracepoint of the kernel's `compaction` group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CompactEvent {
    /// Direct compaction for a request begins.
    TryPages {
        /// The request.
        request: Request,
        /// 0: full effort; 1: without waiting for pages; 2: asynchronous.
        priority: u8,
    },
    /// A run over a zone begins or has ended, with the positions of the scanners. For a run by index,
    /// `migrate` is the position of the search (begin), or the pageblock that the run tried to empty
    /// last (end), and `free` is the end of the zone.
    Run {
        /// First frame of the zone.
        zone_start: Pfn,
        /// The position of the migrate scanner.
        migrate: Pfn,
        /// The position of the free scanner, which moves towards lower frames.
        free: Pfn,
        /// The end of the zone.
        zone_end: Pfn,
        /// Whether the run may wait.
        sync: bool,
        /// The result of the run, if it has ended.
        status: Option<&'static str>,
    },
    /// A scanner has examined frames, and isolated some.
    IsolatePages {
        /// The scanner.
        by: Scanner,
        /// The frames that it examined.
        range: FrameRange,
        /// Number of frames examined; with `compact.method=index`, the number of pageblock headers
        /// examined for free frames.
        scanned: u64,
        /// Number of frames isolated.
        taken: u64,
    },
    /// A batch of pages was migrated.
    MigratePages {
        /// Frames whose pages moved.
        moved: u64,
        /// Frames whose pages could not be moved.
        failed: u64,
    },
    /// A check whether a run of compaction may begin or continue.
    Checked {
        /// Whether the run has begun.
        begun: bool,
        /// The node of the zone.
        node: NodeId,
        /// The kind of the zone.
        zone: ZoneKind,
        /// The requested order; `None`: as many pageblocks as possible.
        order: Option<Order>,
        /// The result of the check.
        result: &'static str,
    },
    /// The deferral of a zone changed, or refused an attempt.
    Deferral {
        /// The step.
        step: DeferStep,
        /// The node of the zone.
        node: NodeId,
        /// The kind of the zone.
        zone: ZoneKind,
        /// The requested order.
        order: Order,
        /// The least order that failed.
        failed: u32,
        /// Attempts since the last failure.
        considered: u32,
        /// The number of the first attempt that is not refused.
        limit: u32,
    },
    /// Background compaction is woken.
    DaemonWakeup {
        /// The node.
        node: NodeId,
        /// The order to form.
        order: Order,
        /// The highest kind of zone to compact.
        highest: ZoneKind,
    },
    /// Background compaction begins to work.
    DaemonWake {
        /// The node.
        node: NodeId,
        /// The order to form.
        order: Order,
        /// The highest kind of zone to compact.
        highest: ZoneKind,
    },
    /// Background compaction goes to sleep.
    DaemonSleep {
        /// The node.
        node: NodeId,
    },
}

impl CompactEvent {
    /// The kernel's name of the event.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::TryPages { .. } => "mm_compaction_try_to_compact_pages",
            Self::Run { status: None, .. } => "mm_compaction_begin",
            Self::Run { status: Some(_), .. } => "mm_compaction_end",
            Self::IsolatePages { by, .. } => match by {
                Scanner::Migrate => "mm_compaction_isolate_migratepages",
                Scanner::Free => "mm_compaction_isolate_freepages",
                Scanner::FastFree => "mm_compaction_fast_isolate_freepages",
            },
            Self::MigratePages { .. } => "mm_compaction_migratepages",
            Self::Checked { begun: true, .. } => "mm_compaction_finished",
            Self::Checked { begun: false, .. } => "mm_compaction_suitable",
            Self::Deferral { step, .. } => match step {
                DeferStep::Refused => "mm_compaction_deferred",
                DeferStep::Failed => "mm_compaction_defer_compaction",
                DeferStep::Reset => "mm_compaction_defer_reset",
            },
            Self::DaemonWakeup { .. } => "mm_compaction_wakeup_kcompactd",
            Self::DaemonWake { .. } => "mm_compaction_kcompactd_wake",
            Self::DaemonSleep { .. } => "mm_compaction_kcompactd_sleep",
        }
    }
}

impl fmt::Display for CompactEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TryPages { request, priority } => {
                write!(f, "order={} gfp_mask={request} priority={priority}", request.order())
            }
            Self::Run { zone_start, migrate, free, zone_end, sync, status } => {
                let [start, migrate, free, end] =
                    [zone_start, migrate, free, zone_end].map(Pfn::get);
                let mode = if sync { "sync" } else { "async" };
                write!(
                    f,
                    "zone_start={start:#x} migrate_pfn={migrate:#x} free_pfn={free:#x} \
                     zone_end={end:#x}, mode={mode}"
                )?;
                status.map_or(Ok(()), |status| write!(f, " status={status}"))
            }
            Self::IsolatePages { range, scanned, taken, .. } => {
                let (start, end) = (range.start().get(), range.end().get());
                write!(f, "range=({start:#x} ~ {end:#x}) nr_scanned={scanned} nr_taken={taken}")
            }
            Self::MigratePages { moved, failed } => {
                write!(f, "nr_migrated={moved} nr_failed={failed}")
            }
            Self::Checked { node, zone, order, result, .. } => {
                let order = order.map_or(-1, |order| i32::from(order.get()));
                let zone = zone.name();
                write!(f, "node={node} zone={zone:<8} order={order} ret={result}")
            }
            Self::Deferral { node, zone, order, failed, considered, limit, .. } => write!(
                f,
                "node={node} zone={:<8} order={order} order_failed={failed} \
                 consider={considered} limit={limit}",
                zone.name()
            ),
            Self::DaemonWakeup { node, order, highest }
            | Self::DaemonWake { node, order, highest } => {
                write!(f, "nid={node} order={order} classzone_idx={:<8}", highest.name())
            }
            Self::DaemonSleep { node } => write!(f, "nid={node}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn bodies_read_like_the_kernels() {
        let at = Pfn::new;
        let event = CompactEvent::Run {
            zone_start: at(0x1000),
            migrate: at(0x1a00),
            free: at(0x40000),
            zone_end: at(0x40000),
            sync: false,
            status: Some("partial_skipped"),
        };
        assert_eq!(event.name(), "mm_compaction_end");
        assert_eq!(
            event.to_string(),
            "zone_start=0x1000 migrate_pfn=0x1a00 free_pfn=0x40000 zone_end=0x40000, mode=async \
             status=partial_skipped"
        );
        let event = CompactEvent::Checked {
            begun: true,
            node: NodeId::default(),
            zone: ZoneKind::Normal,
            order: None,
            result: "continue",
        };
        assert_eq!(event.to_string(), "node=0 zone=Normal   order=-1 ret=continue");
    }
}
