//! `buddy_system_allocator`: a buddy allocator on ordered sets, under a spinlock.

use crate::{Metadata, Peer, Worker};
use buddy_system_allocator::LockedFrameAllocator;

/// Orders 0 to 10, as in the classic design.
const ORDERS: usize = 11;

/// `buddy_system_allocator`'s own locked frame allocator.
pub struct BuddySystem(LockedFrameAllocator<ORDERS>);

/// A handle; all CPUs share the lock.
pub struct BuddySystemWorker<'a>(&'a LockedFrameAllocator<ORDERS>);

impl Peer for BuddySystem {
    const NAME: &'static str = "buddy_system_allocator";
    const MERGES: bool = true;
    const MAX_ORDER: u8 = 10;
    type Worker<'a> = BuddySystemWorker<'a>;

    fn new(frames: u64, _cpus: usize) -> Self {
        let buddy = LockedFrameAllocator::new();
        buddy.lock().add_frame(0, usize::try_from(frames).expect("frames fit in memory"));
        Self(buddy)
    }

    fn worker(&self, _cpu: usize) -> BuddySystemWorker<'_> {
        BuddySystemWorker(&self.0)
    }

    fn metadata(&self) -> Metadata {
        Metadata {
            bytes: size_of::<LockedFrameAllocator<ORDERS>>(),
            how: "size_of; its sets live on the global heap and grow with fragmentation",
        }
    }

    fn cpu_list_bytes(&self) -> usize {
        0
    }
}

impl Worker for BuddySystemWorker<'_> {
    #[inline]
    fn alloc(&mut self, order: u8) -> Option<u64> {
        self.0.lock().alloc(1 << order).map(|frame| frame as u64)
    }

    #[inline]
    unsafe fn free(&mut self, frame: u64, order: u8) {
        self.0.lock().dealloc(frame as usize, 1 << order);
    }
}
