//! Runs a workload before and after a change, on a simulated machine, once per seed.

use framewright::Tuning;
use indexmap::IndexSet;

use super::{
    Key, Plan, Results, Tell,
    bands::{self, Variation, Varied, vary},
};
use crate::{Error, parallel};
use crate::{
    report::{Better, Metric, Row, Run, Sides, Unit, decimal},
    simulated::{self, Column, ListSizes, Simulation},
    workloads::{Side, Workload, run_of},
};

/// Figures of time: they depend on the costs of the machine.
const MODELLED: [&str; 8] = [
    "pages_per_s",
    "bandwidth_bytes_per_s",
    "zone_lock_wait_pct",
    "lock_cycles_per_frame",
    "hot_reuse_pct",
    "warm_reuse_pct",
    "same_cpu_pct",
    "same_socket_pct",
];

/// The number of windows before the measured one.
const WINDOWS: &str = "warm_up_windows";
/// Whether no number of windows was enough.
const UNSETTLED: &str = "unsettled";
/// The maximum difference of the levels of two seeds, in percent.
const MOST_APART: f64 = 5.0;

/// The duration of a workload: windows are repeated until they are steady. A quick run has one window, a tenth as long.
pub(super) fn length(plan: &Plan, work: &Workload) -> simulated::Plan {
    let full = simulated::Plan::of(work);
    if plan.quick { full.quick() } else { simulated::Plan { steady: true, ..full } }
}

/// An allocator, a workload and a machine: the subject of a row.
pub(super) struct Pair {
    /// The name of the workload in rows.
    pub(super) workload: &'static str,
    /// The name of the allocator in rows.
    pub(super) subject: &'static str,
    pub(super) simulation: Simulation,
    pub(super) before: Column,
    pub(super) after: Column,
    /// A cost of the machine that differs before the change: a parameter, and a factor.
    pub(super) price_before: Option<(&'static str, f64)>,
}

/// The results of both sides of a pair, one run per seed.
pub(super) struct Outcome {
    before: Vec<Run>,
    after: Vec<Run>,
}

/// Progress: the number of finished runs, and of all.
pub(super) struct Steps<'s, 't> {
    done: u64,
    total: u64,
    tell: &'s mut Tell<'t>,
}

impl<'s, 't> Steps<'s, 't> {
    /// No run of `total` is finished.
    pub(super) fn new(total: usize, tell: &'s mut Tell<'t>) -> Self {
        tell(0, total as u64);
        Self { done: 0, total: total as u64, tell }
    }

    /// One more run is finished.
    pub(super) fn step(&mut self) {
        self.done += 1;
        (self.tell)(self.done.min(self.total), self.total);
    }
}

/// An allocator with the tuning of one side; its result names `setting` (a key and a value).
pub(super) fn column(design: fn(&Side) -> Column, tuning: Tuning, setting: (&str, &str)) -> Column {
    let (key, value) = setting;
    let settings = [(key.to_owned(), value.to_owned())].into();
    design(&Side { label: value.to_owned(), tuning, settings })
}

impl Pair {
    /// This pair with lists of the given sizes, if any.
    pub(super) fn with_lists(mut self, sizes: Option<ListSizes>) -> Self {
        self.before = self.simulation.with_lists(&self.before, sizes);
        self.after = self.simulation.with_lists(&self.after, sizes);
        self
    }

    /// The key of one of its figures.
    pub(super) fn key<'k>(&'k self, metric: &'k str) -> Key<'k> {
        let machine = self.simulation.spec.name();
        Key { workload: self.workload, machine, subject: self.subject, metric }
    }

    /// The label of the runs of a side.
    pub(super) fn label(&self, side: &Column) -> String {
        let Self { workload, subject, simulation, .. } = self;
        format!("{workload} on {}, {subject}, {}", simulation.spec.name(), side.label)
    }

