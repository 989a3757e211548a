//! A memory in a buffer of C: the struct behind the opaque pointer, the tokens of the CPUs, and the metadata.

use core::{
    mem::MaybeUninit,
    ptr::NonNull,
    sync::atomic::{AtomicU32, Ordering},
};

use framewright::{
    Block, Config, Layout, Memory, Request,
    global::{CpuSlot, CpuSlots, GlobalError},
};

use crate::{
    error::{ErrorAt, FwError},
    platform::Machine,
};

/// The state of an initialised memory: "FRAM" in ASCII.
const READY: u32 = 0x4652_414d;

/// A memory: one allocator with its frames, zones and per-CPU lists. `fw_memory_init` creates it in a buffer.
pub struct FwMemory {
    /// [`READY`], or something else before the initialisation and after the end.
    state: AtomicU32,
    memory: Memory<'static, Machine>,
    /// `memory` with the tokens of its CPUs.
    pub(crate) cpus: CpuSlots<Machine>,
}

// All CPUs share the memory behind the pointer, so it must be `Sync`.
const _: () = {
    const fn is_shared<T: Sync>() {}
    is_shared::<FwMemory>();
};

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
        let slots = size_of::<FwMemory>().next_multiple_of(align_of::<CpuSlot<Machine>>());
        let behind = slots + usize::from(config.cpus) * size_of::<CpuSlot<Machine>>();
        let align = layout.align().max(align_of::<FwMemory>()).max(align_of::<CpuSlot<Machine>>());
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
            let slots = buffer.add(plan.slots).cast::<CpuSlot<Machine>>();
            for nth in 0..usize::from(config.cpus) {
                slots.add(nth).write(CpuSlot::new());
            }
            (
                NonNull::slice_from_raw_parts(metadata, plan.metadata_bytes).as_mut(),
                NonNull::slice_from_raw_parts(slots, config.cpus.into()).as_ref(),
            )
        };
        let memory = Memory::new(machine, config, metadata)?;
        let this = buffer.cast::<Self>();
        // SAFETY: as above. The slots were made for this memory. All fields are written before the state becomes READY.
        unsafe {
            let at = this.as_ptr();
            (&raw mut (*at).memory).write(memory);
            (&raw mut (*at).cpus).write(CpuSlots::new(&(*at).memory, slots));
            (&raw mut (*at).state).write(AtomicU32::new(0));
        }
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
        self.cpus.alloc(request).map_err(refused)
    }
}

/// The number of an error, outside the hot path.
#[cold]
fn refused(error: GlobalError) -> FwError {
    error.into()
}
