//! Measured values, by section, column and row.

use indexmap::IndexMap;
use std::time::Duration;

use super::{
    LargeMemory, contiguous, hotplug, orders,
    plan::{GIB, size},
    start,
};
use crate::report::{Better, Check, Metric, Run, Unit, several};

/// A table: its subject, and its columns.
#[derive(Clone, Debug)]
pub struct Section {
    /// The subject.
    pub title: &'static str,
    /// An explanation.
    pub note: &'static str,
    /// Columns.
    pub runs: Vec<Run>,
}

/// The subject and the explanation of a table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Topic {
    pub(super) title: &'static str,
    pub(super) note: &'static str,
}

/// A quantity.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Value {
    /// Nanoseconds.
    Nanos(f64),
    /// Bytes per second.
    Rate(f64),
    /// Bytes.
    Bytes(u64),
    /// Occurrences.
    Count(u64),
}

impl Value {
    /// A duration.
    pub(super) fn time(time: Duration) -> Self {
        Self::Nanos(time.as_secs_f64() * 1e9)
    }

    /// `bytes` in `time`.
    pub(super) fn rate(bytes: u64, time: Duration) -> Self {
        Self::Rate(bytes as f64 / time.as_secs_f64().max(1e-9))
    }

    fn number(self) -> f64 {
        match self {
            Value::Nanos(number) | Value::Rate(number) => number,
            Value::Bytes(number) | Value::Count(number) => number as f64,
        }
    }

    fn unit(self) -> (Unit, Option<Better>) {
        match self {
            Value::Nanos(_) => (Unit::Nanos, Some(Better::Lower)),
            Value::Rate(_) => (Unit::BytesPerSecond, Some(Better::Higher)),
            Value::Bytes(_) => (Unit::Bytes, None),
            Value::Count(_) => (Unit::Count, None),
        }
    }
}

/// The values of a row in all rounds.
type Row = Vec<Value>;
type Column = IndexMap<String, Row>;

/// All values of all rounds.
#[derive(Debug, Default)]
pub(super) struct Samples {
    topics: IndexMap<Topic, IndexMap<String, Column>>,
}

impl Samples {
    /// Adds a value.
    pub(super) fn add(&mut self, topic: Topic, column: &str, row: impl Into<String>, value: Value) {
        let columns = self.topics.entry(topic).or_default();
        let rows = columns.entry(column.to_owned()).or_default();
        rows.entry(row.into()).or_default().push(value);
    }

    /// The medians.
    pub(super) fn sections(&self) -> Vec<Section> {
        let section = |(topic, columns): (&Topic, &IndexMap<String, Column>)| Section {
            title: topic.title,
            note: topic.note,
            runs: columns.iter().map(|(label, rows)| run(topic, label, rows)).collect(),
        };
        self.topics.iter().map(section).collect()
    }
}

fn run(topic: &Topic, column: &str, rows: &Column) -> Run {
    let mut run = Run { label: column.to_owned(), ..Run::default() };
    run.settings.insert("part".to_owned(), topic.title.to_owned());
    for (name, values) in rows {
        let numbers: Vec<f64> = values.iter().map(|value| value.number()).collect();
        let Some((unit, better)) = values.first().map(|value| value.unit()) else { continue };
        if let Some(metric) = Metric::of_rounds(&numbers, unit, better) {
            run.metrics.insert(name.clone(), metric);
        }
    }
    run
}

/// A percentile of the times; `None` without times.
pub(super) fn percentile(times: &mut [Duration], percent: usize) -> Option<Duration> {
    let last = times.len().checked_sub(1)?;
    Some(*times.select_nth_unstable((last * percent).div_ceil(100)).1)
}

/// Initialisation, in nanoseconds per TiB. The limit of a smaller machine is that of 1 TiB.
const INIT_PER_TIB: f64 = 0.5e9;
/// Adding memory, in bytes per second.
const ADD: f64 = 100.0 * (1_u64 << 30) as f64;
/// A block of 1 GiB from a fresh zone, in nanoseconds.
const LARGEST: f64 = 2_000.0;
/// A contiguous run in a half-full zone, found or refused, in nanoseconds.
const CONTIGUOUS: f64 = 10e6;
/// The time of a contiguous run divided by the number of pageblocks of the zone, in nanoseconds. A
/// walk over 512 frames takes longer.
const PER_PAGEBLOCK: f64 = 100.0;
/// Maximum ratio of the cost of a large block in the largest zone to that in the smallest. Without
/// noise, the costs would be equal.
const GROWTH: f64 = 1.5;
/// The maximum ratio in a full zone. Its random positions need metadata that does not fit into the
/// caches.
const GROWTH_FULL: f64 = 4.0;

/// A goal, with the measured value.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// The subject.
    pub what: String,
    /// The measured value.
    pub measured: f64,
    /// Its unit.
    pub unit: Unit,
    /// Its upper limit; for rates, the lower limit.
    pub limit: f64,
}

impl Goal {
    /// Whether larger values are better.
    #[must_use]
    pub fn is_rate(&self) -> bool {
        self.unit == Unit::BytesPerSecond
    }

    /// Whether the goal is met.
    #[must_use]
    pub fn is_met(&self) -> bool {
        if self.is_rate() { self.measured >= self.limit } else { self.measured <= self.limit }
    }

    /// The goal as a check.
    #[must_use]
    pub fn check(&self) -> Check {
        let Self { what, measured, limit, .. } = self;
        let bound = if self.is_rate() { "at least" } else { "at most" };
        let detail = format!("{measured:.1}, {bound} {limit:.1}");
        Check { name: what.clone(), passed: self.is_met(), detail }
    }
}