    /// Runs both sides with every seed, one after the other.
    pub(super) fn run(&self, plan: &Plan, done: &dyn Fn(u64)) -> Result<Outcome, Error> {
        let mut outcome = Outcome { before: Vec::new(), after: Vec::new() };
        let before = self.before_change(&self.simulation)?;
        for &seed in &plan.seeds {
            outcome.before.push(self.once(&before, &self.before, seed)?);
            done(1);
            outcome.after.push(self.once(&self.simulation, &self.after, seed)?);
            done(1);
        }
        Ok(outcome)
    }

    /// Runs both sides on machines with other parameters, with the first seed. One window each: steady windows take
    /// several times as long, and a band is the range of a change, from which most of the drift drops out.
    pub(super) fn vary(&self, plan: &Plan, done: &dyn Fn(u64)) -> Result<Vec<Varied>, Error> {
        vary(&self.simulation.spec, plan, |spec| {
            let mut after = Simulation { spec: spec.clone(), ..self.simulation.clone() };
            after.plan.steady = false;
            let before = self.before_change(&after)?;
            let runs = [
                self.once(&before, &self.before, plan.seeds[0])?,
                self.once(&after, &self.after, plan.seeds[0])?,
            ];
            done(1);
            Ok(runs)
        })
    }

    /// The number of steps of [`Pair::vary`].
    pub(super) fn variations(&self, plan: &Plan) -> usize {
        bands::count(&self.simulation.spec, plan)
    }

    /// Whether its figures get bands: all of them if each parameter varies by itself, else only those that are compared
    /// with published ones, because the others are not judged.
    fn has_bands(&self, plan: &Plan, rows: &[Row]) -> bool {
        let is_published = |metric: &&str| {
            rows.iter().any(|row| row.published.is_some() && row.key() == self.key(metric))
        };
        plan.variation == Variation::Each || MODELLED.iter().any(is_published)
    }

    /// The machine as it was before the change.
    fn before_change(&self, simulation: &Simulation) -> Result<Simulation, Error> {
        let mut before = simulation.clone();
        if let Some((parameter, factor)) = self.price_before {
            before.spec = before.spec.scaled(parameter, factor)?;
        }
        Ok(before)
    }

    fn once(&self, simulation: &Simulation, column: &Column, seed: u64) -> Result<Run, Error> {
        let windows = [simulation.run_once(column, seed)?];
        let mut run = run_of(&self.label(column), &column.settings, &windows);
        let [window] = &windows;
        let bulk_frees = ratio(&run, "drains", "pages");
        run.metrics.extend(bulk_frees.map(|metric| ("bulk_frees_per_page".to_owned(), metric)));
        let mut count = |name: &str, value: f64| {
            run.metrics.insert(name.to_owned(), Metric::once(value, Unit::Count, None));
        };
        count(
            "mixed_drains_pct",
            100.0 * window.counts.mixed_drains as f64 / window.counts.drains.max(1) as f64,
        );
        count(WINDOWS, window.windows_before.into());
        count(UNSETTLED, f64::from(u8::from(window.unsettled)));
        Ok(run)
    }
}

/// Runs all pairs, and those with a published modelled figure also on machines with other parameters. Enters `figures`
/// into their rows.
pub(super) fn run_pairs(
    pairs: &[Pair],
    plan: &Plan,
    figures: &dyn Fn(&Pair) -> &'static [&'static str],
    tell: &mut Tell<'_>,
    results: &mut Results,
) -> Result<(), Error> {
    let banded: Vec<bool> = pairs.iter().map(|pair| pair.has_bands(plan, &results.rows)).collect();
    let sides = 2 * pairs.len() * plan.seeds.len();
    let of_bands = pairs.iter().zip(&banded).filter(|(_, banded)| **banded);
    let variations: usize = of_bands.clone().map(|(pair, _)| pair.variations(plan)).sum();
    let mut steps = Steps::new(sides + variations, tell);
    let mut windows = IndexSet::new();
    let run = |(pair, banded): &(&Pair, bool), done: &(dyn Fn(u64) + Sync)| -> Result<_, Error> {
        let outcome = pair.run(plan, done)?;
        Ok((outcome, if *banded { pair.vary(plan, done)? } else { Vec::new() }))
    };
    let jobs: Vec<(&Pair, bool)> = pairs.iter().zip(banded.iter().copied()).collect();
    let ran = parallel::map(&jobs, parallel::processors(), run, &mut |_| steps.step());
    for (pair, ran) in pairs.iter().zip(ran) {
        let (outcome, varied) = ran?;
        if pair.simulation.plan.steady {
            let Pair { workload, subject, simulation, .. } = pair;
            let number = outcome.windows().unwrap_or_default();
            windows
                .insert(format!("{workload} on {}, {subject}: {number}", simulation.spec.name()));
        }
        outcome.fill(pair, figures(pair), &varied, results);
    }
    let machines = of_bands.map(|(pair, _)| &pair.simulation.spec);
    results.findings.extend(bands::described(machines, plan));
    if !windows.is_empty() {
        let windows: Vec<String> = windows.into_iter().collect();
        results.findings.push(format!(
            "windows that were run before one agreed with the one before it, within 2 %: {}",
            windows.join("; ")
        ));
    }
    Ok(())
}

