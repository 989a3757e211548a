//! Workloads: the requests that programs make to a page allocator, written once for all machines.
//!
//! A workload has two parts. Its *body* is the work of one CPU: a loop over a `Cpu`, which consists
//! of an allocator as one CPU sees it, and a world with time and memory. A body is independent of
//! threads, clocks and the allocator. A *driver* belongs to a kind of machine: it creates the CPUs,
//! runs the body on each, and turns counters and times into figures.
//!
//! ```text
//!   page_fault   kbuild   socket_pairs      bodies: the work of a CPU
//!          └────────┼────────┘
//!                  cpu                      the context of a body
//!          ┌────────┴────────┐
//!      Allocator           World            the interfaces
//!      Library, Lists      one per kind of machine
//! ```
//!
//! | module         | job                                                                  |
//! |----------------|----------------------------------------------------------------------|
//! | `world`        | the interfaces to machines (time, work, contents) and allocators     |
//! | `cpu`          | the context of a body: both interfaces, and counters                 |
//! | `counts`       | counters of allocators, and of CPUs                                  |
//! | `heat`         | cache heat: whether an allocated frame is still in a CPU's cache     |
//! | `figures`      | counters and times to metrics, the same for all machines             |
//! | [`page_fault`] | bursts of frames, allocated, then freed (will-it-scale's page_fault1) |
//! | [`kbuild`]     | compilers that fork, fault, write and exit                           |
//! | [`socket_pairs`] | blocks allocated on one CPU and freed on another (bw_unix)         |
//! | [`mmap_read`]  | files read once, of ten times the memory (lru-file-mmap-read)        |
//! | [`cdn`]        | a cache server with one mapping larger than memory (Varnish)         |
//! | [`host`]       | the driver for threads over real memory                              |

pub mod cdn;
pub(crate) mod counts;
pub(crate) mod cpu;
pub(crate) mod figures;
pub(crate) mod heat;
#[cfg(feature = "host")]
pub mod host;
pub mod kbuild;
pub mod mmap_read;
pub mod page_fault;
pub mod socket_pairs;
pub(crate) mod world;

use framewright::{Tuning, frame::PAGEBLOCK_FRAMES, reclaim::Throttle, tuning::Auto};
use indexmap::IndexMap;
use std::fmt;

use crate::{
    Error,
    report::{
        Run,
        figure::{Figure, metrics},
    },
};

use cpu::{Cpu, Stopped};
use kbuild::{Builder, Kbuild};
use page_fault::{Bursts, PageFault};
use socket_pairs::{End, SocketPairs};
use world::{Allocator, Message, Pipe, World};

/// Names of the counts of pauses that ended before their condition was met, by kind
/// ([`Throttle::ALL`]).
pub(crate) const EXPIRED: [&str; Throttle::COUNT] = [
    "pauses_expired_writeback",
    "pauses_expired_isolated",
    "pauses_expired_noprogress",
    "pauses_expired_congested",
    "pauses_expired_reserve",
];

pub(crate) use counts::Counts;
pub(crate) use figures::{LockCycles, Window, run_of};

/// One side of a comparison.
#[derive(Clone, Debug)]
pub struct Side {
    /// The name of its column in the comparison.
    pub label: String,
    /// Its tuning.
    pub tuning: Tuning,
    /// The settings that the result names.
    pub settings: IndexMap<String, String>,
}

impl Side {
    /// A side with the default tuning.
    pub(crate) fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), tuning: Tuning::default(), settings: IndexMap::new() }
    }

    /// This side with another setting, which the result names.
    ///
    /// # Panics
    ///
    /// If there is no such setting, or the value is not valid.
    #[must_use]
    pub(crate) fn with(mut self, key: &str, value: impl fmt::Display) -> Self {
        let value = value.to_string();
        self.tuning.set(key, &value).expect("a setting, and a value that it takes");
        self.settings.insert(key.to_owned(), value);
        self
    }

    /// Its run: the figures of its outcomes, one per round or seed.
    pub(crate) fn run<O>(&self, figures: &[Figure<O>], outcomes: &[O]) -> Run {
        Run {
            label: self.label.clone(),
            settings: self.settings.clone(),
            metrics: metrics(figures, outcomes),
            ..Run::default()
        }
    }

    /// The error of a failed run of this side with this seed.
    pub(crate) fn broken(&self, seed: u64, what: impl fmt::Display) -> Error {
        Error::broken(format_args!("{}, seed {seed}: {what}", self.label))
    }
}

