//! The library as one more [`Peer`].
//!
//! It runs on a platform of threads and metadata, with the same kind of spinlock as the other
//! allocators. `alloc-micro` prints a table with a row for each allocator. The row of the library
//! that is ranked frees [`Block`](framewright::Block)s, with hardening at its default; further rows
//! show the cost of raw frees ([`Frees`]). The min watermark is 0: the other allocators have no
//! watermarks, and could allocate frames that the library would reserve.

use framewright::{
    Config, CpuId, CpuToken, FrameRange, InitError, Memory, MigrateType, Order, Pfn, Platform,
    Request, Tuning,
    observe::Corruption,
    platform::{BarrierTarget, OwnerLock, Probe, Wait},
    sync::{PlainWord, SpinFlag},
    tuning::{Auto, Hardening},
};
use framewright_peers::{Metadata, Peer, Worker, list_buddy};
use rustix::thread::{MembarrierCommand, membarrier};
use std::{
    marker::PhantomData,
    mem::{ManuallyDrop, MaybeUninit},
    ptr::NonNull,
    sync::OnceLock,
};

/// The platform: threads, without memory behind the frames.
pub(crate) struct MetadataOnly {
    owner_lock: OwnerLock,
}

impl MetadataOnly {
    fn new() -> Self {
        let owner_lock = if membarrier_ready() { OwnerLock::Biased } else { OwnerLock::Trylock };
        Self { owner_lock }
    }
}

/// Registers the process for expedited barriers, once. Returns whether the system has them.
fn membarrier_ready() -> bool {
    static READY: OnceLock<bool> = OnceLock::new();
    *READY.get_or_init(|| membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok())
}

// SAFETY: `SpinFlag` excludes. `Biased` is returned only after the process was registered, and then
// `membarrier` returns after every running thread of the process, the caller included, has executed
// a full barrier.
unsafe impl Platform for MetadataOnly {
    type Lock = SpinFlag;
    type Word = PlainWord;
    type Irq = ();

    fn irq_save(&self) {}

    fn irq_restore(&self, (): ()) {}

    fn owner_lock(&self) -> OwnerLock {
        self.owner_lock
    }

    fn remote_barrier(&self, _target: BarrierTarget) {
        let done = membarrier(MembarrierCommand::PrivateExpedited);
        assert!(done.is_ok(), "a registered process may always ask for a barrier: {done:?}");
    }

    fn wait(&self, _why: Wait, _spins: u32) {
        std::hint::spin_loop();
    }

    unsafe fn clear(&self, _pfn: Pfn, _order: Order) {}

    unsafe fn copy(&self, _to: Pfn, _from: Pfn) {}

    fn now(&self) -> u64 {
        0
    }

    /// All frees of the benchmark are valid, so a report is a bug of the library.
    fn corruption(&self, report: &Corruption) {
        panic!("{report}");
    }
}

impl Probe for MetadataOnly {}

/// Whether a row frees blocks or raw frames, and its hardening level.
pub(crate) trait Frees: 'static {
    const NAME: &'static str;
    const HARDENING: Hardening;
    /// Whether frames are freed raw, or as blocks.
    const RAW: bool;
}

/// Blocks, at the default level.
pub(crate) struct Blocks;

impl Frees for Blocks {
    const NAME: &'static str = "framewright";
    const HARDENING: Hardening = Hardening::Checked;
    const RAW: bool = false;
}

/// Raw frames, at the default level.
pub(super) struct Raw;

impl Frees for Raw {
    const NAME: &'static str = "framewright-raw";
    const HARDENING: Hardening = Hardening::Checked;
    const RAW: bool = true;
}

/// Raw frames, at the level `tracked`. Blocks cost the same there.
pub(super) struct Tracked;

impl Frees for Tracked {
    const NAME: &'static str = "framewright-tracked";
    const HARDENING: Hardening = Hardening::Tracked;
    const RAW: bool = true;
}

/// The row that is compared with the others.
pub(crate) type Framewright = Ours<Blocks>;

/// The library, with its metadata buffer.
pub(crate) struct Ours<R: Frees> {
    memory: ManuallyDrop<Memory<'static, MetadataOnly>>,
    buffer: Buffer,
    frees: PhantomData<fn() -> R>,
}

/// A buffer that a memory borrows until it is dropped.
struct Buffer(NonNull<[MaybeUninit<u8>]>);

// SAFETY: only used to free it, by the owner of the value.
unsafe impl Send for Buffer {}
// SAFETY: as above; a shared reference gives no access.
unsafe impl Sync for Buffer {}

/// The token of one CPU.
pub(crate) struct OurWorker<'a, 'm, P: Platform, R: Frees> {
    token: CpuToken<'a, 'm, P>,
    frees: PhantomData<R>,
}

impl<R: Frees> Ours<R> {
    /// Frames moved under the zone lock so far.
    pub(super) fn zone_lock_frames(&self) -> u64 {
        self.memory.stats().zone_lock_frames
    }

