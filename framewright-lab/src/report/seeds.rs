//! The table of several seeds: confidence intervals, and p-values of differences from the first run.

use super::{
    Metric, Run,
    compare::{label, value},
    model::metric_names,
    table::{Style, Table},
};

/// Explains the table; shown above it.
pub const SEEDS_NOTE: &str = "(mean ± half of its 95 % confidence interval, by Student's t; \
                              p: the probability that chance alone gives a difference from the first column \
                              that is at least as large, by Mann and Whitney's U test, two-sided; of figures \
                              without a difference, one in 20 has p below 0.05)";

/// A row for each figure of several seeds: the mean of each run with its interval, and the p-value of each run but the
/// first. `None` if no figure has several seeds.
pub fn intervals(runs: &[Run], style: Style) -> Option<Table> {
    let (header, rows) = interval_rows(runs);
    let mut table = Table::new(header.iter().map(String::as_str), style);
    rows.iter().for_each(|row| table.plain_row(row.iter().cloned()));
    (!rows.is_empty()).then_some(table)
}

/// The header and the rows of the table of intervals.
pub(crate) fn interval_rows(runs: &[Run]) -> (Vec<String>, Vec<Vec<String>>) {
    let labels = || runs.iter().map(|run| run.label.clone());
    let tested = labels().skip(1).map(|label| format!("p {label}"));
    let header = [String::new()].into_iter().chain(labels()).chain(tested).collect();
    let mut rows = Vec::new();
    for name in metric_names(runs) {
        let metrics: Vec<_> = runs.iter().map(|run| run.metrics.get(name)).collect();
        if !metrics.iter().flatten().any(|metric| metric.interval.is_some()) {
            continue;
        }
        let shown = metrics.iter().flatten().next().map_or(name, |metric| label(name, metric));
        let means = metrics.iter().map(|metric| metric.map_or_else(String::new, mean));
        let p_values = metrics.iter().skip(1);
        let p_values = p_values
            .map(|metric| metric.and_then(|it| it.p_value).map_or_else(String::new, p_value));
        rows.push([shown.to_owned()].into_iter().chain(means).chain(p_values).collect());
    }
    (header, rows)
}

fn mean(metric: &Metric) -> String {
    let Some(interval) = metric.interval else { return String::new() };
    let shown = |number| value(&Metric::once(number, metric.unit, None));
    format!("{} ± {}", shown(interval.mean), shown(interval.high - interval.mean))
}

fn p_value(p: f64) -> String {
    if p < 0.001 { "<0.001".to_owned() } else { format!("{p:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Report, Unit, Verdict};

    fn report(sides: &[&[f64]]) -> Report {
        let run = |(nth, values): (usize, &&[f64])| {
            let label = ["base", "vs"][nth].to_owned();
            let mut run = Run { label, ..Run::default() };
            let metric = Metric::of_rounds(values, Unit::Nanos, None).unwrap();
            run.metrics.insert("stall_ns".into(), metric);
            run
        };
        Report {
            framewright: String::new(),
            command: Vec::new(),
            workload: String::new(),
            machine: String::new(),
            seed: Some(1),
            seeds: 1,
            runs: sides.iter().enumerate().map(run).collect(),
            published: Vec::new(),
            verdict: Verdict::of(Vec::new()),
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_figure_of_several_seeds_has_a_row() {
        let report = report(&[&[1000.0, 2000.0, 3000.0], &[4000.0, 5000.0, 6000.0]]).over_seeds(3);
        let text = intervals(&report.runs, Style::Plain).unwrap().to_string();
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let lines: Vec<_> = text.lines().map(words).collect();
        assert_eq!(lines[0], ["base", "vs", "p", "vs"]);
        assert_eq!(lines[1].join(" "), "stall 2.00 µs ± 2.48 µs 5.00 µs ± 2.48 µs 0.100");
    }

    #[test]
    fn one_seed_has_no_table() {
        let report = report(&[&[1.0, 2.0]]).over_seeds(1);
        assert!(intervals(&report.runs, Style::Plain).is_none());
        assert_eq!([0.000_2, 0.05].map(p_value), ["<0.001", "0.050"]);
    }
}
