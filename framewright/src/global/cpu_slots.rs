//! Allocating and freeing with the tokens of all CPUs of one memory.

use core::fmt;

use super::{
    CpuSlot, GlobalError, Pinning,
    slot::{Entered, NotEntered},
};
use crate::{
    core::CpuError,
    memory::Memory,
    platform::CpuId,
    types::{Block, FreeError, Order, Pfn, Request},
};

/// A memory and the tokens of its CPUs, each in a [`CpuSlot`]: the inside of [`Global`](super::Global), for embedders
/// that place the memory and the slots themselves, for example in a buffer of a size that is known at run time.
pub struct CpuSlots<P: Pinning + 'static> {
    memory: &'static Memory<'static, P>,
    slots: &'static [CpuSlot<P>],
}

impl<P: Pinning> fmt::Debug for CpuSlots<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CpuSlots").field("cpus", &self.slots.len()).finish_non_exhaustive()
    }
}

impl<P: Pinning> CpuSlots<P> {
    /// The memory with its slots; slot n belongs to CPU n. On a CPU without a slot, allocations are
    /// refused, and frees go to the zone.
    ///
    /// # Safety
    ///
    /// The slots are used with this memory only.
    #[inline(always)]
    #[must_use]
    pub const unsafe fn new(
        memory: &'static Memory<'static, P>,
        slots: &'static [CpuSlot<P>],
    ) -> Self {
        Self { memory, slots }
    }

