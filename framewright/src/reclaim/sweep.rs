//! A sweep: one scan of the lists of a node, at one priority.

use crate::{
    observe::NodeStat,
    platform::{Platform, Throttle},
    types::{LruList, PageKind},
};

use super::{
    Reclaim,
    balance::{Deactivate, Quota},
    retire::Retire,
    scan::{Progress, ReclaimStat, Reclaimer, ScanControl},
};

/// A sweep in progress. It can be interrupted after each round over the lists, and continued later.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sweep {
    deactivate: Deactivate,
    /// Pages that are still to be scanned on each list.
    left: Quota,
    intended: Quota,
    /// Whether `left` was reduced because enough was reclaimed.
    adjusted: bool,
    /// Pages scanned and reclaimed so far.
    pub(super) scanned: u64,
    pub(super) reclaimed: u64,
    seen: ReclaimStat,
}

impl<P: Platform> Reclaim<'_, '_, P> {
    /// Scans the lists of a node: up to the quota of the priority, until enough pages are
    /// reclaimed, or until `most` pages were scanned and not reclaimed.
    pub(super) fn sweep(
        &self,
        scan: &ScanControl,
        most: u64,
        progress: &mut Progress,
        retire: &mut Retire<'_, '_, '_, '_, P>,
    ) {
        let mut sweep = self.begin_sweep(scan);
        while !self.continue_sweep(scan, &mut sweep, progress, retire) {
            if progress.not_reclaimed() >= most {
                // The sweep ends in the next call.
                sweep.left = [0; LruList::EVICTABLE.len()];
            }
        }
    }

    /// Decides the number of pages of each list to scan.
    pub(super) fn begin_sweep(&self, scan: &ScanControl) -> Sweep {
        // Pages added recently are reclaimed last, so they matter only after the first priority.
        if scan.priority < scan.first {
            self.lru().drain(scan.cpu);
        }
        let deactivate = self.deactivate(scan);
        let quota = self.quota(scan, deactivate);
        Sweep {
            deactivate,
            left: quota,
            intended: quota,
            adjusted: false,
            scanned: 0,
            reclaimed: 0,
            seen: ReclaimStat::default(),
        }
    }

    /// Scans a cluster of each list that has pages left to scan. Returns whether the sweep has
    /// ended.
    pub(super) fn continue_sweep(
        &self,
        scan: &ScanControl,
        sweep: &mut Sweep,
        progress: &mut Progress,
        retire: &mut Retire<'_, '_, '_, '_, P>,
    ) -> bool {
        if !(0..LruList::EVICTABLE.len()).any(|list| wanted(&sweep.left, list)) {
            self.end_sweep(scan, sweep, progress, retire);
            return true;
        }
        // With this, no other CPU has to interrupt this CPU for deferred frames, even if the sweep
        // takes long.
        self.tick(scan.cpu);
        let before = *progress;
        for (at, list) in LruList::EVICTABLE.into_iter().enumerate() {
            let want = sweep.left[at].min(self.memory.tuning().reclaim.cluster.into());
            if want == 0 {
                continue;
            }
            sweep.left[at] -= want;
            if !list.is_active() {
                sweep.seen.merge(self.shrink_list(scan, list, want, progress, retire));
            } else if sweep.deactivate.of(list.kind()) {
                progress.scanned += self.age(scan, list, want, retire);
            }
        }
        sweep.scanned += progress.scanned - before.scanned;
        sweep.reclaimed += progress.reclaimed - before.reclaimed;
        let thorough = scan.by == Reclaimer::Direct && scan.priority == scan.first;
        if sweep.reclaimed >= scan.target && !thorough && !sweep.adjusted {
            sweep.adjusted = true;
            if !adjust(&mut sweep.left, &sweep.intended) {
                sweep.left = [0; LruList::EVICTABLE.len()];
            }
        }
        false
    }

    fn end_sweep(
        &self,
        scan: &ScanControl,
        sweep: &Sweep,
        progress: &mut Progress,
        retire: &mut Retire<'_, '_, '_, '_, P>,
    ) {
        if scan.may_swap && self.inactive_is_low(scan, PageKind::Anon) {
            let some = self.memory.tuning().reclaim.cluster.into();
            self.age(scan, LruList::ActiveAnon, some, retire);
        }
        let node = self.state.node(scan.node);
        node.snapshot_refaults();
        if sweep.reclaimed > 0 {
            node.kswapd.set_failures(0);
        }
        progress.failed += u64::from(sweep.seen.failed);
        let ReclaimStat { unqueued_dirty, writeback, written, .. } = sweep.seen;
        progress.waiting += u64::from(unqueued_dirty + writeback + written);
        self.throttle(scan, &sweep.seen);
    }

