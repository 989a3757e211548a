//! *stress-highalloc*: huge pages on a machine under load, and when it is idle again.
//!
//! # Theory of operation
//!
//! Builders compile: each copies a tree of small files into the page cache, and then runs one
//! compiler after the other, which reads sources and headers, uses anonymous memory, writes an
//! object, and exits. Memory therefore has unmovable pages among the movable ones: inodes and
//! directory entries, buffer heads, page tables, stacks. A single thread requests 95 % of memory in
//! huge pages, one every 125 ms, and frees them at the end of the pass. Two passes run under load
//! ([`Phase::First`], [`Phase::Second`]). The third runs after the builders are killed, their trees
//! are deleted, and the cache is flushed ([`Phase::Idle`]).
//!
//! This module contains the parts of a kernel that matter for this: the use of each frame, a page
//! cache, slabs, programs. The kernel owns pages for reclaim and moves them for compaction. It runs
//! in a *world*: on simulated CPUs, or on threads over real memory. An oracle computes the
//! achievable number of huge pages without the library.
//!
//! | module    | job                                                             |
//! |-----------|-----------------------------------------------------------------|
//! | `frames`  | the use and state of each frame                                 |
//! | `files`   | files: their pages in the cache, dirty pages, inodes in use     |
//! | `program` | the pages of a program: in frames or in swap                    |
//! | `slab`    | small kernel objects, which make pageblocks unmovable           |
//! | `kernel`  | the state that CPUs share, and the context of a CPU             |
//! | `owner`   | the page owner for reclaim                                      |
//! | `mover`   | the mover for compaction                                        |
//! | `relief`  | reclaim and compaction for requests that are short of memory    |
//! | `io`      | reading, writing and deleting files                             |
//! | `recorded` | the initial state of a recorded machine                        |
//! | `builder` | a program that compiles                                         |
//! | `environment` | rules of kernels of other years                             |
//! | `daemon`  | background reclaim, background compaction, write-back           |
//! | `pass`    | requests for huge pages                                         |
//! | `play`    | a run: the work of its CPUs                                     |
//! | `share`   | the share of the work that is done, for the progress bar        |
//! | `world`   | the interface to simulated CPUs or threads                      |
//! | `simulated` | simulated CPUs as a world; runs on them                       |
//! | `host`    | threads over real memory as a world; runs on them               |
//! | `picture` | memory, a cell per pageblock                                    |
//! | `figures` | counters, and figures computed from them                        |

mod builder;
mod daemon;
mod environment;
mod figures;
mod files;
#[cfg(test)]
mod fixture;
mod frames;
#[cfg(feature = "host")]
mod host;
mod io;
mod kernel;
mod mover;
mod owner;
mod pass;
mod picture;
mod play;
mod program;
mod recorded;
mod relief;
mod share;
mod simulated;
mod slab;
#[cfg(test)]
mod tests;
mod world;

use std::sync::Mutex;

#[cfg(feature = "host")]
use framewright_host::available_memory;
use framewright_sim::machine::Spec;

use crate::{
    Error,
    choice::choice,
    parallel,
    replay::State,
    report::{Check, Measured, Run, Times, each_run},
    samples::Watch,
    workloads::{Side, check_reserves},
};
pub use environment::Environment;
use figures::Outcome;
pub use figures::Phase;
#[cfg(feature = "host")]
pub use host::HostHighAlloc;

choice! {
    /// The work that a request for a huge page may do.
    pub enum Flags {
        /// Reclaim, compact, and wake background reclaim and compaction
        #[default]
        Default = "default",
        /// Reclaim and compact once, without waking background work: as for transparent huge pages
        Thp = "thp",
    }
}

/// The workload on a simulated machine.
///
/// # Example
///
/// ```
/// use framewright::Tuning;
/// use framewright_lab::{high_alloc::{Environment, Flags, HighAlloc}, samples::Watch, workloads::Side};
/// use framewright_sim::machine::Spec;
///
/// let work = HighAlloc {
///     flags: Flags::Thp,
///     spec: Spec::uniform(4)?,
///     frames: HighAlloc::LEAST_FRAMES,
///     from: None,
///     environment: Environment::default(),
///     quick: true,
/// };
/// let side = Side { label: "default".into(), tuning: Tuning::default(), settings: Default::default() };
/// let watch = Watch { memory: true, ..Watch::default() }; // for the picture
/// let measured = work.run_watched(&[side], &[1], watch, &mut |_, _| ())?;
/// println!("{} % of the requests succeeded", measured.runs[0].metrics["success1_mean_pct"].median);
/// assert!(measured.picture.expect("it was watched").starts_with("<svg"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct HighAlloc {
    /// The work that requests may do.
    pub flags: Flags,
    /// The machine.
    pub spec: Spec,
    /// Its memory, in frames.
    pub frames: u64,
    /// The initial state of memory; `None`: all memory is free.
    pub from: Option<State>,
    /// The kernel around the library.
    pub environment: Environment,
    /// Short run: every wait takes a fifth of its usual time.
    pub quick: bool,
}