/// Checks `zone.min_free`: of `frames` frames, a quarter must remain for requests.
///
/// # Errors
///
/// Less remains.
pub(crate) fn check_reserve(tuning: &Tuning, frames: u64) -> Result<(), Error> {
    let most = frames / 4 * 3;
    match tuning.zone.min_free {
        Auto::Fixed(reserve) if u64::from(reserve) > most => Err(Error::input(format_args!(
            "zone.min_free={reserve}: this reserves {} MiB, and of {} MiB a quarter must remain; set \
             zone.min_free to {most} at most",
            u64::from(reserve).div_ceil(256),
            frames >> 8
        ))),
        _ => Ok(()),
    }
}

/// [`check_reserve`] for each side.
pub(crate) fn check_reserves(sides: &[Side], frames: u64) -> Result<(), Error> {
    sides.iter().try_for_each(|side| check_reserve(&side.tuning, frames))
}

/// Runs every side with every seed: `run` gets the side, the seed, and the number of runs before.
/// Returns the outcomes of each side. Sides alternate.
pub(crate) fn run_sides<S, O>(
    sides: &[S],
    seeds: &[u64],
    mut run: impl FnMut(&S, u64, u64) -> Result<O, Error>,
) -> Result<Vec<Vec<O>>, Error> {
    let mut outcomes: Vec<Vec<O>> = sides.iter().map(|_| Vec::new()).collect();
    let mut done = 0;
    for &seed in seeds {
        for (side, outcomes) in sides.iter().zip(&mut outcomes) {
            outcomes.push(run(side, seed, done)?);
            done += 1;
        }
    }
    Ok(outcomes)
}

/// The workloads.
#[derive(Clone, Debug)]
pub enum Workload {
    /// Bursts of frames, allocated, then freed.
    PageFault(PageFault),
    /// Compilers that fork, fault, write and exit.
    Kbuild(Kbuild),
    /// Blocks allocated on one CPU and freed on another.
    SocketPairs(SocketPairs),
}

impl Workload {
    /// The same work with other random choices.
    #[must_use]
    pub fn with_seed(&self, seed: u64) -> Self {
        let mut work = self.clone();
        match &mut work {
            Self::PageFault(work) => work.seed = seed,
            Self::Kbuild(work) => work.seed = seed,
            Self::SocketPairs(work) => work.seed = seed,
        }
        work
    }

    /// Its name on the command line.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::PageFault(_) => "page-fault",
            Self::Kbuild(_) => "kbuild",
            Self::SocketPairs(_) => "socket-pairs",
        }
    }

    /// Frames that `cpus` CPUs hold together at most.
    #[must_use]
    pub fn live_frames(&self, cpus: u16) -> u64 {
        match self {
            Self::PageFault(work) => work.live_frames(cpus),
            Self::Kbuild(work) => work.live_frames(cpus),
            Self::SocketPairs(work) => work.live_frames(cpus),
        }
    }

    /// Pages that all CPUs together allocate in a cycle of the workload; 0 if it has no cycle that a window of the default
    /// length would not contain many times.
    pub(crate) fn cycle_pages(&self, cpus: u16) -> u64 {
        match self {
            Self::PageFault(work) => u64::from(cpus) * u64::from(work.frames),
            Self::Kbuild(_) | Self::SocketPairs(_) => 0,
        }
    }

    /// A size of memory that is always enough for `cpus` CPUs: 1.5 times the frames that they hold,
    /// and at least 64 MiB, in whole pageblocks.
    #[must_use]
    pub fn ample_frames(&self, cpus: u16) -> u64 {
        const LEAST: u64 = 64 << 8;
        let live = self.live_frames(cpus);
        (live + live / 2).max(LEAST).next_multiple_of(PAGEBLOCK_FRAMES as u64)
    }

    /// The error for a workload that lacks something.
    pub(crate) fn lacking(&self, what: &str) -> Error {
        Error::input(format_args!("{} needs at least one {what}", self.name()))
    }

    /// The missing part of the workload on `cpus` CPUs; `None` if it is complete.
    pub(crate) fn lacks(&self, cpus: u16) -> Option<&'static str> {
        match self {
            Self::PageFault(work) => work.lacks(),
            Self::Kbuild(work) => work.lacks(),
            Self::SocketPairs(work) => work.lacks(cpus),
        }
    }

    /// Whether its tasks need a scheduler, which only simulated machines have.
    pub(crate) fn is_scheduled(&self) -> bool {
        matches!(self, Self::SocketPairs(work) if !work.is_pinned())
    }

    /// The number of pipes that it needs, and their capacity.
    pub(crate) fn pipes(&self, cpus: u16) -> (u16, u16) {
        match self {
            Self::SocketPairs(work) => (work.pairs_on(cpus), work.in_flight),
            Self::PageFault(_) | Self::Kbuild(_) => (0, 0),
        }
    }

    /// The pipe of a CPU.
    pub(crate) fn pipe_of(&self, cpu: u16, cpus: u16) -> Option<usize> {
        match self {
            Self::SocketPairs(work) => work.role(cpu, cpus).map(|(pair, _)| usize::from(pair)),
            Self::PageFault(_) | Self::Kbuild(_) => None,
        }
    }
}

