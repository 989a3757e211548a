//! What a pass of reclaim is about, and what came of it.

use crate::{
    frame::Order,
    observe::NodeStat,
    platform::{CpuId, Platform},
    zone::{NodeId, ZoneKind},
};

use super::{
    kind::{LruList, PageKind},
    node::Node,
    state::LruState,
};

/// Where a pass begins, or deeper where there are few pages: a list is scanned to its
/// length >> priority. 0 looks at all of it.
pub(super) const FIRST_PRIORITY: u32 = 12;

/// Pages that a pass works on at once, at the most: bounds what is on the stack.
pub(super) const CLUSTER_MAX: usize = 64;

/// Who reclaims.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reclaimer {
    /// In the background.
    Kswapd,
    /// Who needs memory.
    Direct,
}

/// What a pass over a node is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScanControl {
    pub(super) by: Reclaimer,
    /// The CPU it runs on.
    pub(super) cpu: CpuId,
    pub(super) node: NodeId,
    /// The highest zone that helps.
    pub(super) highest: ZoneKind,
    /// What is wanted in the end.
    pub(super) order: Order,
    pub(super) priority: u32,
    /// The priority that it began with.
    pub(super) first: u32,
    /// Pages that suffice.
    pub(super) target: u64,
    /// Whether dirty pages may be written, or at least waited for.
    pub(super) may_write: bool,
    /// Whether anonymous pages may be reclaimed.
    pub(super) may_swap: bool,
    /// Whether active pages become inactive whatever the lists look like.
    pub(super) force_deactivate: bool,
    /// Pages that were scanned in vain for the same request before.
    pub(super) not_reclaimed: u64,
}

impl ScanControl {
    /// The counters of pages looked at and reclaimed.
    pub(super) fn stats(&self) -> (NodeStat, NodeStat) {
        match self.by {
            Reclaimer::Kswapd => (NodeStat::PgscanKswapd, NodeStat::PgstealKswapd),
            Reclaimer::Direct => (NodeStat::PgscanDirect, NodeStat::PgstealDirect),
        }
    }
}

/// What came of passes so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Progress {
    pub(super) scanned: u64,
    pub(super) reclaimed: u64,
    /// Pages that could not be written.
    pub(super) failed: u64,
}

impl Progress {
    /// Pages that were looked at and have stayed.
    pub(super) fn not_reclaimed(&self) -> u64 {
        self.scanned.saturating_sub(self.reclaimed)
    }
}

/// What was in the way of pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct ReclaimStat {
    pub(super) taken: u32,
    pub(super) dirty: u32,
    /// Dirty, and nobody writes them.
    pub(super) unqueued_dirty: u32,
    pub(super) writeback: u32,
    /// Under write-back, and seen so before.
    pub(super) congested: u32,
    /// To be reclaimed as soon as they are written, and met again by background reclaim.
    pub(super) immediate: u32,
    pub(super) activated: [u32; PageKind::COUNT],
    pub(super) ref_keep: u32,
    pub(super) unmap_fail: u32,
    pub(super) reclaimed: u32,
    /// Writing began.
    pub(super) written: u32,
    pub(super) failed: u32,
    /// The slot of the first page that was under write-back in this scan and in an earlier one.
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
    /// Pages on a list of a node that are in zones up to `highest`.
    pub(super) fn pages_up_to(&self, node: NodeId, list: LruList, highest: ZoneKind) -> u64 {
        let here = self.zones.iter().filter(|zone| zone.node == node && zone.kind <= highest);
        here.map(|zone| zone.pages(list)).sum()
    }

    pub(super) fn node(&self, node: NodeId) -> &'m Node<'m, P> {
        &self.nodes[node.index()]
    }
}
