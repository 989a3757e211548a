//! `frame-alloc`: a lock-free buddy on summarised bitmaps, alone and behind its per-CPU
//! magazines with a shared depot.
//!
//! Its bitmaps are inside the memory that it manages. The benchmark needs no memory behind the
//! frames, so the managed span is reserved address space; only the bitmaps are written.

use crate::{Metadata, Peer, Worker};
use core::{cell::Cell, num::NonZeroUsize, ptr::NonNull};
use frame_alloc::{
    CpuId, DepotAllocator, PageSize, PhysicalAllocator, Provenance, RegionInit,
    SummaryBuddyAllocator,
};

const FRAME: PageSize = PageSize::from_log2(12);
/// Orders 0 to 10, as in its documentation.
const ORDERS: usize = 11;
/// The size of the largest block. With this alignment, the allocator wastes no memory.
const ALIGN: usize = FRAME.bytes() << (ORDERS - 1);

type Buddy = SummaryBuddyAllocator<ORDERS, ExposedMapping>;
type Depot<const CPUS: usize> = DepotAllocator<Buddy, ThreadCpu, CPUS>;

/// Converts addresses of the reserved span into pointers.
struct ExposedMapping;

// SAFETY: physical addresses given to the allocator are virtual addresses of one anonymous mapping.
// `Span::new` exposed its provenance, so `create` recovers a pointer that is valid as long as the
// span. It acquires nothing, so `destroy` has nothing to release.
unsafe impl Provenance for ExposedMapping {
    unsafe fn create(phys: usize) -> NonNull<u8> {
        NonNull::new(core::ptr::with_exposed_provenance_mut(phys)).expect("not the null page")
    }

    unsafe fn destroy<T>(pointer: NonNull<T>) -> usize {
        pointer.addr().get()
    }
}

thread_local! {
    static CPU: Cell<usize> = const { Cell::new(0) };
}

/// The CPU number that this thread has set: one thread-local load, as for a per-CPU variable of a
/// kernel.
struct ThreadCpu;

impl CpuId for ThreadCpu {
    #[inline]
    fn current_cpu() -> usize {
        CPU.get()
    }
}

/// Reserved address space, aligned to the largest block.
struct Span {
    mapping: NonNull<core::ffi::c_void>,
    mapped: usize,
    base: usize,
}

// SAFETY: the mapping belongs to the value, not to a thread, and is unmapped once.
unsafe impl Send for Span {}
// SAFETY: as above; shared references read two integers.
unsafe impl Sync for Span {}

impl Span {
    fn new(bytes: usize) -> Self {
        let mapped = bytes + ALIGN;
        let mapping = reserve(mapped);
        let base = mapping.as_ptr().expose_provenance().next_multiple_of(ALIGN);
        Self { mapping, mapped, base }
    }

    fn init(&self, allocator: &impl RegionInit, bytes: usize) {
        // SAFETY: the range lies in the mapping that `self` owns exclusively; the allocator is
        // not published yet.
        unsafe { allocator.init_region(self.base, bytes) };
    }

    #[inline]
    fn frame(&self, address: usize) -> u64 {
        ((address - self.base) / FRAME.bytes()) as u64
    }

    #[inline]
    fn address(&self, frame: u64) -> usize {
        self.base + frame as usize * FRAME.bytes()
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        // SAFETY: reserved in `new` with this length; the allocator that pointed into it is
        // dropped by the same owner and touches nothing when dropped.
        unsafe { release(self.mapping, self.mapped) };
    }
}

/// Reserves address space. Memory is used only where it is written.
#[cfg(unix)]
fn reserve(bytes: usize) -> NonNull<core::ffi::c_void> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let (access, flags) =
        (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
    // SAFETY: a new anonymous mapping at an address that the system chooses overlaps no other
    // mapping.
    let mapping = unsafe { mmap_anonymous(core::ptr::null_mut(), bytes, access, flags) };
    let mapping = mapping.expect("address space for the managed span");
    NonNull::new(mapping).expect("not the null page")
}

/// # Safety
/// `mapping` is from [`reserve`] with the same length, and is not used afterwards.
#[cfg(unix)]
unsafe fn release(mapping: NonNull<core::ffi::c_void>, bytes: usize) {
    // SAFETY: the caller's promise.
    let _ = unsafe { rustix::mm::munmap(mapping.as_ptr(), bytes) };
}

/// Allocates memory, on systems where the crates have no call to reserve address space.
#[cfg(not(unix))]
fn reserve(bytes: usize) -> NonNull<core::ffi::c_void> {
    // SAFETY: the length is not zero, because it includes the alignment of the span.
    let memory = unsafe { std::alloc::alloc(layout(bytes)) };
    NonNull::new(memory.cast()).expect("memory for the managed span")
}

/// # Safety
/// As on other systems.
#[cfg(not(unix))]
unsafe fn release(mapping: NonNull<core::ffi::c_void>, bytes: usize) {
    // SAFETY: the caller's promise; the layout is that of `reserve`.
    unsafe { std::alloc::dealloc(mapping.as_ptr().cast(), layout(bytes)) };
}

#[cfg(not(unix))]
fn layout(bytes: usize) -> std::alloc::Layout {
    std::alloc::Layout::from_size_align(bytes, 4096).expect("less than the address space")
}

fn bytes(frames: u64) -> usize {
    usize::try_from(frames).expect("frames fit in memory") * FRAME.bytes()
}

