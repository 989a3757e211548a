//! Our own row: the library as one more [`Peer`].
//!
//! On a machine that has nothing but threads and metadata, with the same kind of spinlock as the
//! others. Hardening is at its default. The min watermark is 0, because the others have no
//! watermarks and would hand out frames that ours keeps in reserve.

use framewright::{
    Config, CpuId, FrameRange, Memory, MigrateType, Order, Pfn, Platform, Request, Tuning,
    observe::Corruption,
    platform::{BarrierTarget, OwnerLock, Wait},
    sync::{PlainWord, SpinFlag},
    tuning::Auto,
};
use framewright_peers::{Metadata, Peer, Worker};
use rustix::thread::{MembarrierCommand, membarrier};
use std::{
    mem::{ManuallyDrop, MaybeUninit},
    ptr::NonNull,
    sync::OnceLock,
};

/// Threads, and no memory behind the frames.
pub(super) struct MetadataOnly {
    owner_lock: OwnerLock,
}

impl MetadataOnly {
    fn new() -> Self {
        let owner_lock = if membarrier_ready() { OwnerLock::Biased } else { OwnerLock::Trylock };
        Self { owner_lock }
    }
}

/// Registers the process for expedited barriers, once; whether the system has them.
fn membarrier_ready() -> bool {
    static READY: OnceLock<bool> = OnceLock::new();
    *READY.get_or_init(|| membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok())
}

// SAFETY: `SpinFlag` excludes. `Biased` is only announced after the process was registered, and
// then `membarrier` returns after every running thread of the process, the caller included, has
// executed a full barrier.
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

    fn clear(&self, _pfn: Pfn, _order: Order) {}

    fn copy(&self, _to: Pfn, _from: Pfn) {}

    fn now(&self) -> u64 {
        0
    }

    /// Every free of the harness is right: a report is a fault of the library.
    fn corruption(&self, report: &Corruption) {
        panic!("{report}");
    }
}

/// The library, with the metadata buffer that it lives in.
pub(super) struct Framewright {
    memory: ManuallyDrop<Memory<'static, MetadataOnly>>,
    buffer: Buffer,
    frames: u64,
}

/// A buffer that was lent to a memory for as long as that lives.
struct Buffer(NonNull<[MaybeUninit<u8>]>);

// SAFETY: only ever used to release it, by whoever owns the value.
unsafe impl Send for Buffer {}
// SAFETY: as above; a shared reference allows nothing.
unsafe impl Sync for Buffer {}

/// The token of one CPU.
pub(super) struct FramewrightWorker<'a>(framewright::CpuToken<'a, 'static, MetadataOnly>);

impl Framewright {
    /// Frames that crossed the zone lock so far.
    pub(super) fn zone_lock_frames(&self) -> u64 {
        self.memory.stats().zone_lock_frames
    }
}

impl Peer for Framewright {
    const NAME: &'static str = "framewright";
    const MERGES: bool = true;
    const MAX_ORDER: u8 = 9;
    type Worker<'a> = FramewrightWorker<'a>;

    fn new(frames: u64, cpus: usize) -> Self {
        let all = FrameRange::new(Pfn::new(0), Pfn::new(frames)).expect("ascending");
        let map = [all.into()];
        let mut tuning = Tuning::default();
        tuning.zone.min_free = Auto::Fixed(0);
        tuning.zone.watermark_scale = 1;
        let cpus = u16::try_from(cpus).expect("CPUs are numbered in 16 bits");
        let config = Config { tuning, ..Config::new(&map, cpus) };
        let layout =
            framewright::Layout::new::<MetadataOnly>(&config).expect("a valid configuration");
        let (bytes, align) = (layout.bytes(), layout.align());
        let room = Box::leak(Box::<[u8]>::new_uninit_slice(bytes + align));
        let buffer = Buffer(NonNull::from(&mut *room));
        let start = room.as_ptr().align_offset(align);
        let metadata = &mut room[start..start + bytes];
        let memory = Memory::new(MetadataOnly::new(), &config, metadata).expect("a valid buffer");
        Self { memory: ManuallyDrop::new(memory), buffer, frames }
    }

    fn worker(&self, cpu: usize) -> FramewrightWorker<'_> {
        let cpu = CpuId::new(u16::try_from(cpu).expect("CPUs are numbered in 16 bits"));
        FramewrightWorker(self.memory.cpu(cpu).expect("one worker per CPU"))
    }

    fn metadata(&self) -> Metadata {
        let layout = self.memory.layout();
        Metadata {
            bytes: (layout.bytes_per_frame() * self.frames as f64).round() as usize,
            how: "Layout",
        }
    }

    fn cpu_list_bytes(&self) -> usize {
        self.memory.layout().cpu_list_bytes()
    }
}

impl Drop for Framewright {
    fn drop(&mut self) {
        // SAFETY: dropped here once; every worker borrowed `self` and is gone.
        unsafe { ManuallyDrop::drop(&mut self.memory) };
        // SAFETY: leaked from a box in `new`; the only borrower was the memory, dropped above.
        drop(unsafe { Box::from_raw(self.buffer.0.as_ptr()) });
    }
}

impl Worker for FramewrightWorker<'_> {
    #[inline]
    fn alloc(&mut self, order: u8) -> Option<u64> {
        let request = Request::new(Order::new(order)?, MigrateType::Movable);
        let (pfn, _) = self.0.alloc(request).ok()?.into_raw();
        Some(pfn.get())
    }

    #[inline]
    unsafe fn free(&mut self, frame: u64, order: u8) {
        if let Some(order) = Order::new(order) {
            // SAFETY: the caller owns the block, and it came from `into_raw` above.
            let block = unsafe { self.0.adopt_unchecked(Pfn::new(frame), order) };
            // The block is of this memory, so it is not given back.
            let _ = self.0.free(block);
        }
    }
}
