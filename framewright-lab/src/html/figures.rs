//! Figures of the runs as tables. A figure of one CPU, or of one order, is in a table with its neighbours.

use indexmap::{IndexMap, IndexSet};
use maud::{Markup, html};

use super::table::{Cell, Table};
use crate::report::{
    HEADER_NOTE, Metric, Report, Run, SEEDS_NOTE, Tone,
    compare::{change, label, value},
    nested::{is_numbered, parts},
    seeds::interval_rows,
};

/// The maximum number of runs that are columns of a table. More runs are its rows.
pub(super) const WIDE: usize = 6;

/// A figure's place in the tables.
enum Place<'n> {
    /// In the table of all figures.
    Alone,
    /// In the table of CPUs: the CPU, and the figure.
    Cpu(&'n str, String),
    /// In a table by order: the figure, the zone or type, and the order.
    Order(&'n str, String, u32),
}

fn place(name: &str) -> Place<'_> {
    let parts = parts(name);
    if let [cpu, figure @ ..] = &parts[..]
        && is_numbered(cpu, "cpu")
        && !figure.is_empty()
    {
        return Place::Cpu(cpu, figure.join("_"));
    }
    let Some(at) = parts.iter().skip(1).position(|part| is_numbered(part, "order")) else {
        return Place::Alone;
    };
    let order = parts[at + 1].trim_start_matches("order").parse().unwrap_or(0);
    let around = parts[..at].iter().chain(&parts[at + 2..]).copied().collect::<Vec<_>>();
    Place::Order(parts[at], around.join(" "), order)
}

/// All figures but those by order and by CPU. Those of the runs `beside` are not judged.
pub(super) fn render(report: &Report, beside: &[String]) -> Markup {
    let names = report.metric_names().into_iter();
    let names: Vec<&str> = names.filter(|name| matches!(place(name), Place::Alone)).collect();
    if report.runs.len() > WIDE {
        return transposed(&report.runs, &names);
    }
    let base = report.runs.first();
    let is_judged = |nth: usize, run: &Run| nth > 0 && !beside.contains(&run.label);
    let header = ["figure", "better"].into_iter().chain(report.runs.iter().map(|run| &*run.label));
    let mut table = Table::new(header);
    let mut counts: IndexMap<&str, [usize; 2]> = IndexMap::new();
    for name in names {
        let metrics = report.runs.iter().map(|run| run.metrics.get(name));
        let Some(any) = metrics.clone().flatten().next() else { continue };
        let mut row = vec![Cell::text(label(name, any)), Cell::text(better(any))];
        for (nth, (run, metric)) in report.runs.iter().zip(metrics).enumerate() {
            let base = base.and_then(|base| base.metrics.get(name)).filter(|_| is_judged(nth, run));
            let changed = metric.zip(base).and_then(|(metric, base)| change(metric, base));
            // An empty change keeps the figures of a column below one another.
            let change = is_judged(nth, run)
                .then(|| changed.as_ref().map_or_else(String::new, |(change, _)| change.clone()));
            let tone = changed.as_ref().map_or(Tone::Plain, |(_, tone)| *tone);
            if is_judged(nth, run) {
                let counts = counts.entry(&run.label).or_default();
                counts[0] += usize::from(tone == Tone::Good);
                counts[1] += usize::from(tone == Tone::Bad);
            }
            row.push(cell(metric).judged(change, tone));
        }
        table.row(row);
    }
    html! {
        @for (run, [better, worse]) in &counts {
            p { (run) " against the first column: " (better) " better, " (worse) " worse, by 1 % or more" }
        }
        @if !counts.is_empty() { p.note { (HEADER_NOTE) } }
        (table.render(""))
    }
}

/// A row for each run, with its settings. Figures that few runs have are in a table of their own.
fn transposed(runs: &[Run], names: &[&str]) -> Markup {
    let settings: IndexSet<&String> = runs.iter().flat_map(|run| run.settings.keys()).collect();
    let has = |name: &str| runs.iter().filter(|run| run.metrics.contains_key(name)).count();
    let (common, rare): (Vec<&str>, Vec<&str>) =
        names.iter().partition(|name| 2 * has(name) >= runs.len());
    let header = ["run"].into_iter().chain(settings.iter().map(|key| &***key));
    let mut table = Table::new(header.chain(common.iter().copied()));
    let mut others = Table::new(["run", "figure", "value"]);
    for run in runs {
        let settings = settings
            .iter()
            .map(|key| Cell::text(run.settings.get(*key).cloned().unwrap_or_default()));
        let figures = common.iter().map(|name| cell(run.metrics.get(*name)));
        table.row([Cell::text(&*run.label)].into_iter().chain(settings).chain(figures));
        for name in rare.iter().filter(|name| run.metrics.contains_key(**name)) {
            let figure = cell(run.metrics.get(*name));
            others.row([Cell::text(&*run.label), Cell::text(*name), figure]);
        }
    }
    html! { (table.render("")) (others.render("figures that few of the runs have")) }
}

