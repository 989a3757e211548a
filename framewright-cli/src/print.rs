//! Text that several commands have in common: the lines above a result, its table, checks and
//! series.

use anstyle::Style as TextStyle;
use framewright_lab::{
    report::{
        Comparison, HEADER_NOTE, Point, Report, Run, SEEDS_NOTE, Style, decimal, intervals,
        sparkline,
    },
    simulated::MODEL_NOTE,
};
use framewright_sim::machine::{Basis, Spec};
use indexmap::IndexSet;
use std::fmt::Write;

pub(crate) use framewright_lab::report::several;

/// Bytes in a frame.
pub(crate) const FRAME_BYTES: u64 = 4096;

/// The lines above a result, each with its subject.
pub(crate) fn head<'l>(lines: impl IntoIterator<Item = (&'l str, String)>) -> String {
    lines.into_iter().map(|(about, text)| format!("{about:8} {text}\n")).collect()
}

/// One line for each note.
pub(crate) fn notes(notes: &[String]) -> impl Iterator<Item = (&'static str, String)> {
    notes.iter().map(|note| ("note", note.clone()))
}

/// The settings, a table of all runs, with several seeds also their intervals, the checks.
pub(crate) fn body(report: &Report, style: Style) -> String {
    let note = if report.runs.len() > 1 { format!(" {HEADER_NOTE}") } else { String::new() };
    let table = Comparison::of(&report.runs).table(report.metric_names(), style);
    let (settings, checks) = (settings(report, style), checks(report, style));
    let seeds = over_seeds(&report.runs, style);
    format!("\n{settings}{}{note}\n{table}\n{seeds}{checks}", bold(&report.workload, style))
}

/// The confidence intervals of several seeds, and the p-values of differences; nothing with one seed.
pub(crate) fn over_seeds(runs: &[Run], style: Style) -> String {
    let Some(table) = intervals(runs, style) else { return String::new() };
    let note = paragraph(&format!("{} {SEEDS_NOTE}", bold("over seeds", style)));
    format!("{note}{table}\n")
}

/// Describes a simulated machine and the basis of its figures.
pub(crate) fn simulated(spec: &Spec, frames: u64, how: &str) -> [(&'static str, String); 3] {
    let of = |basis: Basis| {
        let count = spec.parameters().filter(|figure| figure.provenance.basis == basis).count();
        format!("{count} {}", basis.word())
    };
    let (name, counts) = (spec.name(), Basis::ALL.map(of).join(", "));
    let (cpus, nodes) = (several(spec.cpus(), "CPU"), several(spec.nodes(), "node"));
    let model = format!("parameters: {counts}; `framewright machines {name}` lists them");
    [
        ("machine", format!("{name} (simulated): {cpus}, {nodes}, {} MiB; {how}", mib(frames))),
        ("model", model),
        ("note", MODEL_NOTE.to_owned()),
    ]
}

/// The number of seeds that figures are medians of.
pub(crate) fn seeds(seeds: usize) -> String {
    if seeds == 1 { "one seed".to_owned() } else { format!("medians of {seeds} seeds") }
}

/// Frames in MiB.
pub(crate) fn mib(frames: u64) -> u64 {
    (frames * FRAME_BYTES) >> 20
}

/// `text` as a heading.
pub(crate) fn bold(text: &str, style: Style) -> String {
    let bold = match style {
        Style::Plain => TextStyle::new(),
        Style::Coloured => TextStyle::new().bold(),
    };
    format!("{bold}{text}{bold:#}")
}

/// Characters per line of long results.
pub(crate) const WIDTH: usize = 120;

/// One paragraph, wrapped at [`WIDTH`] characters. All lines but the first are indented by two
/// blanks.
pub(crate) fn paragraph(text: &str) -> String {
    let mut lines = String::new();
    let mut width = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > WIDTH {
            lines.push_str("\n  ");
            width = 2;
        } else if !lines.is_empty() {
            lines.push(' ');
            width += 1;
        }
        lines.push_str(word);
        width += length;
    }
    lines.push('\n');
    lines
}

