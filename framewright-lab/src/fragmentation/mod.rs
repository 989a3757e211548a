//! `churn` and `replace`: the number of huge pages that the free memory of an allocator still
//! contains after many allocations and frees.
//!
//! There is no memory behind the frames, as in [`alloc-micro`](crate::micro). All allocators get
//! the same calls, one allocator after the other; the order of allocators changes with the seed.
//! The experiment counts the allocated frames of each pageblock from its own calls, so it need not
//! drain an allocator to see its free memory. With one thread, all counts are the same for the same
//! arguments.
//!
//! On a simulated machine, every simulated CPU takes the place of a thread. The allocator's work
//! takes the time of the model; the experiment's own work takes none, except for a fixed time
//! between two operations of a CPU, if wanted. All results repeat.
//!
//! | module       | job                                                                |
//! |--------------|--------------------------------------------------------------------|
//! | `setup`      | the parameters of both experiments, and their checks               |
//! | `churn`      | random allocations and frees that keep memory at an occupancy      |
//! | `cpu`        | CPUs: their blocks, and every call of an allocator                 |
//! | `subject`    | the interface to allocators and their CPUs, and threads as CPUs    |
//! | `simulated`  | simulated CPUs                                                     |
//! | `outcome`    | the result of one run of one allocator                             |

mod churn;
mod cpu;
mod outcome;
mod setup;
mod simulated;
mod subject;
#[cfg(test)]
mod tests;

pub use churn::{Churn, Mix, Replace};
pub use outcome::TIMED_ONE_IN;
pub use setup::{Allocator, Column, FreeBy, Setup, Types};
pub use simulated::SimulatedCpus;

