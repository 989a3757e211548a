//! Series as charts: the drawing of `--picture`, with the values for the script of the page.

use maud::{Markup, PreEscaped, html};
use serde::Serialize;

use super::words;
use crate::{
    plot::{Axis, Drawn, DrawnLine, Panel},
    report::{Report, Unit},
};

/// A chart for each series, with a line for each run that has it; then the charts `more`.
pub(super) fn render(
    report: &Report,
    time: &Axis,
    more: impl Iterator<Item = (String, Panel)>,
) -> Markup {
    let panels = report.series_names().into_iter().filter_map(|name| {
        let y = Axis::linear(&label(report, name));
        let panel = Panel::of_series(&report.runs, name, time.clone(), y);
        let has_points = panel.lines.iter().any(|line| !line.points.is_empty());
        has_points.then(|| (words(name), panel))
    });
    let charts: Vec<Markup> =
        panels.chain(more).map(|(title, panel)| figure(&title, &panel.drawn(), &panel)).collect();
    html! {
        @if !charts.is_empty() { div.charts { @for chart in charts { (chart) } } }
    }
}

/// The label of the vertical axis: the name of the series, with its unit if the name does not end with it.
fn label(report: &Report, name: &str) -> String {
    let metric = report.runs.iter().find_map(|run| run.metrics.get(name));
    let unit = metric.map_or(Unit::Count, |metric| metric.unit);
    let is_named = ["_ns", "_pct", "_s"].into_iter().any(|end| name.ends_with(end));
    match unit {
        Unit::Count => words(name),
        _ if is_named => words(name),
        unit => format!("{}, {}", words(name), unit.name()),
    }
}

/// A chart with its values.
pub(super) fn figure(title: &str, drawn: &Drawn, panel: &Panel) -> Markup {
    let view = format!("0 0 {} {}", drawn.width, drawn.height);
    html! {
        figure data-chart=(values(drawn, panel)) {
            figcaption { (title) }
            svg viewBox=(view) role="img" aria-label=(title) {
                g.axes { (PreEscaped(&drawn.axes)) }
                @for line in &drawn.lines { g.line { (PreEscaped(&line.svg)) } }
            }
        }
    }
}

/// The values of a chart, for the script.
#[derive(Serialize)]
struct Values<'d> {
    x: &'d str,
    lines: Vec<Line<'d>>,
}

/// A line. A point has its place in the picture, and its values.
#[derive(Serialize)]
struct Line<'d> {
    label: &'d str,
    colour: &'d str,
    points: Vec<(i32, i32, f64, f64)>,
}

fn values(drawn: &Drawn, panel: &Panel) -> String {
    let line = |line: &'_ DrawnLine| -> Vec<_> {
        line.points.iter().map(|&((left, top), (x, y))| (left, top, x, y)).collect()
    };
    let lines = drawn.lines.iter().map(|it| Line {
        label: &it.label,
        colour: &it.colour,
        points: line(it),
    });
    let values = Values { x: &panel.x.label, lines: lines.collect() };
    serde_json::to_string(&values).unwrap_or_default()
}
