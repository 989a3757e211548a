//! Reclaim by who needs memory.

use crate::{
    frame::Order,
    observe::VmscanEvent,
    platform::{CpuId, Need, Platform},
    tlb::BatchSlot,
    zone::{Access, NodeId, NodeMask, Watermark},
};

use super::{
    Reclaim,
    retire::{FreeTarget, Retire},
    scan::{CLUSTER_MAX, Progress, Reclaimer, ScanControl},
};

/// Slots of the flush batches that are kept on the stack: room for a cluster. What is flushed at
/// once may be more.
pub(super) const BATCH_SLOTS: usize = CLUSTER_MAX;

/// Whether who asks for `frames` frames has compaction form his block.
fn is_for_compaction(need: &Need, frames: u64) -> bool {
    need.request.is_costly() && frames < need.request.order().frames()
}

/// Pages that are looked at in vain, at the most, or few more: where few go, looking for others takes longer
/// than a block is worth that compaction may fail to form all the same.
fn not_reclaimed_max(need: &Need, frames: u64) -> u64 {
    if is_for_compaction(need, frames) { need.request.order().frames() / 8 } else { u64::MAX }
}

impl<'m, P: Platform> Reclaim<'_, 'm, P> {
    /// Frees about `frames` frames that the request could use, now, on its CPU, whose lists it
    /// leaves alone: they go to the zones. Returns how many. What
    /// [`Relief::reclaim`](crate::platform::Relief::reclaim) asks for.
    ///
    /// Who asks for fewer than the block has that he wants leaves it to compaction to form it:
    /// then reclaim makes room for that, and ends as soon as there is enough. That is progress, too,
    /// whoever made the room: it answers one at least, and trying again is worth while.
    ///
    /// In such a case no more pages are looked at in vain than an eighth of the block's frames, or few
    /// more.
    ///
    /// Frames that were deferred and need no flush any more come first, then pages, deeper and deeper
    /// until that is enough. If nothing is found it looks once more, with active pages becoming
    /// inactive whatever the lists look like, and with what waits in the batches of other CPUs.
    ///
    /// # Panics
    ///
    /// The memory was made for fewer CPUs than `need` names.
    pub fn direct(&self, need: &Need, frames: u64) -> u64 {
        self.memory.assert_cpu(need.cpu);
        self.trace(need.cpu, || VmscanEvent::DirectReclaimBegin { request: need.request });
        if self.has_node(need.node) {
            self.wait_for_reserve(need.cpu, need.node, need.request.highest());
        }
        let mut slots = [BatchSlot::default(); BATCH_SLOTS];
        let flusher = self.memory.flusher_by(need.cpu, self.shootdown);
        let taker = FreeTarget::Zones(self.memory, need.cpu);
        let room = flusher.batch_capacity(BATCH_SLOTS);
        let mut retire = Retire::new(flusher.batch(&mut slots), room, taker);
        let reclaimed = self.reclaim_until_freed(need, frames.max(1), &mut retire);
        let freed = retire.freed().max(reclaimed);
        if self.has_node(need.node) {
            self.resume_for_reserve(need.node);
        }
        self.trace(need.cpu, || VmscanEvent::DirectReclaimEnd { nr_reclaimed: freed });
        freed
    }

    /// Reclaims until so much is free as the request wants: while all of it is deferred, more, up to
    /// what is no long wait for one request. Meanwhile a flush may be due anyway, or other CPUs
    /// make up for what is deferred by themselves; only if they do not, one flush is for this alone.
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
            // Nobody is interrupted for room that is there.
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

    /// All nodes that help, at one priority after the other. While a sweep reaches its target, the next one
    /// stays at the same priority: a deeper scan would only reach pages that are costlier to reclaim.
    /// `not_reclaimed` pages were scanned before and not reclaimed.
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
                self.pause_without_progress(&scan);
            }
            scan.priority -= 1;
        }
        progress
    }

    /// Whether `reclaimed` frames are enough: as many as were asked for, or for a block that compaction
    /// forms, what it takes to form it.
    fn is_enough(&self, need: &Need, frames: u64, reclaimed: u64) -> bool {
        if !is_for_compaction(need, frames) {
            return reclaimed >= frames;
        }
        reclaimed >= self.memory.tuning().compact.room(need.request.order())
            || self.compaction_is_ready(need, frames)
    }

    /// Whether compaction has all the room that it takes to form the block for the request, and would
    /// begin.
    fn compaction_is_ready(&self, need: &Need, frames: u64) -> bool {
        let order = need.request.order();
        let access = Access::above(Watermark::High, need.request.highest());
        let compaction = &self.memory.tuning().compact;
        is_for_compaction(need, frames)
            && (self.memory.candidates(need.cpu, need.request)).any(|(_, at)| {
                at.zone.could_compact(order, access, 0, compaction)
                    && !at.zone.is_short(at.platform, order, compaction)
            })
    }

    /// Each node that has a zone which helps, once, nearest first. To begin with only the nearest:
    /// what its list has at the end is often all used once, or all ready to go, and other nodes have
    /// CPUs of their own that want their lists.
    fn sweep_nodes(
        &self,
        need: &Need,
        scan: &mut ScanControl,
        progress: &mut Progress,
        retire: &mut Retire<'_, '_, '_, 'm, P>,
    ) {
        let mut done = NodeMask::NONE;
        let (alone, before) = (scan.priority == scan.first, progress.reclaimed);
        let access = Access::above(Watermark::High, scan.highest);
        for (_, at) in self.memory.candidates(need.cpu, need.request) {
            let node = at.zone.node();
            // A costly block that is there already takes no reclaim.
            let is_ready = need.request.is_costly() && at.zone.may_take(scan.order, access);
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

    /// Frees frames of a node although nobody asked: what an embedder wants to have free ahead of
    /// time, or for tests. Returns how many were freed.
    ///
    /// # Panics
    ///
    /// The memory was made for fewer CPUs.
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
