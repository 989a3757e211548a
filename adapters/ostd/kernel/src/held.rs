//! Memory that is held while something else is measured.

use alloc::vec::Vec;

use ostd::{
    boot::{boot_info, memory_region::MemoryRegionType},
    mm::{Frame, FrameAllocOptions, PAGE_SIZE},
};

use crate::stock_or_ours;

/// Bytes of memory that the boot loader reported as usable.
pub(crate) fn usable() -> usize {
    let regions = boot_info().memory_regions.iter();
    regions
        .filter(|region| region.typ() == MemoryRegionType::Usable)
        .map(|region| region.len())
        .sum()
}

/// Numbers that look random and are the same in every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: usize) -> Self {
        Self(0x9e37_79b9_7f4a_7c15 ^ (seed as u64 + 1))
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// Single frames, spread over all memory.
pub(crate) struct Held {
    frames: Vec<Frame<()>>,
    random: Random,
}

impl Held {
    pub(crate) fn new() -> Self {
        Self { frames: Vec::with_capacity(usable() / PAGE_SIZE), random: Random::new(0) }
    }

    /// Holds frames until `percent` of the usable memory is in use. First takes 97 %, and then frees frames anywhere, so
    /// that the free ones lie apart.
    pub(crate) fn fill_to(&mut self, percent: usize) {
        let total = usable() / PAGE_SIZE;
        let used = stock_or_ours::in_use() - self.frames.len();
        let options = {
            let mut options = FrameAllocOptions::new();
            options.zeroed(false);
            options
        };
        if self.frames.is_empty() {
            while self.frames.len() + used < total * 97 / 100 {
                let Ok(frame) = options.alloc_frame() else { break };
                self.frames.push(frame);
            }
        }
        while self.frames.len() + used > total * percent / 100 {
            let at = self.random.below(self.frames.len());
            drop(self.frames.swap_remove(at));
        }
    }

    /// Frees all.
    pub(crate) fn clear(&mut self) {
        self.frames.clear();
    }
}
