//! Scan balance: the number of pages of each list that are scanned.
//!
//! By default the number is the length of the list >> priority, so that pages age at the same rate
//! on all lists. But anonymous pages and pages of files may differ in the cost of reclaiming a page
//! that is still needed. This cost is measured (pages read again, pages scanned and not reclaimed,
//! pages written), and the kind with the lower cost is scanned more.
//!
//! A node with few pages starts at a lower priority number, at which a scan of all its lists yields
//! a cluster. At a higher number, the scan would yield only a few pages, which cost as much as a
//! cluster: one hold of the LRU lock and one flush. A request would then continue with the next
//! node, and also take the LRU lock of that node.

use crate::{
    platform::Platform,
    types::{LruList, NodeId, PageKind, Watermark, ZoneKind},
};

use super::{
    Reclaim,
    scan::{FIRST_PRIORITY, ScanControl},
};

/// The kinds of active pages that may become inactive in this pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Deactivate([bool; PageKind::COUNT]);

impl Deactivate {
    pub(super) const fn of(self, kind: PageKind) -> bool {
        self.0[kind as usize]
    }
}

/// The division of the scan between the kinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ScanBalance {
    /// The same part of every list.
    Equal,
    /// Only one kind.
    Only(PageKind),
    /// By a weight per kind.
    Weighted([u64; PageKind::COUNT]),
}

/// The number of pages to scan on each evictable list.
pub(super) type Quota = [u64; LruList::EVICTABLE.len()];

impl<P: Platform> Reclaim<'_, '_, P> {
    /// The kinds to deactivate: those with too few inactive pages, and those whose workingset
    /// changes.
    pub(super) fn deactivate(&self, scan: &ScanControl) -> Deactivate {
        let node = self.state.node(scan.node);
        Deactivate(PageKind::ALL.map(|kind| {
            scan.force_deactivate
                || self.inactive_is_low(scan, kind)
                || node.workingset_changed(kind)
        }))
    }

    /// Whether a kind has too few inactive pages. The more memory, the smaller the required share.
    pub(super) fn inactive_is_low(&self, scan: &ScanControl, kind: PageKind) -> bool {
        let pages = |list| self.state.pages_up_to(scan.node, list, scan.highest);
        let (inactive, active) = (pages(kind.inactive()), pages(kind.active()));
        inactive * inactive_ratio(inactive + active) < active
    }

    /// The number of pages to scan on each list in this pass.
    pub(super) fn quota(&self, scan: &ScanControl, deactivate: Deactivate) -> Quota {
        let share = self.share(scan, deactivate);
        LruList::EVICTABLE.map(|list| {
            let size = self.state.pages_up_to(scan.node, list, scan.highest) >> scan.priority;
            match share {
                ScanBalance::Equal => size,
                ScanBalance::Only(kind) if kind == list.kind() => size,
                ScanBalance::Only(_) => 0,
                ScanBalance::Weighted(weights) => {
                    let sum = weights.iter().sum::<u64>().max(1);
                    (u128::from(size) * u128::from(weights[list.kind() as usize]) / u128::from(sum))
                        as u64
                }
            }
        })
    }

    /// The priority at which a pass over a node starts: the default, or a lower number if a scan of
    /// all lists at the default yields less than a cluster. It is at least 4, so that a node with
    /// very few pages is scanned at several priorities, too.
    pub(super) fn first_priority(&self, node: NodeId, highest: ZoneKind) -> u32 {
        const FEW: u32 = 4;
        let pages = |list| self.state.pages_up_to(node, list, highest);
        let all: u64 = LruList::EVICTABLE.into_iter().map(pages).sum();
        let cluster = self.memory.tuning().reclaim.cluster.max(1);
        (all / u64::from(cluster)).max(1).ilog2().clamp(FEW, FIRST_PRIORITY)
    }

    /// The balance, by the first rule that applies.
    fn share(&self, scan: &ScanControl, deactivate: Deactivate) -> ScanBalance {
        let swappiness = u64::from(self.memory.tuning().reclaim.swappiness);
        if !scan.may_swap || swappiness == 0 {
            return ScanBalance::Only(PageKind::File);
        }
        if scan.priority == 0 {
            return ScanBalance::Equal;
        }
        let some =
            |list| self.state.pages_up_to(scan.node, list, scan.highest) >> scan.priority > 0;
        let may_take = |kind: PageKind| !deactivate.of(kind) && some(kind.inactive());
        if may_take(PageKind::Anon) && self.file_is_tiny(scan) {
            return ScanBalance::Only(PageKind::Anon);
        }
        if may_take(PageKind::File) {
            return ScanBalance::Only(PageKind::File);
        }
        let node = self.state.node(scan.node);
        ScanBalance::Weighted(weights(
            node.cost(PageKind::Anon),
            node.cost(PageKind::File),
            swappiness,
        ))
    }

    /// Whether free memory and all pages of files together do not exceed the high watermarks.
    fn file_is_tiny(&self, scan: &ScanControl) -> bool {
        let node = self.state.node(scan.node);
        let files = node.pages(LruList::InactiveFile) + node.pages(LruList::ActiveFile);
        let zones = self.memory.zones_of(scan.node);
        let (free, high) = zones.fold((0, 0), |(free, high), zone| {
            (free + zone.free(), high + zone.marks().get(Watermark::High))
        });
        free + files <= high
    }
}

/// The maximum ratio of the active to the inactive list: the square root of ten times the size of
/// both lists together, in GiB.
fn inactive_ratio(pages: u64) -> u64 {
    const GIB_SHIFT: u32 = 18;
    (10 * (pages >> GIB_SHIFT)).isqrt().max(1)
}

/// The weights of both kinds, from their recent costs.
fn weights(anon: u64, file: u64, swappiness: u64) -> [u64; PageKind::COUNT] {
    // The sum of both costs is added to each, so that costs alone give no kind less than a third.
    let total = anon + file;
    let (anon, file) = (total + anon, total + file);
    let all = anon + file + 1;
    let mut weights = [0; PageKind::COUNT];
    weights[PageKind::Anon as usize] = swappiness * all / (anon + 1);
    weights[PageKind::File as usize] = (200 - swappiness.min(200)) * all / (file + 1);
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_grows_with_memory() {
        assert_eq!(inactive_ratio(0), 1);
        assert_eq!(inactive_ratio(1 << 18), 3, "1 GiB");
        assert_eq!(inactive_ratio(100 << 18), 31, "100 GiB");
    }

    #[test]
    fn the_kind_with_higher_cost_is_scanned_less() {
        assert_eq!(weights(0, 0, 60), [60, 140], "not decided by swappiness alone");
        let share = |[anon, file]: [u64; 2]| anon * 100 / (anon + file);
        assert_eq!(share(weights(1000, 0, 100)), 33, "not one third, the minimum");
        assert_eq!(share(weights(0, 1000, 100)), 66);
        assert_eq!(share(weights(1000, 1000, 100)), 50);
        assert_eq!(weights(7, 3, 200)[1], 0);
    }
}
