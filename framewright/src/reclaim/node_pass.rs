//! A pass over the lists of a node.

use crate::{observe::NodeStat, platform::Platform};

use super::{
    Reclaim, Throttle,
    balance::Quota,
    kind::{LruList, PageKind},
    retire::Retire,
    scan::{By, FIRST_PRIORITY, Progress, Scan, Seen},
};

impl<P: Platform> Reclaim<'_, '_, P> {
    /// Looks through the lists of a node as far as the priority says, or until enough was
    /// reclaimed.
    pub(super) fn pass(
        &self,
        scan: &Scan,
        progress: &mut Progress,
        retire: &mut Retire<'_, '_, '_, '_, P>,
    ) {
        self.lru().drain(scan.cpu);
        let deactivate = self.deactivate(scan);
        let mut left = self.quota(scan, deactivate);
        let intended = left;
        let before = progress.reclaimed;
        let mut seen = Seen::default();
        let mut adjusted = false;
        while (0..LruList::EVICTABLE.len()).any(|list| wanted(&left, list)) {
            for (at, list) in LruList::EVICTABLE.into_iter().enumerate() {
                let want = left[at].min(self.memory.tuning().reclaim.cluster.into());
                if want == 0 {
                    continue;
                }
                left[at] -= want;
                if list.is_active() {
                    if deactivate.of(list.kind()) {
                        progress.scanned += self.age(scan, list, want, retire);
                    }
                } else {
                    seen.merge(self.shrink_list(scan, list, want, progress, retire));
                }
            }
            let enough = progress.reclaimed - before >= scan.target;
            let thorough = scan.by == By::Direct && scan.priority == FIRST_PRIORITY;
            if !enough || thorough || adjusted {
                continue;
            }
            if !adjust(&mut left, &intended) {
                break;
            }
            adjusted = true;
        }
        if scan.may_swap && self.inactive_is_low(scan, PageKind::Anon) {
            let some = self.memory.tuning().reclaim.cluster.into();
            self.age(scan, LruList::ActiveAnon, some, retire);
        }
        let node = self.state.node(scan.node);
        node.look_at_workingset();
        if progress.reclaimed > before {
            node.kswapd.set_failures(0);
        }
        progress.failed += u64::from(seen.failed);
        progress.seen = seen;
        self.throttle(scan, &seen);
    }

    /// Takes a cluster off an inactive list and reclaims what it can of it.
    fn shrink_list(
        &self,
        scan: &Scan,
        list: LruList,
        want: u64,
        progress: &mut Progress,
        retire: &mut Retire<'_, '_, '_, '_, P>,
    ) -> Seen {
        let kind = list.kind();
        let node = self.state.node(scan.node);
        if self.too_many_isolated(scan, kind) {
            self.pause(scan, Throttle::Isolated);
            if self.too_many_isolated(scan, kind) {
                return Seen::default();
            }
        }
        let cluster = self.isolate(scan, list, want);
        if cluster.len() == 0 {
            return Seen::default();
        }
        let seen = self.shrink(scan, kind, &cluster, retire);
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

    /// Whether others have so much isolated that there may be enough once it is put back. Who
    /// reclaims in the background does not wait for those who wait for it.
    fn too_many_isolated(&self, scan: &Scan, kind: PageKind) -> bool {
        if scan.by == By::Kswapd {
            return false;
        }
        let node = self.state.node(scan.node);
        let inactive = node.pages(kind.inactive());
        // Those with all rights leave the rest to others who hold locks.
        node.isolated(kind) > if scan.may_write { inactive >> 3 } else { inactive }
    }

    /// After a pass: learns what is in the way, and pauses where going on would be in vain.
    fn throttle(&self, scan: &Scan, seen: &Seen) {
        let words = &self.state.node(scan.node).kswapd;
        if scan.by == By::Kswapd {
            if seen.writeback > 0 && seen.writeback == seen.taken {
                words.set_writing_back(true);
            }
            if seen.unqueued_dirty > 0 && seen.unqueued_dirty == seen.taken {
                words.set_dirty(true);
            }
            if seen.immediate > 0 {
                self.pause(scan, Throttle::WriteBack);
            }
        }
        let congested = seen.dirty > 0 && seen.dirty == seen.congested;
        if congested && scan.by == By::Direct {
            self.pause(scan, Throttle::Congested);
        }
    }
}

/// Whether a list keeps a pass going: active anonymous pages alone do not.
fn wanted(left: &Quota, list: usize) -> bool {
    left[list] > 0 && LruList::EVICTABLE[list] != LruList::ActiveAnon
}

/// Enough was reclaimed: drops the kind of which less is left, and has the other scanned in the
/// proportion that was intended. `false` if nothing is left of one kind.
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
    // How much of the dropped kind was done, in percent of what was intended.
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
    fn what_is_left_is_scanned_in_proportion() {
        // Half of the anonymous pages and a quarter of those of files were looked at.
        let mut left = [50, 0, 750, 0];
        assert!(adjust(&mut left, &[100, 0, 1000, 0]));
        assert_eq!(left, [0, 0, 250, 0], "files are looked at until half is done, too");
        let mut one = [0, 0, 10, 0];
        assert!(!adjust(&mut one, &[0, 0, 100, 0]));
    }
}
