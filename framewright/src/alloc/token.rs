//! CPU tokens: the right to use one CPU's lists, and the operations that need it.

use core::marker::PhantomData;

use super::{AllocError, FreeError, MigrateType, Request};
use crate::{
    frame::{Block, MemoryTag, Order, PAGEBLOCK_ORDER, Pfn},
    memory::Memory,
    observe::{DrainReason, Event},
    pcp::{Cpu, CpuPages, ListIndex},
    platform::{CpuId, Platform, Site},
    sync::{AtomicU8, Ordering},
};

/// The right to use the lists of one CPU of a memory.
///
/// There is one per CPU ([`Memory::cpu`]), it stays on its thread, and its methods take
/// `&mut self`: so nobody can be inside the lists twice. Dropping it gives the right back.
pub struct CpuToken<'a, 'm, P: Platform> {
    memory: &'a Memory<'m, P>,
    pages: &'m CpuPages<'m>,
    types: &'m [AtomicU8],
    base: u64,
    tag: MemoryTag<'m>,
    id: CpuId,
    /// Not `Send`: a CPU does not wander between threads in the middle of something.
    not_send: PhantomData<*const ()>,
}

impl<'a, 'm, P: Platform> CpuToken<'a, 'm, P> {
    /// A token for a CPU that the caller has just claimed.
    pub(crate) fn new(memory: &'a Memory<'m, P>, pages: &'m CpuPages<'m>, id: CpuId) -> Self {
        Self {
            memory,
            pages,
            types: memory.zone_ref().types(),
            base: memory.zone_ref().base().get(),
            tag: memory.tag(),
            id,
            not_send: PhantomData,
        }
    }

    /// The CPU this token is for.
    #[must_use]
    pub fn cpu(&self) -> CpuId {
        self.id
    }

    /// Its memory.
    #[must_use]
    pub fn memory(&self) -> &'a Memory<'m, P> {
        self.memory
    }

