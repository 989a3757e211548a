//! A number for each recorded frame.

use framewright_sim::host_memory::prefetch;
use rustc_hash::FxHashMap;

use super::survey::{PAGEBLOCK, pageblock};

/// The numbers of the frames of a pageblock.
type Numbers = [u32; PAGEBLOCK as usize];

/// A number for each frame; zero, unless another was set.
pub(super) struct ByFrame {
    /// For each pageblock the index of its numbers.
    pageblocks: FxHashMap<u64, usize>,
    numbers: Vec<Numbers>,
    /// The pageblock that was looked up last, and its index: most often, the next one is the same.
    last: (u64, usize),
}

impl Default for ByFrame {
    fn default() -> Self {
        Self { pageblocks: FxHashMap::default(), numbers: Vec::new(), last: (u64::MAX, 0) }
    }
}

impl ByFrame {
    /// The numbers of `frames` frames from `pfn` on, which are in one pageblock; none if all are zero.
    #[inline]
    pub(super) fn of(&mut self, pfn: u64, frames: u64) -> &[u32] {
        let number = pageblock(pfn);
        if self.last.0 != number {
            let Some(&index) = self.pageblocks.get(&number) else { return &[] };
            self.last = (number, index);
        }
        &self.numbers[self.last.1][(pfn % PAGEBLOCK) as usize..][..frames as usize]
    }

    /// The numbers of `frames` frames from `pfn` on, which are in one pageblock.
    #[inline]
    pub(super) fn of_mut(&mut self, pfn: u64, frames: u64) -> &mut [u32] {
        let number = pageblock(pfn);
        if self.last.0 != number {
            self.last = (number, self.index_of(number));
        }
        &mut self.numbers[self.last.1][(pfn % PAGEBLOCK) as usize..][..frames as usize]
    }

    /// Prefetches the numbers of some frames.
    pub(super) fn prefetch(&self, frames: impl Iterator<Item = u64>) {
        let mut last = self.last;
        for pfn in frames {
            let number = pageblock(pfn);
            if last.0 != number {
                let Some(&index) = self.pageblocks.get(&number) else { continue };
                last = (number, index);
            }
            prefetch(&self.numbers[last.1][(pfn % PAGEBLOCK) as usize]);
        }
    }

    fn index_of(&mut self, number: u64) -> usize {
        *self.pageblocks.entry(number).or_insert_with(|| {
            self.numbers.push([0; PAGEBLOCK as usize]);
            self.numbers.len() - 1
        })
    }
}
