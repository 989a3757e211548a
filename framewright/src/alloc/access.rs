//! What requests may take: the mark each is measured against, and how far below that it may go.

use crate::{
    types::{
        Order, Request, Watermark,
        flags::{IGNORING_WATERMARKS, INSIDE_RELIEF, NO_WAIT, URGENT, VICTIM, WITHOUT_RESERVES},
    },
    zone::{AllocFlags, ZoneAccess},
};

impl Request {
    /// What it may take at first.
    pub(in crate::alloc) const fn first_access(self) -> ZoneAccess {
        self.access(Watermark::Low, AllocFlags::NONE)
    }

    /// What it may take when the low watermark stood in its way.
    pub(in crate::alloc) const fn slow_access(self) -> ZoneAccess {
        if self.has(WITHOUT_RESERVES) {
            let rights = AllocFlags::NONE.with_if(self.has(NO_WAIT), AllocFlags::HUGE_RESERVE);
            return self.access(Watermark::Min, rights);
        }
        let single = self.order().get() == 0;
        let rights = AllocFlags::NONE
            .with_if(self.has(URGENT), AllocFlags::MIN_RESERVE)
            .with_if(self.has(URGENT) && single, AllocFlags::PAST_BOOST)
            .with_if(self.has(NO_WAIT), AllocFlags::NON_BLOCK)
            .with_if(self.is_high_atomic(), AllocFlags::HIGH_ATOMIC);
        self.access(Watermark::Min, rights)
    }

    /// Whether it is what pageblocks are kept ready for.
    pub(in crate::alloc) const fn is_huge(self) -> bool {
        self.order().get() >= Order::PAGEBLOCK.get()
    }

    /// Whether it is what the high-atomic reserve is for.
    #[inline]
    pub(in crate::alloc) const fn is_high_atomic(self) -> bool {
        let atomic = self.has(URGENT) && self.has(NO_WAIT) && !self.has(WITHOUT_RESERVES);
        atomic && self.order().get() > 0
    }

    /// What it may take in the end: some have a right to more of the reserve than urgency gives.
    pub(crate) const fn last_access(self) -> ZoneAccess {
        if self.ignores_watermarks() {
            self.access(Watermark::Min, AllocFlags::NO_WATERMARKS)
        } else if self.has(VICTIM) && !self.has(WITHOUT_RESERVES) {
            self.access(Watermark::Min, AllocFlags::OOM)
        } else {
            self.slow_access()
        }
    }

    /// What it may take if it never fails, and would otherwise wait.
    pub(in crate::alloc) const fn no_fail_access(self) -> ZoneAccess {
        self.access(Watermark::Min, AllocFlags::MIN_RESERVE)
    }

    pub(in crate::alloc) const fn ignores_watermarks(self) -> bool {
        self.has(IGNORING_WATERMARKS | INSIDE_RELIEF) && !self.has(WITHOUT_RESERVES)
    }

    const fn access(self, mark: Watermark, rights: AllocFlags) -> ZoneAccess {
        let rights = rights
            .with_if(self.may_wake(), AllocFlags::KSWAPD)
            .with_if(self.is_huge(), AllocFlags::HUGE_RESERVE);
        ZoneAccess { mark, rights, highest: self.highest() }
    }
}
