//! What is run: flags, repairs, methods.

use framewright::{
    Tuning,
    tuning::{BulkTake, CompactMethod},
};
use framewright_sim::machine::Spec;
use indexmap::IndexMap;

use super::workload;
use crate::{
    high_alloc::{Flags, HighAlloc},
    replay::State,
    report::{Metric, Run, Sides},
    reproduce::{Plan, ReproduceError, pairs},
    workloads::Side,
};

/// What rows call the machine: 4 CPUs, slowed down.
pub(super) const MACHINE: &str = "uniform:4/13";
const CPUS: u16 = 4;
/// Running kernels were counted on emulated CPUs. A fault of page_fault1 took 20 µs there, and 1.55 µs
/// on the machine itself. How fast compaction is, while builders fault as often as on any machine,
/// decides how much of what it frees others take first.
const SLOWER: f64 = 13.0;
/// What a kernel manages of 1 GiB, 972 MiB: 95 % of that are 461 huge pages, as many as running kernels
/// were asked for (6.12: 458).
const FRAMES: u64 = 486 << 9;

/// Settings, in this order.
pub(super) const SETTINGS: usize = 8;
pub(super) const UNREPAIRED: usize = 0;
pub(super) const ALL: usize = 4;
pub(super) const INDEX: usize = 5;
pub(super) const NONE: usize = 6;
pub(super) const PACKED: usize = 7;

const LABELS: [&str; SETTINGS] =
    ["unrepaired", "+ reset before", "+ meeting", "+ types", "all", "index", "none", "packed"];

/// What is run as today.
pub(super) const TODAY: [usize; SETTINGS] = [UNREPAIRED, 1, 2, 3, ALL, NONE, PACKED, INDEX];

/// What is run as in 2013.
pub(super) const IN_2013: [usize; 5] = [UNREPAIRED, 1, 2, 3, ALL];

/// What is run from recorded states.
pub(super) const FROM_STATES: [usize; 4] = [UNREPAIRED, ALL, PACKED, INDEX];

/// What rows compare: a name, and the settings before and after.
pub(super) const PAIRS: [(&str, usize, usize); 10] = [
    ("unrepaired, + reset before", UNREPAIRED, 1),
    ("unrepaired, + meeting", UNREPAIRED, 2),
    ("unrepaired, all", UNREPAIRED, ALL),
    ("+ meeting, + types", 2, 3),
    ("+ types, all", 3, ALL),
    ("none, all", NONE, ALL),
    ("all, packed", ALL, PACKED),
    ("packed, index", PACKED, INDEX),
    ("all, index", ALL, INDEX),
    ("none, index", NONE, INDEX),
];

/// What compaction by scanners is like besides the repairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Era {
    Today,
    /// Without what came later: the boost of watermarks (2018), and what makes up for what scanners do
    /// wrong: short looks at the lists and keeping the block that forms (2019), compaction before
    /// anybody asks (2020).
    In2013,
}

impl Era {
    fn put(self, tuning: &mut Tuning, settings: &mut IndexMap<String, String>) {
        if self == Self::In2013 {
            (tuning.compact.shortcuts, tuning.compact.proactiveness) = (false, 0);
            tuning.zone.watermark_boost = 0;
            settings.insert("compact.shortcuts".to_owned(), "off".to_owned());
            settings.insert("compact.proactiveness".to_owned(), "0".to_owned());
            settings.insert("zone.watermark_boost".to_owned(), "0".to_owned());
        }
    }
}

/// The settings of one side.
fn side(setting: usize, era: Era) -> Side {
    let mut tuning = Tuning::default();
    // What was published was without, and the question is what compaction does by itself.
    tuning.zone.huge_reserve = 0;
    let mut settings = IndexMap::new();
    let repair = &mut tuning.compact.repair;
    repair.reset_before_read = setting >= 1;
    repair.detect_meeting = setting >= 2;
    repair.unmarked_types = setting >= 3;
    repair.reset_on_meeting = setting >= 4;
    let (name, method) = match setting {
        INDEX => ("index", CompactMethod::Index),
        NONE => ("off", CompactMethod::Off),
        _ => ("scan", CompactMethod::Scan),
    };
    tuning.compact.method = method;
    if !matches!(setting, INDEX | PACKED) {
        // As where the scanners come from.
        tuning.zone.bulk_take = BulkTake::SmallestFirst;
        settings.insert("zone.bulk_take".to_owned(), "smallest-first".to_owned());
    }
    if method == CompactMethod::Scan {
        let on = |on| if on { "on" } else { "off" };
        for (name, at) in [
            ("reset_before_read", 1),
            ("detect_meeting", 2),
            ("unmarked_types", 3),
            ("reset_on_meeting", 4),
        ] {
            settings.insert(format!("compact.repair.{name}"), on(setting >= at).to_owned());
        }
    }
    settings.insert("compact.method".to_owned(), name.to_owned());
    era.put(&mut tuning, &mut settings);
    Side { label: LABELS[setting].to_owned(), tuning, settings }
}

