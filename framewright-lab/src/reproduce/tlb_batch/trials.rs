//! The runs: machines, readers, settings.

use framewright::tuning::Auto;
use framewright_sim::machine::Spec;

use crate::Error;
use crate::{
    paging::{Paging, Work, run_of},
    report::{Better, Metric, Run, Unit, figure::ratio},
    reproduce::{
        Key, Plan,
        bands::{Variation, Varied, vary},
        settings::BySetting,
    },
    workloads::{
        Side,
        mmap_read::{MmapRead, Readers},
    },
};

/// The published machines.
pub(super) const LARGE: &str = "numa-4n-48";
pub(super) const DESK: &str = "desk-1n-8";
/// The machines with as many CPUs as the kernels whose interrupts were counted.
pub(super) const FOUR: &str = "uniform:4";
pub(super) const EIGHT: &str = "uniform:8";

/// The names of the workload in rows, by kind of readers.
pub(super) const PROCESSES: &str = "mmap-read";
pub(super) const THREADS: &str = "mmap-read-threads";
/// Processes whose files fit into half of the memory: nothing is reclaimed.
pub(super) const NO_PRESSURE: &str = "mmap-read, no pressure";

/// Interrupts per page that was read. With [`NO_PRESSURE`] no page is reclaimed by which they could be divided.
pub(super) const PER_READ_PAGE: &str = "ipis_per_read_page";

/// The number of solid-state disks of the server in the trial [`stored`].
pub(super) const DISKS: u32 = 24;

/// Number of settings. The settings have the numbers below.
pub(super) const SETTINGS: usize = 7;
pub(super) const OFF: usize = 0;
pub(super) const CLEAN_ONLY: usize = 1;
pub(super) const ALL: usize = 2;
/// Lazy, with at most as many unflushed frames as with [`ALL`].
pub(super) const LAZY_SAME_BOUND: usize = 3;
pub(super) const DEFAULT: usize = 4;
/// Batches of 32, flushed page by page by address, whether or not the pages are neighbours.
pub(super) const OF_32: usize = 5;
/// The same, with as many addresses as fit into a page.
pub(super) const OF_A_PAGE: usize = 6;

/// Addresses of eight bytes in a page of 4 KiB, less a mask of CPUs and two counters.
const ADDRESSES: u32 = 500;

pub(super) const BATCHED: &str = "off, all";
pub(super) const SAME_BOUND: &str = "all, lazy, same bound";
pub(super) const LAZY: &str = "all, lazy";
pub(super) const BATCH_OF_32: &str = "off, batches of 32";
pub(super) const BATCH_OF_A_PAGE: &str = "off, batches of 500";

/// The comparisons of rows: a name, and the settings before and after.
pub(super) const PAIRS: [(&str, usize, usize); 6] = [
    (BATCHED, OFF, ALL),
    (BATCH_OF_32, OFF, OF_32),
    (BATCH_OF_A_PAGE, OFF, OF_A_PAGE),
    ("off, clean-only", OFF, CLEAN_ONLY),
    (SAME_BOUND, ALL, LAZY_SAME_BOUND),
    (LAZY, ALL, DEFAULT),
];

/// A machine and its readers.
pub(super) struct Trial {
    pub(super) workload: &'static str,
    pub(super) paging: Paging,
    /// Distance between watermarks, as `zone.watermark_scale`. In frames it equals that of the
    /// machine that the trial represents, which has more memory.
    watermark_scale: u32,
    /// Batches of CPU lists, as that larger memory determines them.
    pcp_batch: Auto,
}

/// Cycles of a reader for a page on the published machines: 2.8 µs at 2.5 GHz, the published user time per page of the
/// small one.
const USER_CYCLES: u64 = 7_000;

/// All trials, the longest first, so that all threads end at about the same time.
pub(super) fn trials(plan: &Plan) -> Result<Vec<Trial>, Error> {
    const MIB: u64 = 256;
    /// The batch that Linux and the library compute for the memory of the published machines.
    const BATCH: Auto = Auto::Fixed(63);
    /// Memory, the amount to read, the distance between watermarks, and the batches of CPU lists.
    /// The published machines had more memory; the kernels whose interrupts were counted had this
    /// much.
    const SHAPES: [(&str, u64, u32, u32, Auto); 4] = [
        (LARGE, 2048, 10, 320, BATCH),
        (DESK, 512, 10, 160, BATCH),
        (EIGHT, 768, 3, 10, Auto::Auto),
        (FOUR, 512, 4, 10, Auto::Auto),
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
            let mut work = MmapRead { times, ..MmapRead::new(readers) };
            if [LARGE, DESK].contains(&machine) {
                work.cycles_per_page = USER_CYCLES;
            }
            let trial = |workload, work| {
                let paging = Paging { work: Work::MmapRead(work), spec: spec.clone(), frames };
                Trial { workload, paging, watermark_scale, pcp_batch }
            };
            if [LARGE, DESK].contains(&machine) && readers == Readers::Processes {
                let fits = MmapRead { times: 1, divisor: 2, ..work.clone() };
                trials.push(trial(NO_PRESSURE, fits));
            }
            let workload = if readers == Readers::Threads { THREADS } else { PROCESSES };
            trials.push(trial(workload, work));
        }
    }
    Ok(trials)
}

