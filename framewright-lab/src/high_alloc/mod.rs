//! *stress-highalloc*: how many huge pages there are while a machine is busy, and when it is idle again.
//!
//! # Theory of operation
//!
//! Builders compile: each copies a tree of small files into the page cache, and then runs one compiler
//! after the other, which reads sources and headers, uses anonymous memory, writes an object, and
//! ends. So memory holds what movable pages cannot be had without: inodes and directory entries,
//! buffer heads, page tables, stacks. A single thread asks for as many huge pages as make up 95 % of memory, one every
//! 125 ms, and keeps them: twice while builders build ([`Phase::First`], [`Phase::Second`]), and once
//! after they were killed, their trees deleted, and the cache was flushed ([`Phase::Idle`]).
//!
//! Here is the kernel around the library, as far as that matters: what each frame holds, a page cache,
//! slabs, programs. It owns pages for reclaim and moves them for compaction. It is written once, for a
//! *world*: the simulated CPUs that the library runs on, or threads over real memory. What is achievable
//! an oracle says, which asks the library nothing.
//!
//! | module    | job                                                             |
//! |-----------|-----------------------------------------------------------------|
//! | `frames`  | what each frame holds                                           |
//! | `files`   | files: their pages in the cache, dirty ones, inodes in use      |
//! | `slab`    | small objects of the kernel: what pollutes pageblocks           |
//! | `kernel`  | what CPUs share                                                 |
//! | `owner`   | reclaim's questions                                             |
//! | `mover`   | compaction's                                                    |
//! | `relief`  | what a request that is short of memory can have done            |
//! | `io`      | reading, writing and deleting files                             |
//! | `recorded` | a recorded machine's state to begin with                       |
//! | `builder` | a program that compiles                                         |
//! | `daemon`  | background reclaim, background compaction, writing back         |
//! | `pass`    | asking for huge pages                                           |
//! | `play`    | a run: what its CPUs do                                       |
//! | `share`   | how far it is                                                   |
//! | `world`   | what the kernel runs on                                         |
//! | `simulated` | simulated CPUs as a world; one side, one seed on them  |
//! | `host`    | threads over real memory as a world; runs on them               |
//! | `picture` | memory, a cell per pageblock                                     |
//! | `figures` | what was counted, and what follows from it           |

mod builder;
mod daemon;
mod figures;
mod files;
#[cfg(test)]
mod fixture;
mod frames;
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

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use framewright_host::available_memory;
use framewright_sim::machine::Spec;

use crate::{
    Error,
    replay::State,
    report::{Check, Measured, Run, each_run},
    workloads::Side,
};
use figures::Outcome;
pub use figures::Phase;
pub use host::HostHighAlloc;

/// What a request for a huge page may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default, clap::ValueEnum)]
pub enum Flags {
    /// Reclaim, compact, and wake who does it in the background
    #[default]
    Default,
    /// The same once, waking nobody: as for transparent huge pages
    Thp,
}

impl Flags {
    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Thp => "thp",
        }
    }
}

/// The workload on a simulated machine.
#[derive(Clone, Debug)]
pub struct HighAlloc {
    /// What requests may do.
    pub flags: Flags,
    /// The machine.
    pub spec: Spec,
    /// Its memory, in frames.
    pub frames: u64,
    /// How memory is in the beginning; or else all of it is free.
    pub from: Option<State>,
    /// A look: a fifth of the waiting.
    pub quick: bool,
    /// Memory is looked at now and then, for [`Measured::picture`].
    pub watched: bool,
}

/// A side for people: its name, and what was set.
fn label(side: &Side) -> String {
    let settings = side.settings.iter().map(|(key, value)| format!(", {key}={value}"));
    std::iter::once(side.label.clone()).chain(settings).collect()
}

impl HighAlloc {
    /// Memory where nobody says how much, in frames: 1 GiB.
    pub const DEFAULT_FRAMES: u64 = 1024 << 8;
    /// The least memory in which it means anything, in frames: 256 MiB.
    pub const LEAST_FRAMES: u64 = 256 << 8;
    /// The most, in frames: 256 GiB.
    pub const MOST_FRAMES: u64 = 256 << 18;
    /// What a run takes of the host's memory, in bytes for each frame: what is known of it, of the page
    /// in it, and of a page of the file that is as large as memory. Measured: 57 to 60.
    const BOOKS: u64 = 64;

    /// Who builds: one for each 400 MiB, and one more. They share all CPUs but the last.
    #[must_use]
    pub fn builders(&self) -> u64 {
        share::builders_for(self.frames)
    }

