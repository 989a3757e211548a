//! Direct reclaim, on behalf of a request that needs memory.

use crate::{
    platform::{Need, Platform},
    tlb::BatchSlot,
    types::{CpuId, NodeId, NodeMask, Order, VmscanEvent, Watermark},
    zone::ZoneAccess,
};

use super::{
    Reclaim,
    retire::{FreeTarget, Retire},
    scan::{CLUSTER_MAX, Progress, Reclaimer, ScanControl},
};

/// Slots of a flush batch on the stack: enough for the pages of a cluster.
pub(super) const BATCH_SLOTS: usize = CLUSTER_MAX;

/// Whether compaction is to form the requested block: its order is costly, and reclaim is asked for
/// fewer frames than the block has.
fn is_for_compaction(need: &Need, frames: u64) -> bool {
    need.request.is_costly() && frames < need.request.order().frames()
}

/// The maximum number of pages that are scanned and not reclaimed; the scan may exceed it by a few
/// pages. If few pages can be reclaimed, a longer scan costs more than the block is worth, and
/// compaction may even fail to form the block.
fn not_reclaimed_max(need: &Need, frames: u64) -> u64 {
    if is_for_compaction(need, frames) { need.request.order().frames() / 8 } else { u64::MAX }
}

impl<'m, P: Platform> Reclaim<'_, 'm, P> {
    /// Frees about `frames` frames that the request could use. Runs on the CPU of the request.
    /// Returns the number of freed frames. They go to the zones, except some that may be kept for
    /// the request. Implements [`Relief::reclaim`](crate::platform::Relief::reclaim).
    ///
    /// If the order is costly and `frames` is less than the block has, compaction is to form the
    /// block. Then reclaim frees the frames that compaction needs, and ends when enough frames are
    /// free, even if others have freed them. That counts as progress: the method returns at least
    /// 1, so that the request tries again. In this case the pages that are scanned and not
    /// reclaimed are limited to about an eighth of the frames of the block.
    ///
    /// Deferred frames that need no flush any more are freed first. Then pages are reclaimed at
    /// decreasing priority numbers until enough frames are free. If no page is reclaimed, the LRU
    /// batches of all CPUs are drained, and there is one more scan, in which active pages become
    /// inactive in any case.
    ///
    /// # Panics
    ///
    /// If the memory does not have the CPU of `need`.
    pub fn direct(&self, need: &Need, frames: u64) -> u64 {
        self.memory.assert_cpu(need.cpu);
        self.trace(need.cpu, || VmscanEvent::DirectReclaimBegin { request: need.request });
        if self.has_node(need.node) {
            self.wait_for_reserve(need.cpu, need.node, need.request.highest());
        }
        let mut slots = [BatchSlot::default(); BATCH_SLOTS];
        let flusher = self.flusher(need.cpu);
        let taker = FreeTarget::Zones(self.lru(), need.cpu);
        let capacity = flusher.batch_capacity(BATCH_SLOTS);
        let mut retire = Retire::new(flusher.batch(&mut slots), capacity, taker);
        let reclaimed = self.reclaim_until_freed(need, frames.max(1), &mut retire);
        let freed = retire.freed().max(reclaimed);
        if self.has_node(need.node) {
            self.resume_for_reserve(need.node);
        }
        self.trace(need.cpu, || VmscanEvent::DirectReclaimEnd { nr_reclaimed: freed });
        freed
    }

    /// Reclaims until as many frames are freed as the request wants. While all reclaimed frames are
    /// deferred, it reclaims more, up to a limit that keeps the request's wait short. Meanwhile a
    /// flush may become due, or other CPUs may flush for other reasons. Only if neither happens,
    /// this CPU flushes for the request.
    fn reclaim_until_freed(
        &self,
        need: &Need,
        frames: u64,
        retire: &mut Retire<'_, '_, '_, 'm, P>,
    ) -> u64 {
        const MOST: u64 = 1024;
        let wanted = need.request.order().frames().min(frames);
        let (mut reclaimed, mut not_reclaimed, mut force_deactivate) = (0, 0, false);
        while !self.compaction_is_ready(need, frames) {
            self.tick(need.cpu);
            retire.drain_flushed();
            if retire.freed() >= wanted {
                return reclaimed;
            }
            let more =
                self.scan_nodes_by_priority(need, frames, not_reclaimed, force_deactivate, retire);
            retire.finish();
            reclaimed += more.reclaimed;
            not_reclaimed += more.not_reclaimed();
            let found = more.reclaimed > 0;
            if reclaimed >= MOST
                || !found && (force_deactivate || reclaimed > 0)
                || more.not_reclaimed() >= not_reclaimed_max(need, frames)
            {
                break;
            }
            if !found {
                self.lru().drain_all();
                force_deactivate = true;
            }
        }
        if self.compaction_is_ready(need, frames) {
            // Deferred frames are not needed, so no CPU is interrupted.
            retire.drain_flushed();
            return reclaimed.max(1);
        }
        if retire.freed() < wanted {
            retire.drain_oldest_half();
        }
        if retire.freed() < wanted {
            retire.drain_deferred();
        }
        reclaimed
    }

    /// Scans all nodes that the request can use, priority by priority. While the sweeps reach their
    /// target, the priority stays the same, because a deeper scan would only reach pages that are
    /// costlier to reclaim. `not_reclaimed` is the number of pages that earlier calls scanned and
    /// did not reclaim.
    fn scan_nodes_by_priority(
        &self,
        need: &Need,
        frames: u64,
        not_reclaimed: u64,
        force_deactivate: bool,
        retire: &mut Retire<'_, '_, '_, 'm, P>,
    ) -> Progress {
        let may_io = need.request.may_io();
        let first = self.first_priority(need.node, need.request.highest());
        let mut scan = ScanControl {
            by: Reclaimer::Direct,
            cpu: need.cpu,
            node: need.node,
            highest: need.request.highest(),
            order: need.request.order(),
            priority: first,
            first,
            target: frames,
            may_write: may_io && need.request.may_fs(),
            may_swap: may_io && self.ask_for_swap(),
            force_deactivate,
            not_reclaimed,
        };
        let mut progress = Progress::default();
        loop {
            let before = progress.reclaimed;
            self.sweep_nodes(need, &mut scan, &mut progress, retire);
            if progress.not_reclaimed() >= not_reclaimed_max(need, frames)
                || self.is_enough(need, frames, progress.reclaimed)
            {
                break;
            }
            if progress.reclaimed - before >= scan.target {
                continue;
            }
            if scan.priority == 0 {
                break;
            }
            if scan.priority == 1 && progress.reclaimed == 0 {
                self.pause_without_progress(&scan, &progress);
            }
            scan.priority -= 1;
        }
        progress
    }

    /// Whether `reclaimed` frames are enough: as many as were asked for, or as many as compaction
    /// needs to form the block.
    fn is_enough(&self, need: &Need, frames: u64, reclaimed: u64) -> bool {
        if !is_for_compaction(need, frames) {
            return reclaimed >= frames;
        }
        reclaimed >= self.memory.tuning().compact.frames_needed(need.request.order())
            || self.compaction_is_ready(need, frames)
    }

    /// Whether compaction would start, and has all the free frames that it needs to form the block.
    fn compaction_is_ready(&self, need: &Need, frames: u64) -> bool {
        let order = need.request.order();
        let access = ZoneAccess::above(Watermark::High, need.request.highest());
        let compaction = &self.memory.tuning().compact;
        is_for_compaction(need, frames)
            && (self.memory.candidates(need.cpu, need.request)).any(|(_, at)| {
                at.zone.could_compact(order, access, 0, compaction)
                    && !at.zone.is_short(at.platform, order, compaction)
            })
    }

    /// Sweeps each node with a usable zone once, the nearest first. At the first priority, only the
    /// nearest node is swept. A failure there says little, because the few pages at the tail of a
    /// list are often all used or all reclaimable. A sweep of another node would take the LRU lock
    /// that the CPUs of that node need.
    fn sweep_nodes(
        &self,
        need: &Need,
        scan: &mut ScanControl,
        progress: &mut Progress,
        retire: &mut Retire<'_, '_, '_, 'm, P>,
    ) {
        let mut done = NodeMask::NONE;
        let (alone, before) = (scan.priority == scan.first, progress.reclaimed);
        let access = ZoneAccess::above(Watermark::High, scan.highest);
        for (_, at) in self.memory.candidates(need.cpu, need.request) {
            let node = at.zone.node();
            // A costly block that is free already needs no reclaim.
            let is_ready =
                need.request.is_costly() && at.zone.may_take(at.platform, scan.order, access);
            if done.contains(node) || is_ready {
                continue;
            }
            done = done.with(node);
            scan.node = node;
            self.sweep(scan, not_reclaimed_max(need, scan.target), progress, retire);
            let reclaimed = progress.reclaimed;
            let is_enough = || self.is_enough(need, scan.target, reclaimed);
            if alone || reclaimed - before >= scan.target || is_enough() {
                return;
            }
        }
    }

    /// Frees frames of a node without a request: for an embedder that needs free frames in advance,
    /// or for tests. Returns the number of freed frames.
    ///
    /// # Panics
    ///
    /// If the memory does not have the CPU.
    pub fn shrink_node(&self, cpu: CpuId, node: NodeId, frames: u64) -> u64 {
        if !self.has_node(node) {
            return 0;
        }
        let request = crate::Request::new(Order::ZERO, crate::MigrateType::Movable);
        let request = request.on_node(node).this_node();
        let need = Need { request, cpu, node, unmixed: false };
        self.direct(&need, frames)
    }
}
