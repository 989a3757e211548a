//! Workloads whose file pages do not fit in memory. They measure reclaim and the cost of its TLB
//! flushes.
//!
//! A [`Paging`] is a workload, a machine, and its memory. Every side of a comparison has a machine
//! of its own for every seed, with a page cache from which the library reclaims. Each CPU of the
//! machine has an *event loop*, which alternates between the programs of that CPU and kernel work:
//! the background reclaim of its node, if this CPU runs it, and the write-back of dirty pages.
//! Direct reclaim happens inside the faults of programs.
//!
//! | module       | job                                                          |
//! |--------------|--------------------------------------------------------------|
//! | `run`        | a run of one side with one seed                              |
//! | `event_loop` | the event loop of one CPU                                    |
//! | `kept`       | blocks besides file pages                                    |
//! | `timeline`   | progress, and results hour by hour                           |
//! | `figures`    | outcomes to metrics and series                               |

mod event_loop;
mod figures;
mod kept;
mod run;
#[cfg(test)]
mod tests;
mod timeline;

use framewright_sim::machine::Spec;

use crate::{
    Error,
    report::{Check, Measured, each_run},
    samples::Watch,
    simulated::too_small,
    workloads::{Side, cdn::Cdn, check_reserves, mmap_read::MmapRead, run_sides},
};
pub(crate) use figures::Outcome;

pub use figures::plot;
pub(crate) use figures::run_of;

/// A workload on file pages, on a simulated machine.
#[derive(Clone, Debug)]
pub struct Paging {
    /// The workload.
    pub work: Work,
    /// The machine.
    pub spec: Spec,
    /// Its memory, in frames.
    pub frames: u64,
}

/// The workloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Files that are read once.
    MmapRead(MmapRead),
    /// A cache server.
    Cdn(Cdn),
}

impl Work {
    /// Its name on the command line.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::MmapRead(_) => "mmap-read",
            Self::Cdn(_) => "cdn",
        }
    }
}

impl Paging {
    /// Runs every side with every seed. `progress` gets the finished and the total amount of work.
    ///
    /// # Errors
    ///
    /// [`Error`]: the arguments cannot be used, or an invariant was violated.
    pub fn run(
        &self,
        sides: &[Side],
        seeds: &[u64],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Measured, Error> {
        self.run_watched(sides, seeds, Watch::default(), progress)
    }

    /// As [`Paging::run`]. The runs are watched.
    ///
    /// # Errors
    ///
    /// As [`Paging::run`].
    pub fn run_watched(
        &self,
        sides: &[Side],
        seeds: &[u64],
        watch: Watch<'_>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Measured, Error> {
        self.check_memory_size()?;
        check_reserves(sides, self.frames)?;
        let total = (sides.len() * seeds.len()) as u64;
        let outcomes = run_sides(sides, seeds, |side, seed, before| {
            let mut tell = |part: u64, of: u64| progress(before * of + part, total * of);
            run::run(self, side, seed, watch.of(seed, seeds), &mut tell)
        })?;
        let runs = || sides.iter().zip(&outcomes);
        let samples = |(side, outcomes): (&Side, &Vec<Outcome>)| {
            (side.label.clone(), outcomes.first().map_or_else(Vec::new, |it| it.samples.clone()))
        };
        Ok(Measured {
            samples: runs().map(samples).collect(),
            runs: runs().map(|(side, outcomes)| run_of(side, outcomes)).collect(),
            checks: vec![Check::invariants(format!(
                "after {} nothing is isolated or unflushed, all frames are free, and the metadata \
                 is consistent",
                each_run(total)
            ))],
            ..Measured::default()
        })
    }

    /// Runs one side with one seed.
    pub(crate) fn run_once(
        &self,
        side: &Side,
        seed: u64,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Outcome, Error> {
        run::run(self, side, seed, Watch::default(), progress)
    }

    /// Refuses memory that is too small for its CPUs.
    fn check_memory_size(&self) -> Result<(), Error> {
        /// Frames that a CPU needs for its lists, read-ahead and watermarks: 4 MiB.
        const FRAMES_PER_CPU: u64 = 1 << 10;
        let needed = FRAMES_PER_CPU * u64::from(self.spec.cpus());
        if needed <= self.frames {
            return Ok(());
        }
        Err(too_small(&self.spec, needed, self.frames, 4 * needed))
    }
}
