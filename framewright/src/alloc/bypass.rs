//! Allocating without a CPU token.
//!
//! Code that may run on top of a CPU's owner (an interrupt or NMI handler) cannot have that CPU's
//! token, and must not touch its lists. It uses the zone directly and never waits.

use super::slow;
use crate::{
    core::MemoryCore,
    platform::{Platform, or_on_panic},
    types::{AllocError, Block, CpuId, Event, FreeError, Order, Pfn, Request},
    zone::ZoneAccess,
};

/// The CPU whose counters include these operations.
const ACCOUNT: CpuId = CpuId::new(0);

impl<'m, P: Platform> MemoryCore<'m, P> {
    /// Allocates a block from the zones, bypassing the lists of all CPUs, without waiting. Prefers the node of
    /// CPU 0 unless the request names one. Takes zone locks with interrupts masked, so an NMI handler may call
    /// this method only if the NMI cannot have interrupted a holder of such a lock.
    /// [Wakes](crate::platform::Relief::wake) background reclaim, unless the request forbids it.
    ///
    /// # Errors
    ///
    /// As [`CpuToken::alloc`](super::CpuToken::alloc) for a request that may not wait.
    pub(crate) fn alloc_bypassing_lists(&self, request: Request) -> Result<Block<'m>, AllocError> {
        if !request.migratetype().is_requestable() {
            return Err(AllocError::NotRequestable(request.migratetype()));
        }
        let pfn = self.take_bypassing_lists(request)?;
        if request.is_zeroed() || P::TRACING {
            self.prepare(ACCOUNT, pfn, request);
        }
        Ok(Block::new(self.tag(), pfn, request.order()))
    }

    /// Frees a block to the zone, bypassing the lists of all CPUs.
    ///
    /// # Errors
    ///
    /// A block of another memory is given back.
    pub(crate) fn free_bypassing_lists(&self, block: Block<'m>) -> Result<(), Block<'m>> {
        if !self.owns(&block) {
            return Err(block);
        }
        let (pfn, order) = block.into_raw();
        self.trace_free(ACCOUNT, pfn, order);
        self.free_to_zone(ACCOUNT, pfn, order);
        Ok(())
    }

    /// Frees the 2^order frames that start at `pfn` directly to their zone, bypassing the lists of all CPUs.
    ///
    /// # Errors
    ///
    /// The reason why the zone refuses the free. The lists of CPUs are not searched.
    ///
    /// # Safety
    ///
    /// As for [`CpuToken::free_raw`](super::CpuToken::free_raw).
    #[allow(unsafe_code)]
    pub(crate) unsafe fn free_raw_bypassing_lists(
        &self,
        pfn: Pfn,
        order: Order,
    ) -> Result<(), FreeError> {
        let (zone, frame) = self.locate(pfn, order)?;
        self.trace_free(ACCOUNT, pfn, order);
        let refusals = self.context(zone, ACCOUNT).free_to_zone(frame, order);
        refusals.first.map_or(Ok(()), |(_, _, why)| Err(why.into()))
    }

    /// Clears a block that has just left a list or the zone, if `request` asks for it, and traces the allocation.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(super) fn prepare(&self, cpu: CpuId, pfn: Pfn, request: Request) {
        let prepare = || {
            if request.is_zeroed() {
                // SAFETY: the block has left the list or the zone, and no other CPU has access to it yet.
                unsafe { self.platform().clear(pfn, request.order()) };
            }
            if P::TRACING {
                self.platform().trace(cpu, &Event::PageAlloc { pfn: Some(pfn), request });
            }
        };
        or_on_panic(prepare, || self.free_to_zone(cpu, pfn, request.order()));
    }

    /// Traces the free of a block, before it is freed.
    #[inline(always)]
    pub(super) fn trace_free(&self, cpu: CpuId, pfn: Pfn, order: Order) {
        if P::TRACING {
            let trace = || self.platform().trace(cpu, &Event::PageFree { pfn, order });
            or_on_panic(trace, || self.free_to_zone(cpu, pfn, order));
        }
    }

    fn free_to_zone(&self, cpu: CpuId, pfn: Pfn, order: Order) {
        if let Some((zone, frame)) = self.find(pfn, order) {
            self.context(zone, cpu).free_to_zone(frame, order);
        }
    }

    /// Frees single frames to their zones, many per hold of a zone's lock, on behalf of `cpu` and
    /// bypassing its lists. The caller owns the frames as blocks.
    pub(crate) fn free_frames_to_zones(&self, cpu: CpuId, frames: &[Pfn]) {
        if P::TRACING {
            let trace = || {
                for &pfn in frames {
                    self.platform().trace(cpu, &Event::PageFree { pfn, order: Order::ZERO });
                }
            };
            or_on_panic(trace, || self.give_frames_to_zones(cpu, frames));
        }
        self.give_frames_to_zones(cpu, frames);
    }

    fn take_bypassing_lists(&self, request: Request) -> Result<Pfn, AllocError> {
        if let Ok(pfn) = self.walk_bypassing_lists(request, request.first_access()) {
            return Ok(pfn);
        }
        slow::wake(self, &self.candidate_zones(ACCOUNT, request), request);
        self.walk_bypassing_lists(request, request.last_access())
    }

    fn walk_bypassing_lists(
        &self,
        request: Request,
        access: ZoneAccess,
    ) -> Result<Pfn, AllocError> {
        let mut preferred = None;
        let mut error = AllocError::NoZone;
        for (id, at) in self.candidates(ACCOUNT, request) {
            let first = *preferred.get_or_insert(at);
            match at.alloc_from_zone(request.order(), request.migratetype(), access) {
                Ok(frame) => {
                    slow::count_miss(&first, &at);
                    slow::reserve(&at, request, frame);
                    return Ok(at.pfn(frame));
                }
                Err(refused) => error = error.most_specific(refused, id, request.order(), access),
            }
        }
        Err(error)
    }
}