/// A table for each figure that has orders: a row for each zone or type and run, a column for each order.
pub(super) fn by_order(report: &Report) -> Markup {
    let mut tables: IndexMap<&str, IndexMap<String, IndexMap<u32, &str>>> = IndexMap::new();
    for name in report.metric_names() {
        if let Place::Order(figure, row, order) = place(name) {
            tables.entry(figure).or_default().entry(row).or_default().insert(order, name);
        }
    }
    html! {
        @for (figure, rows) in tables {
            @let most = rows.values().flat_map(|orders| orders.keys()).max().copied().unwrap_or(0);
            (orders(report, &rows, most).render(&super::words(figure)))
        }
    }
}

fn orders(report: &Report, rows: &IndexMap<String, IndexMap<u32, &str>>, most: u32) -> Table {
    let has_rows = rows.keys().any(|row| !row.is_empty());
    let first = if has_rows { vec!["of", "run"] } else { vec!["run"] };
    let orders = (0..=most).map(|order| format!("order {order}"));
    let mut table = Table::new(first.into_iter().map(str::to_owned).chain(orders));
    for (row, names) in rows {
        let is_in = |run: &&Run| names.values().any(|name| run.metrics.contains_key(*name));
        for run in report.runs.iter().filter(is_in) {
            let of = if row.is_empty() { "all zones" } else { row };
            let first =
                has_rows.then(|| Cell::text(of)).into_iter().chain([Cell::text(&*run.label)]);
            let figure =
                |order: u32| cell(names.get(&order).and_then(|name| run.metrics.get(*name)));
            table.row(first.chain((0..=most).map(figure)));
        }
    }
    table
}

/// A row for each CPU and run, a column for each figure. Figures that are zero everywhere are left out, and so are
/// CPUs without any other figure.
pub(super) fn by_cpu(report: &Report) -> Markup {
    let mut cpus: IndexMap<&str, IndexMap<String, &str>> = IndexMap::new();
    for name in report.metric_names() {
        if let Place::Cpu(cpu, figure) = place(name) {
            cpus.entry(cpu).or_default().insert(figure, name);
        }
    }
    let is_zero = |name: &str| {
        report
            .runs
            .iter()
            .filter_map(|run| run.metrics.get(name))
            .all(|metric| metric.median == 0.0)
    };
    let figures: IndexSet<&String> = cpus
        .values()
        .flat_map(|figures| {
            figures.iter().filter(|(_, name)| !is_zero(name)).map(|(figure, _)| figure)
        })
        .collect();
    let header = ["CPU", "run"].into_iter().chain(figures.iter().map(|figure| &***figure));
    let mut table = Table::new(header);
    for (cpu, names) in &cpus {
        let number = cpu.trim_start_matches("cpu");
        for run in &report.runs {
            let metrics = figures.iter().map(|figure| run.metrics.get(*names.get(*figure)?));
            let metrics: Vec<Option<&Metric>> = metrics.collect();
            if metrics.iter().flatten().any(|metric| metric.median != 0.0) {
                let cpu = Cell::number(number.parse().unwrap_or(0.0), format!("CPU {number}"));
                let cells = metrics.into_iter().map(cell);
                table.row([cpu, Cell::text(&*run.label)].into_iter().chain(cells));
            }
        }
    }
    table.render("")
}

/// The confidence intervals of several seeds.
pub(super) fn over_seeds(report: &Report) -> Markup {
    let (mut header, rows) = interval_rows(&report.runs);
    header[0] = "figure".to_owned();
    let mut table = Table::new(header);
    rows.into_iter().for_each(|row| table.row(row.into_iter().map(Cell::text)));
    html! {
        @if !table.is_empty() {
            p.note { (SEEDS_NOTE) }
            (table.render(""))
        }
    }
}

/// A figure, with its extremes if it is one of several rounds or seeds.
fn cell(metric: Option<&Metric>) -> Cell {
    let Some(metric) = metric else { return Cell::text("") };
    let shown = |median| value(&Metric { median, ..metric.clone() });
    let range = || format!("{} to {}", shown(metric.min), shown(metric.max));
    let range = (metric.n > 1 && metric.min < metric.max).then(range);
    Cell::number(metric.median, value(metric)).noted(range)
}

fn better(metric: &Metric) -> &'static str {
    use crate::report::Better;
    match metric.better {
        Some(Better::Lower) => "less",
        Some(Better::Higher) => "more",
        None => "",
    }
}
