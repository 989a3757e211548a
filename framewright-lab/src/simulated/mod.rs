//! Workloads on simulated machines: the library and the classic design (`list-buddy`, a buddy
//! allocator on free lists), side by side.
//!
//! A [`Simulation`] is a workload, a machine, and a virtual time. Every [`Column`] gets a machine
//! and a memory of its own for every seed, with the nodes and CPUs of the description. The result
//! does not depend on the host: equal simulations give equal results. Times are those of a *model*;
//! the machine file names the sources of its parameters.
//!
//! The phases of a run:
//!
//! 1. *ageing*, without the clock: CPUs allocate and free in turn, which scatters free memory and
//!    the phases of CPUs;
//! 2. *warm-up*, with the clock: queues form, lists reach their sizes;
//! 3. the *window*, in which figures are measured; if the plan says so, repeated until it is steady;
//! 4. the end, without the clock: everything is freed, and the metadata is checked.
//!
//! | module       | job                                                             |
//! |--------------|-----------------------------------------------------------------|
//! | `column`     | the allocators, with their settings                             |
//! | `list_buddy` | a run of the classic design, a zone per node                    |
//! | `scheduled`  | tasks of `socket-pairs` that share CPUs, and their scheduler     |
//! | `driver`     | a run of any allocator: ageing, warm-up, window, end            |
//! | `memory`     | a memory on a simulated machine                                 |
//! | `stopwatch`  | start and end of the window, and the counters at these times    |
//! | `world`      | a simulated CPU as the world of a workload                      |
//! | [`scaling`]  | a workload on machines with increasing numbers of CPUs          |

pub(crate) mod column;
mod driver;
mod list_buddy;
pub(crate) mod memory;
pub mod scaling;
mod scheduled;
mod stopwatch;
mod world;

use framewright_sim::machine::Spec;
use std::fmt::Display;

use crate::{
    Error,
    report::{Check, Measured, each_run},
    samples::Watch,
    workloads::{Window, Workload, check_reserve, run_of, run_sides},
};

pub use column::{Column, Design, ListSizes};
pub(crate) use list_buddy::{ListBlock, Lists, Zones, migratetype};
pub(crate) use stopwatch::lock_cycles;

/// A workload on a simulated machine.
///
/// # Example
///
/// ```
/// use framewright_lab::{
///     simulated::{Column, Plan, Simulation},
///     workloads::{Side, Workload, page_fault::PageFault},
/// };
/// use framewright_sim::machine::Spec;
/// # use framewright::Tuning;
///
/// let mut work = PageFault::new(1);
/// work.frames = 512;
/// let plan = Plan { warm_up: 0, window: 200_000, steady: false }; // nanoseconds of virtual time
/// let simulation =
///     Simulation { work: Workload::PageFault(work), spec: Spec::uniform(4)?, frames: None, plan };
/// let side = Side { label: "default".into(), tuning: Tuning::default(), settings: Default::default() };
/// let columns = [Column::framewright(&side), Column::list_buddy("list-buddy", &side)];
/// let measured = simulation.run(&columns, &[1], &mut |_, _| ())?;
/// for run in &measured.runs {
///     println!("{}: {} pages per second (modelled)", run.label, run.metrics["pages_per_s"].median);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The work of its CPUs.
    pub work: Workload,
    /// The machine.
    pub spec: Spec,
    /// Frames of memory, divided among nodes in the proportions of the machine's own memory;
    /// `None`: all of its memory.
    pub frames: Option<u64>,
    /// The lengths of its phases, in virtual time.
    pub plan: Plan,
}

/// Virtual times of a run, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Time before the window.
    pub warm_up: u64,
    /// The length of the window.
    pub window: u64,
    /// Whether the window is repeated until its rate is within 2 % of that of the window before. Each window then also
    /// has a whole cycle of the workload, in which every CPU allocates and frees a burst of page-fault.
    pub steady: bool,
}

/// The error for a memory that cannot be set up.
pub(crate) fn refused(spec: &Spec, reason: &dyn Display) -> Error {
    Error::memory(format_args!("cannot set up the memory of {}: {reason}", spec.name()))
}

/// The error for a machine with fewer `frames` than its CPUs hold; `ample` frames would be enough.
pub(crate) fn too_small(spec: &Spec, needed: u64, frames: u64, ample: u64) -> Error {
    let [needed, frames, ample] = [needed, frames, ample].map(|frames| frames.div_ceil(256));
    Error::memory(format_args!(
        "the CPUs of {} may hold {needed} MiB, which leaves too little of {frames} MiB; choose at least {ample} MiB",
        spec.name()
    ))
}

