//! Rules of kernels of other years outside of the library, and residue of other programs.

use std::cell::Cell;

use framewright::{Order, Request, ZoneKind};

use super::builder::FILES;

/// The kernel around the library, as far as kernels of different years differ. The default is
/// today's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Environment {
    /// A request for a huge page reclaims pages before synchronous compaction even if compaction
    /// has enough free frames: a cluster, and more, up to twice the huge page, until compaction has
    /// enough.
    pub reclaims_first: bool,
    /// Background reclaim frees single frames: a request for a huge page wakes it only to keep the
    /// zones above their watermarks for single frames, and it does not compact. If the zones are
    /// above them, it only resets the skip hints of the scanners, as it does before each sleep.
    pub reclaims_frames: bool,
    /// Memory has two zones, DMA32 and Normal, and the fair zone allocation policy spreads requests for single frames
    /// over them in proportion to their sizes (Linux 3.12 to 4.7).
    pub fair_zones: bool,
    /// Files of each builder's tree, 12 KiB each on average.
    pub tree_files: u32,
    /// The programs besides builders have one frame in this number.
    pub residue: u64,
    /// The last compaction of a request that tries once is synchronous. Only failures of
    /// synchronous compaction defer it.
    pub ends_synchronously: bool,
}

impl Default for Environment {
    fn default() -> Self {
        Self {
            reclaims_first: false,
            reclaims_frames: false,
            fair_zones: false,
            tree_files: FILES,
            residue: 128,
            ends_synchronously: false,
        }
    }
}

impl Environment {
    /// The share of zone Normal in memory: one frame in this number, as on a machine of 4 GiB.
    pub(super) const NORMAL_SHARE: u64 = 3;
}

/// The state of the fair zone allocation policy: the number of its requests so far.
#[derive(Default)]
pub(super) struct FairAllocation(Cell<u64>);

impl FairAllocation {
    /// Frames that zone Normal serves in a row.
    const BATCH: u64 = 256;

    /// The request, restricted to zone DMA32 and its free memory, if the policy selects that zone.
    pub(super) fn lower(&self, request: Request) -> Option<Request> {
        let nth = self.0.replace(self.0.get() + 1) / Self::BATCH;
        let is_small = request.order() == Order::ZERO;
        (is_small && !nth.is_multiple_of(Environment::NORMAL_SHARE))
            .then(|| request.zone(ZoneKind::Dma32).no_wait().no_wake().without_reserves())
    }
}

#[cfg(test)]
mod tests {
    use framewright::MigrateType;

    use super::*;

    #[test]
    fn zones_serve_in_proportion_to_their_sizes() {
        let policy = FairAllocation::default();
        let request = Request::new(Order::ZERO, MigrateType::Movable);
        let served: Vec<_> = (0..768).map(|_| policy.lower(request)).collect();
        assert_eq!(served.iter().flatten().count(), 512);
        assert!(served[..256].iter().all(Option::is_none), "zone Normal is not the first");
        let lowered = served[256].unwrap();
        assert_eq!(lowered.highest(), ZoneKind::Dma32);
        assert!(!lowered.may_wait());
    }

    #[test]
    fn huge_pages_are_not_spread() {
        let policy = FairAllocation::default();
        let request = Request::new(Order::PAGEBLOCK, MigrateType::Movable);
        assert!((0..768).all(|_| policy.lower(request).is_none()));
    }
}
