//! Workloads on simulated machines: the library and the classic design, side by side.
//!
//! A [`Simulation`] is a workload, a machine, and for how much virtual time it is watched. Every
//! [`Column`] gets a machine and a memory of its own for every seed, with the nodes and CPUs of
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
//! | `column` | who takes part, with which settings                              |
//! | `list_buddy` | a run of the classic design, a zone per node                    |
//! | `driver`     | a run of anything: ageing, warm-up, window, end                  |
//! | `memory`    | a memory on a simulated machine                                  |
//! | `stopwatch` | when a window begins and ends, and what was counted then         |
//! | `world`     | a simulated CPU's side of the seam                               |
//! | [`scaling`] | the same on machines of more and more CPUs                       |

pub(crate) mod column;
mod driver;
mod list_buddy;
pub(crate) mod memory;
pub mod scaling;
mod stopwatch;
mod world;

use framewright_sim::machine::Spec;
use std::fmt::Display;

use crate::{
    Error,
    report::{Check, Measured, each_run},
    workloads::{Window, Workload, run_of},
};

pub use column::{Column, Design, ListSizes};

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

/// The error that the memory of a machine cannot be set up.
pub(crate) fn refused(spec: &Spec, reason: &dyn Display) -> Error {
    Error::memory(format_args!("cannot set up the memory of {}: {reason}", spec.name()))
}

/// The error that what CPUs hold does not fit into a machine of so many frames; `ample` would do.
pub(crate) fn too_small(spec: &Spec, needed: u64, frames: u64, ample: u64) -> Error {
    let [needed, frames, ample] = [needed, frames, ample].map(|frames| frames.div_ceil(256));
    Error::memory(format_args!(
        "the CPUs of {} hold up to {needed} MiB and it has {frames} MiB; give it at least {ample} MiB",
        spec.name()
    ))
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
    /// Runs every column with every seed. `progress` hears how many of how many runs are done.
    ///
    /// # Errors
    ///
    /// [`Error`]: it cannot be had, or something that always holds did not.
    pub fn run(
        &self,
        columns: &[Column],
        seeds: &[u64],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Measured, Error> {
        self.refuse_nothing()?;
        let mut windows: Vec<Vec<Window>> = columns.iter().map(|_| Vec::new()).collect();
        let total = (columns.len() * seeds.len()) as u64;
        for (done, &seed) in seeds.iter().enumerate() {
            for (turn, column) in columns.iter().enumerate() {
                progress((done * columns.len() + turn) as u64, total);
                windows[turn].push(self.run_once(column, seed)?);
            }
        }
        progress(total, total);
        let run = |(column, windows): (&Column, &Vec<Window>)| {
            run_of(&column.label, &column.settings, windows)
        };
        Ok(Measured {
            runs: columns.iter().zip(&windows).map(run).collect(),
            checks: vec![Check::invariants(format!(
                "after {} all frames are free, and the books agree",
                each_run(total)
            ))],
            ..Measured::default()
        })
    }

    /// The column with lists of the given sizes, if any, for a zone of this machine.
    #[must_use]
    pub fn with_lists(&self, column: &Column, lists: Option<ListSizes>) -> Column {
        let nodes = u64::from(self.spec.nodes());
        let near = self.spec.cpus().div_ceil(self.spec.nodes().into());
        match lists {
            Some(sizes) => column.clone().with_lists(sizes, self.frames() / nodes, near),
            None => column.clone(),
        }
    }

    /// One column, one seed.
    pub(crate) fn run_once(&self, column: &Column, seed: u64) -> Result<Window, Error> {
        let work = self.work.with_seed(seed);
        match &column.design {
            Design::Framewright(tuning) => driver::run(self, &work, column, seed, *tuning),
            Design::ListBuddy(tuning) => list_buddy::run(self, &work, column, seed, *tuning),
        }
    }

    fn refuse_nothing(&self) -> Result<(), Error> {
        if let Some(what) = self.work.lacks(self.spec.cpus()) {
            return Err(self.work.lacking(what));
        }
        let (needed, frames) = (self.work.live_frames(self.spec.cpus()), self.frames());
        // Watermarks keep a little back, and nodes do not fill evenly.
        if needed + needed / 8 <= frames {
            return Ok(());
        }
        let ample = self.work.ample_frames(self.spec.cpus());
        Err(too_small(&self.spec, needed, frames, ample))
    }

    /// Frames of the machine.
    fn frames(&self) -> u64 {
        self.frames.unwrap_or_else(|| self.spec.frames())
    }
}

#[cfg(test)]
mod tests;
