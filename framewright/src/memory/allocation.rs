//! Allocations without a token: blocks directly from the zones, and contiguous memory.

use super::Memory;
use crate::{
    platform::Platform,
    types::{
        AllocError, Block, Contiguous, Extent, FrameRange, FreeError, MigrateType, Order, Pfn,
        RangeError, Request, SingleFrames,
    },
};

impl<'m, P: Platform> Memory<'m, P> {
    /// Allocates a block from the zones, bypassing the lists of all CPUs, without waiting. Prefers the node of CPU 0
    /// unless the request names one. Takes zone locks with interrupts masked, so an NMI handler may call this method
    /// only if the NMI cannot have interrupted a holder of such a lock. [Wakes](crate::platform::Relief::wake)
    /// background reclaim, unless the request forbids it.
    ///
    /// # Errors
    ///
    /// As [`CpuToken::alloc`](crate::CpuToken::alloc) for a request that may not wait.
    pub fn alloc_bypassing_lists(&self, request: Request) -> Result<Block<'m>, AllocError> {
        self.core.alloc_bypassing_lists(request)
    }

    /// Frees a block to the zone, bypassing the lists of all CPUs.
    ///
    /// # Errors
    ///
    /// A block of another memory is returned.
    pub fn free_bypassing_lists(&self, block: Block<'m>) -> Result<(), Block<'m>> {
        self.core.free_bypassing_lists(block)
    }

    /// Frees 2^order frames from `pfn` to the zone, bypassing the lists of all CPUs.
    ///
    /// # Errors
    ///
    /// The reason why the zone refuses the free. Below [`Hardening::Tracked`](crate::tuning::Hardening::Tracked),
    /// frames on the lists of CPUs look allocated to the zone, so it does not refuse to free them. The refusal is
    /// reported as by [`CpuToken::free_raw`](crate::CpuToken::free_raw).
    ///
    /// # Safety
    ///
    /// As for [`CpuToken::free_raw`](crate::CpuToken::free_raw).
    #[allow(unsafe_code)]
    pub unsafe fn free_raw_bypassing_lists(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        // SAFETY: the contract is that of this function.
        unsafe { self.core.free_raw_bypassing_lists(pfn, order) }
    }

    /// Allocates exactly the frames of `range`, which lies in one zone. Watermarks do not
    /// apply.
    ///
    /// # Errors
    ///
    /// [`RangeError::Busy`] if frames are in use: `in_the_way` was called with each run of them.
    /// Nothing has changed.
    pub fn alloc_range(
        &self,
        range: FrameRange,
        migratetype: MigrateType,
        in_the_way: &mut dyn FnMut(FrameRange),
    ) -> Result<Extent<'m>, RangeError> {
        self.core.alloc_range(range, migratetype, &mut |_, _, _| (), in_the_way)
    }

    /// Allocates a contiguous run of any number of frames, if the min watermark allows that for the request.
    ///
    /// # Errors
    ///
    /// [`RangeError::NotFound`] if no zone has a suitable run of free frames. Unless the request cannot
    /// wait, the CPU lists were drained before the last search.
    pub fn alloc_contiguous(&self, wanted: &Contiguous) -> Result<Extent<'m>, RangeError> {
        self.core.alloc_contiguous(wanted)
    }

    /// Turns frames back into an extent: the inverse of [`Extent::into_raw`].
    ///
    /// # Errors
    ///
    /// The range is empty, or it is not memory of one zone.
    ///
    /// # Safety
    ///
    /// The caller owns the frames as an extent of this memory, or as a part of one.
    #[allow(unsafe_code)]
    pub unsafe fn adopt_extent(&self, range: FrameRange) -> Result<Extent<'m>, RangeError> {
        // SAFETY: the caller fulfils the contract, which is the same.
        unsafe { self.core.adopt_extent(range) }
    }

    /// Splits an extent into its frames. From then on each frame is a block of order 0, and is freed like any other,
    /// also to the lists of a CPU. For kernels that allocate runs and free them frame by frame.
    ///
    /// # Errors
    ///
    /// An extent of another memory is returned. From [`Hardening::Tracked`](crate::tuning::Hardening::Tracked) on, an
    /// extent that was freed by frame number before, in part or as a whole, is also returned, and reported.
    pub fn split_extent(&self, extent: Extent<'m>) -> Result<SingleFrames<'m>, Extent<'m>> {
        self.core.split_extent(extent)
    }

    /// Splits a block into its frames, as [`Memory::split_extent`] does. Takes no lock for a block
    /// smaller than a pageblock if frees are not [checked](crate::tuning::Hardening).
    ///
    /// # Errors
    ///
    /// A block is returned if it belongs to another memory or is larger than a pageblock. From
    /// [`Hardening::Tracked`](crate::tuning::Hardening::Tracked) on, a block that was freed by frame number before is
    /// also returned, and reported.
    pub fn split_block(&self, block: Block<'m>) -> Result<SingleFrames<'m>, Block<'m>> {
        self.core.split_block(block)
    }

    /// Frees an extent, or a part of one.
    ///
    /// # Errors
    ///
    /// An extent of another memory is returned.
    pub fn free_extent(&self, extent: Extent<'m>) -> Result<(), Extent<'m>> {
        self.core.free_extent(extent)
    }
}