    /// Allocates a block.
    ///
    /// # Errors
    ///
    /// Says which watermark stood in the way, or that no block of the order is free, after
    /// everything that the request allows was tried.
    #[inline(always)]
    pub fn alloc(&mut self, request: Request) -> Result<Block<'m>, AllocError> {
        let frame = match request.list().and_then(|list| self.pages.pop(list)) {
            Some(frame) => frame,
            None => self.alloc_slowly(request)?,
        };
        Ok(self.hand_out(frame, request))
    }

    /// Frees a block.
    ///
    /// # Errors
    ///
    /// A block of another memory is given back to the caller.
    #[inline(always)]
    pub fn free(&mut self, block: Block<'m>) -> Result<(), Block<'m>> {
        if !block.belongs_to(self.tag) {
            return Err(block);
        }
        self.free_frames((block.pfn().get() - self.base) as u32, block.order());
        Ok(())
    }

    /// Frees 2^order frames from `pfn`.
    ///
    /// # Errors
    ///
    /// What is wrong with it, as far as that can be told at once; nothing was changed then.
    /// Under [`Hardening::Checked`](crate::tuning::Hardening::Checked) a bad free that was
    /// accepted onto a list is refused when it reaches the zone, and reported through
    /// [`Platform::corruption`].
    ///
    /// # Safety
    ///
    /// The caller owns the frames as a block of this memory, usually from
    /// [`Block::into_raw`], and no longer uses them.
    #[allow(unsafe_code)]
    pub unsafe fn free_raw(&mut self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let frame = self.memory.locate(pfn, order)?;
        match self.free_frames(frame, order) {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    /// Turns frames back into a block: the inverse of [`Block::into_raw`].
    ///
    /// # Errors
    ///
    /// The frames are not of this memory, or the block cannot start there.
    ///
    /// # Safety
    ///
    /// The caller owns the frames as a block of this memory and order.
    #[allow(unsafe_code)]
    pub unsafe fn adopt(&self, pfn: Pfn, order: Order) -> Result<Block<'m>, FreeError> {
        self.memory.locate(pfn, order)?;
        Ok(Block::new(self.tag, pfn, order))
    }

    /// [`CpuToken::adopt`] for hot paths: nothing is checked.
    ///
    /// # Safety
    ///
    /// The caller owns the frames as a block of this memory and order.
    #[allow(unsafe_code)]
    #[inline(always)]
    pub unsafe fn adopt_unchecked(&self, pfn: Pfn, order: Order) -> Block<'m> {
        Block::new(self.tag, pfn, order)
    }

    /// Cuts a block into two halves, lower first.
    ///
    /// # Errors
    ///
    /// A block of order 0, or of another memory, is given back.
    pub fn split(&mut self, block: Block<'m>) -> Result<(Block<'m>, Block<'m>), Block<'m>> {
        let Some(half) = block.order().get().checked_sub(1).and_then(Order::new) else {
            return Err(block);
        };
        if !block.belongs_to(self.tag) {
            return Err(block);
        }
        let (pfn, _) = block.into_raw();
        let frame = (pfn.get() - self.base) as u32;
        self.context().split_head(frame, half);
        let upper = pfn.offset(half.frames());
        Ok((Block::new(self.tag, pfn, half), Block::new(self.tag, upper, half)))
    }

    /// Allocates exactly the block at `pfn`, if it is free in the zone. Blocks on the lists of
    /// a CPU are not found: drain first. Watermarks do not apply.
    pub fn alloc_at(
        &mut self,
        pfn: Pfn,
        order: Order,
        migratetype: MigrateType,
    ) -> Option<Block<'m>> {
        let frame = self.memory.locate(pfn, order).ok()?;
        let cpu = self.context();
        let taken = cpu.take_specific(frame, order, migratetype);
        taken.then(|| self.hand_out(frame, Request::new(order, migratetype)))
    }

    /// Frees a block to the zone, past the lists; if that completes a free block of the
    /// request's order around it, the caller gets that block instead of the zone.
    ///
    /// # Errors
    ///
    /// A block of another memory is given back.
    pub fn free_capturing(
        &mut self,
        block: Block<'m>,
        request: Request,
    ) -> Result<Option<Block<'m>>, Block<'m>> {
        if !block.belongs_to(self.tag) {
            return Err(block);
        }
        let (pfn, order) = block.into_raw();
        let frame = (pfn.get() - self.base) as u32;
        self.trace_free(pfn, order);
        let captured =
            self.context().free_capturing(frame, order, request.order(), request.migratetype());
        Ok(captured.map(|frame| self.hand_out(frame, request)))
    }

    /// Gives everything on this CPU's lists back to the zone.
    pub fn drain(&mut self) {
        self.context().drain(DrainReason::Local);
    }

    #[inline(always)]
    fn free_frames(&mut self, frame: u32, order: Order) -> Option<FreeError> {
        self.trace_free(self.context().pfn(frame), order);
        if order != Order::ZERO {
            return self.free_elsewhere(frame, order);
        }
        // Branching on the type, instead of computing the list from it, keeps what is pushed
        // off the path of the next pop: the processor predicts it.
        let movable = || self.type_of(frame) == Some(MigrateType::Movable as u8);
        if self.pages.push(ListIndex::MOVABLE, frame, movable) {
            return None;
        }
        if movable() { self.free_slowly(frame, order) } else { self.free_elsewhere(frame, order) }
    }

    /// Frees what is not a single movable frame: other lists, then the long way.
    #[inline(never)]
    fn free_elsewhere(&mut self, frame: u32, order: Order) -> Option<FreeError> {
        let of = self.type_of(frame);
        if let Some(list) = of.and_then(|of| ListIndex::freeing_simply(order, of))
            && self.pages.push(list, frame, || self.type_of(frame) == of)
        {
            return None;
        }
        self.free_slowly(frame, order)
    }

    /// The number of the type of a frame's pageblock. Decides only inside the lists: whoever
    /// isolates a pageblock changes its type and then waits until no owner is inside.
    #[inline(always)]
    fn type_of(&self, frame: u32) -> Option<u8> {
        let of = self.types.get((frame >> PAGEBLOCK_ORDER) as usize)?;
        Some(of.load(Ordering::Relaxed))
    }

    #[cold]
    #[inline(never)]
    fn free_slowly(&mut self, frame: u32, order: Order) -> Option<FreeError> {
        let refusals = self.context().free(frame, order);
        refusals.first.map(|(_, _, why)| why.into())
    }

    #[cold]
    #[inline(never)]
    fn alloc_slowly(&mut self, request: Request) -> Result<u32, AllocError> {
        self.memory.platform().point(Site::SlowPath);
        let frame = super::slow::alloc(self.memory, &self.context(), request);
        if frame.is_err() {
            self.pages.counters.failures.add(1);
            if P::TRACING {
                let event = Event::PageAlloc { pfn: None, request };
                self.memory.platform().trace(self.id, &event);
            }
        }
        frame
    }

    #[inline(always)]
    fn trace_free(&self, pfn: Pfn, order: Order) {
        if P::TRACING {
            self.memory.platform().trace(self.id, &Event::PageFree { pfn, order });
        }
    }

    /// Makes a block of frames that have just left a list or the zone.
    #[inline(always)]
    fn hand_out(&self, frame: u32, request: Request) -> Block<'m> {
        let block = self.block(frame, request.order());
        let platform = self.memory.platform();
        if request.is_zeroed() {
            platform.clear(block.pfn(), block.order());
        }
        if P::TRACING {
            platform.trace(self.id, &Event::PageAlloc { pfn: Some(block.pfn()), request });
        }
        block
    }

    #[inline(always)]
    fn block(&self, frame: u32, order: Order) -> Block<'m> {
        Block::new(self.tag, Pfn::new(self.base + u64::from(frame)), order)
    }

    fn context(&self) -> Cpu<'_, 'm, P> {
        self.memory.context(self.pages, self.id)
    }
}

impl<P: Platform> Drop for CpuToken<'_, '_, P> {
    fn drop(&mut self) {
        self.pages.unclaim();
    }
}
