//! One allocator for a whole kernel, in a `static`.
//!
//! A constant expression creates a [`Global`], and one call [initialises](Global::init) it. It
//! contains the tokens of the CPUs: each is claimed when its CPU allocates or frees for the first
//! time. So an embedder needs no statics of its own for tokens, and `unsafe` code only to implement
//! the traits that describe its machine: [`Platform`](crate::Platform), [`Pinning`] (the CPU of the caller) and
//! [`Mapped`] (the addresses of frames).
//!
//! Only one caller uses a token at a time. Pinning excludes other threads. The token may be in use
//! when an interrupt handler runs, when the library calls a hook of the embedder, or when a thread
//! runs while another waits in such a hook. These callers then bypass the token: they allocate from
//! the zones and free to them. So interrupt handlers may call all methods except
//! [`Global::release_cpu`]; handlers of NMIs may not, because they may have interrupted a holder of
//! a zone's lock. Interrupts need not be masked, because a handler ends before the interrupted code
//! continues.

#![allow(unsafe_code)]

mod cpu_slots;
mod error;
mod machine;
mod one_cpu;
mod slot;

use core::{cell::UnsafeCell, mem::MaybeUninit};

pub use cpu_slots::CpuSlots;
pub use error::{GlobalError, GlobalInitError};
pub use machine::{Mapped, Pinning};
pub use one_cpu::OneCpu;
pub use slot::CpuSlot;

use crate::{
    memory::{Config, Layout, Memory},
    platform::or_on_panic,
    sync::{Ordering, StaticU8},
    types::{Block, FRAME_SIZE, FrameRange, FreeError, Order, Pfn, Request},
};

/// Not initialised.
const EMPTY: u8 = 0;
/// Being initialised.
const BUSY: u8 = 1;
/// Initialised.
const READY: u8 = 2;

/// A memory and its allocator for a whole kernel of at most `CPUS` CPUs, to be put into a `static`.
///
/// # Example
///
/// ```
/// use framewright::{
///     Config, FrameRange, Global, MigrateType, Order, Request,
///     global::{GlobalError, OneCpu},
/// };
///
/// static MEMORY: Global<OneCpu, 1> = Global::new();
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let page = Request::new(Order::ZERO, MigrateType::Movable);
/// assert!(matches!(MEMORY.alloc(page), Err(GlobalError::NotInitialised)));
///
/// # let ram = vec![0u8; 8 << 20].leak();
/// # let start = ram.as_mut_ptr().expose_provenance() as u64;
/// # let end = start + ram.len() as u64;
/// let map = [FrameRange::inside(start, end).expect("whole frames").into()];
/// // SAFETY: this memory is mapped at its own address, and one CPU uses the static.
/// let machine = unsafe { OneCpu::new(0, |report| panic!("{report}")) };
/// MEMORY.init_in_map(machine, &Config::new(&map, 1))?; // the metadata is in the memory of the map
/// let block = MEMORY.alloc(page)?;
/// MEMORY.free(block).expect("of this memory");
/// # Ok(())
/// # }
/// ```
pub struct Global<P: Pinning + 'static, const CPUS: usize> {
    state: StaticU8,
    memory: UnsafeCell<MaybeUninit<Memory<'static, P>>>,
    slots: [CpuSlot<P>; CPUS],
}

// SAFETY: the memory is written once, before the state becomes READY with release ordering. After that it is only read,
// through shared references, which other threads may have. A slot is used by one caller at a time: see `CpuSlot`.
unsafe impl<P: Pinning, const CPUS: usize> Sync for Global<P, CPUS> where Memory<'static, P>: Sync {}

