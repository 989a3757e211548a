//! `bitmap-allocator`: a 16-ary tree of bitmaps under a spinlock.
//!
//! It does not merge: larger orders are found by a scan, frame by frame.

use crate::{Metadata, Peer, Worker};
use bitmap_allocator::{BitAlloc, BitAlloc1M};
use spin::Mutex;

/// `bitmap-allocator`'s tree of 2^20 bits, behind a spinlock, as in the kernels that use it.
pub struct BitmapAllocator(Mutex<Box<BitAlloc1M>>);

impl BitmapAllocator {
    /// Largest number of frames: larger trees do not fit on the stack on which they are created.
    pub const MAX_FRAMES: u64 = BitAlloc1M::CAP as u64;
}

/// A handle; all CPUs share the lock.
pub struct BitmapWorker<'a>(&'a Mutex<Box<BitAlloc1M>>);

impl Peer for BitmapAllocator {
    const NAME: &'static str = "bitmap-allocator";
    const MERGES: bool = false;
    const MAX_ORDER: u8 = 10;
    type Worker<'a> = BitmapWorker<'a>;

    fn new(frames: u64, _cpus: usize) -> Self {
        assert!(frames <= Self::MAX_FRAMES, "BitAlloc1M manages at most 2^20 frames");
        let mut bits = Box::<BitAlloc1M>::default();
        bits.insert(0..frames as usize);
        Self(Mutex::new(bits))
    }

    fn worker(&self, _cpu: usize) -> BitmapWorker<'_> {
        BitmapWorker(&self.0)
    }

    fn metadata(&self) -> Metadata {
        Metadata { bytes: size_of::<BitAlloc1M>(), how: "size_of" }
    }

    fn cpu_list_bytes(&self) -> usize {
        0
    }
}

impl Worker for BitmapWorker<'_> {
    #[inline]
    fn alloc(&mut self, order: u8) -> Option<u64> {
        let mut bits = self.0.lock();
        let first = if order == 0 {
            bits.alloc()
        } else {
            bits.alloc_contiguous(None, 1 << order, usize::from(order))
        };
        first.map(|frame| frame as u64)
    }

    #[inline]
    unsafe fn free(&mut self, frame: u64, order: u8) {
        let mut bits = self.0.lock();
        if order == 0 {
            bits.dealloc(frame as usize);
        } else {
            bits.dealloc_contiguous(frame as usize, 1 << order);
        }
    }
}