    /// Runs every side with every seed, on as many threads as the host has CPUs, and memory for.
    /// `progress` hears how much of how much is done.
    ///
    /// # Errors
    ///
    /// [`Error`]: it cannot be had, or something that always holds did not.
    pub fn run(
        &self,
        sides: &[Side],
        seeds: &[u64],
        progress: &mut (dyn FnMut(u64, u64) + Send),
    ) -> Result<Measured, Error> {
        let jobs: Vec<(usize, u64)> =
            seeds.iter().flat_map(|&seed| (0..sides.len()).map(move |side| (side, seed))).collect();
        let outcomes = self.run_all(sides, &jobs, progress)?;
        let of = |turn: usize| -> Vec<Outcome> {
            let mine = jobs.iter().zip(&outcomes).filter(|((side, _), _)| *side == turn);
            mine.map(|(_, outcome)| outcome.clone()).collect()
        };
        let runs = sides.iter().enumerate().map(|(turn, side)| figures::run_of(side, &of(turn)));
        let achievable = outcomes.iter().flat_map(|outcome| &outcome.phases);
        let least = achievable.map(|phase| phase.achievable_pct()).fold(100.0, f64::min);
        let picture = self.watched.then(|| {
            let first = sides.iter().enumerate();
            let seen = first.map(|(turn, side)| (label(side), of(turn).swap_remove(0).seen));
            picture::draw(&self.title(seeds.first()), &seen.collect::<Vec<_>>())
        });
        Ok(Measured {
            picture,
            runs: runs.collect(),
            checks: vec![
                Check::invariants(format!(
                    "after {} nothing is claimed or isolated, and all frames are \
                         where the kernel around the library thinks they are",
                    each_run(jobs.len() as u64)
                )),
                leaves_enough(least, self.quick, self.from.is_some()),
            ],
            notes: Vec::new(),
        })
    }

    /// Every side with one seed, a run for each.
    pub(crate) fn run_each(&self, sides: &[Side], seed: u64) -> Result<Vec<Run>, Error> {
        let jobs: Vec<(usize, u64)> = (0..sides.len()).map(|side| (side, seed)).collect();
        let outcomes = self.run_all(sides, &jobs, &mut |_, _| ())?;
        let runs = sides.iter().zip(outcomes);
        Ok(runs.map(|(side, outcome)| figures::run_of(side, &[outcome])).collect())
    }

    fn title(&self, seed: Option<&u64>) -> String {
        let (machine, mib, flags) = (self.spec.name(), self.frames >> 8, self.flags.name());
        let quick = if self.quick { ", --quick" } else { "" };
        let seed = seed.map_or_else(String::new, |seed| format!(", seed {seed}"));
        let from = self.from.as_ref();
        let from = from.map_or_else(String::new, |state| format!(", from {}", state.name()));
        format!("high-alloc, flags {flags}, on {machine} with {mib} MiB{from}{quick}{seed}")
    }

    /// How many runs there may be at once, where the host has so many bytes available.
    fn at_once(&self, available: Option<u64>) -> Result<usize, Error> {
        let needed = self.frames.saturating_mul(Self::BOOKS).max(1);
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let Some(available) = available else { return Ok(cpus) };
        match usize::try_from(available / needed).unwrap_or(usize::MAX) {
            0 => Err(Error::input(format_args!(
                "to simulate {} MiB of memory takes {} MiB of this machine's, which has {} MiB available; \
                 give it a smaller --memory",
                self.frames.div_ceil(256),
                needed >> 20,
                available >> 20
            ))),
            fit => Ok(cpus.min(fit)),
        }
    }

    /// All jobs, each a side and a seed; outcomes in their order.
    fn run_all(
        &self,
        sides: &[Side],
        jobs: &[(usize, u64)],
        progress: &mut (dyn FnMut(u64, u64) + Send),
    ) -> Result<Vec<Outcome>, Error> {
        relief::refuse_large(sides, self.frames)?;
        let threads = self.at_once(available_memory())?.min(jobs.len());
        let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let total = jobs.len() as u64 * share::PARTS;
        progress(0, total);
        let progress = Mutex::new(progress);
        let tell = |parts| {
            let done = done.fetch_add(parts, Ordering::Relaxed) + parts;
            (*progress.lock().expect("no other thread panicked"))(done, total);
        };
        let outcomes: Vec<_> = jobs.iter().map(|_| Mutex::new(None)).collect();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some(&(side, seed)) =
                        jobs.get(next.fetch_add(1, Ordering::Relaxed) as usize)
                    {
                        let at = jobs.iter().position(|&job| job == (side, seed)).unwrap_or(0);
                        let outcome = simulated::run(self, &sides[side], seed, &tell);
                        *outcomes[at].lock().expect("no other thread panicked") = Some(outcome);
                    }
                });
            }
        });
        let taken = outcomes.into_iter().map(|cell| cell.into_inner().ok().flatten());
        taken.map(|outcome| outcome.expect("every job was done")).collect()
    }

    /// One side, one seed.
    #[cfg(test)]
    fn run_once(&self, side: &Side, seed: u64) -> Result<Outcome, Error> {
        simulated::run(self, side, seed, &|_| ())
    }
}

/// Whether the load left enough to be won: `least` is what could be achieved where that was least.
fn leaves_enough(least: f64, quick: bool, recorded: bool) -> Check {
    let asked = match (quick, recorded) {
        (_, true) => "a state is what it is",
        (true, _) => "with --quick that is not judged",
        _ => "70 at least",
    };
    Check::new(
        "achievable",
        quick || recorded || least >= 70.0,
        format!("at least {least:.1} % of the huge pages, by the oracle; {asked}"),
    )
}
