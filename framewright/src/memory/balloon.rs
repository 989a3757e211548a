//! For virtual machines: memory for a balloon, and reports of free memory to the hypervisor.
//!
//! A *balloon* is inflated with [`CpuToken::alloc_largest`](crate::CpuToken::alloc_largest):
//! largest blocks first, because they need the fewest messages and do not split the hypervisor's
//! huge pages. *Free page reporting* reports each free block once. The block is isolated from the
//! zone during the report, so that no CPU uses it while the hypervisor unmaps it. Then it returns
//! to the zone with a mark, which is cleared when the block is allocated.

use super::Memory;
use crate::{
    pcp::ZoneOnCpu,
    platform::Platform,
    types::{CpuId, FrameRange, Order},
};

/// The CPU whose counters include these operations.
const ACCOUNT: CpuId = CpuId::new(0);

/// The order is below that of a pageblock. Blocks of such orders have no mark for reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrderTooSmall;

impl core::fmt::Display for OrderTooSmall {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "free blocks are reported from order {} on", Order::PAGEBLOCK)
    }
}

impl core::error::Error for OrderTooSmall {}

/// A block that is isolated from the zone while it is reported. Dropping the value returns the
/// block, also while a panic of the embedder unwinds.
struct ReportedBlock<'c, 'm, P: Platform> {
    cpu: ZoneOnCpu<'c, 'm, P>,
    frame: u32,
    order: Order,
}

impl<P: Platform> Drop for ReportedBlock<'_, '_, P> {
    fn drop(&mut self) {
        self.cpu.give_reported(self.frame, self.order);
    }
}

impl<P: Platform> Memory<'_, P> {
    /// Calls `report` with every free block of `order` that has not been reported since it became
    /// free. Larger blocks are reported in parts of `order`. Returns the number of frames reported.
    /// `report` may allocate and free.
    ///
    /// # Errors
    ///
    /// [`OrderTooSmall`] if `order` is below [`Order::PAGEBLOCK`].
    pub fn report_free(
        &self,
        order: Order,
        report: &mut dyn FnMut(FrameRange),
    ) -> Result<u64, OrderTooSmall> {
        if order < Order::PAGEBLOCK {
            return Err(OrderTooSmall);
        }
        let mut frames = 0;
        for cpu in self.core.contexts(ACCOUNT) {
            for gigablock in 0..cpu.zone.gigablocks() {
                // Blocks that are freed concurrently are left to the next call, so that this loop
                // ends.
                for _ in 0..Order::MAX.frames() >> order.get() {
                    let Some(frame) = cpu.take_unreported(gigablock, order) else { break };
                    let block = ReportedBlock { cpu, frame, order };
                    let start = cpu.pfn(frame);
                    if let Some(range) = FrameRange::new(start, start.offset(order.frames())) {
                        report(range);
                    }
                    drop(block);
                    frames += order.frames();
                }
            }
        }
        Ok(frames)
    }
}