/// One CPU's part of a workload: its state.
pub(crate) enum Body<'w, A: Allocator> {
    PageFault(Bursts<'w, A>),
    Kbuild(Builder<'w, A>),
    SocketPairs(End<'w>),
}

/// The pipe that a CPU shares with another, if any.
pub(crate) type SharedPipe<'p, B> = Option<&'p dyn Pipe<Message<B>>>;

impl<'w, A: Allocator> Body<'w, A> {
    /// The part of CPU `cpu` of `cpus`, without frames yet.
    pub(crate) fn new(workload: &'w Workload, cpu: u16, cpus: u16) -> Self {
        match workload {
            Workload::PageFault(work) => Self::PageFault(Bursts::new(work, cpu)),
            Workload::Kbuild(work) => Self::Kbuild(Builder::new(work, cpu)),
            Workload::SocketPairs(work) => Self::SocketPairs(End::new(work, cpu, cpus)),
        }
    }

    /// Does some work before the clock starts. Returns whether more of it remains.
    pub(crate) fn age<W: World<A::Block>>(
        &mut self,
        cpu: &mut Cpu<'_, A, W>,
    ) -> Result<bool, Stopped> {
        match self {
            Self::PageFault(bursts) => bursts.age(cpu),
            Self::Kbuild(_) | Self::SocketPairs(_) => Ok(false),
        }
    }

    /// Works until the machine ends the run.
    pub(crate) fn work<W: World<A::Block>>(
        &mut self,
        cpu: &mut Cpu<'_, A, W>,
        pipe: SharedPipe<'_, A::Block>,
    ) -> Result<(), Stopped> {
        match (self, pipe) {
            (Self::PageFault(bursts), _) => bursts.work(cpu),
            (Self::Kbuild(builder), _) => builder.work(cpu),
            (Self::SocketPairs(end), Some(pipe)) => end.work(cpu, pipe),
            (Self::SocketPairs(_), None) => Ok(()),
        }
    }

    /// Frees every frame, even after an error. Returns the first error.
    pub(crate) fn free_all<W: World<A::Block>>(
        &mut self,
        cpu: &mut Cpu<'_, A, W>,
        pipe: SharedPipe<'_, A::Block>,
    ) -> Result<(), Stopped> {
        match (self, pipe) {
            (Self::PageFault(bursts), _) => bursts.free_all(cpu),
            (Self::Kbuild(builder), _) => builder.free_all(cpu),
            (Self::SocketPairs(end), Some(pipe)) => {
                end.free_all(cpu, pipe);
                Ok(())
            }
            (Self::SocketPairs(_), None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_alternate_and_the_first_error_ends_the_runs() {
        let run = |side: &char, seed, before| Ok((*side, seed, before));
        let outcomes = run_sides(&['a', 'b'], &[5, 6], run).unwrap();
        assert_eq!(outcomes, [[('a', 5, 0), ('a', 6, 2)], [('b', 5, 1), ('b', 6, 3)]]);
        let fails = |_: &char, _, before| match before {
            0 => Ok(()),
            1 => Err(Error::broken("x")),
            _ => unreachable!("a run after the error"),
        };
        assert!(run_sides(&['a', 'b'], &[5, 6], fails).is_err());
    }
}