/// The option that caused the error, and the error.
type Refusal = (&'static str, Error);

use cpu::Cpus;
use outcome::Outcome;
use setup::Ended;
use subject::Subject;

use crate::{
    Error,
    plot::{Axis, Panel, Plot},
    report::{
        Check, Point, Run, each_run,
        figure::{Figure, metrics},
    },
    samples::Sample,
};

/// The series of both experiments: pageblocks without allocated frames.
pub const SERIES: &str = "huge_frames_free";

/// Names of the share of memory in the settings of a run: in `churn` and in `replace`.
pub const SHARES: [&str; 2] = ["occupancy", "free"];

/// The result of one share of memory.
#[derive(Clone, Debug)]
pub struct Section {
    /// Percent of memory: in use for `churn`, free for `replace`.
    pub share: u8,
    /// One for each column.
    pub runs: Vec<Run>,
    /// The memory over time by column, if it was sampled.
    pub samples: Vec<(String, Vec<Sample>)>,
}

/// The result of an experiment.
#[derive(Clone, Debug)]
pub struct FragmentationResult {
    /// A table for each share of memory.
    pub sections: Vec<Section>,
    /// The check that no frame was lost.
    pub checks: Vec<Check>,
}

impl FragmentationResult {
    /// All columns of all tables.
    #[must_use]
    pub fn runs(&self) -> Vec<Run> {
        self.sections.iter().flat_map(|section| section.runs.iter().cloned()).collect()
    }

    /// The series as a plot along `x`, with a panel for each share of memory. `words` describe a
    /// share.
    #[must_use]
    pub fn plot(&self, title: &str, subtitle: &str, x: &str, words: &str) -> Plot {
        let panel = |section: &Section| {
            let y = format!("free huge frames, {} % {words}", section.share);
            Panel::of_series(&section.runs, SERIES, Axis::linear(x), Axis::linear(&y))
        };
        let panels = self.sections.iter().map(panel).collect();
        Plot { title: title.to_owned(), subtitle: subtitle.to_owned(), panels }
    }
}

/// An experiment that runs on any allocator.
trait Experiment {
    /// The name of its share of memory, in settings and errors.
    const SHARE: &'static str;
    /// Its figures, in the order of output.
    const FIGURES: &'static [Figure<Outcome>];

    /// Steps of progress of `play`.
    fn steps(&self) -> u64;

    /// Checks that this share of memory is enough.
    fn check(&self, setup: &Setup, share: u8) -> Result<(), Refusal>;

    /// Runs the experiment on CPUs without blocks. The caller frees the blocks that are left at the
    /// end.
    ///
    /// # Errors
    ///
    /// The simulated machine found a violation.
    fn play<P: Subject>(
        &self,
        setup: &Setup,
        share: u8,
        cpus: &mut Cpus<P>,
        tell: &mut dyn FnMut(u64),
    ) -> Result<Outcome, Error>;
}

impl Churn {
    /// Runs every column at every occupancy with every seed. `progress` gets the number of finished
    /// steps and of all steps.
    ///
    /// # Errors
    ///
    /// The option that cannot be used, and the reason.
    pub fn run(
        &self,
        setup: &Setup,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<FragmentationResult, Refusal> {
        run(self, setup, progress)
    }
}

impl Replace {
    /// Runs every column with every share of free memory and every seed. `progress` gets the number
    /// of finished steps and of all steps.
    ///
    /// # Errors
    ///
    /// The option that cannot be used, and the reason.
    pub fn run(
        &self,
        setup: &Setup,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<FragmentationResult, Refusal> {
        run(self, setup, progress)
    }
}

fn run<E: Experiment>(
    experiment: &E,
    setup: &Setup,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<FragmentationResult, Refusal> {
    setup.check(E::SHARE)?;
    setup.shares.iter().try_for_each(|share| experiment.check(setup, *share))?;
    let columns = setup.columns.len();
    let plays = setup.shares.len() * setup.seeds.len() * columns;
    let (steps, mut done) = (experiment.steps(), 0);
    let total = plays as u64 * steps;
    let mut outcomes = vec![vec![Vec::new(); columns]; setup.shares.len()];
    let mut lost = Vec::new();
    for (round, seed) in setup.seeds.iter().enumerate() {
        for (share, outcomes) in setup.shares.iter().zip(&mut outcomes) {
            for turn in 0..columns {
                let index = (turn + round) % columns;
                let column = &setup.columns[index];
                let mut tell = |step| progress(done + step, total);
                let ended = column.play(experiment, setup, *share, *seed, &mut tell);
                let Ended { outcome, capacity, back } =
                    ended.map_err(|error| (option_behind(&error), error))?;
                if back != capacity {
                    lost.push(format!("{}: {back} of {capacity} frames", column.label));
                }
                outcomes[index].push(outcome);
                done += steps;
            }
        }
    }
    let sections = setup.shares.iter().zip(&outcomes);
    let sections = sections.map(|(share, outcomes)| Section {
        share: *share,
        runs: setup
            .columns
            .iter()
            .zip(outcomes)
            .map(|(column, outcomes)| run_of::<E>(column, *share, outcomes))
            .collect(),
        samples: setup.columns.iter().zip(outcomes).map(samples_of).collect(),
    });
    Ok(FragmentationResult { sections: sections.collect(), checks: vec![all_back(&lost, plays)] })
}

/// The option that caused an error of a run.
fn option_behind(error: &Error) -> &'static str {
    if error.is_about_memory() { "memory" } else { "machine" }
}

fn all_back(lost: &[String], plays: usize) -> Check {
    let detail = match lost {
        [] => {
            let runs = each_run(plays as u64);
            format!("after {runs} everything was freed and could be allocated again")
        }
        lost => format!(
            "after everything was freed, not all frames could be allocated: {}",
            lost.join(", ")
        ),
    };
    Check { name: "frames".to_owned(), passed: lost.is_empty(), detail }
}

fn samples_of((column, outcomes): (&Column, &Vec<Outcome>)) -> (String, Vec<Sample>) {
    (column.label.clone(), outcomes.first().map_or_else(Vec::new, |it| it.samples.clone()))
}

fn run_of<E: Experiment>(column: &Column, share: u8, outcomes: &[Outcome]) -> Run {
    let mut settings = column.settings.clone();
    settings.insert(E::SHARE.to_owned(), format!("{share}%"));
    Run {
        label: column.label.clone(),
        settings,
        metrics: metrics(E::FIGURES, outcomes),
        series: [(SERIES.to_owned(), medians(outcomes))].into_iter().collect(),
    }
}

/// The median series, point by point.
fn medians(outcomes: &[Outcome]) -> Vec<Point> {
    let points = outcomes.first().map_or(0, |outcome| outcome.series.len());
    let median = |index: usize| {
        let mut values: Vec<f64> = outcomes.iter().map(|it| it.series[index].1).collect();
        values.sort_by(f64::total_cmp);
        let middle = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
        Point(outcomes[0].series[index].0, middle)
    };
    (0..points).map(median).collect()
}