impl Outcome {
    /// A figure of both sides.
    pub(super) fn sides(&self, metric: &str) -> Option<Sides> {
        let known = &self.before.first()?.metrics.get(metric)?;
        let [before, after] = [&self.before, &self.after].map(|runs| values(runs, metric));
        Sides::paired(&before?, &after?, known.unit, known.better)
    }

    fn runs(&self) -> impl Iterator<Item = &Run> {
        self.before.iter().chain(&self.after)
    }

    fn is_settled(&self) -> bool {
        self.runs().filter_map(|run| run.metrics.get(UNSETTLED)).all(|it| it.median == 0.0)
    }

    /// The minimum and maximum number of windows before the measured ones, as text.
    fn windows(&self) -> Option<String> {
        let counts = || self.runs().filter_map(|run| Some(run.metrics.get(WINDOWS)?.median as u32));
        let (least, most) = (counts().min()?, counts().max()?);
        Some(if least == most { least.to_string() } else { format!("{least} to {most}") })
    }

    /// The reason if a modelled figure has no level.
    fn unsteady(&self, metric: &str, sides: Option<&Sides>) -> Option<String> {
        let is_rate = ["pages_per_s", "bandwidth_bytes_per_s"].contains(&metric);
        if !self.is_settled() {
            return MODELLED.contains(&metric).then(|| {
                "successive windows differ by more than 2 %, however many are run".to_owned()
            });
        }
        let sides = sides.filter(|_| is_rate)?;
        let apart = [Some(&sides.before), sides.after.as_ref()]
            .into_iter()
            .flatten()
            .map(|metric| 100.0 * (metric.max - metric.min) / metric.median)
            .fold(0.0, f64::max);
        (apart > MOST_APART)
            .then(|| format!("seeds differ by {} % (at most {MOST_APART} %)", decimal(apart, 1)))
    }

    /// Both sides of the first seed.
    fn first(&self) -> Option<Varied> {
        let (before, after) = (self.before.first()?.clone(), self.after.first()?.clone());
        Some(Varied { by: None, before, after })
    }

    /// Enters figures into their rows, with the bands that follow from `varied`, and their runs into the results.
    pub(super) fn fill(
        self,
        pair: &Pair,
        metrics: &[&str],
        varied: &[Varied],
        results: &mut Results,
    ) {
        let first = self.first();
        for &metric in metrics {
            let (key, sides) = (pair.key(metric), self.sides(metric));
            let unsteady = self.unsteady(metric, sides.as_ref());
            if MODELLED.contains(&metric) {
                results.modelled(key, sides);
                if let Some(first) = &first {
                    results.banded(key, first, varied);
                }
                results.unsteady(key, unsteady);
            } else {
                results.measured(key, sides);
            }
        }
        results
            .runs
            .extend([over_seeds(&self.before), over_seeds(&self.after)].into_iter().flatten());
    }
}

/// A figure of each of `runs`, if all have it.
pub(super) fn values(runs: &[Run], metric: &str) -> Option<Vec<f64>> {
    runs.iter().map(|run| Some(run.metrics.get(metric)?.median)).collect()
}

