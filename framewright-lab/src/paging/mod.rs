//! Workloads on pages of files, with less memory than they touch: reclaim, and what it costs to flush.
//!
//! A [`Paging`] is a workload, a machine, and how much memory that is given. Every side of a comparison
//! gets a machine of its own for every seed, a page cache, and the library that reclaims from it.
//! Each CPU of the machine has a *event loop*: it takes turns between the programs of that CPU and what
//! the kernel has to do there. The kernel's part is the background reclaim of its node, if it is the CPU
//! that does it, and writing dirty pages; direct reclaim happens inside the faults of programs.
//!
//! | module    | job                                                             |
//! |-----------|-----------------------------------------------------------------|
//! | `run`     | one side, one seed: a machine and everything on it              |
//! | `event loop`    | what one CPU does                                               |
//! | `timeline`  | how far it all is: the end, and what happened hour by hour      |
//! | `figures` | outcomes to metrics and series                                  |

mod event_loop;
mod figures;
mod run;
#[cfg(test)]
mod tests;
mod timeline;

use framewright_sim::machine::Spec;

use crate::{
    Error,
    report::{Check, Measured, each_run},
    simulated::too_small,
    workloads::{Side, cdn::Cdn, mmap_read::MmapRead},
};
use figures::Outcome;

pub use figures::plot;
pub(crate) use figures::run_of;

/// A workload on pages of files, on a simulated machine.
#[derive(Clone, Debug)]
pub struct Paging {
    /// What is run.
    pub work: Work,
    /// The machine.
    pub spec: Spec,
    /// Its memory, in frames.
    pub frames: u64,
}

/// What is run.
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
    /// Runs every side with every seed. `progress` hears how much of how much is done.
    ///
    /// # Errors
    ///
    /// [`Error`]: it cannot be had, or something that always holds did not.
    pub fn run(
        &self,
        sides: &[Side],
        seeds: &[u64],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Measured, Error> {
        self.refuse_nothing()?;
        let mut outcomes: Vec<Vec<Outcome>> = sides.iter().map(|_| Vec::new()).collect();
        let total = (sides.len() * seeds.len()) as u64;
        for (done, &seed) in seeds.iter().enumerate() {
            for (turn, side) in sides.iter().enumerate() {
                let before = (done * sides.len() + turn) as u64;
                let mut tell = |part: u64, of: u64| progress(before * of + part, total * of);
                outcomes[turn].push(self.run_once(side, seed, &mut tell)?);
            }
        }
        let runs = sides.iter().zip(&outcomes);
        Ok(Measured {
            runs: runs.map(|(side, outcomes)| run_of(side, outcomes)).collect(),
            checks: vec![Check::invariants(format!(
                "after {} nothing is isolated or unflushed, all frames are free, and the books \
                     agree",
                each_run(total)
            ))],
            ..Measured::default()
        })
    }

    /// One side, one seed.
    pub(crate) fn run_once(
        &self,
        side: &Side,
        seed: u64,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Outcome, Error> {
        run::run(self, side, seed, progress)
    }

    /// Memory that is too small for its CPUs to work in.
    fn refuse_nothing(&self) -> Result<(), Error> {
        /// Lists, runs that are read, and watermarks: 4 MiB.
        const EACH: u64 = 1 << 10;
        let needed = EACH * u64::from(self.spec.cpus());
        if needed <= self.frames {
            return Ok(());
        }
        Err(too_small(&self.spec, needed, self.frames, 4 * needed))
    }
}
