//! What the slow path of allocation asks of reclaim and compaction.

use super::KeptFrames;
use crate::types::{CpuId, Order, Pfn, ZoneId};

/// The states of reclaim and compaction, as far as the slow path reads and writes them. A memory implements it
/// by the layers above allocation.
pub(crate) trait SlowPathState {
    /// Announces that the holder of the CPU's token will reclaim, and then come for frames
    /// ([`SlowPathState::take_kept`]).
    fn keep_reclaimed(&self, cpu: CpuId);

    /// Returns the kept frames. The caller owns their blocks.
    fn take_kept(&self, cpu: CpuId) -> KeptFrames;

    /// A request has got the block of `order` at `pfn` after compaction, so this order is no longer
    /// deferred in the zone of the block.
    fn compaction_helped(&self, pfn: Pfn, order: Order);

    /// Whether recent attempts to form pageblocks for the huge-page reserve of a zone failed.
    fn huge_reserve_is_deferred(&self, zone: ZoneId) -> bool;
}
