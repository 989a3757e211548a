//! A memory in a buffer of C: the struct behind the opaque pointer, the tokens of the CPUs, and the metadata.

use core::{
    mem::MaybeUninit,
    ptr::NonNull,
    sync::atomic::{AtomicU32, Ordering},
};

use framewright::{
    AllocError, Block, Config, CpuId, FreeError, Layout, Memory, Order, Pfn, Request,
};

use crate::{
    error::{ErrorAt, FwError},
    platform::Machine,
    slot::Slot,
};

/// The state of an initialised memory: "FRAM" in ASCII.
const READY: u32 = 0x4652_414d;

/// A memory: one allocator with its frames, zones and per-CPU lists. `fw_memory_init` creates it in a buffer.
pub struct FwMemory {
    /// [`READY`], or something else before the initialisation and after the end.
    state: AtomicU32,
    memory: Memory<'static, Machine>,
    slots: &'static [Slot],
}

// All CPUs share the memory behind the pointer, so it must be `Sync`.
const fn is_shared<T: Sync>() {}
const _: () = is_shared::<FwMemory>();

/// The offsets and sizes, in bytes, of the parts in the buffer of a memory. The [`FwMemory`] is at
/// the start.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    slots: usize,
    metadata: usize,
    metadata_bytes: usize,
    pub(crate) align: usize,
}