/// The label of a side: its name and its settings.
fn label(side: &Side) -> String {
    let settings: Vec<String> =
        side.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
    match settings.is_empty() {
        true => side.label.clone(),
        false => format!("{}: {}", side.label, settings.join(", ")),
    }
}

/// Unknown without the host machine.
#[cfg(not(feature = "host"))]
fn available_memory() -> Option<u64> {
    None
}

impl HighAlloc {
    /// Default memory in frames: 1 GiB.
    pub const DEFAULT_FRAMES: u64 = 1024 << 8;
    /// Minimum memory in frames: 256 MiB. Smaller memory has no meaningful figures.
    pub const LEAST_FRAMES: u64 = 256 << 8;
    /// Maximum memory in frames: 256 GiB.
    pub const MOST_FRAMES: u64 = 256 << 18;
    /// Host memory of a run, in bytes per frame: the state of the frame, of the page in it, and of
    /// a page of the file that is as large as memory. Measured: 57 to 60.
    const HOST_BYTES: u64 = 64;

    /// Number of builders: one for each 400 MiB, and one more. They share all CPUs but the last.
    #[must_use]
    pub fn builders(&self) -> u64 {
        share::builders_for(self.frames)
    }

    /// Runs every side with every seed, in parallel as far as the host has CPUs and memory.
    /// `progress` gets the finished and the total amount of work.
    ///
    /// # Errors
    ///
    /// [`Error`]: the host lacks memory, the arguments cannot be used, or an invariant was
    /// violated.
    pub fn run(
        &self,
        sides: &[Side],
        seeds: &[u64],
        progress: &mut (dyn FnMut(u64, u64) + Send),
    ) -> Result<Measured, Error> {
        self.run_watched(sides, seeds, Watch::default(), progress)
    }

    /// As [`HighAlloc::run`]. The runs are watched; with a trace they follow each other.
    ///
    /// # Errors
    ///
    /// As [`HighAlloc::run`].
    pub fn run_watched(
        &self,
        sides: &[Side],
        seeds: &[u64],
        watch: Watch<'_>,
        progress: &mut (dyn FnMut(u64, u64) + Send),
    ) -> Result<Measured, Error> {
        let jobs: Vec<(usize, u64)> =
            seeds.iter().flat_map(|&seed| (0..sides.len()).map(move |side| (side, seed))).collect();
        let outcomes = self.run_all(sides, &jobs, watch, progress)?;
        let of = |turn: usize| -> Vec<Outcome> {
            let mine = jobs.iter().zip(&outcomes).filter(|((side, _), _)| *side == turn);
            mine.map(|(_, outcome)| outcome.clone()).collect()
        };
        let runs = sides.iter().enumerate().map(|(turn, side)| figures::run_of(side, &of(turn)));
        let achievable = outcomes.iter().flat_map(|outcome| &outcome.phases);
        let least = achievable.map(|phase| phase.achievable_pct()).fold(100.0, f64::min);
        let seen = |(turn, side): (usize, &Side)| (label(side), of(turn).swap_remove(0).seen);
        let seen: Vec<_> = match watch.memory {
            true => sides.iter().enumerate().map(seen).collect(),
            false => Vec::new(),
        };
        let picture = watch.memory.then(|| picture::draw(&self.title(seeds.first()), &seen));
        let samples = |(turn, side): (usize, &Side)| (label(side), of(turn).swap_remove(0).samples);
        let times = Phase::ALL.iter().enumerate().map(|(phase, _)| {
            let latencies = |turn: usize| {
                of(turn).into_iter().flat_map(|it| it.phases[phase].latencies.clone()).collect()
            };
            let sides = sides.iter().enumerate();
            let sides = sides.map(|(turn, side)| (label(side), latencies(turn)));
            let title = format!("time of a request for a huge page, pass {}", phase + 1);
            Times { title, sides: sides.collect() }
        });
        Ok(Measured {
            picture,
            times: times.collect(),
            memory: seen.iter().map(|(label, seen)| picture::states(label, seen)).collect(),
            samples: sides.iter().enumerate().map(samples).collect(),
            runs: runs.collect(),
            checks: vec![
                Check::invariants(format!(
                    "after {} nothing is claimed or isolated, and the state of all frames is consistent",
                    each_run(jobs.len() as u64)
                )),
                leaves_enough(least, self.quick, self.from.is_some()),
            ],
            notes: Vec::new(),
        })
    }

