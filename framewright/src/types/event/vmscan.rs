//! Tracepoints of the kernel's `vmscan` group.

use core::fmt;

use crate::types::{LruList, NodeId, Order, PageKind, Pfn, Request, ZoneKind};

/// A tracepoint of the kernel's `vmscan` group. `Display` prints the fields by the kernel's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum VmscanEvent {
    /// Background reclaim of a node is about to be woken.
    WakeupKswapd {
        /// The node.
        node: NodeId,
        /// The highest kind of zone that the request can use.
        highest: ZoneKind,
        /// The requested order.
        order: Order,
    },
    /// Background reclaim of a node begins to work.
    KswapdWake {
        /// The node.
        node: NodeId,
        /// The requested order.
        order: Order,
    },
    /// Background reclaim of a node goes to sleep.
    KswapdSleep {
        /// The node.
        node: NodeId,
    },
    /// Direct reclaim for a request begins.
    DirectReclaimBegin {
        /// The request.
        request: Request,
    },
    /// Direct reclaim for a request has ended.
    DirectReclaimEnd {
        /// Frames that were freed.
        nr_reclaimed: u64,
    },
    /// A batch of pages of an inactive list was scanned.
    LruShrinkInactive {
        /// The node.
        node: NodeId,
        /// The kind of the pages.
        kind: PageKind,
        /// Pages scanned.
        nr_scanned: u32,
        /// Pages reclaimed.
        nr_reclaimed: u32,
        /// Pages that were dirty.
        nr_dirty: u32,
        /// Pages under writeback.
        nr_writeback: u32,
        /// Pages under writeback that an earlier scan found under writeback, too.
        nr_congested: u32,
        /// Pages under writeback, to be reclaimed when written, that background reclaim scanned again.
        nr_immediate: u32,
        /// Anonymous pages that became active.
        nr_activate_anon: u32,
        /// File pages that became active.
        nr_activate_file: u32,
        /// Pages kept because they were referenced.
        nr_ref_keep: u32,
        /// Pages that could not be unmapped.
        nr_unmap_fail: u32,
        /// The priority of the pass: of each list, at most size >> priority pages are scanned.
        priority: u32,
    },
    /// A batch of pages of an active list was scanned.
    LruShrinkActive {
        /// The node.
        node: NodeId,
        /// The kind of the pages.
        kind: PageKind,
        /// Pages scanned.
        nr_taken: u64,
        /// Pages that stay active.
        nr_active: u64,
        /// Pages that became inactive.
        nr_deactivated: u64,
        /// The priority of the pass: of each list, at most size >> priority pages are scanned.
        priority: u32,
    },
    /// Pages were taken off a list.
    LruIsolate {
        /// The highest kind of zone that the request can use.
        highest: ZoneKind,
        /// The requested order.
        order: Order,
        /// Number of pages requested.
        nr_requested: u64,
        /// Pages scanned, without skipped ones.
        nr_scanned: u64,
        /// Pages skipped because of their zone.
        nr_skipped: u64,
        /// Pages taken.
        nr_taken: u64,
        /// The list.
        lru: LruList,
    },
    /// A page is about to be written.
    WriteFolio {
        /// The frame of the page.
        pfn: Pfn,
        /// The kind of the page.
        kind: PageKind,
    },
    /// Reclaim has paused.
    Throttled {
        /// The node.
        node: NodeId,
        /// The limit of the pause, in microseconds.
        usec_timeout: u64,
        /// The length of the pause, in microseconds.
        usec_delayed: u64,
        /// The reason.
        reason: &'static str,
    },
}

impl VmscanEvent {
    /// The kernel's name of the event.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::WakeupKswapd { .. } => "mm_vmscan_wakeup_kswapd",
            Self::KswapdWake { .. } => "mm_vmscan_kswapd_wake",
            Self::KswapdSleep { .. } => "mm_vmscan_kswapd_sleep",
            Self::DirectReclaimBegin { .. } => "mm_vmscan_direct_reclaim_begin",
            Self::DirectReclaimEnd { .. } => "mm_vmscan_direct_reclaim_end",
            Self::LruShrinkInactive { .. } => "mm_vmscan_lru_shrink_inactive",
            Self::LruShrinkActive { .. } => "mm_vmscan_lru_shrink_active",
            Self::LruIsolate { .. } => "mm_vmscan_lru_isolate",
            Self::WriteFolio { .. } => "mm_vmscan_write_folio",
            Self::Throttled { .. } => "mm_vmscan_throttled",
        }
    }
}

/// The kernel's flags of a pass over pages of this kind.
fn flags(kind: PageKind) -> &'static str {
    match kind {
        PageKind::Anon => "RECLAIM_WB_ANON|RECLAIM_WB_ASYNC",
        PageKind::File => "RECLAIM_WB_FILE|RECLAIM_WB_ASYNC",
    }
}

impl fmt::Display for VmscanEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::WakeupKswapd { node, highest, order } => {
                write!(f, "nid={node} zid={} order={order}", highest as u8)
            }
            Self::KswapdWake { node, order } => write!(f, "nid={node} order={order}"),
            Self::KswapdSleep { node } => write!(f, "nid={node}"),
            Self::DirectReclaimBegin { request } => {
                write!(f, "order={} gfp_flags={request}", request.order())
            }
            Self::DirectReclaimEnd { nr_reclaimed } => write!(f, "nr_reclaimed={nr_reclaimed}"),
            Self::LruShrinkInactive {
                node,
                kind,
                nr_scanned,
                nr_reclaimed,
                nr_dirty,
                nr_writeback,
                nr_congested,
                nr_immediate,
                nr_activate_anon,
                nr_activate_file,
                nr_ref_keep,
                nr_unmap_fail,
                priority,
            } => write!(
                f,
                "nid={node} nr_scanned={nr_scanned} nr_reclaimed={nr_reclaimed} \
                 nr_dirty={nr_dirty} nr_writeback={nr_writeback} nr_congested={nr_congested} \
                 nr_immediate={nr_immediate} nr_activate_anon={nr_activate_anon} \
                 nr_activate_file={nr_activate_file} nr_ref_keep={nr_ref_keep} \
                 nr_unmap_fail={nr_unmap_fail} priority={priority} flags={}",
                flags(kind)
            ),
            Self::LruShrinkActive { node, kind, nr_taken, nr_active, nr_deactivated, priority } => {
                write!(
                    f,
                    "nid={node} nr_taken={nr_taken} nr_active={nr_active} \
                 nr_deactivated={nr_deactivated} nr_referenced={nr_active} priority={priority} \
                 flags={}",
                    flags(kind)
                )
            }
            Self::LruIsolate {
                highest,
                order,
                nr_requested,
                nr_scanned,
                nr_skipped,
                nr_taken,
                lru,
            } => write!(
                f,
                "classzone={} order={order} nr_requested={nr_requested} nr_scanned={nr_scanned} \
                 nr_skipped={nr_skipped} nr_taken={nr_taken} lru={lru}",
                highest as u8
            ),
            Self::WriteFolio { pfn, kind } => write!(f, "pfn={pfn} flags={}", flags(kind)),
            Self::Throttled { node, usec_timeout, usec_delayed, reason } => write!(
                f,
                "nid={node} usec_timeout={usec_timeout} usect_delayed={usec_delayed} reason={reason}"
            ),
        }
    }
}
