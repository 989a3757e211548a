//! The model: plain data in a fixed order. Equal results are equal bytes.

use indexmap::{IndexMap, IndexSet};
use serde::{Deserialize, Serialize, Serializer};

use super::Row;

/// The result of one command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Version of the program that measured.
    pub framewright: String,
    /// The command, without the options for output files.
    pub command: Vec<String>,
    /// The workload.
    pub workload: String,
    /// The machine.
    pub machine: String,
    /// Seed of every random choice; `None` if nothing is random.
    pub seed: Option<u64>,
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
pub struct Run {
    /// Name of the column.
    pub label: String,
    /// The settings that were chosen, and those that another run chose differently.
    pub settings: IndexMap<String, String>,
    /// Figures by name, in the order of output.
    pub metrics: IndexMap<String, Metric>,
    /// Figures over time, by name.
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
}

/// One point of a series: time (in the unit of the workload's clock), and value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Its unit.
    pub unit: Unit,
    /// The better direction; `None` if there is none.
    pub better: Option<Better>,
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Occurrences.
    Count,
    /// Frames of 4 KiB.
    Frames,
    /// Frames per acquisition of a lock.
    #[serde(rename = "frames/acquisition")]
    FramesPerAcquisition,
    /// Cycles per frame of 4 KiB.
    #[serde(rename = "cycles/frame")]
    CyclesPerFrame,
    /// Bytes.
    Bytes,
    /// Bytes of metadata per frame managed.
    #[serde(rename = "bytes/frame")]
    BytesPerFrame,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanos,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Millis,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Per second.
    #[serde(rename = "1/s")]
    PerSecond,
    /// Bytes per second.
    #[serde(rename = "bytes/s")]
    BytesPerSecond,
    /// Percent.
    #[serde(rename = "%")]
    Percent,
    /// Thousandths.
    Thousandths,
    /// Order of a block.
    Order,
    /// A plain ratio.
    Ratio,
}

/// The better direction of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
}

/// The checks, and whether all of them passed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
pub struct Check {
    /// Name of the check.
    pub name: String,
    /// Whether it passed.
    pub passed: bool,
    /// The figures that decided it.
    pub detail: String,
}

impl Report {
    /// The names of all metrics, each once, in the order in which runs have them.
    pub fn metric_names(&self) -> Vec<&str> {
        unique(self.runs.iter().flat_map(|run| run.metrics.keys()))
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
        Self { median: value, min: value, max: value, n: 1, unit, better }
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
        Some(Self { median, min, max, n: sorted.len() as u64, unit, better })
    }
}

impl Unit {
    /// Number of decimals in tables.
    pub fn decimals(self) -> usize {
        match self {
            Unit::Count | Unit::Frames | Unit::Bytes | Unit::Order => 0,
            Unit::PerSecond | Unit::BytesPerSecond => 0,
            Unit::FramesPerAcquisition | Unit::Nanos | Unit::Percent => 2,
            Unit::CyclesPerFrame => 1,
            Unit::BytesPerFrame | Unit::Thousandths | Unit::Millis | Unit::Seconds => 3,
            // Some ratios are far below one: acquisitions per page.
            Unit::Ratio => 6,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_of_rounds_lies_between_the_middle_two() {
        let odd = Metric::of_rounds(&[3.0, 1.0, 2.0], Unit::Nanos, None).unwrap();
        assert_eq!((odd.median, odd.min, odd.max, odd.n), (2.0, 1.0, 3.0, 3));
        let even = Metric::of_rounds(&[4.0, 1.0, 2.0, 3.0], Unit::Nanos, None).unwrap();
        assert_eq!(even.median, 2.5);
        assert_eq!(Metric::of_rounds(&[], Unit::Nanos, None), None);
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
        let report = Report {
            framewright: "0.1.0".into(),
            command: vec!["framewright".into(), "replay".into()],
            workload: "replay".into(),
            machine: "host:2".into(),
            seed: None,
            runs: vec![run],
            published: Vec::new(),
            verdict: Verdict::of(Vec::new()),
            notes: Vec::new(),
        };
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(
            text,
            concat!(
                r#"{"framewright":"0.1.0","command":["framewright","replay"],"workload":"replay","#,
                r#""machine":"host:2","seed":null,"runs":[{"label":"framewright","settings":{},"#,
                r#""metrics":{"refills":{"median":12,"min":12,"max":12,"n":1,"unit":"count","#,
                r#""better":"lower"}},"series":{"largest_free_order":[[0.5,9]]}}],"#,
                r#""published":[],"verdict":{"passed":true,"checks":[]}}"#
            )
        );
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    }
}
