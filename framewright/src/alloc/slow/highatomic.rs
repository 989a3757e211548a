//! The high-atomic reserve: pageblocks that are reserved for high-order requests that cannot wait,
//! and released when memory is short.

use super::Slow;
use crate::{pcp::ZoneOnCpu, platform::Platform, types::Request};

/// Reserves the pageblock of the block at `frame`, which served `request`, for similar requests.
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
    /// Gives one pageblock of the reserve to the type of the request. The pageblock comes from the
    /// first zone with more than one reserved pageblock, or with `forced` from the first zone with
    /// any.
    pub(super) fn unreserve(&self, forced: bool) -> bool {
        let request = self.need.request;
        let mut zones = self.memory.candidates(self.need.cpu, request);
        zones
            .any(|(_, at)| at.zone.unreserve_highatomic(at.platform, request.migratetype(), forced))
    }
}
