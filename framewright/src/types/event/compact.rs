//! Trace events of compaction.

use core::fmt;

use crate::types::{FrameRange, NodeId, Order, Pfn, Request, ZoneKind};

/// Whose frames were looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scanner {
    /// Pages to move.
    Migrate,
    /// Room to move them to.
    Free,
    /// The same, by a short look at lists.
    FastFree,
}

/// What became of compaction's right to begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeferStep {
    /// It was refused for earlier failures.
    Refused,
    /// It failed.
    Failed,
    /// It succeeded.
    Reset,
}

/// A tracepoint of the kernel's `compaction` group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CompactEvent {
    /// A request asks for it.
    TryPages {
        /// What is wanted.
        request: Request,
        /// 0: as hard as possible; 1: without waiting for pages; 2: without waiting.
        priority: u8,
    },
    /// A run over a zone begins, or has ended: where the scanners are. By index, `migrate` is the
    /// pageblock that was emptied last, and `free` the end of the zone.
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
    /// A scanner has looked at frames, and taken some.
    IsolatePages {
        /// Which.
        by: Scanner,
        /// The frames it looked at.
        range: FrameRange,
        /// How many steps that took: frames, or by index headers of pageblocks where room is found.
        scanned: u64,
        /// How many frames were taken.
        taken: u64,
    },
    /// Pages were moved, or were not.
    MigratePages {
        /// Frames whose pages moved.
        moved: u64,
        /// Frames whose pages did not.
        failed: u64,
    },
    /// Whether a run goes on, or begins at all.
    Judged {
        /// It has begun.
        begun: bool,
        /// The node of the zone.
        node: NodeId,
        /// Its kind.
        zone: ZoneKind,
        /// The order wanted; as many pageblocks as possible, if it does not say.
        order: Option<Order>,
        /// The verdict.
        verdict: &'static str,
    },
    /// What is known of failures changed, or decided.
    Deferral {
        /// How.
        step: DeferStep,
        /// The node of the zone.
        node: NodeId,
        /// Its kind.
        zone: ZoneKind,
        /// The order wanted.
        order: Order,
        /// The least order that failed.
        failed: u32,
        /// Attempts that were refused since.
        considered: u32,
        /// How many are.
        limit: u32,
    },
    /// Somebody wakes background compaction.
    DaemonWakeup {
        /// Of this node.
        node: NodeId,
        /// For this order.
        order: Order,
        /// In zones up to this kind.
        highest: ZoneKind,
    },
    /// Background compaction is awake.
    DaemonWake {
        /// On this node.
        node: NodeId,
        /// For this order.
        order: Order,
        /// In zones up to this kind.
        highest: ZoneKind,
    },
    /// Background compaction has done what it could.
    DaemonSleep {
        /// On this node.
        node: NodeId,
    },
}

impl CompactEvent {
    /// The kernel's name for it.
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
            Self::Judged { begun: true, .. } => "mm_compaction_finished",
            Self::Judged { begun: false, .. } => "mm_compaction_suitable",
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
            Self::Judged { node, zone, order, verdict, .. } => {
                let order = order.map_or(-1, |order| i32::from(order.get()));
                let zone = zone.name();
                write!(f, "node={node} zone={zone:<8} order={order} ret={verdict}")
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
        let event = CompactEvent::Judged {
            begun: true,
            node: NodeId::default(),
            zone: ZoneKind::Normal,
            order: None,
            verdict: "continue",
        };
        assert_eq!(event.to_string(), "node=0 zone=Normal   order=-1 ret=continue");
    }
}
