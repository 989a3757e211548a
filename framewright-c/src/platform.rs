//! The machine: a struct of C functions.

use core::{
    ffi::{c_char, c_void},
    fmt::Write,
};

use framewright::{
    CpuId, Order, Pfn, Platform,
    frame::FRAME_SIZE,
    global::Pinning,
    observe::{Corruption, Finding},
    platform::{BarrierTarget, OwnerLock, Probe, Wait, poison_word},
    sync::{PlainWord, TicketLock},
};

use crate::{error::FwError, text::Text};

/// Every CPU: see `remote_barrier`.
pub const FW_ALL_CPUS: u32 = 0xffff_ffff;

/// The condition that `wait` waits for.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum FwWait {
    /// Another CPU releases a lock: short.
    Lock = 0,
    /// Another CPU finishes its access to its per-CPU lists: short.
    Owner = 1,
    /// Memory becomes free: long.
    Memory = 2,
}

/// A report of hardening: a bad free that was refused, or a stray write into a free frame.
#[repr(C)]
pub struct FwCorruption {
    /// The first frame concerned.
    pub pfn: u64,
    /// The order of the block.
    pub order: u32,
    /// The reason for a refused free; FW_ERROR_NONE for a stray write.
    pub error: FwError,
    /// The number of blocks refused in one batch, or of frames damaged in one block, including this one.
    pub count: u32,
    /// The report as a sentence. Valid during the call.
    pub text: *const c_char,
}

/// The machine. `fw_memory_init` copies the struct. Members marked optional may be NULL. Every function gets `context`.
///
/// The functions are called on all CPUs at once, and must not call the memory that calls them. They must return
/// normally: no longjmp, no C++ exception.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FwPlatform {
    /// Passed to every function.
    pub context: *mut c_void,
    /// Keeps the caller on its CPU, and returns the number of that CPU, below `cpus` of `struct fw_config`. Until
    /// `unpin` is called, no other thread that uses the memory runs on that CPU, except while the caller is in `wait`.
    /// Interrupt handlers may run; each ends before the caller continues. The writes of a thread before `unpin` are
    /// visible to the next thread that gets the same number. Calls nest. A kernel disables preemption. A program in
    /// which each thread has a number of its own returns that number.
    pub pin: Option<unsafe extern "C" fn(context: *mut c_void) -> u32>,
    /// Undoes one call of `pin`. Optional.
    pub unpin: Option<unsafe extern "C" fn(context: *mut c_void, cpu: u32)>,
    /// Masks interrupts on this CPU, and returns the state before. Optional: without it, interrupt handlers must not
    /// use the memory.
    pub irq_save: Option<unsafe extern "C" fn(context: *mut c_void) -> usize>,
    /// Restores the state that `irq_save` returned. Required if `irq_save` is defined.
    pub irq_restore: Option<unsafe extern "C" fn(context: *mut c_void, state: usize)>,
    /// The address at which a frame of the memory is mapped, readable and writable, while it is free or being allocated.
    /// Optional: without it, FW_FLAG_ZEROED is refused, and hardening=paranoid does not detect stray writes.
    pub address: Option<unsafe extern "C" fn(context: *mut c_void, pfn: u64) -> *mut c_void>,
    /// The body of every loop that waits, also for locks: `why` is an `enum fw_wait`, and `spins` counts the calls of
    /// one loop from 0. In a kernel, relax the CPU. In a user program, yield or sleep briefly after a few spins, because
    /// locks are passed on in order of arrival, and the next thread may not be running. Optional: without it, the CPU
    /// spins.
    pub wait: Option<unsafe extern "C" fn(context: *mut c_void, why: u32, spins: u32)>,
    /// A monotonic clock, in nanoseconds. Optional.
    pub now: Option<unsafe extern "C" fn(context: *mut c_void) -> u64>,
    /// Executes a full memory barrier, and returns after the given CPU, or every CPU for FW_ALL_CPUS, has executed one,
    /// too. Called with interrupts enabled. Optional: without it, each allocation and free takes a lock of the CPU's
    /// lists by an atomic instruction, and is slower.
    pub remote_barrier: Option<unsafe extern "C" fn(context: *mut c_void, cpu: u32)>,
    /// Receives reports of bad frees that were refused, and of stray writes. It logs the report, or stops the
    /// machine.
    pub corruption: Option<unsafe extern "C" fn(context: *mut c_void, report: *const FwCorruption)>,
}

