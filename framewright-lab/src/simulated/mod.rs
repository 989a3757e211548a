//! Workloads on simulated machines: the library and the classic design, side by side.
//!
//! A [`Simulation`] is a workload, a machine, and for how much virtual time it is watched. Every
//! [`Contender`] gets a machine and a memory of its own for every seed, with the nodes and CPUs of
//! the description; nothing here depends on what it runs on, and two equal simulations give equal
//! results. What they say is what a *model* says: see where the machine's parameters come from.
//!
//! What a run is:
//!
//! 1. *ageing*: outside the clock, CPUs take and give frames in turn, so that memory is not fresh
//!    and CPUs are not in step;
//! 2. *warm-up*, by the clock: queues form, lists find their sizes;
//! 3. the *window* that figures are taken from;
//! 4. outside the clock again, everything is given back, and the books are looked at.
//!
//! | module      | job                                                              |
//! |-------------|------------------------------------------------------------------|
//! | `contender` | who takes part, with which settings                              |
//! | `list_buddy` | a run of the classic design, a zone per node                    |
//! | `stage`     | a run of anything: ageing, warm-up, window, end                  |
//! | `stopwatch` | when a window begins and ends, and what was counted then         |
//! | `world`     | a simulated CPU's side of the seam                               |
//! | [`scaling`] | the same on machines of more and more CPUs                       |

pub(crate) mod contender;
mod list_buddy;
pub mod scaling;
mod stage;
mod stopwatch;
mod world;

use framewright_sim::{engine::Failure, machine::Spec};
use thiserror::Error;

use crate::{
    high_alloc::ReserveTooLarge,
    report::{Check, Run, each_run},
    workloads::{Window, Workload, run_of},
};

pub use contender::{Contender, Design, ListSizes};

/// A workload on a simulated machine.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// What its CPUs do.
    pub work: Workload,
    /// The machine.
    pub spec: Spec,
    /// Frames of memory in all, divided among nodes as the machine's own is; `None`: all it has.
    pub frames: Option<u64>,
    /// For how long.
    pub plan: Plan,
}

/// For how much virtual time a machine runs, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Before anything is counted.
    pub warm_up: u64,
    /// What figures are taken from.
    pub window: u64,
}

/// What came out.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulationResult {
    /// One run per contender, in their order: medians over the seeds.
    pub runs: Vec<Run>,
    /// Whether the books were in order at the end of every run.
    pub checks: Vec<Check>,
}

/// Why a simulation could not be had.
#[derive(Debug, Error)]
pub enum SimulationError {
    /// The memory could not be set up.
    #[error("cannot set up the memory of {machine}: {reason}")]
    Memory {
        /// The machine.
        machine: String,
        /// What is wrong.
        reason: String,
    },
    /// What CPUs hold does not fit.
    #[error(
        "the CPUs of {machine} hold up to {} MiB and it has {} MiB; give it at least {} MiB",
        mib(*needed), mib(*frames), mib(*ample)
    )]
    TooSmall {
        /// The machine.
        machine: String,
        /// Frames that CPUs hold together.
        needed: u64,
        /// Frames it has.
        frames: u64,
        /// Frames that would be ample.
        ample: u64,
    },
    /// This machine has too little memory to simulate so much.
    #[error(
        "to simulate {} MiB of memory takes {} MiB of this machine's, which has {} MiB available; give it \
         a smaller --memory",
        mib(*frames), needed >> 20, available >> 20
    )]
    TooLittleAvailable {
        /// Frames to simulate.
        frames: u64,
        /// Bytes for all of it.
        needed: u64,
        /// What the system says, in bytes.
        available: u64,
    },
    /// What is to stay free leaves too little for the work.
    #[error(transparent)]
    Reserve(#[from] ReserveTooLarge),
    /// The work has no frames, or no CPU to do it.
    #[error("{workload} needs at least one {what}")]
    Nothing {
        /// The workload.
        workload: &'static str,
        /// What it has none of.
        what: &'static str,
    },
    /// Something that always holds did not.
    #[error("{contender}, seed {seed}: {failure}")]
    Failed {
        /// Who.
        contender: String,
        /// With which seed.
        seed: u64,
        /// What happened.
        failure: Failure,
    },
    /// The books were wrong in the end.
    #[error("{contender}, seed {seed}: {what}")]
    Books {
        /// Who.
        contender: String,
        /// With which seed.
        seed: u64,
        /// What is wrong with them.
        what: String,
    },
}

impl SimulationError {
    /// Whether what it was given is to blame.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        !matches!(self, Self::Failed { .. } | Self::Books { .. })
    }
}

