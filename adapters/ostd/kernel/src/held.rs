//! Memory that stays allocated during the measurements.

use alloc::vec::Vec;

use ostd::{
    boot::{boot_info, memory_region::MemoryRegionType},
    mm::{FrameAllocOptions, PAGE_SIZE, Segment},
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

/// Frames of a held segment.
const HELD: usize = 64;

/// Segments of 64 frames.
pub(crate) struct Held {
    segments: Vec<Segment<()>>,
    random: Random,
}

impl Held {
    pub(crate) fn new() -> Self {
        Self { segments: Vec::with_capacity(usable() / PAGE_SIZE / HELD), random: Random::new(0) }
    }

    /// Holds segments until `percent` of the usable memory is in use. If more is in use, frees random segments.
    pub(crate) fn fill_to(&mut self, percent: usize) {
        let wanted = usable() / PAGE_SIZE / 100 * percent;
        let used = stock_or_ours::in_use() - self.segments.len() * HELD;
        let segments = wanted.saturating_sub(used) / HELD;
        let mut options = FrameAllocOptions::new();
        options.zeroed(false);
        while self.segments.len() < segments
            && let Ok(segment) = options.alloc_segment(HELD)
        {
            self.segments.push(segment);
        }
        while self.segments.len() > segments {
            let at = self.random.below(self.segments.len());
            drop(self.segments.swap_remove(at));
        }
    }

    /// Frees all segments.
    pub(crate) fn clear(&mut self) {
        self.segments.clear();
    }
}
