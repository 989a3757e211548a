//! What every report shows: its settings, its checks, its series.

use std::fmt::Write;

use framewright_lab::report::{Point, Report, Run, Style, decimal, sparkline};

use super::bold;

/// Characters that a series may take.
const SPARK_WIDTH: usize = 48;

/// One line per run with its settings; nothing if no setting was chosen.
pub(super) fn settings(report: &Report, style: Style) -> String {
    let told: Vec<&Run> = report.runs.iter().filter(|run| !run.settings.is_empty()).collect();
    if told.is_empty() {
        return String::new();
    }
    let width = told.iter().map(|run| run.label.len()).max().unwrap_or(0);
    let mut text = format!("{}\n", bold("settings", style));
    for run in told {
        let settings: Vec<_> =
            run.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let _ = writeln!(text, "  {:width$}  {}", run.label, settings.join("  "));
    }
    text.push('\n');
    text
}

/// How many rounds the figures are medians of.
pub(super) fn rounds(report: &Report) -> u64 {
    let metrics = report.runs.iter().flat_map(|run| run.metrics.values());
    metrics.map(|metric| metric.n).max().unwrap_or(0)
}

/// One line per check, with the figures it was decided on.
pub(super) fn checks(report: &Report, style: Style) -> String {
    let mut text = String::new();
    for check in &report.verdict.checks {
        let word = if check.passed { "holds" } else { "DOES NOT HOLD" };
        let _ = writeln!(text, "{}  {word}: {}", bold(&check.name, style), check.detail);
    }
    text
}

/// One line per series and run: its course, its least, greatest and last value. All courses of one
/// name share a scale, so that runs can be compared by eye.
pub(super) fn series(report: &Report, style: Style) -> String {
    let mut text =
        format!("{} (each between its least and its greatest)\n", bold("over time", style));
    for name in report.series_names() {
        let lines: Vec<(&str, &[Point])> = report
            .runs
            .iter()
            .filter_map(|run| Some((run.label.as_str(), run.series.get(name)?.as_slice())))
            .collect();
        let values = || lines.iter().flat_map(|(_, points)| points.iter().map(|point| point.1));
        let low = values().fold(f64::INFINITY, f64::min);
        let high = values().fold(f64::NEG_INFINITY, f64::max);
        let width = lines.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
        let _ = writeln!(text, "{name}");
        for (label, points) in lines {
            let course = sparkline(points, low, high, SPARK_WIDTH);
            let _ = writeln!(text, "  {label:width$}  {course}  {}", extremes(points));
        }
    }
    text
}

fn extremes(points: &[Point]) -> String {
    let fractions = points.iter().any(|point| point.1.fract() != 0.0);
    let show = |value: f64| decimal(value, if fractions { 3 } else { 0 });
    let values = || points.iter().map(|point| point.1);
    let least = values().fold(f64::INFINITY, f64::min);
    let greatest = values().fold(f64::NEG_INFINITY, f64::max);
    match points.last() {
        Some(last) => {
            format!("least {}, greatest {}, last {}", show(least), show(greatest), show(last.1))
        }
        None => "no values".to_owned(),
    }
}
