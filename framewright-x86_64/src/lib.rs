//! Framewright for kernels that use the [`x86_64`] crate.
//!
//! [`Frames`] implements that crate's [`FrameAllocator`] and [`FrameDeallocator`] with a [`Global`] allocator. Page
//! tables request frames of 4 KiB, 2 MiB and 1 GiB. [`frame_of`] and [`pfn_of`] convert between that crate's frames and
//! blocks.
//!
//! This is a separate package, so that the library has no dependencies, and its version does not depend on the version
//! of that crate.

// Users copy the examples, so these import no more than they use.
#![doc(test(attr(deny(unused_imports))))]
#![no_std]
#![deny(unsafe_code)]

use framewright::{
    Global, MigrateType, Order, Pfn, Request,
    frame::FRAME_SIZE,
    global::{GlobalError, Pinning},
};
use x86_64::{
    PhysAddr,
    structures::paging::{FrameAllocator, FrameDeallocator, PageSize, PhysFrame},
};

/// The order of a block of size `S`.
#[must_use]
pub const fn order_of<S: PageSize>() -> Order {
    match Order::holding(S::SIZE / FRAME_SIZE as u64) {
        Some(order) => order,
        // Not reached: pages have 4 KiB, 2 MiB or 1 GiB.
        None => Order::MAX,
    }
}

/// The frame of size `S` that starts at the 4 KiB frame `pfn`. `None` if that start is not aligned,
/// or is beyond the physical addresses of x86-64.
#[must_use]
pub fn frame_of<S: PageSize>(pfn: Pfn) -> Option<PhysFrame<S>> {
    if pfn > Pfn::MAX {
        return None;
    }
    PhysFrame::from_start_address(PhysAddr::try_new(pfn.address()).ok()?).ok()
}

/// The frame number of the first 4 KiB of a frame of any size.
#[must_use]
pub fn pfn_of<S: PageSize>(frame: PhysFrame<S>) -> Pfn {
    Pfn::containing(frame.start_address().as_u64())
}

/// An allocator of frames for page tables and pages. It is a reference, so copies allocate from the
/// same memory.
pub struct Frames<P: Pinning + 'static, const CPUS: usize> {
    global: &'static Global<P, CPUS>,
    request: Request,
}

impl<P: Pinning, const CPUS: usize> Clone for Frames<P, CPUS> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Pinning, const CPUS: usize> Copy for Frames<P, CPUS> {}

impl<P: Pinning, const CPUS: usize> Frames<P, CPUS> {
    /// Allocates frames that cannot move, such as page tables. They are not zeroed, because the
    /// `x86_64` crate zeroes page tables itself.
    #[must_use]
    pub const fn new(global: &'static Global<P, CPUS>) -> Self {
        Self::with(global, Request::new(Order::ZERO, MigrateType::Unmovable))
    }

    /// Allocates frames as `request` describes them. The order of the request is ignored.
    #[must_use]
    pub const fn with(global: &'static Global<P, CPUS>, request: Request) -> Self {
        Self { global, request }
    }

    /// Allocates a frame.
    ///
    /// # Errors
    ///
    /// The reason for the failure. [`FrameAllocator::allocate_frame`] cannot return it.
    pub fn allocate<S: PageSize>(&self) -> Result<PhysFrame<S>, GlobalError> {
        let (pfn, _) = self.global.alloc(self.request.of_order(order_of::<S>()))?.into_raw();
        // A block is aligned to its size.
        Ok(PhysFrame::containing_address(PhysAddr::new_truncate(pfn.address())))
    }
}

// SAFETY: a block of the size of the frame has one owner until it is freed.
#[allow(unsafe_code)]
unsafe impl<S: PageSize, P: Pinning, const CPUS: usize> FrameAllocator<S> for Frames<P, CPUS> {
    fn allocate_frame(&mut self) -> Option<PhysFrame<S>> {
        self.allocate().ok()
    }
}

impl<S: PageSize, P: Pinning, const CPUS: usize> FrameDeallocator<S> for Frames<P, CPUS> {
    /// If hardening refuses the free, [`Platform::corruption`](framewright::Platform::corruption)
    /// reports that.
    #[allow(unsafe_code)]
    unsafe fn deallocate_frame(&mut self, frame: PhysFrame<S>) {
        // SAFETY: the caller promises that the frame is unused; it was allocated as a block of this order.
        let _ = unsafe { self.global.free_raw(pfn_of(frame), order_of::<S>()) };
    }
}
