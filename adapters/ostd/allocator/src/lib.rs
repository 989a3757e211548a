//! Framewright as the frame allocator of kernels on OSTD.
//!
//! ```ignore
//! #[ostd::global_frame_allocator]
//! static FRAMES: framewright_ostd::FrameAllocator = framewright_ostd::FrameAllocator;
//! ```
//!
//! OSTD hands over its free memory in pieces, and then allocates for the first time. The library is initialised at that
//! allocation. OSTD's early allocator has handed out memory before, some of which is freed later, frame by frame. The
//! memory map names that memory as in use from the start.
//!
//! OSTD allocates runs of any length, and frees them in any parts.

#![no_std]

#[cfg(feature = "reclaim")]
extern crate alloc;

/// The prefix of our messages in OSTD's log.
macro_rules! __log_prefix {
    () => {
        "framewright: "
    };
}

mod machine;
mod pieces;
#[cfg(feature = "reclaim")]
pub mod reclaim;

use core::alloc::Layout;

use framewright::{Contiguous, FrameRange, Global, Memory, MigrateType, Order, Pfn, Request};
use ostd::mm::{PAGE_SIZE, Paddr, frame::GlobalFrameAllocator};

use machine::Machine;
use x86_64::instructions::interrupts;

/// The maximum number of CPUs.
pub const CPUS: usize = 256;

/// The allocator that every [`FrameAllocator`] uses.
static FRAMES: Global<Machine, CPUS> = Global::new();

/// The memory that frames are allocated from: to read counters and to check it. `None` before the first allocation.
pub fn memory() -> Option<&'static Memory<'static, Machine>> {
    FRAMES.memory().ok()
}

/// Framewright behind OSTD's interface. All values of this type are one allocator.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrameAllocator;

impl GlobalFrameAllocator for FrameAllocator {
    fn alloc(&self, layout: Layout) -> Option<Paddr> {
        if layout.size() == PAGE_SIZE && layout.align() <= PAGE_SIZE {
            return alloc_frame();
        }
        alloc_run(layout)
    }

    fn dealloc(&self, addr: Paddr, size: usize) {
        if size == PAGE_SIZE {
            return free_frame(addr);
        }
        free_frames(addr, size);
    }

    fn add_free_memory(&self, addr: Paddr, size: usize) {
        let Some(range) = frames_of(addr, size) else { return };
        let Ok(memory) = FRAMES.memory() else {
            return pieces::keep(range);
        };
        // OSTD's tests add memory that they have allocated.
        if memory.add_memory(range).is_err() {
            self.dealloc(addr, size);
        }
    }
}

/// The frames of a block of order 3. Of the larger orders, only that of a pageblock has per-CPU lists.
const FEW: u64 = 8;

/// The request for one frame.
const SINGLE: Request = Request::new(Order::ZERO, MigrateType::Movable).no_wait();

#[inline]
fn alloc_frame() -> Option<Paddr> {
    match FRAMES.alloc(SINGLE) {
        Ok(block) => Some(block.into_raw().0.address() as Paddr),
        Err(_) => alloc_frame_slowly(),
    }
}

/// For the first allocation, or if memory is short.
#[cold]
fn alloc_frame_slowly() -> Option<Paddr> {
    if FRAMES.memory().is_err() {
        pieces::start();
    } else if !can_wait() {
        return None;
    }
    Some(FRAMES.alloc(request(Order::ZERO)).ok()?.into_raw().0.address() as Paddr)
}

/// A request that drains the lists of other CPUs, and reclaims pages, if this CPU can wait.
fn request(order: Order) -> Request {
    let request = Request::new(order, MigrateType::Movable);
    if can_wait() { request } else { request.no_wait() }
}

#[inline(never)]
fn alloc_run(layout: Layout) -> Option<Paddr> {
    if FRAMES.memory().is_err() {
        pieces::start();
    }
    let align = Order::holding((layout.align() / PAGE_SIZE) as u64)?;
    let frames = (layout.size() / PAGE_SIZE) as u64;
    alloc_few(frames, align).or_else(|| alloc_many(frames, align))
}

/// Allocates a run of at most [`FEW`] frames: the start of a block from the lists of this CPU.
fn alloc_few(frames: u64, align: Order) -> Option<Paddr> {
    let order = Order::holding(frames)?;
    if frames > FEW || align > order {
        return None;
    }
    let block = FRAMES.alloc(request(order)).ok()?;
    let mut run = FRAMES.memory().ok()?.split_block(block).ok()?;
    while run.len() as u64 > frames {
        // A block of this memory is not refused.
        let _ = FRAMES.free(run.next_back()?);
    }
    Some(run.into_raw().start().address() as Paddr)
}

fn alloc_many(frames: u64, align: Order) -> Option<Paddr> {
    let wanted = Contiguous::new(frames, MigrateType::Movable).aligned(align);
    let wanted = if can_wait() { wanted } else { wanted.no_wait() };
    let memory = FRAMES.memory().ok()?;
    let extent = memory.alloc_contiguous(&wanted).ok()?;
    // OSTD frees segments frame by frame.
    let frames = memory.split_extent(extent).ok()?;
    Some(frames.into_raw().start().address() as Paddr)
}

/// Whether other CPUs can be interrupted: not with interrupts disabled, because two CPUs could wait
/// for each other.
fn can_wait() -> bool {
    interrupts::are_enabled()
}

#[cold]
#[inline(never)]
fn free_frames(addr: Paddr, size: usize) {
    (addr..addr + size).step_by(PAGE_SIZE).for_each(free_frame);
}

#[inline]
fn free_frame(addr: Paddr) {
    // SAFETY: OSTD frees each frame once. All frames are blocks: they were allocated as such, or extents were split.
    #[expect(unsafe_code)]
    let freed = unsafe { FRAMES.free_raw(Pfn::containing(addr as u64), Order::ZERO) };
    if freed.is_err() {
        add_frame(addr);
    }
}

/// Adds a freed frame that lies between the pieces and was not known to be in use.
#[cold]
fn add_frame(addr: Paddr) {
    let (Some(range), Ok(memory)) = (frames_of(addr, PAGE_SIZE), FRAMES.memory()) else { return };
    if let Err(error) = memory.add_memory(range) {
        ostd::error!("the frame at {addr:#x} is lost: {error}");
    }
}

fn frames_of(addr: Paddr, size: usize) -> Option<FrameRange> {
    FrameRange::inside(addr as u64, addr.checked_add(size)? as u64)
}
