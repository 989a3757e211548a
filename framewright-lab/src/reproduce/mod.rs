//! Published results, done again: what a change of the page allocator was said to do, and what it
//! does here.
//!
//! An [`Experiment`] knows the rows that others published and how to run both sides of the change on
//! simulated machines. Its [`Results`] have *published*, *kernel*, *measured* and *modelled* figures
//! in fields of their own ([`Row`](crate::report::Row)); [`judge()`] compares what was predicted:
//! same sign and within a factor of three, or better where a running kernel is to be reached. A row
//! to which parameters were fitted is shown and never judged, a verdict can be no, and a row without
//! a figure of ours is a no.
//!
//! | module                                       | job                                        |
//! |----------------------------------------------|--------------------------------------------|
//! | `compaction`, `bulk_free`, `hot_path`, `high_order_drain`, `tlb_batch` | one experiment each: rows, then a run |
//! | `results`                                    | [`Results`]: rows by name, to be filled    |
//! | `pairs`                                      | both sides of a change, seed by seed       |
//! | `judge`                                      | agreement, row by row, and the verdict     |
//! | `prices`                                     | [`Mechanism`]: the costs that its gain comes from |

mod bulk_free;
mod compaction;
mod high_order_drain;
mod hot_path;
mod judge;
mod pairs;
mod prices;
mod results;
mod tlb_batch;

use crate::Error;
pub use judge::{FACTORS, band, judge, verdict};
pub use prices::{MECHANISMS, MOST_LEFT_PERCENT, Mechanism, Origin, Times};
pub use results::{Key, Results};

/// A published result that can be done again.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// What was changed, and when.
    pub title: &'static str,
    /// What is asked, and how it is answered, in a few lines.
    pub question: &'static str,
    /// Runs both sides of the change.
    pub run: fn(&Plan, &mut Tell<'_>) -> Result<Results, Error>,
}

/// Is told how many of how many steps are done.
pub type Tell<'t> = dyn FnMut(u64, u64) + 't;

/// How much is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// One run of each side per seed.
    pub seeds: Vec<u64>,
    /// A look, not a result: short runs, and nothing is judged.
    pub quick: bool,
}

/// All experiments, in the order of their change's date.
pub const EXPERIMENTS: [Experiment; 5] = [
    compaction::EXPERIMENT,
    tlb_batch::EXPERIMENT,
    hot_path::EXPERIMENT,
    bulk_free::EXPERIMENT,
    high_order_drain::EXPERIMENT,
];

impl Plan {
    /// Seeds 1 to `seeds`; one of them if it is `quick`.
    #[must_use]
    pub fn new(seeds: u32, quick: bool) -> Self {
        let seeds = if quick { 1 } else { u64::from(seeds) };
        Self { seeds: (1..=seeds).collect(), quick }
    }
}
