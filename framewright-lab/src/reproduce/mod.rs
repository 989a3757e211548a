//! Reproduces published results: compares the published effect of a change of the page allocator
//! with its effect here.
//!
//! An [`Experiment`] has the published rows and runs both sides of the change on simulated
//! machines. Its [`Results`] have *published*, *kernel*, *measured* and *modelled* figures in
//! separate fields ([`Row`](crate::report::Row)); [`judge()`] compares the predicted figures: they
//! agree if they have the same sign and are within a factor of three, or are better where the
//! counts of a running kernel are a goal. Rows to which parameters were fitted are shown and never
//! judged. A row without a figure of ours fails.
//!
//! | module                                       | job                                        |
//! |----------------------------------------------|--------------------------------------------|
//! | `compaction`, `bulk_free`, `hot_path`, `high_order_drain`, `tlb_batch`, `web_cache` | one experiment each: rows, then a run |
//! | `results`                                    | [`Results`]: rows by name, to be filled    |
//! | `pairs`                                      | both sides of a change, seed by seed       |
//! | `settings`                                   | runs of more than two settings, by number  |
//! | [`bands`]                                    | ranges of figures while parameters vary    |
//! | `judge`                                      | agreement, row by row, and the verdict     |
//! | `prices`                                     | [`Mechanism`]: the costs behind its gain   |

pub mod bands;
mod bulk_free;
mod compaction;
mod high_order_drain;
mod hot_path;
mod judge;
mod pairs;
mod prices;
mod results;
mod settings;
mod tlb_batch;
mod web_cache;

use crate::{Error, plot::Plot, report::Run};
pub use bands::Variation;
pub use judge::{judge, verdict};
pub use prices::{MECHANISMS, MOST_LEFT_PERCENT, Mechanism, Origin, Times};
pub use results::{Key, Results};

/// A published result that can be reproduced.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// The change, and its year.
    pub title: &'static str,
    /// The question, and the method, in a few lines.
    pub question: &'static str,
    /// Draws the series of its runs, with a subtitle, if they have series over time.
    pub picture: Option<fn(&[Run], &str) -> Plot>,
    /// Runs both sides of the change.
    pub run: fn(&Plan, &mut Tell<'_>) -> Result<Results, Error>,
}

/// Called with the number of finished steps and of all steps.
pub type Tell<'t> = dyn FnMut(u64, u64) + Send + 't;

/// The amount of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// One run of each side per seed.
    pub seeds: Vec<u64>,
    /// Short runs, which are not judged.
    pub quick: bool,
    /// The variation of the parameters of the machine, for the bands of modelled figures.
    pub variation: Variation,
}

/// All experiments, in the order of their change's date.
pub const EXPERIMENTS: [Experiment; 6] = [
    compaction::EXPERIMENT,
    tlb_batch::EXPERIMENT,
    web_cache::EXPERIMENT,
    hot_path::EXPERIMENT,
    bulk_free::EXPERIMENT,
    high_order_drain::EXPERIMENT,
];

impl Plan {
    /// Seeds 1 to `seeds`; only one if it is `quick`. Parameters vary together.
    #[must_use]
    pub fn new(seeds: u32, quick: bool) -> Self {
        let seeds = if quick { 1 } else { u64::from(seeds) };
        Self { seeds: (1..=seeds).collect(), quick, variation: Variation::default() }
    }
}