/// 48 CPUs that read from 24 disks, to check whether reclaim keeps up with storage.
pub(super) fn stored(plan: &Plan) -> Result<Trial, Error> {
    let is_large = |trial: &Trial| trial.workload == PROCESSES && trial.paging.spec.name() == LARGE;
    let mut trial = trials(plan)?.into_iter().find(is_large);
    if let Some(Trial { paging: Paging { work: Work::MmapRead(work), .. }, .. }) = &mut trial {
        work.disks = DISKS;
    }
    trial.ok_or_else(|| Error::broken("no trial with processes"))
}

/// The settings of one side; `bound` is the maximum number of unflushed frames with batches.
fn side(setting: usize, bound: u32) -> Side {
    let batching = match setting {
        OFF => "off",
        CLEAN_ONLY => "clean-only",
        ALL | OF_32 | OF_A_PAGE => "all",
        _ => "lazy",
    };
    let side = Side::new(batching).with("tlb.batching", batching);
    let Some(pages) = addresses(setting) else {
        // The bound includes frames in incomplete batches.
        let lazy = setting == LAZY_SAME_BOUND;
        let label = "lazy, same bound".to_owned();
        return if lazy { Side { label, ..side }.with("tlb.deferred_max", bound) } else { side };
    };
    let side = Side { label: format!("batches of {pages}"), ..side };
    side.with("tlb.batch", pages).with("tlb.single_page_flush_ceiling", pages)
}

/// The number of addresses of a batch that is flushed by address, as in the first version of the published series.
fn addresses(setting: usize) -> Option<u32> {
    match setting {
        OF_32 => Some(32),
        OF_A_PAGE => Some(ADDRESSES),
        _ => None,
    }
}

/// The machine on which a setting runs. The library flushes a batch of scattered pages as a whole. If the setting flushes
/// by address, such a flush costs as much as the invalidation of every address of a full batch: a batch of the first version
/// had no address spaces, so each interrupted CPU invalidated all addresses. That is an upper bound: some batches are
/// flushed before they are full. TLB misses have no cost on any machine, so a full flush has no cost later.
fn priced(spec: &Spec, setting: usize) -> Result<Spec, Error> {
    let Some(pages) = addresses(setting) else { return Ok(spec.clone()) };
    let tlb = spec.costs().tlb;
    let by_address = f64::from(pages) * tlb.invalidate_page as f64;
    Ok(spec.scaled("tlb.flush_all", by_address / tlb.flush_all.max(1) as f64)?)
}

