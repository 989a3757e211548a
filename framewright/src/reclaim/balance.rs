//! ScanControl balance: how far each list is looked through.
//!
//! Everything else being equal, each list is scanned to its length >> priority, so that pages age
//! at the same pace everywhere. Anonymous pages and those of files differ in what it costs to be
//! wrong about them; that is measured (pages read again, pages looked at in vain, pages written),
//! and pressure goes where it costs less.
//!
//! A node with few pages begins deeper, where its lists are worth a cluster: a handful of pages
//! would cost a hold of the LRU lock and a flush like a full one, and whoever needs memory would go
//! on to the next node for the rest of it, and take that lock too.

use crate::{
    platform::Platform,
    zone::{NodeId, Watermark, ZoneKind},
};

use super::{
    Reclaim,
    kind::{LruList, PageKind},
    scan::{FIRST_PRIORITY, ScanControl},
};

/// Which kinds of active pages may become inactive in this pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Deactivate([bool; PageKind::COUNT]);

impl Deactivate {
    pub(super) const fn of(self, kind: PageKind) -> bool {
        self.0[kind as usize]
    }
}

/// Who is scanned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ScanBalance {
    /// Every list, to the same part.
    Equal,
    /// One kind alone.
    Only(PageKind),
    /// Each kind by its weight.
    Weighted([u64; PageKind::COUNT]),
}

/// Pages to look at on each list that can be looked at.
pub(super) type Quota = [u64; LruList::EVICTABLE.len()];

impl<P: Platform> Reclaim<'_, '_, P> {
    /// What may be deactivated: kinds whose inactive list is short, and those of which the
    /// workingset changes.
    pub(super) fn deactivate(&self, scan: &ScanControl) -> Deactivate {
        let node = self.state.node(scan.node);
        Deactivate(PageKind::ALL.map(|kind| {
            scan.force_deactivate
                || self.inactive_is_low(scan, kind)
                || node.workingset_changed(kind)
        }))
    }

    /// Whether a kind has too few inactive pages: the more memory, the fewer will do.
    pub(super) fn inactive_is_low(&self, scan: &ScanControl, kind: PageKind) -> bool {
        let pages = |list| self.state.pages_up_to(scan.node, list, scan.highest);
        let (inactive, active) = (pages(kind.inactive()), pages(kind.active()));
        inactive * inactive_ratio(inactive + active) < active
    }

    /// How many pages of each list this pass looks at.
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

    /// The priority at which a pass over a node begins: the first, or that at which all lists together
    /// come to a cluster. What has hardly any pages is left a few steps to go, as everybody is.
    pub(super) fn first_priority(&self, node: NodeId, highest: ZoneKind) -> u32 {
        const FEW: u32 = 4;
        let pages = |list| self.state.pages_up_to(node, list, highest);
        let all: u64 = LruList::EVICTABLE.into_iter().map(pages).sum();
        let cluster = self.memory.tuning().reclaim.cluster.max(1);
        (all / u64::from(cluster)).max(1).ilog2().clamp(FEW, FIRST_PRIORITY)
    }

    /// The first rule that applies decides.
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

    /// Whether all free memory and all pages of files together would not do.
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

/// How many times longer than the inactive list the active one may be: the square root of ten
/// times the GiB of both.
fn inactive_ratio(pages: u64) -> u64 {
    const GIB_SHIFT: u32 = 18;
    (10 * (pages >> GIB_SHIFT)).isqrt().max(1)
}

/// Pressure by what it has cost lately.
fn weights(anon: u64, file: u64, swappiness: u64) -> [u64; PageKind::COUNT] {
    // Each cost with the sum of both, so that neither is ever everything.
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
    fn what_costs_more_is_looked_at_less() {
        assert_eq!(weights(0, 0, 60), [60, 140], "swappiness alone decides");
        let share = |[anon, file]: [u64; 2]| anon * 100 / (anon + file);
        assert_eq!(share(weights(1000, 0, 100)), 33, "at the least a third");
        assert_eq!(share(weights(0, 1000, 100)), 66);
        assert_eq!(share(weights(1000, 1000, 100)), 50);
        assert_eq!(weights(7, 3, 200)[1], 0);
    }
}