impl<P: Pinning, const CPUS: usize> Default for Global<P, CPUS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Pinning, const CPUS: usize> Global<P, CPUS> {
    /// An allocator that is not initialised.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            state: StaticU8::new(EMPTY),
            memory: UnsafeCell::new(MaybeUninit::uninit()),
            slots: [const { CpuSlot::new() }; CPUS],
        }
    }

    /// Creates the memory, once.
    ///
    /// # Errors
    ///
    /// [`GlobalInitError`]. The allocator is unchanged.
    pub fn init(
        &'static self,
        platform: P,
        config: &Config<'_>,
        metadata: &'static mut [MaybeUninit<u8>],
    ) -> Result<(), GlobalInitError> {
        self.init_once(config, || Ok(Memory::new(platform, config, metadata)?))
    }

    /// Creates the memory, once, with its metadata at the end of the last present range of the map that is large
    /// enough. These frames count as allocated for ever.
    ///
    /// # Errors
    ///
    /// As [`Global::init`], and [`GlobalInitError::NoSpace`] if no range is large enough.
    pub fn init_in_map(
        &'static self,
        platform: P,
        config: &Config<'_>,
    ) -> Result<(), GlobalInitError>
    where
        P: Mapped,
    {
        self.init_once(config, || {
            let layout = Layout::new::<P>(config)?;
            let bytes = layout.bytes() + layout.align().saturating_sub(FRAME_SIZE);
            let frames = place_for(config, bytes).ok_or(GlobalInitError::NoSpace { bytes })?;
            let start = platform.address(frames.start());
            let padding = start.align_offset(layout.align());
            // SAFETY: the map names the frames as present, so they are mapped there, and no other
            // code uses them. No frame was allocated yet, because the memory does not exist yet,
            // and the frames are reserved below. The start is aligned to a frame, so the padding is
            // at most the alignment minus `FRAME_SIZE`, which `bytes` includes.
            let metadata = unsafe {
                let start = start.cast::<MaybeUninit<u8>>().add(padding);
                core::slice::from_raw_parts_mut(start, layout.bytes())
            };
            let memory = Memory::new(platform, config, metadata)?;
            memory.core.reserve(frames);
            Ok(memory)
        })
    }

    fn init_once(
        &'static self,
        config: &Config<'_>,
        make: impl FnOnce() -> Result<Memory<'static, P>, GlobalInitError>,
    ) -> Result<(), GlobalInitError> {
        if usize::from(config.cpus) > CPUS {
            return Err(GlobalInitError::TooManyCpus { declared: CPUS, given: config.cpus });
        }
        let begun = self.state.compare_exchange(EMPTY, BUSY, Ordering::Acquire, Ordering::Relaxed);
        if begun.is_err() {
            return Err(GlobalInitError::AlreadyInitialised);
        }
        // If the platform panics, no memory was created, so the call can be repeated.
        match or_on_panic(make, || self.state.store(EMPTY, Ordering::Release)) {
            Ok(memory) => {
                // SAFETY: this caller alone changed the state from EMPTY, and no caller reads the memory before READY.
                unsafe { (*self.memory.get()).write(memory) };
                self.state.store(READY, Ordering::Release);
                Ok(())
            }
            Err(error) => {
                self.state.store(EMPTY, Ordering::Release);
                Err(error)
            }
        }
    }

    /// The memory, for operations that need no token.
    ///
    /// # Errors
    ///
    /// [`GlobalError::NotInitialised`].
    #[inline(always)]
    pub fn memory(&'static self) -> Result<&'static Memory<'static, P>, GlobalError> {
        if self.state.load(Ordering::Acquire) != READY {
            return Err(GlobalError::NotInitialised);
        }
        // SAFETY: the memory was written before the state became READY, and is never written again.
        Ok(unsafe { (*self.memory.get()).assume_init_ref() })
    }

    /// The memory with the tokens of its CPUs.
    #[inline(always)]
    fn cpus(&'static self) -> Result<CpuSlots<P>, GlobalError> {
        let memory = self.memory()?;
        // SAFETY: the slots are used with this memory only, which is never replaced.
        Ok(unsafe { CpuSlots::new(memory, &self.slots) })
    }

    /// Allocates a block on this CPU: as [`CpuToken::alloc`](crate::CpuToken::alloc), or, while the token of the CPU is
    /// in use, as [`Memory::alloc_bypassing_lists`]. Interrupt handlers must use [`Request::no_wait`] or
    /// [`Request::atomic`].
    ///
    /// # Errors
    ///
    /// [`GlobalError`]: not initialised, a CPU whose token cannot be claimed, or no memory.
    #[inline(always)]
    pub fn alloc(&'static self, request: Request) -> Result<Block<'static>, GlobalError> {
        self.cpus()?.alloc(request)
    }

    /// Frees a block on this CPU.
    ///
    /// # Errors
    ///
    /// A block of another memory is returned.
    #[inline(always)]
    pub fn free(&'static self, block: Block<'static>) -> Result<(), Block<'static>> {
        match self.cpus() {
            Ok(cpus) => cpus.free(block),
            Err(_) => Err(block),
        }
    }

    /// Frees 2^order frames from `pfn`, for kernels that store frame numbers.
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
    pub unsafe fn free_raw(&'static self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let cpus = self.cpus().map_err(|_| FreeError::NotOurs)?;
        // SAFETY: the contract is that of this function.
        unsafe { cpus.free_raw(pfn, order) }
    }

    /// Drains the lists of this CPU and releases its token, so that the CPU can go offline
    /// ([`Memory::cpu_offline`]). The next allocation or free on the CPU claims the token again.
    ///
    /// # Errors
    ///
    /// [`GlobalError::NotInitialised`], or [`GlobalError::Cpu`] if a hook of the embedder calls this
    /// while the library uses the token, or if the CPU has no slot.
    ///
    /// # Safety
    ///
    /// The caller is not an interrupt handler: the code that a handler has interrupted may be about to use the token.
    pub unsafe fn release_cpu(&'static self) -> Result<(), GlobalError> {
        let cpus = self.cpus()?;
        // SAFETY: the contract is that of this function.
        unsafe { cpus.release_cpu() }.map_err(GlobalError::Cpu)
    }
}

/// Frames for `bytes` bytes, at the end of the last present range that is large enough.
fn place_for(config: &Config<'_>, bytes: usize) -> Option<FrameRange> {
    let frames = bytes.div_ceil(FRAME_SIZE) as u64;
    let mut free = config.memory.iter().rev().filter(|range| range.is_free());
    let range = free.find(|range| range.frames.frames() >= frames)?.frames;
    FrameRange::new(Pfn::new(range.end().get() - frames), range.end())
}
