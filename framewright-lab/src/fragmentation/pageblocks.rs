//! Allocated frames of each pageblock, counted by the experiment: no allocator is asked.

use framewright::frame::PAGEBLOCK_FRAMES;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Allocated frames of every pageblock.
pub(super) struct Pageblocks(Vec<AtomicU32>);

impl Pageblocks {
    /// Those of a memory of which nothing is allocated.
    pub(super) fn new(frames: u64) -> Self {
        let pageblocks = frames / PAGEBLOCK_FRAMES as u64;
        Self((0..pageblocks).map(|_| AtomicU32::new(0)).collect())
    }

    /// Notes that a block was allocated.
    ///
    /// # Panics
    ///
    /// If more frames of the pageblock were handed out than it has.
    pub(super) fn take(&self, first: u64, frames: u32) {
        let before = self.of(first).fetch_add(frames, Relaxed);
        assert!(
            before + frames <= PAGEBLOCK_FRAMES as u32,
            "the allocator handed out frames at {first} that are allocated"
        );
    }

    /// Notes that a block is about to be freed.
    pub(super) fn give(&self, first: u64, frames: u32) {
        self.of(first).fetch_sub(frames, Relaxed);
    }

    /// Pageblocks of which nothing is allocated.
    pub(super) fn free(&self) -> u64 {
        self.0.iter().filter(|used| used.load(Relaxed) == 0).count() as u64
    }

    fn of(&self, first: u64) -> &AtomicU32 {
        &self.0[first as usize / PAGEBLOCK_FRAMES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pageblock_is_free_when_its_last_frame_is() {
        let pageblocks = Pageblocks::new(1024);
        pageblocks.take(511, 1);
        pageblocks.take(512, 512);
        assert_eq!(pageblocks.free(), 0);
        pageblocks.give(511, 1);
        assert_eq!(pageblocks.free(), 1);
    }

    #[test]
    #[should_panic(expected = "that are allocated")]
    fn frames_that_are_handed_out_twice_are_found() {
        let pageblocks = Pageblocks::new(512);
        pageblocks.take(0, 512);
        pageblocks.take(8, 8);
    }
}
