//! Published figures beside ours: a table for each experiment, and its sources.

use indexmap::IndexSet;
use maud::{Markup, html};

use super::table::{Cell, Table};
use crate::report::{
    Agreement, Judgement, Metric, Quantity, Role, Row, Sides, Tone, Unit, change_pct,
    compare::value, decimal,
};

/// The kinds of figures, in the order of columns.
const KINDS: [&str; 4] = ["published", "kernel", "measured", "modelled"];

/// A figure before and after the change, and the change in percent.
type Three = [Option<f64>; 3];

/// A table for each experiment.
pub(super) fn render(rows: &[Row]) -> Markup {
    let experiments: IndexSet<&str> = rows.iter().map(|row| &*row.experiment).collect();
    html! {
        @for experiment in experiments {
            @let rows: Vec<&Row> = rows.iter().filter(|row| row.experiment == experiment).collect();
            (table(&rows).render(experiment))
            (sources(&rows))
        }
    }
}

fn table(rows: &[&Row]) -> Table {
    let has = |kind: usize| rows.iter().any(|row| figures(row)[kind].iter().any(Option::is_some));
    let kinds: Vec<usize> = (0..KINDS.len()).filter(|kind| has(*kind)).collect();
    let figures_of = |kind: &usize| {
        ["before", "after", "change"].map(|part| format!("{}: {part}", KINDS[*kind]))
    };
    let header = ["machine", "workload", "figure", "allocator"].map(str::to_owned).into_iter();
    let header = header.chain(kinds.iter().flat_map(figures_of));
    let mut table = Table::new(header.chain(["range".to_owned(), "agrees?".to_owned()]));
    for row in rows {
        let names =
            [&row.machine, &row.workload, &row.metric, &row.subject].map(|it| Cell::text(&**it));
        let cells = kinds.iter().flat_map(|kind| cells(row, *kind));
        table.row(names.into_iter().chain(cells).chain([range(row), agreement(row)]));
    }
    table
}

/// The figures of a row by kind.
fn figures(row: &Row) -> [Three; 4] {
    let change = |before: Option<f64>, after: Option<f64>| change_pct(before?, after?);
    let published = row.published.as_ref().map_or([None; 3], |it| {
        [it.before, it.after, it.change_pct.or_else(|| change(it.before, it.after))]
    });
    let kernel = row
        .kernel
        .as_ref()
        .map_or([None; 3], |it| [it.before, it.after, change(it.before, it.after)]);
    [published, kernel, ours(row.measured.as_ref()), ours(row.modelled.as_ref())]
}

fn ours(sides: Option<&Sides>) -> Three {
    let median = |metric: Option<&Metric>| metric.map(|metric| metric.median);
    sides.map_or([None; 3], |sides| {
        [Some(sides.before.median), median(sides.after.as_ref()), median(sides.change_pct.as_ref())]
    })
}

fn cells(row: &Row, kind: usize) -> [Cell; 3] {
    let [before, after, change] = figures(row)[kind];
    let is_unsteady = KINDS[kind] == "modelled" && row.unsteady.is_some();
    let level = |level: Option<f64>| match level {
        Some(_) if is_unsteady => Cell::text("unsteady"),
        Some(level) => Cell::number(level, shown(level, row.unit)),
        None => Cell::text(""),
    };
    let change = change.map_or(Cell::text(""), |change| Cell::number(change, percent(change)));
    [level(before), level(after), change]
}

fn shown(level: f64, unit: Unit) -> String {
    value(&Metric::once(level, unit, None))
}

fn percent(change: f64) -> String {
    let text = decimal(change, 1);
    let sign = if text.starts_with('-') || text == "0.0" { "" } else { "+" };
    format!("{sign}{text}%")
}

/// The range of the judged quantity while parameters of the machine vary.
fn range(row: &Row) -> Cell {
    let Some(band) = &row.band else { return Cell::text("") };
    let by = row.judgements.first().map_or(Quantity::Change, |judgement| judgement.by);
    let shown = |value| match by {
        Quantity::Change => percent(value),
        Quantity::Before | Quantity::After => shown(value, row.unit),
    };
    let text = format!("{} to {}", shown(band.least), shown(band.greatest));
    Cell::text(text).noted(band.by.clone())
}

/// Whether the judged quantities agree, and our figures divided by the references.
fn agreement(row: &Row) -> Cell {
    let is = |wanted: &[Agreement]| {
        row.judgements.iter().filter_map(|it| it.agreement).any(|it| wanted.contains(&it))
    };
    let tone = match () {
        () if is(&[Agreement::Disagrees, Agreement::Missing]) => Tone::Bad,
        () if is(&[Agreement::Agrees]) => Tone::Good,
        () => Tone::Plain,
    };
    let words: IndexSet<String> =
        row.judgements.iter().map(|it| judged(it, row.judgements.len() > 1)).collect();
    let words: Vec<String> = words.into_iter().collect();
    Cell::text(words.join("; ")).judged(None, tone)
}

fn judged(judgement: &Judgement, is_one_of_several: bool) -> String {
    let word = match (judgement.agreement, &judgement.role) {
        (Some(Agreement::Agrees), _) => "yes",
        (Some(Agreement::Disagrees), _) => "NO",
        (Some(Agreement::Missing), _) => "NO FIGURE",
        (_, Role::Fitted(_)) => return "fitted".to_owned(),
        (_, Role::Shown(_)) => return "shown".to_owned(),
        (_, Role::Predicted) => return "not judged".to_owned(),
    };
    let quantity = match judgement.by {
        _ if !is_one_of_several => "",
        Quantity::Before => "before: ",
        Quantity::After => "after: ",
        Quantity::Change => "change: ",
    };
    let factor = judgement.factor.map(|factor| format!(" \u{d7}{}", decimal(factor, 2)));
    format!("{quantity}{word}{}", factor.unwrap_or_default())
}

/// The sources of the figures, and the reasons why some are not judged, each once.
fn sources(rows: &[&Row]) -> Markup {
    let mut notes: IndexSet<String> = IndexSet::new();
    for row in rows {
        let published = row.published.as_ref();
        notes.extend(published.map(|it| format!("published: {}, on {}", it.source, it.machine)));
        notes.extend(row.kernel.as_ref().map(|it| format!("kernel: {}", it.source)));
        notes.extend(
            row.unsteady
                .as_ref()
                .map(|why| format!("unsteady: {}, {}: {why}", row.machine, row.metric)),
        );
        notes.extend(row.judgements.iter().filter_map(|it| match &it.role {
            Role::Fitted(why) => Some(format!("fitted: {}: {why}", row.machine)),
            Role::Shown(why) => Some(format!("shown: {}: {why}", row.metric)),
            Role::Predicted => None,
        }));
    }
    html! { @for note in notes { p.note { (note) } } }
}