/// Bits of bitmap per order, plus a summary bit per word where an order has 128 words or more.
fn bitmap_bytes(frames: u64) -> usize {
    let words = (0..ORDERS).map(|order| {
        let words = frames.div_ceil(1 << order).div_ceil(64);
        words + if words >= 128 { words.div_ceil(64) } else { 0 }
    });
    words.sum::<u64>() as usize * size_of::<usize>()
}

#[inline]
fn alloc(from: &impl PhysicalAllocator, span: &Span, order: u8) -> Option<u64> {
    let count = NonZeroUsize::new(1 << order)?;
    from.allocate_physical(FRAME, count).ok().map(|address| span.frame(address))
}

/// # Safety
///
/// As [`Worker::free`].
#[inline]
unsafe fn free(to: &impl PhysicalAllocator, span: &Span, frame: u64, order: u8) {
    let Some(count) = NonZeroUsize::new(1 << order) else {
        return;
    };
    // SAFETY: address, size and count are those of a live allocation, by the contract of this
    // function.
    unsafe { to.deallocate_physical(FRAME, count, span.address(frame)) };
}

/// `frame-alloc`'s core: the lock-free buddy without per-CPU caches.
pub struct SummaryBuddy {
    buddy: Box<Buddy>,
    span: Span,
    frames: u64,
}

/// A handle without per-CPU state.
pub struct SummaryBuddyWorker<'a>(&'a SummaryBuddy);

impl Peer for SummaryBuddy {
    const NAME: &'static str = "frame-alloc-summary";
    const MERGES: bool = true;
    const MAX_ORDER: u8 = ORDERS as u8 - 1;
    type Worker<'a> = SummaryBuddyWorker<'a>;

    fn new(frames: u64, _cpus: usize) -> Self {
        let span = Span::new(bytes(frames));
        let buddy = Box::new(Buddy::new(FRAME));
        span.init(&*buddy, bytes(frames));
        Self { buddy, span, frames }
    }

    fn worker(&self, _cpu: usize) -> SummaryBuddyWorker<'_> {
        SummaryBuddyWorker(self)
    }

    fn metadata(&self) -> Metadata {
        Metadata {
            bytes: size_of::<Buddy>() + bitmap_bytes(self.frames),
            how: "size_of and its documented bitmaps, in the pool",
        }
    }

    fn cpu_list_bytes(&self) -> usize {
        0
    }
}

impl Worker for SummaryBuddyWorker<'_> {
    #[inline]
    fn alloc(&mut self, order: u8) -> Option<u64> {
        alloc(&*self.0.buddy, &self.0.span, order)
    }

    #[inline]
    unsafe fn free(&mut self, frame: u64, order: u8) {
        // SAFETY: the caller's promise, passed on.
        unsafe { free(&*self.0.buddy, &self.0.span, frame, order) };
    }
}

/// `frame-alloc` as its documentation recommends for many CPUs: magazines of 128 frames per CPU and
/// a shared depot of 512 in front of the lock-free buddy. `CPUS`, a compile-time number, is the
/// number of CPUs that may ever be online.
pub struct FrameAllocDepot<const CPUS: usize = 2> {
    depot: Box<Depot<CPUS>>,
    span: Span,
    frames: u64,
}

/// The handle of one CPU's magazine.
pub struct DepotWorker<'a, const CPUS: usize> {
    shared: &'a FrameAllocDepot<CPUS>,
    cpu: usize,
}

impl<const CPUS: usize> Peer for FrameAllocDepot<CPUS> {
    const NAME: &'static str = "frame-alloc-depot";
    const MERGES: bool = true;
    const MAX_ORDER: u8 = ORDERS as u8 - 1;
    type Worker<'a> = DepotWorker<'a, CPUS>;

    fn new(frames: u64, cpus: usize) -> Self {
        assert!(cpus <= CPUS, "this depot is compiled for {CPUS} CPUs");
        let span = Span::new(bytes(frames));
        let depot = Box::new(Depot::<CPUS>::new(FRAME, Buddy::new(FRAME)));
        span.init(&*depot, bytes(frames));
        Self { depot, span, frames }
    }

    fn worker(&self, cpu: usize) -> DepotWorker<'_, CPUS> {
        assert!(cpu < CPUS, "this depot is compiled for {CPUS} CPUs");
        CPU.set(cpu);
        DepotWorker { shared: self, cpu }
    }

    fn metadata(&self) -> Metadata {
        Metadata {
            bytes: size_of::<Buddy>() + bitmap_bytes(self.frames),
            how: "size_of and its documented bitmaps, in the pool",
        }
    }

    fn cpu_list_bytes(&self) -> usize {
        size_of::<Depot<CPUS>>() - size_of::<Buddy>()
    }
}

impl<const CPUS: usize> Worker for DepotWorker<'_, CPUS> {
    #[inline]
    fn alloc(&mut self, order: u8) -> Option<u64> {
        alloc(&*self.shared.depot, &self.shared.span, order)
    }

    #[inline]
    fn resume(&mut self) {
        CPU.set(self.cpu);
    }

    #[inline]
    unsafe fn free(&mut self, frame: u64, order: u8) {
        // SAFETY: the caller's promise, passed on.
        unsafe { free(&*self.shared.depot, &self.shared.span, frame, order) };
    }
}