    /// Runs every side with one seed; a run for each, also with the figures for comparison with publications.
    pub(crate) fn run_each(&self, sides: &[Side], seed: u64) -> Result<Vec<Run>, Error> {
        let jobs: Vec<(usize, u64)> = (0..sides.len()).map(|side| (side, seed)).collect();
        let outcomes = self.run_all(sides, &jobs, Watch::default(), &mut |_, _| ())?;
        let runs = sides.iter().zip(outcomes);
        Ok(runs.map(|(side, outcome)| figures::compared_run_of(side, outcome)).collect())
    }

    fn title(&self, seed: Option<&u64>) -> String {
        let (machine, mib, flags) = (self.spec.name(), self.frames >> 8, self.flags.name());
        let quick = if self.quick { ", --quick" } else { "" };
        let seed = seed.map_or_else(String::new, |seed| format!(", seed {seed}"));
        let from = self.from.as_ref();
        let from = from.map_or_else(String::new, |state| format!(", from {}", state.name()));
        format!("high-alloc, flags {flags}, on {machine} with {mib} MiB{from}{quick}{seed}")
    }

    /// The number of parallel runs on a host with this number of bytes available.
    fn at_once(&self, available: Option<u64>) -> Result<usize, Error> {
        let needed = self.frames.saturating_mul(Self::HOST_BYTES).max(1);
        let cpus = parallel::processors();
        let Some(available) = available else { return Ok(cpus) };
        match usize::try_from(available / needed).unwrap_or(usize::MAX) {
            0 => Err(Error::input(format_args!(
                "simulating {} MiB of memory takes {} MiB of this machine's memory, and {} MiB are available; \
                 choose a smaller --memory",
                self.frames.div_ceil(256),
                needed >> 20,
                available >> 20
            ))),
            fit => Ok(cpus.min(fit)),
        }
    }

    /// Runs all jobs, each a side and a seed. Outcomes are in the order of jobs.
    fn run_all(
        &self,
        sides: &[Side],
        jobs: &[(usize, u64)],
        watch: Watch<'_>,
        progress: &mut (dyn FnMut(u64, u64) + Send),
    ) -> Result<Vec<Outcome>, Error> {
        check_reserves(sides, self.frames)?;
        let threads = self.at_once(available_memory())?.min(jobs.len());
        let total = jobs.len() as u64 * share::PARTS;
        progress(0, total);
        let mut done = 0;
        let mut tell = |parts| {
            done += parts;
            progress(done, total);
        };
        let first = jobs.first().map(|&(_, seed)| seed);
        let watches = |seed| watch.memory && Some(seed) == first;
        let Some(trace) = watch.trace else {
            let run = |&(side, seed): &(usize, u64), tell: &(dyn Fn(u64) + Sync)| {
                let watch = Watch { trace: None, memory: watches(seed) };
                simulated::run(self, &sides[side], seed, watch, tell)
            };
            return parallel::map(jobs, threads, run, &mut tell).into_iter().collect();
        };
        // The processes of a trace follow one another.
        let tell = Mutex::new(tell);
        let tell = |parts| (*tell.lock().expect("no other thread panicked"))(parts);
        let run = |&(side, seed): &(usize, u64)| {
            let watch = Watch { trace: Some(trace), memory: watches(seed) };
            simulated::run(self, &sides[side], seed, watch, &tell)
        };
        jobs.iter().map(run).collect()
    }

    /// Runs one side with one seed.
    #[cfg(test)]
    fn run_once(&self, side: &Side, seed: u64, watch: Watch<'_>) -> Result<Outcome, Error> {
        simulated::run(self, side, seed, watch, &|_| ())
    }
}

/// Checks that enough huge pages were achievable: `least` is the smallest achievable share of all
/// runs.
fn leaves_enough(least: f64, quick: bool, recorded: bool) -> Check {
    let asked = match (quick, recorded) {
        (_, true) => "a recorded state is not judged",
        (true, _) => "not judged with --quick",
        _ => "at least 70 are needed",
    };
    Check::new(
        "achievable",
        quick || recorded || least >= 70.0,
        format!("at least {least:.1} % of the huge pages, by the oracle; {asked}"),
    )
}
