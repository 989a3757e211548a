//! The slow path's interface to reclaim and compaction.

use super::KeptFrames;
use crate::types::{CpuId, Order, Pfn, ZoneId};

/// The part of the states of reclaim and compaction that the slow path reads and writes. It is a
/// trait, because allocation must not depend on those layers, which are above it.
pub(crate) trait SlowPathState {
    /// Announces that the holder of the CPU's token will reclaim, and then take the kept frames
    /// ([`SlowPathState::take_kept`]).
    fn keep_reclaimed(&self, cpu: CpuId);

    /// Returns the kept frames. The caller owns them as blocks of order 0.
    fn take_kept(&self, cpu: CpuId) -> KeptFrames;

    /// Tells that a request has got the block of `order` at `pfn` after compaction. So compaction
    /// for this order is no longer deferred in the zone of the block.
    fn compaction_helped(&self, pfn: Pfn, order: Order);

    /// Whether recent attempts to form pageblocks for the huge-page reserve of a zone failed.
    fn huge_reserve_is_deferred(&self, zone: ZoneId) -> bool;
}