type Pin = unsafe extern "C" fn(*mut c_void) -> u32;
type Unpin = unsafe extern "C" fn(*mut c_void, u32);
type Report = unsafe extern "C" fn(*mut c_void, *const FwCorruption);
type IrqSave = unsafe extern "C" fn(*mut c_void) -> usize;
type IrqRestore = unsafe extern "C" fn(*mut c_void, usize);

/// A [`FwPlatform`] with all required functions.
pub(crate) struct Machine {
    functions: FwPlatform,
    pin: Pin,
    unpin: Unpin,
    report: Report,
    irq: Option<(IrqSave, IrqRestore)>,
}

// SAFETY: the creator promises that the functions may be called on all CPUs with the context.
unsafe impl Send for Machine {}
// SAFETY: as above.
unsafe impl Sync for Machine {}

impl Machine {
    /// The machine of these functions.
    ///
    /// # Safety
    ///
    /// The functions do what [`FwPlatform`] says, on every CPU, for as long as the result is used.
    pub(crate) unsafe fn new(functions: FwPlatform) -> Result<Self, FwError> {
        let (Some(pin), Some(report)) = (functions.pin, functions.corruption) else {
            return Err(FwError::NoFunction);
        };
        if functions.irq_save.is_some() != functions.irq_restore.is_some() {
            return Err(FwError::NoFunction);
        }
        let irq = functions.irq_save.zip(functions.irq_restore);
        Ok(Self { functions, pin, unpin: functions.unpin.unwrap_or(nothing), report, irq })
    }

    /// Whether frames can be cleared.
    #[inline(always)]
    pub(crate) fn is_mapped(&self) -> bool {
        self.functions.address.is_some()
    }

    /// The address of a frame; `None` if frames are not mapped.
    fn address(&self, pfn: Pfn) -> Option<*mut u8> {
        let address = self.functions.address?;
        // SAFETY: the creator promises that `address` may be called on every CPU, for every frame
        // of the memory.
        Some(unsafe { address(self.functions.context, pfn.get()) }.cast())
    }
}

/// In place of an `unpin` that is NULL: a call is cheaper than a test in all calls.
unsafe extern "C" fn nothing(_: *mut c_void, _: u32) {}

// SAFETY: the creator promises that `pin` and `unpin` do what `FwPlatform` says.
unsafe impl Pinning for Machine {
    type Pin = u32;

    #[inline(always)]
    fn pin(&self) -> (CpuId, u32) {
        // SAFETY: the creator promises that `pin` may be called on every CPU.
        let cpu = unsafe { (self.pin)(self.functions.context) };
        // A number that does not fit becomes one that no CPU has.
        let id = if cpu < u32::from(u16::MAX) { cpu as u16 } else { u16::MAX };
        (CpuId::new(id), cpu)
    }

    #[inline(always)]
    fn unpin(&self, cpu: u32) {
        // SAFETY: `pin` was called before, and `unpin` is called once for it.
        unsafe { (self.unpin)(self.functions.context, cpu) }
    }
}

// SAFETY: lock and words are the library's own. The biased protocol is used only if `remote_barrier` is defined; the
// creator promises that this function does what the library requires.
unsafe impl Platform for Machine {
    type Lock = TicketLock;
    type Word = PlainWord;
    type Irq = usize;

    #[inline(always)]
    fn irq_save(&self) -> usize {
        match self.irq {
            // SAFETY: the creator promises that the function may be called on every CPU.
            Some((save, _)) => unsafe { save(self.functions.context) },
            None => 0,
        }
    }