fn mib(frames: u64) -> u64 {
    frames.div_ceil(256)
}

/// What a reader must know about every figure of a simulation.
pub const MODEL_NOTE: &str = "times and shares of time are what a model of this machine says, not \
                              measurements; counts are what the code did";

impl Plan {
    /// As long as a warm-up or a window can be: ten minutes, for which a server of 224 CPUs keeps a
    /// processor busy for more than an hour. Both together end long before the clock does, at 2^48
    /// cycles, at any frequency that a machine may have.
    pub const MOST: u64 = 600_000_000_000;

    /// The same on a machine of `cpus` CPUs. A few CPUs do not average over what each of them does
    /// in turn (page-fault goes up and down within some 70 virtual ms), so they are watched longer;
    /// it costs as much as watching many.
    #[must_use]
    pub fn on(self, cpus: u16) -> Self {
        const ENOUGH: u64 = 64;
        let longer = (ENOUGH / u64::from(cpus.max(1))).clamp(1, 16);
        Self { window: (self.window * longer).min(Self::MOST), ..self }
    }

    /// What a workload takes to show itself on a machine of many CPUs.
    #[must_use]
    pub fn of(work: &Workload) -> Self {
        const MS: u64 = 1_000_000;
        match work {
            Workload::PageFault(_) => Self { warm_up: 20 * MS, window: 50 * MS },
            Workload::Kbuild(_) => Self { warm_up: 60 * MS, window: 200 * MS },
            Workload::SocketPairs(_) => Self { warm_up: 20 * MS, window: 50 * MS },
        }
    }
}

impl Simulation {
    /// Runs every contender with every seed. `progress` hears how many of how many runs are done.
    ///
    /// # Errors
    ///
    /// [`SimulationError`]: it cannot be had, or something that always holds did not.
    pub fn run(
        &self,
        contenders: &[Contender],
        seeds: &[u64],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<SimulationResult, SimulationError> {
        self.refuse_nothing()?;
        let mut windows: Vec<Vec<Window>> = contenders.iter().map(|_| Vec::new()).collect();
        let total = (contenders.len() * seeds.len()) as u64;
        for (done, &seed) in seeds.iter().enumerate() {
            for (turn, contender) in contenders.iter().enumerate() {
                progress((done * contenders.len() + turn) as u64, total);
                windows[turn].push(self.run_once(contender, seed)?);
            }
        }
        progress(total, total);
        let run = |(contender, windows): (&Contender, &Vec<Window>)| {
            run_of(&contender.label, &contender.settings, windows)
        };
        Ok(SimulationResult {
            runs: contenders.iter().zip(&windows).map(run).collect(),
            checks: vec![Check {
                name: "invariants".to_owned(),
                passed: true,
                detail: format!(
                    "after {} all frames are free, and the books agree",
                    each_run(total)
                ),
            }],
        })
    }

    /// The contender with lists of the given sizes, if any, for a zone of this machine.
    #[must_use]
    pub fn with_lists(&self, contender: &Contender, lists: Option<ListSizes>) -> Contender {
        let nodes = u64::from(self.spec.nodes());
        let near = self.spec.cpus().div_ceil(self.spec.nodes().into());
        match lists {
            Some(sizes) => contender.clone().with_lists(sizes, self.frames() / nodes, near),
            None => contender.clone(),
        }
    }

    /// One contender, one seed.
    pub(crate) fn run_once(
        &self,
        contender: &Contender,
        seed: u64,
    ) -> Result<Window, SimulationError> {
        let work = self.work.with_seed(seed);
        match &contender.design {
            Design::Framewright(tuning) => stage::run(self, &work, contender, seed, *tuning),
            Design::ListBuddy(tuning) => list_buddy::run(self, &work, contender, seed, *tuning),
        }
    }

    fn refuse_nothing(&self) -> Result<(), SimulationError> {
        if let Some(what) = self.work.lacks(self.spec.cpus()) {
            return Err(SimulationError::Nothing { workload: self.work.name(), what });
        }
        let (needed, frames) = (self.work.live_frames(self.spec.cpus()), self.frames());
        // Watermarks keep a little back, and nodes do not fill evenly.
        if needed + needed / 8 <= frames {
            return Ok(());
        }
        let ample = self.work.ample_frames(self.spec.cpus());
        let machine = self.spec.name().to_owned();
        Err(SimulationError::TooSmall { machine, needed, frames, ample })
    }

    /// Frames of the machine.
    fn frames(&self) -> u64 {
        self.frames.unwrap_or_else(|| self.spec.frames())
    }
}

#[cfg(test)]
mod tests;
