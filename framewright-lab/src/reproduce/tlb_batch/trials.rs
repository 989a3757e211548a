//! What is run: machines, readers, settings.

use framewright::{
    Tuning,
    tuning::{Auto, FlushBatching},
};
use framewright_sim::machine::Spec;
use indexmap::IndexMap;

use crate::{
    paging::{Paging, Work, run_of},
    report::{Metric, Run, Sides},
    reproduce::{Key, Plan, ReproduceError, pairs::Steps},
    workloads::{
        Side,
        mmap_read::{MmapRead, Readers},
    },
};

/// The published machines.
pub(super) const LARGE: &str = "numa-4n-48";
pub(super) const DESK: &str = "desk-1n-4";
/// As many CPUs as the kernels had.
pub(super) const FOUR: &str = "uniform:4";
pub(super) const EIGHT: &str = "uniform:8";

/// What rows call the workload, by who reads.
pub(super) const PROCESSES: &str = "mmap-read";
pub(super) const THREADS: &str = "mmap-read-threads";

/// Solid-state disks of the server of the thread.
pub(super) const DISKS: u32 = 24;

/// Settings that every trial is run with, in this order.
pub(super) const SETTINGS: usize = 5;
pub(super) const OFF: usize = 0;
pub(super) const CLEAN_ONLY: usize = 1;
pub(super) const ALL: usize = 2;
pub(super) const EQUAL: usize = 3;
pub(super) const DEFAULT: usize = 4;

pub(super) const BATCHED: &str = "off, all";
pub(super) const LAZY_EQUAL: &str = "all, lazy=";
pub(super) const LAZY: &str = "all, lazy";

/// What rows compare: a name, and the settings before and after.
pub(super) const PAIRS: [(&str, usize, usize); 4] = [
    (BATCHED, OFF, ALL),
    ("off, clean-only", OFF, CLEAN_ONLY),
    (LAZY_EQUAL, ALL, EQUAL),
    (LAZY, ALL, DEFAULT),
];

/// A machine and its readers.
pub(super) struct Trial {
    pub(super) workload: &'static str,
    pub(super) paging: Paging,
    /// Distance between watermarks, as `zone.watermark_scale`: in frames that of the machine that it
    /// stands for, whose memory is larger.
    watermark_scale: u32,
    /// Batches of CPU lists, which that memory determines too, where it is larger.
    pcp_batch: Auto,
}

/// What came of all settings, one run per seed.
pub(super) struct Outcome([Vec<Run>; SETTINGS]);

/// Everything that is run.
pub(super) fn trials(plan: &Plan) -> Result<Vec<Trial>, ReproduceError> {
    const MIB: u64 = 256;
    /// What Linux, and the library, make of the memory that the published machines had.
    const BATCH: Auto = Auto::Fixed(63);
    /// Their memory, how often it is read, the distance of its watermarks, and the batches of its CPU
    /// lists. The published machines had more memory; the kernels had this.
    const SHAPES: [(&str, u64, u32, u32, Auto); 4] = [
        (DESK, 512, 10, 160, BATCH),
        (FOUR, 512, 4, 10, Auto::Auto),
        (EIGHT, 768, 3, 10, Auto::Auto),
        (LARGE, 2048, 10, 320, BATCH),
    ];
    let mut trials = Vec::new();
    for (machine, mib, times, watermark_scale, pcp_batch) in SHAPES {
        let spec = match machine.strip_prefix("uniform:") {
            Some(cpus) => Spec::uniform(cpus.parse().unwrap_or(1))?,
            None => Spec::preset(machine)?,
        };
        for readers in [Readers::Processes, Readers::Threads] {
            if machine == DESK && readers == Readers::Threads {
                continue;
            }
            let (frames, times) = if plan.quick { (mib * MIB / 4, 3) } else { (mib * MIB, times) };
            let work = Work::MmapRead(MmapRead { times, ..MmapRead::new(readers) });
            let workload = if readers == Readers::Threads { THREADS } else { PROCESSES };
            let paging = Paging { work, spec: spec.clone(), frames };
            trials.push(Trial { workload, paging, watermark_scale, pcp_batch });
        }
    }
    Ok(trials)
}

/// What 48 CPUs read from 24 disks: whether reclaim keeps up with what a store delivers.
pub(super) fn stored(plan: &Plan) -> Result<Trial, ReproduceError> {
    let mut trial = trials(plan)?.into_iter().rfind(|trial| trial.workload == PROCESSES);
    if let Some(Trial { paging: Paging { work: Work::MmapRead(work), .. }, .. }) = &mut trial {
        work.disks = DISKS;
    }
    trial.ok_or_else(|| ReproduceError::Failed("no trial with processes".to_owned()))
}

