//! `page-fault`: bursts of frames up, then down; every frame touched.
//!
//! The allocator's side of will-it-scale's page_fault1, whose every task maps 128 MiB, writes to
//! each page in ascending order, unmaps it all, and starts over. So each CPU, in turn:
//!
//! * *up*: takes 32,768 single movable frames, zeroed, and touches each with a value of its own;
//!   for every 512 of them first one unmovable frame, zeroed, the page table that maps them;
//! * *down*: verifies and frees them in the order in which they were mapped, in batches of as many
//!   as Linux gathers before it flushes (506), or in random order; then the page tables.
//!
//! Taking and giving never mix. That burst, not the average rate, is what empties the lists of a
//! CPU on the way up and overfills them on the way down. Memory is never short.

mod burst;

use super::cpu::PAGES_PER_TABLE;

pub(crate) use burst::Bursts;

/// What each CPU does.
#[derive(Clone, Debug)]
pub struct PageFault {
    /// Frames that one burst takes.
    pub frames: u32,
    /// In which order frames are freed.
    pub free_order: FreeOrder,
    /// Seed of random free orders.
    pub seed: u64,
}

/// In which order frames are freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FreeOrder {
    /// As they were mapped.
    #[default]
    Mapping,
    /// At random.
    Random,
}

impl PageFault {
    /// Bursts of 128 MiB, freed as they were mapped.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { frames: 32_768, free_order: FreeOrder::default(), seed }
    }

    /// Frames that `cpus` CPUs hold together at the top of their bursts.
    #[must_use]
    pub fn live_frames(&self, cpus: u16) -> u64 {
        let tables = self.frames.div_ceil(PAGES_PER_TABLE);
        u64::from(cpus) * u64::from(self.frames + tables)
    }

    pub(super) fn lacks(&self) -> Option<&'static str> {
        (self.frames == 0).then_some("frame to touch")
    }
}
