//! `page-fault`: bursts of frames up, then down; every frame touched.
//!
//! The allocator's side of will-it-scale's page_fault1, whose every task maps 128 MiB, writes to
//! each page in ascending order, unmaps it all, and starts over. So each CPU, in turn:
//!
//! * *up*: takes 32,768 single movable frames, zeroed, and touches each with a pattern of its own;
//!   for every 512 of them first one unmovable frame, zeroed, the page table that maps them;
//! * *down*: verifies and frees them in the order in which they were mapped, in batches of as many
//!   as Linux gathers before it flushes (506), or in random order; then the page tables.
//!
//! Taking and giving never mix. That burst, not the average rate, is what empties the lists of a
//! CPU on the way up and overfills them on the way down. Memory is never short.
//!
//! Figures are medians over rounds. With two sides, each has a memory of its own, and their rounds
//! alternate, so that whatever else the machine does falls on both.
//!
//! | module    | job                                                |
//! |-----------|----------------------------------------------------|
//! | `burst`   | the body: one CPU, up and down                     |
//! | `host`    | the driver for threads: memories, rounds, threads  |
//! | `figures` | counters and times to metrics                      |
//! | `error`   | what keeps a run from happening                    |

mod burst;
mod error;
mod figures;
mod host;

use framewright::frame::PAGEBLOCK_FRAMES;
use std::time::Duration;

use super::Side;
use crate::report::{Check, Run};

pub use error::PageFaultError;
pub use figures::METRICS;

/// What each CPU does, and for how long.
#[derive(Clone, Debug)]
pub struct PageFault {
    /// Frames that one burst takes.
    pub frames: u32,
    /// Frames that one page table maps.
    pub frames_per_table: u32,
    /// Frames that are freed at once.
    pub gather: u32,
    /// In which order frames are freed.
    pub free_order: FreeOrder,
    /// Cycles of each side before anything is counted: lists find their sizes.
    pub warm_up: u32,
    /// Measured rounds of each side.
    pub rounds: u32,
    /// How long a round lasts.
    pub limit: Limit,
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

/// How long a round lasts. A CPU always finishes the cycle it has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// So many cycles on each CPU.
    Cycles(u32),
    /// So long.
    Time(Duration),
}

/// What it runs on: this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostSpec {
    /// Threads, each a CPU.
    pub cpus: u16,
    /// Frames of memory.
    pub frames: u64,
    /// Whether each thread is pinned to a processor.
    pub pin: bool,
}

/// What came out.
#[derive(Clone, Debug, PartialEq)]
pub struct PageFaultResult {
    /// One run per side, in their order, with the metrics called [`METRICS`].
    pub runs: Vec<Run>,
    /// Whether contents and books were in order.
    pub checks: Vec<Check>,
    /// What the reader should know about how it was run.
    pub notes: Vec<String>,
}

impl PageFault {
    /// A measurement: some ten seconds a side.
    #[must_use]
    pub fn full(seed: u64) -> Self {
        Self {
            frames: 32_768,
            frames_per_table: 512,
            gather: 506,
            free_order: FreeOrder::default(),
            warm_up: 4,
            rounds: 9,
            limit: Limit::Time(Duration::from_secs(1)),
            seed,
        }
    }

    /// A look: a second a side.
    #[must_use]
    pub fn quick(seed: u64) -> Self {
        Self {
            warm_up: 2,
            rounds: 3,
            limit: Limit::Time(Duration::from_millis(250)),
            ..Self::full(seed)
        }
    }

    /// Frames that `cpus` CPUs hold together at the top of their bursts.
    #[must_use]
    pub fn live_frames(&self, cpus: u16) -> u64 {
        let tables = self.frames.div_ceil(self.frames_per_table.max(1));
        u64::from(cpus) * u64::from(self.frames + tables)
    }

    /// Frames of a memory in which `cpus` CPUs are never short: half as many again as they hold,
    /// in whole pageblocks.
    #[must_use]
    pub fn ample_frames(&self, cpus: u16) -> u64 {
        let live = self.live_frames(cpus);
        (live + live / 2).next_multiple_of(PAGEBLOCK_FRAMES as u64)
    }

    /// Runs every side on this process. `progress` hears how many of how many rounds are done.
    ///
    /// # Errors
    ///
    /// [`PageFaultError`]: the machine cannot be had, or has too little memory. Contents that
    /// were overwritten are no error but a failed check.
    pub fn run_on_host(
        &self,
        spec: &HostSpec,
        sides: &[Side],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<PageFaultResult, PageFaultError> {
        host::run(self, spec, sides, progress)
    }
}

#[cfg(test)]
mod tests;