impl Trial {
    pub(super) fn key<'k>(&'k self, subject: &'k str, metric: &'k str) -> Key<'k> {
        Key { workload: self.workload, machine: self.paging.spec.name(), subject, metric }
    }

    /// Cycles of the CPUs that a flush by address interrupts, for each reclaimed page, with batches of a page.
    pub(super) fn cycles_by_address(&self, outcome: &BySetting) -> Option<f64> {
        let interrupts = outcome.median(OF_A_PAGE, "ipis_per_reclaimed_page")?;
        let price = self.paging.spec.costs().tlb.invalidate_page as f64;
        Some(interrupts * f64::from(ADDRESSES) * price)
    }

    /// Its description.
    pub(super) fn name(&self) -> String {
        format!("{} on {}", self.workload, self.paging.spec.name())
    }

    /// The label of the runs of a side.
    fn label(&self, side: &Side) -> String {
        format!("{}, {}", self.name(), side.label)
    }

    /// This trial with another size of memory.
    #[cfg(test)]
    pub(super) fn with_frames(mut self, frames: u64) -> Self {
        self.paging.frames = frames;
        self
    }

    /// The settings of one side, for memory that behaves like that of the machine that the trial
    /// represents.
    fn side(&self, setting: usize, bound: u32) -> Side {
        let mut side = side(setting, bound);
        side.tuning.zone.watermark_scale = self.watermark_scale;
        side.tuning.pcp.batch = self.pcp_batch;
        side
    }

    /// Whether the times of this machine and workload were published.
    pub(super) fn is_published(&self) -> bool {
        let timed = [LARGE, DESK].contains(&self.paging.spec.name());
        timed && [PROCESSES, NO_PRESSURE].contains(&self.workload)
    }

    /// Runs one setting with one seed, on a machine like `spec`.
    fn once(&self, spec: &Spec, setting: usize, bound: u32, seed: u64) -> Result<Run, Error> {
        let side = self.side(setting, bound);
        let paging = Paging { spec: priced(spec, setting)?, ..self.paging.clone() };
        let outcome = paging.run_once(&side, seed, &mut |_, _| {})?;
        let label = self.label(&side);
        let per_page = ratio(outcome.interrupts, outcome.pages);
        let mut run = run_of(&Side { label, ..side }, &[outcome]);
        let metric = Metric::once(per_page, Unit::Ratio, Some(Better::Lower));
        run.metrics.insert(PER_READ_PAGE.to_owned(), metric);
        Ok(run)
    }

    /// Runs without batches and with the setting `after` on machines with other parameters, with the first seed.
    pub(super) fn vary(
        &self,
        plan: &Plan,
        after: usize,
        done: &dyn Fn(u64),
    ) -> Result<Vec<Varied>, Error> {
        vary(&self.paging.spec, plan, |spec| {
            let runs = [OFF, after].map(|setting| self.once(spec, setting, 0, plan.seeds[0]));
            let [before, after] = runs;
            done(1);
            Ok([before?, after?])
        })
    }

    /// Runs the default setting with one seed.
    pub(super) fn run_default(&self, seed: u64) -> Result<Run, Error> {
        let side = self.side(DEFAULT, 0);
        let outcome = self.paging.run_once(&side, seed, &mut |_, _| {})?;
        let label = format!("{}, {DISKS} disks, {}", self.name(), side.label);
        Ok(run_of(&Side { label, ..side }, &[outcome]))
    }

    /// Its settings: those of the first version of the published series only where times were published, and without
    /// pressure only those of the published change.
    pub(super) fn settings(&self) -> Vec<usize> {
        match (self.workload, self.is_published()) {
            (NO_PRESSURE, _) => vec![OFF, ALL],
            (_, true) => (0..SETTINGS).collect(),
            (_, false) => (0..OF_32).collect(),
        }
    }

    /// The comparisons whose modelled figures get bands: the published change and, if each parameter varies by itself,
    /// also the first version of its series.
    pub(super) fn banded(&self, plan: &Plan) -> Vec<(&'static str, usize)> {
        let all = [(BATCHED, ALL), (BATCH_OF_32, OF_32), (BATCH_OF_A_PAGE, OF_A_PAGE)];
        let each = plan.variation == Variation::Each && self.workload == PROCESSES;
        let some = if each { &all[..] } else { &all[..1] };
        if self.is_published() { some.to_vec() } else { Vec::new() }
    }

    /// Runs all settings with every seed, one after the other.
    pub(super) fn run(&self, plan: &Plan, done: &dyn Fn(u64)) -> Result<BySetting, Error> {
        let mut runs = vec![Vec::new(); SETTINGS];
        for &seed in &plan.seeds {
            let mut bound = 0;
            for setting in self.settings() {
                let run = self.once(&self.paging.spec, setting, bound, seed)?;
                if setting == ALL {
                    let unflushed = run.metrics.get("unflushed_frames_max");
                    bound = unflushed.map_or(u32::MAX, |frames| frames.median as u32);
                }
                runs[setting].push(run);
                done(1);
            }
        }
        Ok(BySetting(runs))
    }
}

/// This machine with one reader, as it is named in rows.
pub(super) const HOST: &str = "host:1";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_run_has_a_label_of_its_own() {
        let mut labels = HashSet::new();
        for trial in trials(&Plan::new(1, true)).unwrap() {
            for setting in trial.settings() {
                let label = trial.label(&trial.side(setting, 1));
                assert!(labels.insert(label.clone()), "{label}");
            }
        }
    }

    #[test]
    fn a_flush_by_address_costs_as_much_as_all_invalidations_of_its_batch() {
        let spec = Spec::preset(DESK).unwrap();
        let price = |setting| priced(&spec, setting).unwrap().costs().tlb.flush_all;
        let page = spec.costs().tlb.invalidate_page;
        assert_eq!([OFF, ALL, DEFAULT].map(price), [spec.costs().tlb.flush_all; 3]);
        assert_eq!([OF_32, OF_A_PAGE].map(price), [32 * page, u64::from(ADDRESSES) * page]);
    }

    #[test]
    fn readers_take_longer_if_scattered_pages_are_flushed_by_address() {
        let all = trials(&Plan::new(1, true)).unwrap();
        let is_small = |it: &Trial| (it.workload, it.paging.spec.name()) == (PROCESSES, DESK);
        let trial = all.into_iter().find(is_small).unwrap().with_frames(1 << 14);
        let free = trial.paging.spec.scaled("tlb.invalidate_page", 0.0).unwrap();
        let time = |spec: &Spec, setting| {
            let run = trial.once(spec, setting, 0, 1).unwrap();
            run.metrics["system_time_s"].median
        };
        let gain = |setting| time(&trial.paging.spec, setting) / time(&free, setting);
        assert!(gain(OF_A_PAGE) > 1.05, "{}", gain(OF_A_PAGE));
        assert!(gain(ALL) < 1.02, "whole flushes invalidate no pages: {}", gain(ALL));
    }
}