/// What came of all settings, one run per seed.
pub(super) struct Outcome {
    runs: Vec<Vec<Run>>,
    /// What rows call the workload.
    pub(super) workload: String,
}

/// Runs `settings` with every seed, from a state if there is one.
pub(super) fn run(
    flags: Flags,
    (from, era): (Option<&State>, Era),
    settings: &[usize],
    plan: &Plan,
    steps: &mut pairs::Steps<'_, '_>,
) -> Result<Outcome, ReproduceError> {
    let work = HighAlloc {
        flags,
        spec: Spec::uniform(CPUS)?.scaled("clock.frequency", 1.0 / SLOWER)?,
        frames: FRAMES,
        from: from.cloned(),
        quick: plan.quick,
        watched: false,
    };
    let sides: Vec<Side> = settings.iter().map(|&setting| side(setting, era)).collect();
    let mut runs: Vec<Vec<Run>> = vec![Vec::new(); SETTINGS];
    for &seed in &plan.seeds {
        for (&of, run) in settings.iter().zip(work.run_each(&sides, seed)?) {
            runs[of].push(run);
            steps.step();
        }
    }
    let workload = workload(flags, from.map(State::name), era);
    Ok(Outcome { runs, workload })
}

impl Outcome {
    /// A figure with two settings, if both were run.
    pub(super) fn sides(&self, before: usize, after: usize, metric: &str) -> Option<Sides> {
        let known: &Metric = self.runs[before].first()?.metrics.get(metric)?;
        let (unit, better) = (known.unit, known.better);
        Sides::paired(&self.values(before, metric)?, &self.values(after, metric)?, unit, better)
    }

    /// The mean of a figure over the seeds.
    pub(super) fn mean(&self, setting: usize, metric: &str) -> f64 {
        let values = self.values(setting, metric).unwrap_or_default();
        values.iter().sum::<f64>() / values.len().max(1) as f64
    }

    /// The greatest of a figure over the seeds.
    pub(super) fn most(&self, setting: usize, metric: &str) -> f64 {
        self.values(setting, metric).unwrap_or_default().into_iter().fold(0.0, f64::max)
    }

    fn values(&self, setting: usize, metric: &str) -> Option<Vec<f64>> {
        let value = |run: &Run| Some(run.metrics.get(metric)?.median);
        let values: Vec<f64> = self.runs[setting].iter().map(value).collect::<Option<_>>()?;
        (!values.is_empty()).then_some(values)
    }

    /// One run per setting: medians over the seeds.
    pub(super) fn runs(self) -> impl Iterator<Item = Run> {
        let workload = self.workload;
        self.runs.into_iter().filter_map(move |runs| {
            let run = pairs::over_seeds(&runs)?;
            let label = format!("{}, {}", workload.trim_start_matches("high-alloc-"), run.label);
            Some(Run { label, ..run })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Unit;

    #[test]
    fn repairs_come_one_after_the_other() {
        let repaired = |setting: usize| {
            let repair = side(setting, Era::Today).tuning.compact.repair;
            [
                repair.reset_before_read,
                repair.detect_meeting,
                repair.unmarked_types,
                repair.reset_on_meeting,
            ]
            .into_iter()
            .filter(|&on| on)
            .count()
        };
        assert_eq!([0, 1, 2, 3, 4].map(repaired), [0, 1, 2, 3, 4]);
        assert_eq!(side(INDEX, Era::Today).tuning.compact, Tuning::default().compact);
    }

    #[test]
    fn what_was_not_run_has_no_figures() {
        let metrics = [("steps".to_owned(), Metric::once(5.0, Unit::Count, None))].into();
        let run = Run { metrics, ..Run::default() };
        let mut runs = vec![vec![run]; 2];
        runs.push(Vec::new());
        let outcome = Outcome { runs, workload: String::new() };
        assert!(outcome.sides(0, 1, "steps").is_some());
        assert!(outcome.sides(0, 2, "steps").is_none() && outcome.sides(2, 0, "steps").is_none());
        assert_eq!((outcome.mean(2, "steps"), outcome.most(2, "steps")), (0.0, 0.0));
    }
}