/// All goals for which there are figures.
pub(super) fn goals(plan: &LargeMemory, sections: &[Section]) -> Vec<Goal> {
    let figures = Figures(sections);
    let parts = [start_up(plan, &figures), hotplug(&figures), large(plan, &figures)];
    parts.into_iter().flatten().chain(runs(plan, &figures)).collect()
}

struct Figures<'s>(&'s [Section]);

impl<'s> Figures<'s> {
    fn find(&self, topic: super::samples::Topic, column: &str, row: &str) -> Option<&'s Metric> {
        let section = self.0.iter().find(|section| section.title == topic.title)?;
        let run = section.runs.iter().find(|run| run.label == column)?;
        run.metrics.get(row)
    }
}

fn goal(what: String, metric: &Metric, limit: f64) -> Goal {
    Goal { what, measured: metric.median, unit: metric.unit, limit }
}

fn start_up(plan: &LargeMemory, figures: &Figures<'_>) -> Vec<Goal> {
    let tebibytes = plan.frames as f64 / (1024 * GIB) as f64;
    let what = format!("initialise {} on {}", size(plan.frames), several(plan.nodes, "node"));
    let metric = figures.find(start::TOPIC, start::FRESH, start::INIT);
    metric.map(|metric| goal(what, metric, INIT_PER_TIB * tebibytes.max(1.0))).into_iter().collect()
}

fn hotplug(figures: &Figures<'_>) -> Vec<Goal> {
    let metric = figures.find(hotplug::TOPIC, hotplug::AT_ONCE, hotplug::ADD);
    metric.map(|metric| goal("add memory".to_owned(), metric, ADD)).into_iter().collect()
}

/// Goals of blocks of 1 GiB in the largest zone, and of the ratio of the largest to the smallest
/// zone for every order.
fn large(plan: &LargeMemory, figures: &Figures<'_>) -> Vec<Goal> {
    let large = size(plan.zones[2]);
    let words = ["median", "99 %"].into_iter();
    let absolute = words.zip(orders::LARGEST.into_iter().skip(1)).filter_map(|(word, row)| {
        let what = format!("allocate 1 GiB, {word}, from a fresh zone of {large}");
        Some(goal(what, figures.find(orders::TOPIC, &large, row)?, LARGEST))
    });
    let states = [("fresh", orders::FRESH, GROWTH), ("full", orders::FULL, GROWTH_FULL)];
    let growth = states.into_iter().filter_map(|(state, rows, limit)| {
        let small = size(plan.zones[0]);
        let what = format!("orders 10 to 18, {state} zone: cost in {large} / cost in {small}");
        let measured = growth(plan, figures, rows)?;
        Some(Goal { what, measured, unit: Unit::Ratio, limit })
    });
    absolute.chain(growth).collect()
}

/// The ratio of the cost of an order in the largest zone to that in the smallest: the largest of
/// all orders.
fn growth(plan: &LargeMemory, figures: &Figures<'_>, rows: [&str; 2]) -> Option<f64> {
    let figure = |zone: u64, row: &str| figures.find(orders::TOPIC, &size(zone), row);
    let ratio = |row: String| {
        Some(figure(plan.zones[2], &row)?.median / figure(plan.zones[0], &row)?.median)
    };
    let rows = orders::ORDERS.flat_map(|order| rows.map(|what| orders::row(order, what)));
    rows.filter_map(ratio).max_by(f64::total_cmp)
}

/// Goals for contiguous runs, refused and found: for the length that takes longest, and per
/// pageblock.
fn runs(plan: &LargeMemory, figures: &Figures<'_>) -> Vec<Goal> {
    let words = ["refused", "found"].into_iter().zip(contiguous::COLUMNS);
    let goals = words.filter_map(|(word, column)| {
        let find = |row: &str| figures.find(contiguous::TOPIC, column, row);
        let lengths: Vec<String> = contiguous::rows(plan).collect();
        let metrics = lengths.iter().filter_map(|row| find(row));
        let slowest = metrics.max_by(|a, b| a.median.total_cmp(&b.median))?;
        let each = find(contiguous::PER_PAGEBLOCK)?;
        let what = format!("contiguous run {word} in a half-full {}", size(plan.half_used_zone));
        let of_each = goal(format!("{what}, per pageblock"), each, PER_PAGEBLOCK);
        Some([goal(what, slowest, CONTIGUOUS), of_each])
    });
    goals.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_and_rows_keep_their_order_and_rounds_their_median() {
        const TOPIC: Topic = Topic { title: "t", note: "" };
        let mut samples = Samples::default();
        for nanos in [3.0, 1.0, 2.0] {
            samples.add(TOPIC, "b", "z", Value::Nanos(nanos));
            samples.add(TOPIC, "a", "y", Value::Count(7));
        }
        let [section] = &samples.sections()[..] else { panic!("one topic, one section") };
        let labels: Vec<&str> = section.runs.iter().map(|run| run.label.as_str()).collect();
        assert_eq!(labels, ["b", "a"]);
        let metric = &section.runs[0].metrics["z"];
        assert_eq!((metric.median, metric.n, metric.unit), (2.0, 3, Unit::Nanos));
    }

    #[test]
    fn the_middle_time_is_the_median_and_the_slowest_counts() {
        let time = Duration::from_nanos;
        let mut times = [9, 1, 5].map(time);
        assert_eq!(percentile(&mut times, 50), Some(time(5)));
        assert_eq!(percentile(&mut times, 99), Some(time(9)));
        assert_eq!(percentile(&mut [], 50), None);
    }
}
