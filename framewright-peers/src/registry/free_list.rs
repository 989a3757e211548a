//! `free-list`: a sorted vector of free ranges (Hermit's frame allocator), under a spinlock.
//!
//! Neighbouring free ranges are merged, so blocks of every order become available again. A free in
//! random order costs a search and a move of all higher ranges.

use crate::{Metadata, Peer, Worker};
use free_list::{FreeList, PAGE_SIZE, PageLayout, PageRange};
use spin::Mutex;

/// Hermit's inline capacity; beyond it the vector moves to the heap.
type List = FreeList<16>;

/// `free-list` in a spinlock, as Hermit uses it.
pub struct FreeListPeer(Mutex<List>);

/// A handle; all CPUs share the lock.
pub struct FreeListWorker<'a>(&'a Mutex<List>);

impl Peer for FreeListPeer {
    const NAME: &'static str = "free-list";
    const MERGES: bool = true;
    const MAX_ORDER: u8 = 10;
    type Worker<'a> = FreeListWorker<'a>;

    fn new(frames: u64, _cpus: usize) -> Self {
        let bytes = usize::try_from(frames).expect("frames fit in memory") * PAGE_SIZE;
        let mut list = List::new();
        let all = PageRange::new(0, bytes).expect("whole pages");
        // SAFETY: there is no memory behind the addresses, so nothing else uses them.
        unsafe { list.deallocate(all) }.expect("an empty list takes any range");
        Self(Mutex::new(list))
    }

    fn worker(&self, _cpu: usize) -> FreeListWorker<'_> {
        FreeListWorker(&self.0)
    }

    fn metadata(&self) -> Metadata {
        Metadata {
            bytes: size_of::<List>(),
            how: "size_of; above 16 free ranges 16 bytes each on the global heap",
        }
    }

    fn cpu_list_bytes(&self) -> usize {
        0
    }
}

impl Worker for FreeListWorker<'_> {
    #[inline]
    fn alloc(&mut self, order: u8) -> Option<u64> {
        let size = PAGE_SIZE << order;
        let layout = PageLayout::from_size_align(size, size).ok()?;
        let range = self.0.lock().allocate(layout).ok()?;
        Some((range.start() / PAGE_SIZE) as u64)
    }

    #[inline]
    unsafe fn free(&mut self, frame: u64, order: u8) {
        let start = frame as usize * PAGE_SIZE;
        if let Ok(range) = PageRange::from_start_len(start, PAGE_SIZE << order) {
            // SAFETY: the caller owns the range and gives it up. A refused range is a double
            // free, which the caller excludes.
            let _ = unsafe { self.0.lock().deallocate(range) };
        }
    }
}