/// Characters of a sparkline.
const SPARK_WIDTH: usize = 48;

/// One line per run with its settings; nothing if no setting was chosen.
pub(crate) fn settings(report: &Report, style: Style) -> String {
    let chosen: Vec<&Run> = report.runs.iter().filter(|run| !run.settings.is_empty()).collect();
    if chosen.is_empty() {
        return String::new();
    }
    let width = chosen.iter().map(|run| run.label.len()).max().unwrap_or(0);
    let mut text = format!("{}\n", bold("settings", style));
    for run in chosen {
        let settings: Vec<_> =
            run.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let _ = writeln!(text, "  {:width$}  {}", run.label, settings.join("  "));
    }
    text.push('\n');
    text
}

/// The number of rounds that the figures are medians of.
pub(crate) fn rounds(report: &Report) -> u64 {
    let metrics = report.runs.iter().flat_map(|run| run.metrics.values());
    metrics.map(|metric| metric.n).max().unwrap_or(0)
}

/// Describes the rounds that the figures are medians of.
pub(crate) fn medians(report: &Report) -> String {
    match rounds(report) {
        1 => "one round".to_owned(),
        rounds => format!("medians of {rounds} rounds"),
    }
}

/// One line per check, with the figures that decided it.
pub(crate) fn checks(report: &Report, style: Style) -> String {
    let mut text = String::new();
    for check in &report.verdict.checks {
        let word = if check.passed { "holds" } else { "DOES NOT HOLD" };
        let _ = writeln!(text, "{}  {word}: {}", bold(&check.name, style), check.detail);
    }
    text
}

/// One line per series and run: a sparkline, minimum, maximum and last value. All runs of one
/// series share a scale, so that they can be compared.
pub(crate) fn series(report: &Report, style: Style) -> String {
    series_of(&report.runs, style)
}

/// As [`series`], of some runs.
pub(crate) fn series_of(runs: &[Run], style: Style) -> String {
    let mut text =
        format!("{} (each scaled from its minimum to its maximum)\n", bold("over time", style));
    let names: IndexSet<&String> = runs.iter().flat_map(|run| run.series.keys()).collect();
    for name in names {
        let lines: Vec<(&str, &[Point])> = runs
            .iter()
            .filter_map(|run| Some((run.label.as_str(), run.series.get(name)?.as_slice())))
            .collect();
        let values = || lines.iter().flat_map(|(_, points)| points.iter().map(|point| point.1));
        let low = values().fold(f64::INFINITY, f64::min);
        let high = values().fold(f64::NEG_INFINITY, f64::max);
        let width = lines.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
        let _ = writeln!(text, "{name}");
        for (label, points) in lines {
            let line = sparkline(points, low, high, SPARK_WIDTH);
            let _ = writeln!(text, "  {label:width$}  {line}  {}", extremes(points));
        }
    }
    text
}

fn extremes(points: &[Point]) -> String {
    let fractions = points.iter().any(|point| point.1.fract() != 0.0);
    let show = |value: f64| decimal(value, if fractions { 3 } else { 0 });
    let values = || points.iter().map(|point| point.1);
    let min = values().fold(f64::INFINITY, f64::min);
    let max = values().fold(f64::NEG_INFINITY, f64::max);
    match points.last() {
        Some(last) => {
            format!("min {}, max {}, last {}", show(min), show(max), show(last.1))
        }
        None => "no values".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_keep_their_words_and_fit() {
        let text = format!("name  holds: {}", "some words ".repeat(40).trim_end());
        let wrapped = paragraph(&text);
        assert!(wrapped.lines().count() > 3 && wrapped.starts_with("name  holds: some"));
        assert!(wrapped.lines().all(|line| line.chars().count() <= WIDTH), "{wrapped}");
        assert!(
            wrapped
                .lines()
                .skip(1)
                .all(|line| line.starts_with("  some") || line.starts_with("  words"))
        );
        assert_eq!(wrapped.replace("\n  ", " ").trim_end(), text);
    }
}