/// The settings of one side; `bound` are the frames that were unflushed at once with batches.
fn side(setting: usize, bound: u32) -> Side {
    let mut tuning = Tuning::default();
    let (batching, name) = match setting {
        OFF => (FlushBatching::Off, "off"),
        CLEAN_ONLY => (FlushBatching::CleanOnly, "clean-only"),
        ALL => (FlushBatching::All, "all"),
        _ => (FlushBatching::Lazy, "lazy"),
    };
    tuning.tlb.batching = batching;
    let mut settings = IndexMap::from([("tlb.batching".to_owned(), name.to_owned())]);
    if setting == EQUAL {
        // Those of batches under way included.
        tuning.tlb.deferred_max = Auto::Fixed(bound);
        settings.insert("tlb.deferred_max".to_owned(), bound.to_string());
    }
    Side { label: name.to_owned(), tuning, settings }
}

impl Trial {
    pub(super) fn key<'k>(&'k self, subject: &'k str, metric: &'k str) -> Key<'k> {
        Key { workload: self.workload, machine: self.paging.spec.name(), subject, metric }
    }

    /// What it is, for people.
    pub(super) fn name(&self) -> String {
        format!("{} on {}", self.workload, self.paging.spec.name())
    }

    /// The same with another memory.
    #[cfg(test)]
    pub(super) fn with_frames(mut self, frames: u64) -> Self {
        self.paging.frames = frames;
        self
    }

    /// The settings of one side, on memory that behaves like that of the machine it stands for.
    fn side(&self, setting: usize, bound: u32) -> Side {
        let mut side = side(setting, bound);
        side.tuning.zone.watermark_scale = self.watermark_scale;
        side.tuning.pcp.batch = self.pcp_batch;
        side
    }

    /// Runs the default setting with one seed.
    pub(super) fn run_default(&self, seed: u64) -> Result<Run, ReproduceError> {
        let side = self.side(DEFAULT, 0);
        let outcome = self.paging.run_once(&side, seed, &mut |_, _| {})?;
        let label = format!("{}, {DISKS} disks, {}", self.name(), side.label);
        Ok(run_of(&Side { label, ..side }, &[outcome]))
    }

    /// Runs all settings with every seed, one after the other.
    pub(super) fn run(
        &self,
        plan: &Plan,
        steps: &mut Steps<'_, '_>,
    ) -> Result<Outcome, ReproduceError> {
        let mut runs: [Vec<Run>; SETTINGS] = Default::default();
        for &seed in &plan.seeds {
            let mut bound = 0;
            for (setting, runs) in runs.iter_mut().enumerate() {
                let side = self.side(setting, bound);
                let outcome = self.paging.run_once(&side, seed, &mut |_, _| {})?;
                if setting == ALL {
                    bound = u32::try_from(outcome.unflushed).unwrap_or(u32::MAX);
                }
                let label = format!("{}, {}", self.name(), side.label);
                runs.push(run_of(&Side { label, ..side }, &[outcome]));
                steps.step();
            }
        }
        Ok(Outcome(runs))
    }
}

impl Outcome {
    /// A figure with two settings.
    pub(super) fn sides(&self, before: usize, after: usize, metric: &str) -> Option<Sides> {
        let known: &Metric = self.0[before].first()?.metrics.get(metric)?;
        let (unit, better) = (known.unit, known.better);
        Sides::paired(&self.values(before, metric)?, &self.values(after, metric)?, unit, better)
    }

    /// The median of a figure with a setting.
    pub(super) fn median(&self, setting: usize, metric: &str) -> Option<f64> {
        let known = self.0[setting].first()?.metrics.get(metric)?;
        let values = self.values(setting, metric)?;
        Some(Metric::of_rounds(&values, known.unit, known.better)?.median)
    }

    fn values(&self, setting: usize, metric: &str) -> Option<Vec<f64>> {
        let value = |run: &Run| Some(run.metrics.get(metric)?.median);
        self.0[setting].iter().map(value).collect()
    }

    /// One run per setting: medians over the seeds.
    pub(super) fn runs(self) -> impl Iterator<Item = Run> {
        self.0.into_iter().filter_map(|runs| super::super::pairs::over_seeds(&runs))
    }
}