    #[inline(always)]
    fn irq_restore(&self, state: usize) {
        if let Some((_, restore)) = self.irq {
            // SAFETY: `irq_save` has returned the state on this CPU.
            unsafe { restore(self.functions.context, state) }
        }
    }

    fn owner_lock(&self) -> OwnerLock {
        match self.functions.remote_barrier {
            Some(_) => OwnerLock::Biased,
            None => OwnerLock::Trylock,
        }
    }

    fn remote_barrier(&self, target: BarrierTarget) {
        let cpu = match target {
            BarrierTarget::Cpu(cpu) => u32::from(cpu.get()),
            BarrierTarget::All => FW_ALL_CPUS,
        };
        if let Some(remote_barrier) = self.functions.remote_barrier {
            // SAFETY: interrupts are enabled, as the library promises; the CPU exists.
            unsafe { remote_barrier(self.functions.context, cpu) }
        }
    }

    fn wait(&self, why: Wait, spins: u32) {
        let why = match why {
            Wait::Lock => FwWait::Lock,
            Wait::Memory => FwWait::Memory,
            // No call of the C interface flushes TLBs, so `Flush` does not occur.
            Wait::Owner | Wait::Flush => FwWait::Owner,
        };
        match self.functions.wait {
            // SAFETY: the creator promises that the function may be called on every CPU.
            Some(wait) => unsafe { wait(self.functions.context, why as u32, spins) },
            None => core::hint::spin_loop(),
        }
    }

    unsafe fn clear(&self, pfn: Pfn, order: Order) {
        for frame in (0..order.frames()).map(|nth| pfn.offset(nth)) {
            if let Some(start) = self.address(frame) {
                // SAFETY: the caller owns the frame, which is mapped there.
                unsafe { start.write_bytes(0, FRAME_SIZE) }
            }
        }
    }

    unsafe fn copy(&self, to: Pfn, from: Pfn) {
        if let (Some(from), Some(to)) = (self.address(from), self.address(to)) {
            // SAFETY: the caller owns both frames, which are different, and are mapped there.
            unsafe { to.copy_from_nonoverlapping(from, FRAME_SIZE) }
        }
    }

    unsafe fn poison(&self, pfn: Pfn, order: Order) {
        for frame in (0..order.frames()).map(|nth| pfn.offset(nth)) {
            if let Some(start) = self.address(frame) {
                let words = start.cast::<u64>();
                for nth in 0..FRAME_SIZE / size_of::<u64>() {
                    // SAFETY: only the caller accesses the frame, which is mapped there.
                    unsafe { words.add(nth).write_unaligned(poison_word(frame)) }
                }
            }
        }
    }

    unsafe fn verify_poison(&self, pfn: Pfn) -> Option<usize> {
        let words = self.address(pfn)?.cast::<u64>();
        let differs = |&nth: &usize| {
            // SAFETY: only the caller accesses the frame, which is mapped there.
            unsafe { words.add(nth).read_unaligned() != poison_word(pfn) }
        };
        let word = (0..FRAME_SIZE / size_of::<u64>()).find(differs)?;
        Some(word * size_of::<u64>())
    }

    fn now(&self) -> u64 {
        // SAFETY: the creator promises that the function may be called on every CPU.
        self.functions.now.map_or(0, |now| unsafe { now(self.functions.context) })
    }

    fn corruption(&self, report: &Corruption) {
        let mut text = Text::<160>::new();
        // The text is cut off where it does not fit.
        let _ = write!(text, "{report}");
        let error = match report.what {
            Finding::BadFree(why) => FwError::from(why),
            _ => FwError::None,
        };
        let report = FwCorruption {
            pfn: report.pfn.get(),
            order: report.order.get().into(),
            error,
            count: report.count,
            text: text.as_ptr(),
        };
        // SAFETY: the creator promises that the function may be called on every CPU. The report lives until it returns.
        unsafe { (self.report)(self.functions.context, &raw const report) }
    }
}

impl Probe for Machine {}
