//! The model: plain data in a fixed order. Equal results are equal bytes.

use indexmap::{IndexMap, IndexSet};
use serde::{Deserialize, Serialize, Serializer};

use super::{Better, MemoryStates, Row, Times, Unit, nested, stats};
use crate::samples::Sample;

/// The result of one command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// Version of the program that measured.
    pub framewright: String,
    /// The command, without the options for output files.
    pub command: Vec<String>,
    /// The workload.
    pub workload: String,
    /// The machine.
    pub machine: String,
    /// The first seed of every random choice; `None` if nothing is random.
    pub seed: Option<u64>,
    /// Number of seeds, from [`Report::seed`] on.
    #[serde(default = "one")]
    pub seeds: u16,
    /// One entry per setting or allocator measured.
    pub runs: Vec<Run>,
    /// Published figures, compared with ours.
    pub published: Vec<Row>,
    /// The checks.
    pub verdict: Verdict,
    /// Explanations, and missing parts with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The figures of one side of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Run {
    /// Name of the column.
    pub label: String,
    /// The settings that were chosen, and those that another run chose differently.
    pub settings: IndexMap<String, String>,
    /// Figures by name, in the order of output.
    #[serde(with = "nested")]
    #[cfg_attr(test, schemars(with = "IndexMap<String, nested::Tree<Metric>>"))]
    pub metrics: IndexMap<String, Metric>,
    /// Figures over time, by name.
    #[serde(with = "nested")]
    #[cfg_attr(test, schemars(with = "IndexMap<String, nested::Tree<Vec<Point>>>"))]
    pub series: IndexMap<String, Vec<Point>>,
}

/// The result of an experiment on any machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// One run per side or allocator, in order: medians over rounds or seeds.
    pub runs: Vec<Run>,
    /// Checks: contents, invariants, goals.
    pub checks: Vec<Check>,
    /// Explanations for the reader.
    pub notes: Vec<String>,
    /// A picture of memory as SVG, if it was watched.
    pub picture: Option<String>,
    /// Times whose distribution is of interest.
    pub times: Vec<Times>,
    /// States of memory by side, if it was watched.
    pub memory: Vec<MemoryStates>,
    /// The memory over time by side, if it was watched.
    pub samples: Vec<(String, Vec<Sample>)>,
}

/// One point of a series: time (in the unit of the workload's clock), and value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Point(
    #[serde(serialize_with = "short")] pub f64,
    #[serde(serialize_with = "short")] pub f64,
);

/// One figure: the median of `n` rounds, with their extremes.
///
/// # Example
///
/// ```
/// use framewright_lab::report::{Better, Metric, Unit};
///
/// let rounds = [31.0, 28.0, 30.0];
/// let metric = Metric::of_rounds(&rounds, Unit::Nanos, Some(Better::Lower)).expect("three rounds");
/// assert_eq!((metric.median, metric.min, metric.n), (30.0, 28.0, 3));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Metric {
    /// The median of the rounds.
    #[serde(serialize_with = "short")]
    pub median: f64,
    /// The smallest.
    #[serde(serialize_with = "short")]
    pub min: f64,
    /// The largest.
    #[serde(serialize_with = "short")]
    pub max: f64,
    /// Number of rounds.
    pub n: u64,
    /// The value of each round or seed, in order; empty if there is only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty", serialize_with = "short_values")]
    pub values: Vec<f64>,
    /// The confidence interval of the mean over seeds; `None` for one seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// The p-value of the difference from the first run, by the U test of Mann and Whitney, two-sided; `None` for the
    /// first run, and for one seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_value: Option<f64>,
    /// Its unit.
    pub unit: Unit,
    /// The better direction; `None` if there is none.
    pub better: Option<Better>,
}

/// The 95 % confidence interval of a mean, by Student's t distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Interval {
    /// The mean.
    #[serde(serialize_with = "short")]
    pub mean: f64,
    /// The lower end.
    #[serde(serialize_with = "short")]
    pub low: f64,
    /// The upper end.
    #[serde(serialize_with = "short")]
    pub high: f64,
}

/// The checks, and whether all of them passed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Verdict {
    /// Whether every check passed.
    pub passed: bool,
    /// The checks.
    pub checks: Vec<Check>,
    /// A summary of the judgement; empty if the checks need none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub words: String,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Check {
    /// Name of the check.
    pub name: String,
    /// Whether it passed.
    pub passed: bool,
    /// The figures that decided it.
    pub detail: String,
}

