//! The slow path's interface to reclaim and compaction.

use super::KeptFrames;
use crate::types::{CpuId, Order, Pfn, ZoneId};

/// The part of the states of reclaim and compaction that the slow path reads and writes. A trait,
/// because those layers are above allocation.
pub(crate) trait SlowPathState {
    /// Announces that the holder of the CPU's token will reclaim, and then take the kept frames
    /// ([`SlowPathState::take_kept`]).
    fn keep_reclaimed(&self, cpu: CpuId);

    /// Returns the kept frames. The caller owns them as blocks of order 0.
    fn take_kept(&self, cpu: CpuId) -> KeptFrames;

    /// Ends the deferral of this order in the zone of the block: a request has got the block of
    /// `order` at `pfn` after compaction.
    fn compaction_helped(&self, pfn: Pfn, order: Order);

    /// Whether recent attempts to form pageblocks for the huge-page reserve of a zone failed.
    fn huge_reserve_is_deferred(&self, zone: ZoneId) -> bool;
}
