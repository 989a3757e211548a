//! Memory before the library has it: taken once, never given back.
//!
//! It comes from the upper end of a region, and in the end all pageblocks that anything was taken from
//! stay with the kernel: a pageblock that the library has only in part costs more to free to, and
//! regions end anywhere.

use core::{mem::MaybeUninit, slice};

use framewright::frame::PAGEBLOCK_FRAMES;

use super::Region;
use crate::frames;

const PAGEBLOCK_BYTES: u64 = PAGEBLOCK_FRAMES as u64 * frames::BYTES;

/// What is left of a region that the kernel takes its own things from.
pub(crate) struct EarlyMemory {
    left: Region,
    end: u64,
}

impl EarlyMemory {
    /// Takes from `region`.
    ///
    /// # Safety
    ///
    /// It is free memory, mapped, and nobody else uses it.
    pub(crate) unsafe fn new(region: Region) -> Self {
        Self { left: region, end: region.end }
    }

    /// Takes some bytes, aligned to a power of two, for ever.
    ///
    /// # Panics
    ///
    /// If there is not enough left: the machine is too small.
    pub(crate) fn take(&mut self, bytes: usize, align: usize) -> &'static mut [MaybeUninit<u8>] {
        let start = self.left.end.saturating_sub(bytes as u64) & !(align as u64 - 1);
        assert!(
            start >= self.left.start,
            "too little memory: {bytes} bytes more are needed to boot"
        );
        self.left.end = start;
        // SAFETY: within the region, which is ours, and below all that was taken before.
        unsafe { slice::from_raw_parts_mut(start as *mut MaybeUninit<u8>, bytes) }
    }

    /// What stays with the kernel.
    pub(crate) fn taken(&self) -> Region {
        let start = self.left.end / PAGEBLOCK_BYTES * PAGEBLOCK_BYTES;
        Region { start: start.max(self.left.start), end: self.end }
    }
}
