//! The parameters and results of a reclaim pass.

use crate::{
    observe::NodeStat,
    platform::Platform,
    types::{CpuId, LruList, NodeId, Order, PageKind, ZoneKind},
};

use super::{node::Node, state::LruState};

/// The first priority of a pass, unless there are few pages. A list is scanned to its length >>
/// priority, so at 0 all of it is scanned.
pub(super) const FIRST_PRIORITY: u32 = 12;

/// The maximum number of pages in a cluster. It bounds the arrays on the stack.
pub(super) const CLUSTER_MAX: usize = 64;

/// The context that reclaims.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reclaimer {
    /// Background reclaim.
    Kswapd,
    /// A request that needs memory.
    Direct,
}

/// The parameters of a pass over a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScanControl {
    pub(super) by: Reclaimer,
    /// The CPU that the pass runs on.
    pub(super) cpu: CpuId,
    pub(super) node: NodeId,
    /// The highest kind of zone that the request can use.
    pub(super) highest: ZoneKind,
    /// The order of the block that is needed in the end.
    pub(super) order: Order,
    pub(super) priority: u32,
    /// The first priority of this pass.
    pub(super) first: u32,
    /// The number of pages to reclaim.
    pub(super) target: u64,
    /// Whether dirty pages may be written, or their writeback started.
    pub(super) may_write: bool,
    /// Whether anonymous pages may be reclaimed.
    pub(super) may_swap: bool,
    /// Whether active pages become inactive in any case.
    pub(super) force_deactivate: bool,
    /// Pages scanned before for the same request that were not reclaimed.
    pub(super) not_reclaimed: u64,
}

impl ScanControl {
    /// The counters for pages scanned and reclaimed.
    pub(super) fn stats(&self) -> (NodeStat, NodeStat) {
        match self.by {
            Reclaimer::Kswapd => (NodeStat::PgscanKswapd, NodeStat::PgstealKswapd),
            Reclaimer::Direct => (NodeStat::PgscanDirect, NodeStat::PgstealDirect),
        }
    }
}

/// The results of passes so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Progress {
    pub(super) scanned: u64,
    pub(super) reclaimed: u64,
    /// Pages whose write failed.
    pub(super) failed: u64,
    /// Pages that wait for the store: dirty, under writeback, or written by the passes.
    pub(super) waiting: u64,
}

impl Progress {
    /// Pages that were scanned and not reclaimed.
    pub(super) fn not_reclaimed(&self) -> u64 {
        self.scanned.saturating_sub(self.reclaimed)
    }
}

/// Counts of the pages of a scan, by their state and treatment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct ReclaimStat {
    pub(super) taken: u32,
    pub(super) dirty: u32,
    /// Dirty, and not under writeback.
    pub(super) unqueued_dirty: u32,
    pub(super) writeback: u32,
    /// Under writeback, in this scan and in an earlier one.
    pub(super) congested: u32,
    /// To be reclaimed when written, and scanned again by background reclaim before that.
    pub(super) immediate: u32,
    pub(super) activated: [u32; PageKind::COUNT],
    pub(super) ref_keep: u32,
    pub(super) unmap_fail: u32,
    pub(super) reclaimed: u32,
    /// Pages whose write was started.
    pub(super) written: u32,
    pub(super) failed: u32,
    /// The slot of the first page that was under writeback in this scan and in an earlier one.
    pub(super) first_writeback: Option<u32>,
}

impl ReclaimStat {
    pub(super) fn merge(&mut self, other: Self) {
        self.taken += other.taken;
        self.dirty += other.dirty;
        self.unqueued_dirty += other.unqueued_dirty;
        self.writeback += other.writeback;
        self.congested += other.congested;
        self.immediate += other.immediate;
        for (sum, more) in self.activated.iter_mut().zip(other.activated) {
            *sum += more;
        }
        self.ref_keep += other.ref_keep;
        self.unmap_fail += other.unmap_fail;
        self.reclaimed += other.reclaimed;
        self.written += other.written;
        self.failed += other.failed;
        self.first_writeback = self.first_writeback.or(other.first_writeback);
    }
}

impl<'m, P: Platform> LruState<'m, P> {
    /// Number of pages of a node on a list, in zones up to `highest`.
    pub(super) fn pages_up_to(&self, node: NodeId, list: LruList, highest: ZoneKind) -> u64 {
        let here = self.zones.iter().filter(|zone| zone.node == node && zone.kind <= highest);
        here.map(|zone| zone.pages(list)).sum()
    }

    pub(super) fn node(&self, node: NodeId) -> &'m Node<'m, P> {
        &self.nodes[node.index()]
    }
}