    /// The library with the given tuning, including its hardening level.
    ///
    /// # Errors
    ///
    /// The library refuses the tuning.
    ///
    /// # Panics
    ///
    /// If there are no frames, or more CPUs than a memory can have.
    pub(crate) fn with_tuning(frames: u64, cpus: usize, tuning: Tuning) -> Result<Self, InitError> {
        let all = FrameRange::new(Pfn::new(0), Pfn::new(frames)).expect("ascending");
        let map = [all.into()];
        let cpus = u16::try_from(cpus).expect("CPUs are numbered in 16 bits");
        let config = Config::new(&map, cpus).with_tuning(tuning);
        let layout = framewright::Layout::new::<MetadataOnly>(&config)?;
        let (bytes, align) = (layout.bytes(), layout.align());
        let memory = Box::leak(Box::<[u8]>::new_uninit_slice(bytes + align));
        let buffer = Buffer(NonNull::from(&mut *memory));
        let start = memory.as_ptr().align_offset(align);
        let metadata = &mut memory[start..start + bytes];
        let memory = Memory::new(MetadataOnly::new(), &config, metadata).expect("a valid buffer");
        Ok(Self { memory: ManuallyDrop::new(memory), buffer, frees: PhantomData })
    }
}

/// The tuning for a comparison with allocators that have no watermarks and no reserves.
pub(crate) fn without_watermarks(mut tuning: Tuning) -> Tuning {
    tuning.zone.min_free = Auto::Fixed(0);
    tuning.zone.watermark_scale = 1;
    tuning
}

impl<R: Frees> Peer for Ours<R> {
    const NAME: &'static str = R::NAME;
    const MERGES: bool = true;
    const MAX_ORDER: u8 = 9;
    type Worker<'a> = OurWorker<'a, 'static, MetadataOnly, R>;

    fn new(frames: u64, cpus: usize) -> Self {
        let mut tuning = without_watermarks(Tuning::default());
        tuning.hardening = R::HARDENING;
        Self::with_tuning(frames, cpus, tuning).expect("a valid configuration")
    }

    fn worker(&self, cpu: usize) -> Self::Worker<'_> {
        OurWorker::of(&self.memory, cpu)
    }

    fn metadata(&self) -> Metadata {
        // Includes the states of frames, at the levels that have them.
        let parts = self.memory.layout().parts().filter(|part| !part.per_cpu);
        Metadata { bytes: parts.map(|part| part.bytes).sum(), how: "Layout" }
    }

    fn cpu_list_bytes(&self) -> usize {
        self.memory.layout().cpu_list_bytes()
    }

    fn drain(&self) -> bool {
        self.memory.drain_all();
        true
    }
}

impl<R: Frees> Drop for Ours<R> {
    fn drop(&mut self) {
        // SAFETY: dropped here once; every worker borrowed `self` and is gone.
        unsafe { ManuallyDrop::drop(&mut self.memory) };
        // SAFETY: leaked from a box in `with_tuning`; the only borrower was the memory, dropped
        // above.
        drop(unsafe { Box::from_raw(self.buffer.0.as_ptr()) });
    }
}

impl<'a, 'm, P: Platform, R: Frees> OurWorker<'a, 'm, P, R> {
    /// The token of CPU `cpu` of a memory.
    ///
    /// # Panics
    ///
    /// If there is no such CPU, or its token is in use.
    pub(crate) fn of(memory: &'a Memory<'m, P>, cpu: usize) -> Self {
        let cpu = CpuId::new(u16::try_from(cpu).expect("CPUs are numbered in 16 bits"));
        let token = memory.cpu(cpu).expect("one worker per CPU");
        OurWorker { token, frees: PhantomData }
    }

    #[inline]
    fn take(&mut self, order: u8, migratetype: MigrateType) -> Option<u64> {
        let request = Request::new(Order::new(order)?, migratetype);
        let (pfn, _) = self.token.alloc(request).ok()?.into_raw();
        Some(pfn.get())
    }
}

impl<P: Platform, R: Frees> Worker for OurWorker<'_, '_, P, R> {
    #[inline]
    fn alloc(&mut self, order: u8) -> Option<u64> {
        self.take(order, MigrateType::Movable)
    }

    #[inline]
    fn alloc_typed(&mut self, order: u8, migratetype: list_buddy::MigrateType) -> Option<u64> {
        self.take(
            order,
            match migratetype {
                list_buddy::MigrateType::Unmovable => MigrateType::Unmovable,
                list_buddy::MigrateType::Movable => MigrateType::Movable,
                list_buddy::MigrateType::Reclaimable => MigrateType::Reclaimable,
            },
        )
    }

    #[inline]
    unsafe fn free(&mut self, frame: u64, order: u8) {
        let Some(order) = Order::new(order) else { return };
        let pfn = Pfn::new(frame);
        if R::RAW {
            // SAFETY: the caller owns the block, and it came from `into_raw` above. A refusal is
            // reported, and the report ends the run.
            let _ = unsafe { self.token.free_raw(pfn, order) };
        } else {
            // SAFETY: as above.
            let block = unsafe { self.token.adopt_unchecked(pfn, order) };
            // The block is of this memory, so the free is accepted.
            let _ = self.token.free(block);
        }
    }
}
