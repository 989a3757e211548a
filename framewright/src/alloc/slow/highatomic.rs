//! The high-atomic reserve: reclaim_keeping neighbours together for high-order requests that cannot
//! wait, and giving them up when memory is short.

use super::Slow;
use crate::{pcp::ZoneOnCpu, platform::Platform, types::Request};

/// After `request` was served with the block at `frame`: keeps its pageblock for the next like it.
#[inline]
pub(in crate::alloc) fn reserve<P: Platform>(
    at: &ZoneOnCpu<'_, '_, P>,
    request: Request,
    frame: u32,
) {
    if request.is_high_atomic() {
        at.zone.reserve_highatomic(at.platform, frame, request.order());
    }
}

impl<P: Platform> Slow<'_, '_, '_, P> {
    /// Gives one pageblock of the reserve to what the request wants, of the first zone that has
    /// some to spare, or if `forced` any.
    pub(super) fn unreserve(&self, forced: bool) -> bool {
        let request = self.need.request;
        let mut zones = self.memory.candidates(self.need.cpu, request);
        zones
            .any(|(_, at)| at.zone.unreserve_highatomic(at.platform, request.migratetype(), forced))
    }
}