/// A note for every report of a simulation.
pub const MODEL_NOTE: &str = "times and shares of time are modelled, not measured; \
                              counts are exact";

impl Plan {
    /// Maximum warm-up or window: ten minutes. Their simulation takes more than an hour of CPU time
    /// for a server of 224 CPUs. At any valid frequency, both together end long before the clock
    /// overflows at 2^48 cycles.
    pub const MOST: u64 = 600_000_000_000;

    const fn fixed(warm_up: u64, window: u64) -> Self {
        Self { warm_up, window, steady: false }
    }

    /// This plan in a tenth of the time, with one window, for a quick run.
    #[must_use]
    pub(crate) fn quick(self) -> Self {
        Self::fixed(self.warm_up / 10, self.window / 10)
    }

    /// The plan for a machine of `cpus` CPUs. The phases of few CPUs do not average out (page-fault
    /// allocates and frees a burst within some 70 virtual ms), so small machines run longer. Their
    /// simulation then takes as long as that of many CPUs.
    #[must_use]
    pub fn on(self, cpus: u16) -> Self {
        const ENOUGH: u64 = 64;
        let longer = (ENOUGH / u64::from(cpus.max(1))).clamp(1, 16);
        Self { window: (self.window * longer).min(Self::MOST), ..self }
    }

    /// The default times of a workload on a machine of many CPUs.
    #[must_use]
    pub fn of(work: &Workload) -> Self {
        const MS: u64 = 1_000_000;
        match work {
            Workload::PageFault(_) => Self::fixed(20 * MS, 50 * MS),
            Workload::Kbuild(_) => Self::fixed(60 * MS, 200 * MS),
            Workload::SocketPairs(_) => Self::fixed(20 * MS, 50 * MS),
        }
    }
}

impl Simulation {
    /// Runs every column with every seed. `progress` gets the number of finished runs and of all
    /// runs.
    ///
    /// # Errors
    ///
    /// [`Error`]: the arguments cannot be used, or an invariant was violated.
    pub fn run(
        &self,
        columns: &[Column],
        seeds: &[u64],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Measured, Error> {
        self.run_watched(columns, seeds, Watch::default(), progress)
    }

    /// As [`Simulation::run`]. The runs are watched.
    ///
    /// # Errors
    ///
    /// As [`Simulation::run`].
    pub fn run_watched(
        &self,
        columns: &[Column],
        seeds: &[u64],
        watch: Watch<'_>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Measured, Error> {
        self.check_arguments()?;
        for column in columns {
            if let Design::Framewright(tuning) = &column.design {
                check_reserve(tuning, self.frames())?;
            }
        }
        let total = (columns.len() * seeds.len()) as u64;
        let windows = run_sides(columns, seeds, |column, seed, before| {
            progress(before, total);
            self.run_once_watched(column, seed, watch.of(seed, seeds))
        })?;
        progress(total, total);
        let run = |(column, windows): (&Column, &Vec<Window>)| {
            run_of(&column.label, &column.settings, windows)
        };
        let samples = |(column, windows): (&Column, &Vec<Window>)| {
            (column.label.clone(), windows.first().map_or_else(Vec::new, |it| it.samples.clone()))
        };
        Ok(Measured {
            samples: columns.iter().zip(&windows).map(samples).collect(),
            runs: columns.iter().zip(&windows).map(run).collect(),
            checks: vec![Check::invariants(format!(
                "after {} all frames are free, and the metadata is consistent",
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

    /// Runs one column with one seed.
    pub(crate) fn run_once(&self, column: &Column, seed: u64) -> Result<Window, Error> {
        self.run_once_watched(column, seed, Watch::default())
    }

    fn run_once_watched(
        &self,
        column: &Column,
        seed: u64,
        watch: Watch<'_>,
    ) -> Result<Window, Error> {
        let work = self.work.with_seed(seed);
        match &column.design {
            Design::Framewright(tuning) => driver::run(self, &work, column, seed, *tuning, watch),
            Design::ListBuddy(tuning) => list_buddy::run(self, &work, column, seed, *tuning, watch),
        }
    }

    fn check_arguments(&self) -> Result<(), Error> {
        if let Some(what) = self.work.lacks(self.spec.cpus()) {
            return Err(self.work.lacking(what));
        }
        let (needed, frames) = (self.work.live_frames(self.spec.cpus()), self.frames());
        // An eighth more, because watermarks reserve a little and nodes do not fill evenly.
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
