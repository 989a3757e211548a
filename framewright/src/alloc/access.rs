//! The zone access of a request: its watermark, and the part of the reserve below it that the
//! request may use.

use crate::{
    types::{
        Order, Request, Watermark,
        flags::{IGNORING_WATERMARKS, INSIDE_RELIEF, NO_WAIT, URGENT, VICTIM, WITHOUT_RESERVES},
    },
    zone::{AllocFlags, ZoneAccess},
};

impl Request {
    /// The zone access of the first attempt.
    pub(in crate::alloc) const fn first_access(self) -> ZoneAccess {
        self.access(Watermark::Low, AllocFlags::NONE)
    }

    /// The zone access after the low watermark has refused the request.
    pub(in crate::alloc) const fn slow_access(self) -> ZoneAccess {
        if self.has(WITHOUT_RESERVES) {
            let flags = AllocFlags::NONE.with_if(self.has(NO_WAIT), AllocFlags::HUGE_RESERVE);
            return self.access(Watermark::Min, flags);
        }
        let single = self.order().get() == 0;
        let flags = AllocFlags::NONE
            .with_if(self.has(URGENT), AllocFlags::MIN_RESERVE)
            .with_if(self.has(URGENT) && single, AllocFlags::PAST_BOOST)
            .with_if(self.has(NO_WAIT), AllocFlags::NON_BLOCK)
            .with_if(self.is_high_atomic(), AllocFlags::HIGH_ATOMIC);
        self.access(Watermark::Min, flags)
    }

    /// Whether the request is for a huge page or more. Such requests may use the huge-page reserve.
    pub(in crate::alloc) const fn is_huge(self) -> bool {
        self.order().get() >= Order::PAGEBLOCK.get()
    }

    /// Whether the request may use the high-atomic reserve: it is urgent, cannot wait, and is for more
    /// than one frame.
    #[inline]
    pub(in crate::alloc) const fn is_high_atomic(self) -> bool {
        let atomic = self.has(URGENT) && self.has(NO_WAIT) && !self.has(WITHOUT_RESERVES);
        atomic && self.order().get() > 0
    }

    /// The zone access of the last attempt. Some requests may use more of the reserve than urgent ones.
    pub(crate) const fn last_access(self) -> ZoneAccess {
        if self.ignores_watermarks() {
            self.access(Watermark::Min, AllocFlags::NO_WATERMARKS)
        } else if self.has(VICTIM) && !self.has(WITHOUT_RESERVES) {
            self.access(Watermark::Min, AllocFlags::OOM)
        } else {
            self.slow_access()
        }
    }

    /// The zone access of a request that never fails, before it waits.
    pub(in crate::alloc) const fn no_fail_access(self) -> ZoneAccess {
        self.access(Watermark::Min, AllocFlags::MIN_RESERVE)
    }

    pub(in crate::alloc) const fn ignores_watermarks(self) -> bool {
        self.has(IGNORING_WATERMARKS | INSIDE_RELIEF) && !self.has(WITHOUT_RESERVES)
    }

    const fn access(self, mark: Watermark, flags: AllocFlags) -> ZoneAccess {
        let flags = flags
            .with_if(self.may_wake(), AllocFlags::KSWAPD)
            .with_if(self.is_huge(), AllocFlags::HUGE_RESERVE);
        ZoneAccess { mark, flags, highest: self.highest() }
    }
}
