//! Memory that the kernel allocates before the library manages memory. It is never freed.
//!
//! Allocations come from the upper end of a region, which may end within a pageblock. The kernel
//! keeps a whole pageblock if it uses any part of it: frees are slower in pageblocks that the
//! library manages only in part.

use core::{mem::MaybeUninit, slice};

use framewright::frame::PAGEBLOCK_FRAMES;

use super::Region;
use crate::frames;

const PAGEBLOCK_BYTES: u64 = PAGEBLOCK_FRAMES as u64 * frames::BYTES;

/// A region from which the kernel takes memory, and the part that is left.
pub(crate) struct EarlyMemory {
    left: Region,
    end: u64,
}

impl EarlyMemory {
    /// Begins to take memory from `region`.
    ///
    /// # Safety
    ///
    /// The region is free and mapped, and no other code uses it.
    pub(crate) unsafe fn new(region: Region) -> Self {
        Self { left: region, end: region.end }
    }

    /// Takes bytes, aligned to a power of two. They are never freed.
    ///
    /// # Panics
    ///
    /// If too little of the region is left.
    pub(crate) fn take(&mut self, bytes: usize, align: usize) -> &'static mut [MaybeUninit<u8>] {
        let start = self.left.end.saturating_sub(bytes as u64) & !(align as u64 - 1);
        assert!(
            start >= self.left.start,
            "too little memory: {bytes} bytes more are needed to boot"
        );
        self.left.end = start;
        // SAFETY: within the region, which this value owns, and below all bytes taken before.
        unsafe { slice::from_raw_parts_mut(start as *mut MaybeUninit<u8>, bytes) }
    }

    /// The memory that stays with the kernel.
    pub(crate) fn taken(&self) -> Region {
        let start = self.left.end / PAGEBLOCK_BYTES * PAGEBLOCK_BYTES;
        Region { start: start.max(self.left.start), end: self.end }
    }
}