    /// As [`Global::alloc`](super::Global::alloc).
    ///
    /// # Errors
    ///
    /// [`GlobalError::Cpu`] or [`GlobalError::Alloc`].
    #[inline(always)]
    pub fn alloc(&self, request: Request) -> Result<Block<'static>, GlobalError> {
        if let Some(block) = self.try_alloc(request) {
            return Ok(block);
        }
        Self::alloc_slowly(self.memory, self.slots, request)
    }

    /// Takes a block off a list of this CPU. The hot path contains no cold path, so it needs few registers.
    #[inline(always)]
    fn try_alloc(&self, request: Request) -> Option<Block<'static>> {
        let pinned = Pinned::new(self.memory.platform());
        // SAFETY: this is the slot of the CPU on which the caller is pinned until the function ends.
        let mut slot = unsafe { self.slots.get(pinned.cpu.index())?.try_enter()? };
        slot.token().try_alloc(request)
    }

    /// As [`CpuSlots::alloc`]. `self` may be a value that exists in registers only, so its fields are passed.
    #[cold]
    #[inline(never)]
    fn alloc_slowly(
        memory: &'static Memory<'static, P>,
        slots: &'static [CpuSlot<P>],
        request: Request,
    ) -> Result<Block<'static>, GlobalError> {
        let this = Self { memory, slots };
        let pinned = Pinned::new(memory.platform());
        match this.enter(pinned.cpu) {
            Ok(mut slot) => Ok(slot.token().alloc_past_ring(request)?),
            Err(NotEntered::InUse) => Ok(memory.alloc_bypassing_lists(request)?),
            Err(NotEntered::NoToken(error)) => Err(GlobalError::Cpu(error)),
        }
    }

    /// As [`Global::free`](super::Global::free).
    ///
    /// # Errors
    ///
    /// A block of another memory is returned.
    #[inline(always)]
    pub fn free(&self, block: Block<'static>) -> Result<(), Block<'static>> {
        match self.try_free(block) {
            Ok(()) => Ok(()),
            Err(block) => Self::free_slowly(self.memory, self.slots, block),
        }
    }

    /// Puts a block on a list of this CPU.
    #[inline(always)]
    fn try_free(&self, block: Block<'static>) -> Result<(), Block<'static>> {
        let pinned = Pinned::new(self.memory.platform());
        let Some(slot) = self.slots.get(pinned.cpu.index()) else { return Err(block) };
        // SAFETY: this is the slot of the CPU on which the caller is pinned until the function ends.
        match unsafe { slot.try_enter() } {
            Some(mut slot) => slot.token().try_free(block),
            None => Err(block),
        }
    }

    #[cold]
    #[inline(never)]
    fn free_slowly(
        memory: &'static Memory<'static, P>,
        slots: &'static [CpuSlot<P>],
        block: Block<'static>,
    ) -> Result<(), Block<'static>> {
        let this = Self { memory, slots };
        let pinned = Pinned::new(memory.platform());
        match this.enter(pinned.cpu) {
            Ok(mut slot) => slot.token().free(block),
            Err(_) => memory.free_bypassing_lists(block),
        }
    }

    /// As [`Global::free_raw`](super::Global::free_raw).
    ///
    /// # Errors
    ///
    /// As [`CpuToken::free_raw`](crate::CpuToken::free_raw). While the token of the CPU is in use, as
    /// [`Memory::free_raw_bypassing_lists`].
    ///
    /// # Safety
    ///
    /// As for [`CpuToken::free_raw`](crate::CpuToken::free_raw).
    #[inline(always)]
    pub unsafe fn free_raw(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        if !self.memory.core.checks_raw_frees() && self.try_free_raw(pfn, order) {
            return Ok(());
        }
        // SAFETY: the contract is that of this function. Nothing has happened yet.
        unsafe { Self::free_raw_slowly(self.memory, self.slots, pfn, order) }
    }

    /// Puts a block on a list of this CPU. `false` if nothing was done.
    #[inline(always)]
    fn try_free_raw(&self, pfn: Pfn, order: Order) -> bool {
        let pinned = Pinned::new(self.memory.platform());
        let Some(slot) = self.slots.get(pinned.cpu.index()) else { return false };
        // SAFETY: this is the slot of the CPU on which the caller is pinned until the function ends.
        let Some(mut slot) = (unsafe { slot.try_enter() }) else { return false };
        slot.token().push_raw(pfn, order)
    }

    /// As [`CpuSlots::free_raw`].
    ///
    /// # Safety
    ///
    /// As for [`CpuToken::free_raw`](crate::CpuToken::free_raw).
    #[cold]
    #[inline(never)]
    unsafe fn free_raw_slowly(
        memory: &'static Memory<'static, P>,
        slots: &'static [CpuSlot<P>],
        pfn: Pfn,
        order: Order,
    ) -> Result<(), FreeError> {
        let this = Self { memory, slots };
        let pinned = Pinned::new(memory.platform());
        match this.enter(pinned.cpu) {
            Ok(mut slot) => slot.token().free_raw_slowly(pfn, order),
            // SAFETY: the contract is that of this function.
            Err(_) => unsafe { memory.free_raw_bypassing_lists(pfn, order) },
        }
    }

    /// As [`Global::release_cpu`](super::Global::release_cpu).
    ///
    /// # Errors
    ///
    /// [`CpuError::InUse`] if a hook of the embedder calls this while the library uses the token, and
    /// [`CpuError::NoSuchCpu`].
    ///
    /// # Safety
    ///
    /// The caller is not an interrupt handler: the code that a handler has interrupted may be about to use the token.
    pub unsafe fn release_cpu(&self) -> Result<(), CpuError> {
        let pinned = Pinned::new(self.memory.platform());
        match self.enter(pinned.cpu) {
            Ok(mut slot) => {
                slot.token().drain();
                // SAFETY: the caller is not a handler.
                unsafe { slot.release() };
                Ok(())
            }
            Err(NotEntered::InUse) => Err(CpuError::InUse(pinned.cpu)),
            Err(NotEntered::NoToken(CpuError::NoSuchCpu(cpu))) => Err(CpuError::NoSuchCpu(cpu)),
            // Another caller has the token, or the CPU is offline: there is nothing to release.
            Err(NotEntered::NoToken(_)) => Ok(()),
        }
    }

    /// Enters the slot of the CPU on which the caller is pinned.
    fn enter(&self, cpu: CpuId) -> Result<Entered<P>, NotEntered> {
        let slot = self.slots.get(cpu.index()).ok_or(NotEntered::no_such(cpu))?;
        // SAFETY: this is the slot of the CPU, on which the caller is pinned until the result is dropped.
        unsafe { slot.enter(self.memory, cpu) }
    }
}

/// Keeps the caller on its CPU until the value is dropped.
struct Pinned<P: Pinning + 'static> {
    platform: &'static P,
    cpu: CpuId,
    pin: Option<P::Pin>,
}

impl<P: Pinning> Pinned<P> {
    #[inline(always)]
    fn new(platform: &'static P) -> Self {
        let (cpu, pin) = platform.pin();
        Self { platform, cpu, pin: Some(pin) }
    }
}

impl<P: Pinning> Drop for Pinned<P> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(pin) = self.pin.take() {
            self.platform.unpin(pin);
        }
    }
}