    /// Isolates a cluster from an inactive list, and reclaims its pages as far as possible.
    fn shrink_list(
        &self,
        scan: &ScanControl,
        list: LruList,
        want: u64,
        progress: &mut Progress,
        retire: &mut Retire<'_, '_, '_, '_, P>,
    ) -> ReclaimStat {
        let kind = list.kind();
        let node = self.state.node(scan.node);
        if self.too_many_isolated(scan, kind) {
            self.pause_for_isolated(scan, kind);
            if self.too_many_isolated(scan, kind) {
                return ReclaimStat::default();
            }
        }
        let cluster = self.isolate(scan, list, want);
        if cluster.len() == 0 {
            return ReclaimStat::default();
        }
        // If all pages are referenced, a request must not scan the whole memory before it reclaims
        // a page.
        let referenced_scan_max = u64::from(self.memory.tuning().reclaim.referenced_scan_max);
        let reclaims_used = scan.by == Reclaimer::Direct
            && scan.not_reclaimed + progress.not_reclaimed() >= referenced_scan_max;
        let seen = self.shrink(scan, kind, &cluster, reclaims_used, retire);
        let (taken, reclaimed) = (u64::from(seen.taken), u64::from(seen.reclaimed));
        let (scans, steals) = scan.stats();
        let (of_kind, stolen_of_kind) = match kind {
            PageKind::Anon => (NodeStat::PgscanAnon, NodeStat::PgstealAnon),
            PageKind::File => (NodeStat::PgscanFile, NodeStat::PgstealFile),
        };
        node.count(scans, taken);
        node.count(of_kind, taken);
        node.count(steals, reclaimed);
        node.count(stolen_of_kind, reclaimed);
        if reclaimed > 0 {
            node.resume(self.memory.platform(), &[Throttle::NoProgress]);
        }
        // The cost of a write, as a number of pages that are scanned and not reclaimed.
        const WRITE_COST: u64 = 32;
        node.charge(kind, WRITE_COST * u64::from(seen.written) + taken.saturating_sub(reclaimed));
        progress.scanned += taken;
        progress.reclaimed += reclaimed;
        if seen.unqueued_dirty == seen.taken {
            self.owner.wake_writers();
        }
        self.trace_shrunk(scan, list, &seen);
        seen
    }

    /// Whether other reclaimers have isolated so many pages that enough memory may be free when
    /// they have finished. `false` for background reclaim, which must not wait for requests,
    /// because they wait for it.
    pub(super) fn too_many_isolated(&self, scan: &ScanControl, kind: PageKind) -> bool {
        if scan.by == Reclaimer::Kswapd {
            return false;
        }
        let node = self.state.node(scan.node);
        let inactive = node.pages(kind.inactive());
        // Requests with permission to write pause earlier, so that requests of callers with
        // file-system locks can continue.
        node.isolated(kind) > if scan.may_write { inactive >> 3 } else { inactive }
    }

    /// Called after a sweep: records the reasons why pages were not reclaimed, and pauses if
    /// another sweep would find the same.
    fn throttle(&self, scan: &ScanControl, seen: &ReclaimStat) {
        let kswapd_state = &self.state.node(scan.node).kswapd;
        if scan.by == Reclaimer::Kswapd {
            if seen.writeback > 0 && seen.writeback == seen.taken {
                kswapd_state.set_writing_back(true);
            }
            if seen.unqueued_dirty > 0 && seen.unqueued_dirty == seen.taken {
                kswapd_state.set_dirty(true);
            }
            if seen.immediate > 0 {
                self.pause_for_writes(scan, Throttle::WriteBack, seen);
            }
        }
        let congested = seen.dirty > 0 && seen.dirty == seen.congested;
        if congested && scan.by == Reclaimer::Direct {
            self.pause_for_writes(scan, Throttle::Congested, seen);
        }
    }
}

/// Whether a sweep continues because of pages left on this list. Active anonymous pages alone do
/// not continue it.
fn wanted(left: &Quota, list: usize) -> bool {
    left[list] > 0 && LruList::EVICTABLE[list] != LruList::ActiveAnon
}

/// Reduces a sweep that has reclaimed enough. The scan of the kind with fewer pages left ends. The
/// other kind is scanned in the intended proportion to it. Returns `false` if no pages of one kind
/// are left.
fn adjust(left: &mut Quota, intended: &Quota) -> bool {
    const LISTS: [[usize; 2]; PageKind::COUNT] = [
        [LruList::InactiveAnon as usize, LruList::ActiveAnon as usize],
        [LruList::InactiveFile as usize, LruList::ActiveFile as usize],
    ];
    let sum = |quota: &Quota, kind: usize| LISTS[kind].iter().map(|&list| quota[list]).sum::<u64>();
    let (anon, file) = (PageKind::Anon as usize, PageKind::File as usize);
    if sum(left, anon) == 0 || sum(left, file) == 0 {
        return false;
    }
    let (drop, keep) = if sum(left, file) > sum(left, anon) { (anon, file) } else { (file, anon) };
    // The part of the dropped kind that was not scanned, in percent of the intended number.
    let undone = sum(left, drop) * 100 / sum(intended, drop).max(1);
    for list in LISTS[drop] {
        left[list] = 0;
    }
    for list in LISTS[keep] {
        let done = intended[list] - left[list];
        let target = intended[list] * 100u64.saturating_sub(undone) / 100;
        left[list] = target.saturating_sub(done).min(left[list]);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_kind_is_scanned_in_proportion() {
        // Half of the anonymous pages and a quarter of the pages of files were scanned.
        let mut left = [50, 0, 750, 0];
        assert!(adjust(&mut left, &[100, 0, 1000, 0]));
        assert_eq!(left, [0, 0, 250, 0], "half of the pages of files are scanned, too");
        let mut one = [0, 0, 10, 0];
        assert!(!adjust(&mut one, &[0, 0, 100, 0]));
    }
}