impl Report {
    /// This report, of `seeds` seeds from the first one on. With several seeds, figures get confidence intervals, and
    /// p-values of their differences from the first run.
    #[must_use]
    pub fn over_seeds(self, seeds: u16) -> Self {
        let runs = self.runs.len();
        self.over_seeds_in_groups(seeds, runs)
    }

    /// As [`Report::over_seeds`], for groups of `size` runs, each with a first run of its own.
    #[must_use]
    pub fn over_seeds_in_groups(mut self, seeds: u16, size: usize) -> Self {
        self.seeds = seeds;
        if seeds < 2 {
            return self;
        }
        for group in self.runs.chunks_mut(size.max(1)) {
            let first = group.first().map(|run| run.metrics.clone()).unwrap_or_default();
            for (nth, run) in group.iter_mut().enumerate() {
                for (name, metric) in &mut run.metrics {
                    let base = first.get(name).filter(|_| nth > 0);
                    metric.add_statistics(seeds, base.map(|base| base.values.as_slice()));
                }
            }
        }
        self
    }

    /// A label that two runs share, if there is one. Rows of CSV name a run only by its label, so that no report may have
    /// such runs.
    #[must_use]
    pub fn repeated_label(&self) -> Option<&str> {
        let mut seen = IndexSet::new();
        self.runs.iter().map(|run| run.label.as_str()).find(|label| !seen.insert(*label))
    }

    /// The names of all metrics, each once, in the order in which runs have them.
    pub fn metric_names(&self) -> Vec<&str> {
        metric_names(&self.runs)
    }

    /// The names of all series, each once, in the order in which runs have them.
    pub fn series_names(&self) -> Vec<&str> {
        unique(self.runs.iter().flat_map(|run| run.series.keys()))
    }
}

/// The name of one CPU's share of the metric `name`.
pub fn cpu_metric(cpu: u16, name: &str) -> String {
    format!("cpu{cpu}_{name}")
}

/// The names of the metrics of `runs`, each once.
pub(super) fn metric_names(runs: &[Run]) -> Vec<&str> {
    unique(runs.iter().flat_map(|run| run.metrics.keys()))
}

fn unique<'n>(names: impl Iterator<Item = &'n String>) -> Vec<&'n str> {
    names.map(String::as_str).collect::<IndexSet<_>>().into_iter().collect()
}

impl Metric {
    /// A figure that was counted once.
    ///
    /// # Panics
    ///
    /// In debug builds, if `value` is not finite: JSON cannot represent it.
    pub fn once(value: f64, unit: Unit, better: Option<Better>) -> Self {
        debug_assert!(value.is_finite(), "a figure is not a finite number");
        let (values, interval, p_value) = (Vec::new(), None, None);
        Self {
            median: value,
            min: value,
            max: value,
            n: 1,
            values,
            interval,
            p_value,
            unit,
            better,
        }
    }

    /// The median and extremes of `rounds`; `None` if there are none.
    pub fn of_rounds(rounds: &[f64], unit: Unit, better: Option<Better>) -> Option<Self> {
        let mut sorted = rounds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        let values = if rounds.len() > 1 { rounds.to_vec() } else { Vec::new() };
        let (n, interval, p_value) = (sorted.len() as u64, None, None);
        Some(Self { median, min, max, n, values, interval, p_value, unit, better })
    }

    /// Adds the statistics of values that belong to `seeds` seeds. `base` is the same figure of the first run.
    fn add_statistics(&mut self, seeds: u16, base: Option<&[f64]>) {
        if self.values.len() != usize::from(seeds) {
            return;
        }
        self.interval = stats::mean_interval(&self.values).map(|(mean, half)| Interval {
            mean,
            low: mean - half,
            high: mean + half,
        });
        let base = base.filter(|base| base.len() == self.values.len());
        self.p_value = base.and_then(|base| stats::mann_whitney(base, &self.values));
    }
}

impl Check {
    /// The check of that name, with the figures that decided it.
    pub fn new(name: impl Into<String>, passed: bool, detail: impl Into<String>) -> Self {
        Self { name: name.into(), passed, detail: detail.into() }
    }

    /// The check that all invariants held, with this description. It always passes: a run that
    /// violates an invariant ends with an error.
    pub(crate) fn invariants(detail: String) -> Self {
        Self::new("invariants", true, detail)
    }
}

impl Verdict {
    /// The verdict over `checks`: all must pass.
    pub fn of(checks: Vec<Check>) -> Self {
        Self { passed: checks.iter().all(|check| check.passed), checks, words: String::new() }
    }
}

