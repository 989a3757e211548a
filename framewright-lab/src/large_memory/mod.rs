//! `large-memory`: the costs of a machine with very much memory, as metadata only.
//!
//! [`alloc-micro`](crate::micro) measures single operations; this experiment measures the costs
//! that grow with the machine, and those that must not. There is no memory behind the frames: only
//! metadata is accessed, and a terabyte needs a fraction of a gigabyte.
//!
//! Every round runs every part once, so other load of the computer affects all parts alike. A
//! figure is the median of the rounds. Work over much memory or many frames is measured in CPU time
//! of the thread, including that in the kernel. Single blocks and searches are measured in wall
//! time, which includes the 20 to 40 nanoseconds of reading the clock.
//!
//! | module       | job                                                              |
//! |--------------|------------------------------------------------------------------|
//! | `plan`       | the sizes of memory, nodes, repetitions                          |
//! | `machine`    | memories without memory behind their frames                      |
//! | `start`      | part one: initialising the memory of the whole machine           |
//! | `hotplug`    | part two: memory hotplug                                         |
//! | `orders`     | part three: blocks of 4 MiB to 1 GiB, in zones of several sizes  |
//! | `contiguous` | part four: contiguous runs of any length, found or refused       |
//! | `nodes`      | part five: frames of this node, of others, and the counters      |
//! | `samples`    | measured values, by section, column and row                      |

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

/// The result.
#[derive(Clone, Debug)]
pub struct LargeMemoryResult {
    /// The figures, a table each.
    pub sections: Vec<Section>,
    /// The goals, with the measured values.
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
    /// Measures everything. `progress` gets the number of finished parts and of all parts.
    ///
    /// # Errors
    ///
    /// [`Error`]: the host lacks memory, or the library violated a guarantee.
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
