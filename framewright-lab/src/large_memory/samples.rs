//! What was measured, by section, column and row.

use indexmap::IndexMap;
use std::time::Duration;

use crate::report::{Better, Metric, Run, Unit};

/// A table: what it is about, and its columns.
#[derive(Clone, Debug)]
pub struct Section {
    /// What was measured.
    pub title: &'static str,
    /// How to read it.
    pub note: &'static str,
    /// Columns.
    pub runs: Vec<Run>,
}

/// What a part says of its table.
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
    /// How long something took.
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

/// The time that `percent` of some times do not exceed; of no times none.
pub(super) fn percentile(times: &mut [Duration], percent: usize) -> Option<Duration> {
    let last = times.len().checked_sub(1)?;
    Some(*times.select_nth_unstable((last * percent).div_ceil(100)).1)
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
