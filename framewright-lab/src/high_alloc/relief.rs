//! Relief for requests that are short of memory: reclaim, with the shrinking of objects, and
//! compaction.
//!
//! A builder is killed and starts again if one of its requests is refused. If almost no memory is
//! above the min watermark, this would repeat for ever. [`check_reserve`](crate::workloads::check_reserve)
//! refuses such settings before the run.

#[cfg(test)]
mod tests;

use framewright::{
    CpuId, NodeId, Order, ZoneId, ZoneKind,
    platform::{Captured, CompactPriority, Compacted, Need, Relief},
    reclaim::{Pause, Throttle},
};
use framewright_sim::engine::Activity;

use super::{
    files::NONE,
    kernel::Kernel,
    world::{Locked, OnCpu, World},
};

impl<W: World> Relief for Locked<&Kernel<'_, '_, W>> {
    fn reclaims_in_background(&self) -> bool {
        true
    }

    fn wake(&self, node: NodeId, order: Order, highest: ZoneKind) {
        self.world.with_lock(|| {
            let only_frames = self.state.environment.reclaims_frames && order > Order::ZERO;
            let order = if only_frames { Order::ZERO } else { order };
            self.kswapd.record_request(order, highest);
            self.hints_expire.set(self.hints_expire.get() || only_frames);
            if self.reclaim.wake(node, order, highest) {
                let cpu = self.current();
                self.kswapd.wake(cpu.now());
                self.world.wake_worker(cpu);
                self.world.wake_paused(cpu);
            }
        });
    }

    fn pause(&self, pause: &Pause<'_>) {
        self.world.with_lock(|| self.wait_for(pause));
    }

    fn resume(&self, _: NodeId, _: Throttle) {
        self.world.with_lock(|| self.world.wake_paused(self.current()));
    }

    fn reclaim(&self, need: &Need, frames: u64) -> u64 {
        let first = self.state.environment.reclaims_first && need.request.is_costly();
        let freed = self.world.during(Activity::DirectReclaim, || match first {
            true => self.reclaim_first(need),
            false => self.reclaim.direct(need, frames),
        });
        self.world.with_lock(|| {
            self.asked_before.set(need.request.is_costly());
            self.shrink_objects();
        });
        freed
    }

    fn reclaimable(&self, zone: ZoneId) -> Option<u64> {
        Some(self.reclaim.reclaimable(zone))
    }

    fn compact(&self, need: &Need, priority: CompactPriority, captured: Captured<'_>) -> Compacted {
        let again = self.world.with_lock(|| self.asked_before.replace(false));
        let again = again && self.state.environment.ends_synchronously;
        let priority = if again { priority.max(CompactPriority::SyncLight) } else { priority };
        self.world.during(Activity::DirectCompaction, || {
            self.compacting(need.cpu, |compactor| compactor.compact(need, priority, captured))
        })
    }
}

impl<W: World> Kernel<'_, '_, W> {
    /// Reclaims a cluster, and then more, until a zone has enough free frames for compaction, up to
    /// twice the requested block.
    fn reclaim_first(&self, need: &Need) -> u64 {
        const CLUSTER: u64 = 32;
        let enough = 2 * need.request.order().frames();
        let request = need.request.of_order(Order::ZERO);
        let need = Need { request, ..*need };
        let mut freed = 0;
        loop {
            let more = self.reclaim.direct(&need, CLUSTER);
            freed += more;
            let mut zones = self.memory.free_and_min();
            let suits = zones.any(|(_, free, min)| free > min / 4 * 5 + enough);
            if more == 0 || freed >= enough || suits {
                return freed;
            }
        }
    }

    /// Examines a share of the files with inodes: twice the share of LRU pages that reclaim has
    /// scanned since the last call, as Linux's shrinkers do at any priority. An examined file loses
    /// its inode if it was not used since the last examination, has no cached page, and is not
    /// pinned.
    pub(super) fn shrink_objects(&self) {
        self.free_unneeded();
        let scanned = self.scanned();
        let scanned_since = scanned - self.shrunk_for.replace(scanned);
        let known = self.state.files.known.borrow().len() as u64;
        let share = 2 * known * scanned_since * 1000 / self.reclaimable_pages().max(1);
        let debt = self.shrink_debt.get() + share;
        self.shrink_debt.set(debt % 1000);
        self.examine_files((debt / 1000).min(known));
    }

    /// Examines the `count` files that were examined longest ago.
    fn examine_files(&self, count: u64) {
        for _ in 0..count {
            let Some(file) = self.state.files.known.borrow_mut().pop_front() else { return };
            let of = self.state.files.at(file);
            if of.inode.get() == NONE {
                continue;
            }
            let kept = of.used.replace(false) || of.cached.get() > 0 || of.pinned.get();
            if kept {
                self.state.files.known.borrow_mut().push_back(file);
                continue;
            }
            self.current().work(self.state.costs.release);
            for object in [of.inode.replace(NONE), of.entry.replace(NONE)] {
                if object != NONE {
                    self.free_object(object);
                }
            }
        }
    }

    /// Frees unneeded objects.
    pub(super) fn free_unneeded(&self) {
        let objects = self.state.files.unneeded.take();
        objects.into_iter().for_each(|object| self.free_object(object));
    }

    /// Frees the inodes of all files that have no cached page and are not pinned. The first scan
    /// clears the flags `used`, the second frees.
    pub(super) fn drop_objects(&self) {
        self.free_unneeded();
        for _ in 0..2 {
            let known = self.state.files.known.borrow().len() as u64;
            self.examine_files(known);
        }
    }

    /// Drops all clean pages of the cache. Pages of programs stay.
    pub(super) fn drop_pages(&self, cpu: CpuId) {
        let node = self.node(cpu);
        self.reclaim.lru().drain_all();
        self.state.swap.closed.set(true);
        while self.world.without_lock(|| self.reclaim.shrink_node(cpu, node, 1024)) > 0 {}
        self.state.swap.closed.set(false);
    }
}