impl Plan {
    pub(crate) fn new(config: &Config<'_>) -> Result<Self, ErrorAt> {
        let layout = Layout::new::<Machine>(config)?;
        let slots = size_of::<FwMemory>().next_multiple_of(align_of::<Slot>());
        let behind = slots + usize::from(config.cpus) * size_of::<Slot>();
        let align = layout.align().max(align_of::<FwMemory>()).max(align_of::<Slot>());
        Ok(Self {
            slots,
            metadata: behind.next_multiple_of(align),
            metadata_bytes: layout.bytes(),
            align,
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.metadata + self.metadata_bytes
    }
}

impl FwMemory {
    /// Creates a memory in `buffer`.
    ///
    /// # Safety
    ///
    /// The buffer has `bytes` bytes, and no other code uses them while the memory is in use.
    pub(crate) unsafe fn init(
        machine: Machine,
        config: &Config<'_>,
        buffer: NonNull<u8>,
        bytes: usize,
    ) -> Result<NonNull<Self>, ErrorAt> {
        let plan = Plan::new(config)?;
        if bytes < plan.bytes() {
            return Err(ErrorAt { error: FwError::BufferTooSmall, at: plan.bytes() as u64 });
        }
        if !buffer.addr().get().is_multiple_of(plan.align) {
            return Err(ErrorAt { error: FwError::BufferMisaligned, at: plan.align as u64 });
        }
        // SAFETY: the three parts do not overlap, end within the buffer, and are aligned: the plan says so, and the
        // buffer is aligned for all of them. The caller promises that no other code uses them.
        let (metadata, slots) = unsafe {
            let metadata = buffer.add(plan.metadata).cast::<MaybeUninit<u8>>();
            let slots = buffer.add(plan.slots).cast::<Slot>();
            for nth in 0..usize::from(config.cpus) {
                slots.add(nth).write(Slot::new());
            }
            (
                NonNull::slice_from_raw_parts(metadata, plan.metadata_bytes).as_mut(),
                NonNull::slice_from_raw_parts(slots, config.cpus.into()).as_ref(),
            )
        };
        let memory = Memory::new(machine, config, metadata)?;
        let this = buffer.cast::<Self>();
        // SAFETY: as above.
        unsafe { this.write(Self { state: AtomicU32::new(0), memory, slots }) };
        // SAFETY: the memory was written above.
        unsafe { this.as_ref() }.state.store(READY, Ordering::Release);
        Ok(this)
    }

    /// The memory behind a pointer of C.
    ///
    /// # Safety
    ///
    /// The pointer is NULL, or [`FwMemory::init`] has returned it and its buffer has not been changed since, or it
    /// points to a zeroed buffer for a memory.
    #[inline(always)]
    pub(crate) unsafe fn of(this: *const Self) -> Result<&'static Self, FwError> {
        if this.is_null() {
            return Err(FwError::NotInitialised);
        }
        // SAFETY: the state is readable by contract; it may be zero, and the rest may be uninitialised.
        let state = unsafe { &(*this).state };
        if state.load(Ordering::Acquire) != READY {
            return Err(FwError::NotInitialised);
        }
        // SAFETY: `init` has written all of it before the state. The buffer outlives all uses of the memory.
        Ok(unsafe { &*this })
    }

    /// Makes every later call fail.
    pub(crate) fn end(&self) {
        self.state.store(0, Ordering::Release);
    }

    pub(crate) fn memory(&'static self) -> &'static Memory<'static, Machine> {
        &self.memory
    }

    /// Allocates a block on this CPU, or bypassing its lists while the token is in use.
    #[inline(always)]
    pub(crate) fn alloc(&'static self, request: Request) -> Result<Block<'static>, FwError> {
        let pinned = self.memory.platform().pin();
        let cpu = pinned.cpu();
        if let Some(slot) = self.slots.get(cpu.index())
            // SAFETY: the caller is pinned on this CPU until the function ends.
            && let Some(mut slot) = unsafe { slot.enter() }
            && let Some(token) = slot.claimed()
        {
            return token.alloc(request).map_err(refused);
        }
        self.alloc_otherwise(request, cpu)
    }

    /// As [`FwMemory::alloc`], if the token is in use or was not claimed. The caller is pinned on `cpu`.
    #[cold]
    #[inline(never)]
    fn alloc_otherwise(
        &'static self,
        request: Request,
        cpu: CpuId,
    ) -> Result<Block<'static>, FwError> {
        let slot = self.slots.get(cpu.index()).ok_or(FwError::NoSuchCpu)?;
        // SAFETY: the caller is pinned on this CPU until the function ends.
        match unsafe { slot.enter() } {
            Some(mut slot) => Ok(slot.token(&self.memory, cpu)?.alloc(request)?),
            None => Ok(self.memory.alloc_bypassing_lists(request)?),
        }
    }

    /// Frees a block on this CPU, or to the zone if the token of the CPU is in use or cannot be
    /// claimed.
    ///
    /// # Safety
    ///
    /// As for [`CpuToken::free_raw`](framewright::CpuToken::free_raw).
    #[inline(always)]
    pub(crate) unsafe fn free(&'static self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let pinned = self.memory.platform().pin();
        let cpu = pinned.cpu();
        if let Some(slot) = self.slots.get(cpu.index())
            // SAFETY: the caller is pinned on this CPU until the function ends.
            && let Some(mut slot) = unsafe { slot.enter() }
            && let Some(token) = slot.claimed()
        {
            // SAFETY: the contract is that of this function.
            return unsafe { token.free_raw(pfn, order) };
        }
        // SAFETY: the contract is that of this function.
        unsafe { self.free_otherwise(pfn, order, cpu) }
    }

    /// As [`FwMemory::free`], if the token is in use or was not claimed. The caller is pinned on `cpu`.
    ///
    /// # Safety
    ///
    /// As for [`FwMemory::free`].
    #[cold]
    #[inline(never)]
    unsafe fn free_otherwise(
        &'static self,
        pfn: Pfn,
        order: Order,
        cpu: CpuId,
    ) -> Result<(), FreeError> {
        if let Some(slot) = self.slots.get(cpu.index())
            // SAFETY: the caller is pinned on this CPU until the function ends.
            && let Some(mut slot) = unsafe { slot.enter() }
            && let Ok(token) = slot.token(&self.memory, cpu)
        {
            // SAFETY: the contract is that of this function.
            return unsafe { token.free_raw(pfn, order) };
        }
        // SAFETY: the contract is that of this function.
        unsafe { self.memory.free_raw_bypassing_lists(pfn, order) }
    }

    /// Frees the blocks on the lists of this CPU, and gives back its token.
    pub(crate) fn release_cpu(&'static self) -> Result<(), FwError> {
        let pinned = self.memory.platform().pin();
        let slot = self.slots.get(pinned.cpu().index()).ok_or(FwError::NoSuchCpu)?;
        // SAFETY: the caller is pinned on this CPU until the function ends.
        unsafe { slot.enter() }.ok_or(FwError::CpuInUse)?.release();
        Ok(())
    }
}

/// The number of an error, outside the hot path.
#[cold]
fn refused(error: AllocError) -> FwError {
    error.into()
}
