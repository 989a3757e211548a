//! `large-memory`: what a machine with very much memory costs, as metadata only.
//!
//! The companion of [`alloc-micro`](crate::micro): that one asks what single operations cost,
//! this one what grows with the machine and what must not. Nothing stands behind the frames: all
//! that can be touched, and all that costs, are the books kept of them, so that a terabyte fits
//! into a fraction of a gigabyte.
//!
//! Every round plays every part once, so that whatever else the computer does falls on all of
//! them alike; a figure is the median of the rounds. Work over much memory or many frames is
//! measured in CPU time of the thread, the kernel's part included. Single blocks and searches are
//! timed by the clock, and include the 20 to 40 nanoseconds that reading it takes.
//!
//! | module       | job                                                              |
//! |--------------|------------------------------------------------------------------|
//! | `plan`       | how much memory, on how many nodes, how often                    |
//! | `machine`    | memories over frames that are numbers, and their books           |
//! | `start`      | part one: making the memory of the whole machine                 |
//! | `hotplug`    | part two: memory that comes and goes                             |
//! | `orders`     | part three: blocks of 4 MiB to 1 GiB, in zones of several sizes  |
//! | `contiguous` | part four: runs of any length, found or refused                  |
//! | `nodes`      | part five: frames of this node, of others, and the counters      |
//! | `samples`    | what was measured, by section, column and row                    |

mod contiguous;
mod hotplug;
mod machine;
mod nodes;
mod orders;
mod plan;
mod samples;
mod start;

use crate::{Error, report::Run};

pub use plan::LargeMemory;
pub use samples::{Goal, Section};

use samples::Samples;

/// What came out.
#[derive(Clone, Debug)]
pub struct LargeMemoryResult {
    /// The figures, a table each.
    pub sections: Vec<Section>,
    /// What they have to show, and whether they do.
    pub goals: Vec<Goal>,
}

impl LargeMemoryResult {
    /// All columns of all tables.
    #[must_use]
    pub fn runs(&self) -> Vec<Run> {
        self.sections.iter().flat_map(|section| section.runs.iter().cloned()).collect()
    }
}

/// A part of a round.
type Part = fn(&LargeMemory, u64, &mut Samples) -> Result<(), Error>;

/// All parts, in the order of their tables.
const PARTS: [Part; 5] =
    [start::measure, hotplug::measure, orders::measure, contiguous::measure, nodes::measure];

impl LargeMemory {
    /// Measures everything. `progress` hears how many of how many parts are done.
    ///
    /// # Errors
    ///
    /// [`Error`]: the memory cannot be had, or the library broke a promise.
    pub fn run(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<LargeMemoryResult, Error> {
        let total = self.rounds * PARTS.len() as u64;
        let mut samples = Samples::default();
        for round in 0..self.rounds {
            for (part, done) in PARTS.iter().zip(round * PARTS.len() as u64..) {
                progress(done, total);
                part(self, round, &mut samples)?;
            }
        }
        progress(total, total);
        let sections = samples.sections();
        let goals = samples::goals(self, &sections);
        Ok(LargeMemoryResult { sections, goals })
    }
}

#[cfg(test)]
mod tests;
