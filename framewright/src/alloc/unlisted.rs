//! Allocating without a CPU token.
//!
//! Code that may run on top of a CPU's owner (an interrupt or NMI handler) cannot have that
//! CPU's token, and must not touch its lists. It goes to the zone directly, and never waits.

use super::{AllocError, Request};
use crate::{
    buddy::Bundle,
    frame::Block,
    memory::Memory,
    observe::Event,
    platform::{CpuId, Platform},
};

/// Whose counters such operations appear under.
const ACCOUNT: CpuId = CpuId::new(0);

impl<'m, P: Platform> Memory<'m, P> {
    /// Allocates a block from the zone, past the lists of all CPUs, without waiting. Takes the
    /// zone lock with interrupts masked; so an NMI handler may call it only if it cannot have
    /// interrupted a holder.
    ///
    /// # Errors
    ///
    /// As [`CpuToken::alloc`](super::CpuToken::alloc) for a request that may not wait.
    pub fn alloc_unlisted(&self, request: Request) -> Result<Block<'m>, AllocError> {
        if !request.migratetype().is_requestable() {
            return Err(AllocError::NotRequestable(request.migratetype()));
        }
        let cpu = self.account(ACCOUNT);
        let access = request.last_access();
        let frame = cpu.alloc_from_zone(request.order(), request.migratetype(), access)?;
        let block = Block::new(self.tag(), cpu.pfn(frame), request.order());
        if request.is_zeroed() {
            self.platform().clear(block.pfn(), block.order());
        }
        if P::TRACING {
            let event = Event::PageAlloc { pfn: Some(block.pfn()), request };
            self.platform().trace(ACCOUNT, &event);
        }
        Ok(block)
    }

    /// Frees a block to the zone, past the lists of all CPUs.
    ///
    /// # Errors
    ///
    /// A block of another memory is given back.
    pub fn free_unlisted(&self, block: Block<'m>) -> Result<(), Block<'m>> {
        if !self.owns(&block) {
            return Err(block);
        }
        let cpu = self.account(ACCOUNT);
        let (pfn, order) = block.into_raw();
        let frame = (pfn.get() - self.zone_ref().base().get()) as u32;
        if P::TRACING {
            self.platform().trace(ACCOUNT, &Event::PageFree { pfn, order });
        }
        cpu.free_to_zone(Bundle::of(frame, order));
        Ok(())
    }
}