fn ratio(run: &Run, part: &str, whole: &str) -> Option<Metric> {
    let of = |name: &str| Some(run.metrics.get(name)?.median);
    let value = of(part)? / of(whole)?.max(1.0);
    Some(Metric::once(value, Unit::Ratio, Some(Better::Lower)))
}

/// Combines runs into one, with the median of each figure.
pub(super) fn over_seeds(runs: &[Run]) -> Option<Run> {
    let mut all = runs.first()?.clone();
    for (name, metric) in &mut all.metrics {
        *metric = Metric::of_rounds(&values(runs, name)?, metric.unit, metric.better)?;
    }
    Some(all)
}

/// Checks that each side of `pairs` has a label of its own.
#[cfg(test)]
pub(super) fn assert_labels_differ(pairs: &[Pair]) {
    let mut labels = IndexSet::new();
    for pair in pairs {
        for side in [&pair.before, &pair.after] {
            let label = pair.label(side);
            assert!(labels.insert(label.clone()), "{label}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        simulated,
        workloads::{Workload, page_fault::PageFault},
    };
    use framewright_sim::machine::Spec;

    /// The classic design, with a few processes and pages.
    fn pair(price_before: Option<(&'static str, f64)>) -> Pair {
        let work = Workload::PageFault(PageFault { frames: 512, ..PageFault::new(1) });
        let plan = simulated::Plan { warm_up: 100_000, window: 1_000_000, steady: false };
        let spec = Spec::uniform(2).unwrap();
        let simulation = Simulation { work, spec, frames: Some(1 << 14), plan };
        let list_buddy = |side: &Side| Column::list_buddy(&side.label, side);
        let side = || column(list_buddy, Tuning::default(), ("build", "same"));
        let (before, after) = (side(), side());
        let pair = Pair { workload: "w", subject: "s", simulation, before, after, price_before };
        pair.with_lists(Some(ListSizes { batch: 31, high: 186 }))
    }

    fn run(pair: &Pair) -> Outcome {
        let done = std::cell::Cell::new(0);
        let outcome = pair.run(&Plan::new(2, false), &|runs| done.set(done.get() + runs)).unwrap();
        assert_eq!(done.get(), 4);
        outcome
    }

    #[test]
    fn two_equal_sides_do_not_differ_and_their_figures_find_their_columns() {
        let pair = pair(None);
        let outcome = run(&pair);
        let change = outcome.sides("pages_per_s").unwrap().change_pct.unwrap();
        assert_eq!((change.min, change.max, change.n), (0.0, 0.0, 2));
        let mut results = Results::default();
        outcome.fill(&pair, &["pages_per_s", "acquisitions_per_page"], &[], &mut results);
        let [time, count] = &results.rows[..] else { panic!("{:?}", results.rows) };
        assert!(time.modelled.is_some() && time.measured.is_none());
        assert!(count.measured.is_some() && count.modelled.is_none());
        assert_eq!(results.runs.len(), 2);
        assert_eq!(results.runs[0].metrics["pages_per_s"].n, 2);
    }

    #[test]
    fn a_higher_cost_before_has_an_effect_and_a_band() {
        let pair = pair(Some(("code.list_buddy_take", 20.0)));
        let outcome = run(&pair);
        let plan = Plan::new(1, false);
        let varied = pair.vary(&plan, &|_| ()).unwrap();
        assert_eq!(varied.len(), pair.variations(&plan));
        let mut results = Results::default();
        outcome.fill(&pair, &["pages_per_s"], &varied, &mut results);
        let row = &results.rows[0];
        let change = row.modelled.as_ref().unwrap().change_pct.as_ref().unwrap();
        assert!(change.median > 1.0, "{change:?}");
        let band = row.band.as_ref().unwrap();
        assert!(band.least <= change.max && change.min <= band.greatest, "{band:?} {change:?}");
        assert!(band.least < band.greatest, "parameters have no effect: {band:?}");
    }
}
