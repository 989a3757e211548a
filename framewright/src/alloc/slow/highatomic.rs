//! The high-atomic reserve: pageblocks for high-order requests that cannot wait. They are released
//! when memory is short.

use super::Slow;
use crate::{pcp::ZoneOnCpu, platform::Platform, types::Request, zone::LastReserved};

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
    /// Changes one pageblock of the reserve to the type of the request. Returns whether there was
    /// one. It comes from the first zone that can release one.
    pub(super) fn unreserve(&self, last: LastReserved) -> bool {
        let request = self.need.request;
        let mut zones = self.candidates();
        zones.any(|(_, at)| at.zone.unreserve_highatomic(at.platform, request.migratetype(), last))
    }
}