/// Whole numbers are written without a fraction.
pub(super) fn short<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    /// An `f64` represents every whole number up to this one exactly.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < EXACT {
        serializer.serialize_i64(*value as i64)
    } else {
        serializer.serialize_f64(*value)
    }
}

fn short_values<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    /// A number that [`short`] writes.
    #[derive(Serialize)]
    struct Short(#[serde(serialize_with = "short")] f64);
    serializer.collect_seq(values.iter().copied().map(Short))
}

fn one() -> u16 {
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Report {
        Report {
            framewright: "0.1.0".into(),
            command: vec!["framewright".into(), "replay".into()],
            workload: "replay".into(),
            machine: "host:2".into(),
            seed: None,
            seeds: 1,
            runs: Vec::new(),
            published: Vec::new(),
            verdict: Verdict::of(Vec::new()),
            notes: Vec::new(),
        }
    }

    #[test]
    fn the_median_of_an_even_number_of_rounds_lies_between_the_middle_two() {
        let odd = Metric::of_rounds(&[3.0, 1.0, 2.0], Unit::Nanos, None).unwrap();
        assert_eq!((odd.median, odd.min, odd.max, odd.n), (2.0, 1.0, 3.0, 3));
        let even = Metric::of_rounds(&[4.0, 1.0, 2.0, 3.0], Unit::Nanos, None).unwrap();
        assert_eq!(even.median, 2.5);
        assert_eq!(Metric::of_rounds(&[], Unit::Nanos, None), None);
    }

    #[test]
    fn several_seeds_have_intervals_and_a_p_value() {
        let run = |values: &[f64]| {
            let mut run = Run::default();
            let metric = Metric::of_rounds(values, Unit::Count, None).unwrap();
            run.metrics.insert("x".into(), metric);
            run.metrics.insert("once".into(), Metric::once(1.0, Unit::Count, None));
            run
        };
        let report = Report { runs: vec![run(&[1.0, 2.0, 3.0]), run(&[4.0, 5.0, 6.0])], ..empty() };
        let report = report.over_seeds(3);
        let [base, vs] = [0, 1].map(|nth| &report.runs[nth].metrics["x"]);
        assert_eq!((base.p_value, vs.p_value), (None, Some(0.1)));
        let interval = vs.interval.unwrap();
        assert!(interval.mean == 5.0 && interval.low < 3.0 && interval.high > 7.0);
        assert_eq!(report.runs[1].metrics["once"].interval, None);
        let one = Report { runs: vec![run(&[1.0, 2.0, 3.0])], ..empty() }.over_seeds(1);
        assert_eq!(one.runs[0].metrics["x"].interval, None);
    }

    #[test]
    fn a_label_of_two_runs_is_found() {
        let run = |label: &str| Run { label: label.into(), ..Run::default() };
        let of =
            |labels: &[&str]| Report { runs: labels.iter().copied().map(run).collect(), ..empty() };
        assert_eq!(of(&["a", "b"]).repeated_label(), None);
        assert_eq!(of(&["a", "b", "c", "b"]).repeated_label(), Some("b"));
    }

    #[test]
    fn a_verdict_takes_every_check() {
        let check = |passed| Check { name: "x".into(), passed, detail: String::new() };
        assert!(Verdict::of(Vec::new()).passed);
        assert!(Verdict::of(vec![check(true)]).passed);
        assert!(!Verdict::of(vec![check(true), check(false)]).passed);
    }

    #[test]
    fn json_has_the_documented_shape_and_reads_back() {
        let mut run = Run { label: "framewright".into(), ..Run::default() };
        run.metrics.insert("refills".into(), Metric::once(12.0, Unit::Count, Some(Better::Lower)));
        run.series.insert("largest_free_order".into(), vec![Point(0.5, 9.0)]);
        let report = Report { runs: vec![run], ..empty() };
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(
            text,
            concat!(
                r#"{"framewright":"0.1.0","command":["framewright","replay"],"workload":"replay","#,
                r#""machine":"host:2","seed":null,"seeds":1,"runs":[{"label":"framewright","settings":{},"#,
                r#""metrics":{"refills":{"median":12,"min":12,"max":12,"n":1,"unit":"count","#,
                r#""better":"lower"}},"series":{"largest_free_order":[[0.5,9]]}}],"#,
                r#""published":[],"verdict":{"passed":true,"checks":[]}}"#
            )
        );
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    }
}
