//! The same work on machines with increasing numbers of CPUs, as series for a plot.

use framewright_sim::{machine::Spec, toml_file::TomlError};

use super::{Column, ListSizes, Plan, Simulation};
use crate::Error;
use crate::report::Check;
use crate::report::Measured;
use crate::{
    plot::{Axis, Panel, Plot},
    report::{Better, Metric, Point, Run, Unit},
    workloads::Workload,
};

/// The figures that are drawn against CPUs.
pub const SERIES: [&str; 4] =
    ["pages_per_s", "zone_lock_wait_pct", "lock_cycles_per_frame", "held_by_cpus_pct"];

/// A workload on uniform machines.
#[derive(Clone, Debug)]
pub struct Scaling {
    /// The work of CPUs.
    pub work: Workload,
    /// The CPU counts of the machines.
    pub cpus: Vec<u16>,
    /// The virtual time; longer on small machines.
    pub plan: Plan,
    /// The same list sizes for all allocators, if any.
    pub lists: Option<ListSizes>,
}

impl Scaling {
    /// Runs every column on every machine with every seed. Returns one run per column: its series
    /// have a point per machine, its metrics are those of the largest machine. `progress` gets the
    /// number of finished machines and of all.
    ///
    /// # Errors
    ///
    /// As [`Simulation::run`].
    pub fn run(
        &self,
        columns: &[Column],
        seeds: &[u64],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Measured, Error> {
        let mut runs: Vec<Run> = Vec::new();
        for (done, &cpus) in self.cpus.iter().enumerate() {
            progress(done as u64, self.cpus.len() as u64);
            let simulation = self.on(cpus)?;
            let columns: Vec<Column> =
                columns.iter().map(|column| simulation.with_lists(column, self.lists)).collect();
            let result = simulation.run(&columns, seeds, &mut |_, _| {})?;
            if runs.is_empty() {
                let bare = |run: &Run| Run { label: run.label.clone(), ..Run::default() };
                runs = result.runs.iter().map(bare).collect();
            }
            for (run, mut figures) in runs.iter_mut().zip(result.runs) {
                append(run, f64::from(cpus), &figures);
                run.settings = std::mem::take(&mut figures.settings);
                run.metrics = figures.metrics;
            }
        }
        progress(self.cpus.len() as u64, self.cpus.len() as u64);
        let detail =
            "after each run all frames are free, and the metadata is consistent".to_owned();
        Ok(Measured { runs, checks: vec![Check::invariants(detail)], ..Measured::default() })
    }

    fn on(&self, cpus: u16) -> Result<Simulation, Error> {
        let refused = |error: TomlError| {
            Error::memory(format_args!("cannot set up the memory of uniform:{cpus}: {error}"))
        };
        let spec = Spec::uniform(cpus).map_err(refused)?;
        Ok(Simulation { work: self.work.clone(), spec, frames: None, plan: self.plan.on(cpus) })
    }
}

/// One more point of every series.
fn append(run: &mut Run, cpus: f64, figures: &Run) {
    for name in SERIES {
        if let Some(Metric { median, .. }) = figures.metrics.get(name) {
            run.series.entry(name.to_owned()).or_default().push(Point(cpus, *median));
        }
    }
}

/// Throughput and lock wait against CPUs.
#[must_use]
pub fn plot(runs: &[Run], title: &str, subtitle: &str) -> Plot {
    let cpus = || Axis::doubling("CPUs");
    let panel = |y: Axis, series: &str| Panel::of_series(runs, series, cpus(), y);
    Plot {
        title: title.to_owned(),
        subtitle: subtitle.to_owned(),
        panels: vec![
            panel(Axis::decades("pages per second, modelled"), "pages_per_s"),
            panel(Axis::linear("waiting for a zone lock, % of all cycles"), "zone_lock_wait_pct"),
        ],
    }
}

/// The unit of a series.
#[must_use]
pub fn unit_of(series: &str) -> (Unit, Better) {
    match series {
        "pages_per_s" => (Unit::PerSecond, Better::Higher),
        "lock_cycles_per_frame" => (Unit::CyclesPerFrame, Better::Lower),
        _ => (Unit::Percent, Better::Lower),
    }
}
