//! What a guest tells its hypervisor: memory it gives back, and memory it does not use.
//!
//! A *balloon* is inflated with [`CpuToken::alloc_largest`](crate::CpuToken::alloc_largest):
//! largest blocks first, because they cost the hypervisor the fewest entries and leave its own
//! huge pages whole. *Reporting* tells of every free block once: it is taken out of the zone
//! while the embedder is told, so that nobody uses it while the hypervisor lets go of what is
//! behind it, and given back with a mark that stays until the block is used.

use super::Memory;
use crate::{
    pcp::ZoneOnCpu,
    platform::Platform,
    types::{CpuId, FrameRange, Order},
};

/// Whose counters such operations appear under.
const ACCOUNT: CpuId = CpuId::new(0);

/// An order below that of a pageblock, of which no marks are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrderTooSmall;

impl core::fmt::Display for OrderTooSmall {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "free blocks are reported from order {} on", Order::PAGEBLOCK)
    }
}

impl core::error::Error for OrderTooSmall {}

/// A block that is out of the zone while the embedder is told of it. It goes back also if the
/// embedder panics.
struct Lent<'c, 'm, P: Platform> {
    cpu: ZoneOnCpu<'c, 'm, P>,
    frame: u32,
    order: Order,
}

impl<P: Platform> Drop for Lent<'_, '_, P> {
    fn drop(&mut self) {
        self.cpu.give_reported(self.frame, self.order);
    }
}

impl<P: Platform> Memory<'_, P> {
    /// Tells `report` of every free block of `order`, larger ones in parts, that it was not told
    /// of since the block became free, and returns how many frames that were. `report` may
    /// allocate and free.
    ///
    /// # Errors
    ///
    /// Blocks smaller than a pageblock are not reported.
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
                // What is freed meanwhile has its turn next time: else this might not end.
                for _ in 0..Order::MAX.frames() >> order.get() {
                    let Some(frame) = cpu.take_unreported(gigablock, order) else { break };
                    let lent = Lent { cpu, frame, order };
                    let start = cpu.pfn(frame);
                    if let Some(range) = FrameRange::new(start, start.offset(order.frames())) {
                        report(range);
                    }
                    drop(lent);
                    frames += order.frames();
                }
            }
        }
        Ok(frames)
    }
}
