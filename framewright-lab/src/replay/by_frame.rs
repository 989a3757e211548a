//! A number for each recorded frame.

use rustc_hash::FxHashMap;

use super::survey::{PAGEBLOCK, pageblock};

/// The numbers of the frames of a pageblock.
type Numbers<T> = [T; PAGEBLOCK as usize];

/// A number for each frame; the default, zero, unless another was set.
pub(super) struct ByFrame<T> {
    pageblocks: FxHashMap<u64, Box<Numbers<T>>>,
}

impl<T> Default for ByFrame<T> {
    fn default() -> Self {
        Self { pageblocks: FxHashMap::default() }
    }
}

impl<T: Copy + Default> ByFrame<T> {
    /// The numbers of `frames` frames from `pfn` on, which are in one pageblock; none if all are zero.
    #[inline]
    pub(super) fn of(&self, pfn: u64, frames: u64) -> &[T] {
        let numbers = self.pageblocks.get(&pageblock(pfn));
        numbers.map_or(&[], |numbers| &numbers[(pfn % PAGEBLOCK) as usize..][..frames as usize])
    }

    /// The numbers of `frames` frames from `pfn` on, which are in one pageblock.
    #[inline]
    pub(super) fn of_mut(&mut self, pfn: u64, frames: u64) -> &mut [T] {
        let numbers = self.pageblocks.entry(pageblock(pfn));
        let numbers = numbers.or_insert_with(|| Box::new([T::default(); PAGEBLOCK as usize]));
        &mut numbers[(pfn % PAGEBLOCK) as usize..][..frames as usize]
    }
}
