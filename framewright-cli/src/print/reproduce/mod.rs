//! The result of `framewright reproduce`.

use std::fmt::Write;

use framewright_lab::report::{
    Agreement, Band, Metric, Quantity, Role, Row, Style, Table, Tone, Unit, Verdict, decimal,
};
use framewright_lab::reproduce::{Experiment, Plan, Results};
use indexmap::{IndexMap, IndexSet};

use super::bold;

/// A table per experiment, where its figures come from, what they say; then the verdict.
pub(crate) fn reproduce(
    experiments: &[Experiment],
    results: &[Results],
    plan: &Plan,
    verdict: &Verdict,
    style: Style,
) -> String {
    let mut text = String::new();
    for (experiment, results) in experiments.iter().zip(results) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}  {}", bold(experiment.name, style), experiment.title);
        let _ = writeln!(text, "{}\n", experiment.question);
        let _ = writeln!(text, "{}", table(&results.rows, style));
        for note in notes(&results.rows) {
            let _ = writeln!(text, "{note}");
        }
        for finding in &results.findings {
            let _ = writeln!(text, "found: {finding}");
        }
        for check in &results.checks {
            let word = if check.passed { "holds" } else { "DOES NOT HOLD" };
            let _ = writeln!(text, "{}  {word}: {}", bold(&check.name, style), check.detail);
        }
        text.push('\n');
    }
    let rows: Vec<&Row> = results.iter().flat_map(|results| &results.rows).collect();
    let _ = writeln!(text, "{}  {}", bold("verdict", style), sentence(&rows, plan, verdict));
    text
}

fn sentence(rows: &[&Row], plan: &Plan, verdict: &Verdict) -> String {
    if plan.quick {
        return "not judged: --quick is a look, not a result".into();
    }
    let count = |which: &[Agreement]| {
        rows.iter().filter(|row| row.agreement.is_some_and(|it| which.contains(&it))).count()
    };
    let agreeing = count(&[Agreement::Agrees]);
    let judged = agreeing + count(&[Agreement::Disagrees, Agreement::Missing]);
    let word = if verdict.passed { "yes" } else { "NO" };
    let rule = "same sign, within a factor of three";
    format!("{word}: {agreeing} of {judged} judged rows agree ({rule}); {} seeds", plan.seeds.len())
}

/// One column of the table.
struct Column {
    header: &'static str,
    left: bool,
    cell: fn(&Row) -> Option<String>,
}

const fn words(header: &'static str, cell: fn(&Row) -> Option<String>) -> Column {
    Column { header, left: true, cell }
}

const fn figures(header: &'static str, cell: fn(&Row) -> Option<String>) -> Column {
    Column { header, left: false, cell }
}

/// Columns without anything in them are left out.
const COLUMNS: [Column; 17] = [
    words("figure", |row| Some(row.metric.clone())),
    words("machine", |row| Some(row.machine.clone())),
    words("workload", |row| Some(row.workload.clone())),
    words("allocator", |row| Some(row.subject.clone())),
    figures("published\nbefore", |row| value(row, row.published.as_ref()?.before)),
    figures("published\nafter", |row| value(row, row.published.as_ref()?.after)),
    figures("published\nchange", |row| row.published.as_ref()?.change_percent.map(change)),
    figures("kernel\nbefore", |row| value(row, row.kernel.as_ref()?.before)),
    figures("kernel\nafter", |row| value(row, row.kernel.as_ref()?.after)),
    figures("measured\nbefore", |row| value(row, Some(row.measured.as_ref()?.before.median))),
    figures("measured\nafter", |row| value(row, median(row.measured.as_ref()?.after.as_ref()))),
    figures("measured\nchange", |row| {
        median(row.measured.as_ref()?.change_percent.as_ref()).map(change)
    }),
    figures("modelled\nbefore", |row| value(row, Some(row.modelled.as_ref()?.before.median))),
    figures("modelled\nafter", |row| value(row, median(row.modelled.as_ref()?.after.as_ref()))),
    figures("modelled\nchange", |row| {
        median(row.modelled.as_ref()?.change_percent.as_ref()).map(change)
    }),
    figures("modelled\nband", |row| row.band.as_ref().map(|it| band(row, it))),
    words("band\nhangs on", |row| row.band.as_ref().map(|band| band.by.clone())),
];

fn table(rows: &[Row], style: Style) -> Table {
    let used = |column: &&Column| rows.iter().any(|row| (column.cell)(row).is_some());
    let columns: Vec<&Column> = COLUMNS.iter().filter(used).collect();
    let headers = columns.iter().map(|column| column.header).chain(["agrees?"]);
    let mut table = Table::new(headers, style);
    for (index, column) in columns.iter().enumerate() {
        if column.left {
            table = table.left_aligned(index);
        }
    }
    table = table.left_aligned(columns.len());
    for row in rows {
        let cells =
            columns.iter().map(|column| ((column.cell)(row).unwrap_or_default(), Tone::Plain));
        table.row(cells.chain([agreement(row)]));
    }
    table
}

fn agreement(row: &Row) -> (String, Tone) {
    let (word, tone) = match (row.agreement, &row.role) {
        (Some(Agreement::Agrees), _) => ("yes", Tone::Good),
        (Some(Agreement::Disagrees), _) => ("NO", Tone::Bad),
        (Some(Agreement::Missing), _) => ("NO FIGURE", Tone::Bad),
        (_, Role::Fitted(_)) => ("fitted", Tone::Plain),
        (_, Role::Shown(_)) => ("shown", Tone::Plain),
        (_, Role::Predicted) => ("not judged", Tone::Plain),
    };
    (word.to_owned(), tone)
}

/// Where figures come from, and why rows are not judged, each once.
fn notes(rows: &[Row]) -> IndexSet<String> {
    let mut sources: IndexMap<&str, IndexSet<&str>> = IndexMap::new();
    for published in rows.iter().filter_map(|row| row.published.as_ref()) {
        sources.entry(&published.source).or_default().insert(&published.machine);
    }
    let published = sources.into_iter().map(|(source, machines)| {
        let machines: Vec<&str> = machines.into_iter().collect();
        format!("published: {source}, on {}", machines.join("; "))
    });
    let kernels = rows.iter().filter_map(|row| row.kernel.as_ref());
    let kernels = kernels.map(|kernel| format!("kernel: {}", kernel.source));
    let mut notes: IndexSet<String> = published.chain(kernels).collect();
    let mut shown: IndexMap<&str, IndexSet<String>> = IndexMap::new();
    for row in rows {
        match &row.role {
            Role::Fitted(why) => _ = notes.insert(format!("fitted: {}: {why}", row.machine)),
            Role::Shown(why) => _ = shown.entry(why).or_default().insert(shown_as(row, rows)),
            Role::Predicted => {}
        }
    }
    notes.extend(shown.into_iter().map(|(why, metrics)| {
        let metrics: Vec<String> = metrics.into_iter().collect();
        format!("shown: {}: {why}", metrics.join(", "))
    }));
    notes
}

/// The figure of a row that is not judged; whose it is, if another's is.
fn shown_as(row: &Row, rows: &[Row]) -> String {
    let is_judged = |other: &Row| other.metric == row.metric && other.role == Role::Predicted;
    match rows.iter().any(is_judged) {
        true => format!("{} of {}", row.metric, row.subject),
        false => row.metric.clone(),
    }
}

fn median(metric: Option<&Metric>) -> Option<f64> {
    metric.map(|metric| metric.median)
}

fn value(row: &Row, value: Option<f64>) -> Option<String> {
    value.map(|value| quantity(value, row.unit))
}

fn band(row: &Row, band: &Band) -> String {
    let write = |value: f64| match row.by {
        Quantity::Change => change(value),
        Quantity::Before | Quantity::After => quantity(value, row.unit),
    };
    format!("{}..{}", write(band.least), write(band.greatest))
}

fn change(percent: f64) -> String {
    let text = decimal(percent, 1);
    let sign = if text.starts_with('-') || text == "0.0" { "" } else { "+" };
    format!("{sign}{text}%")
}

/// A figure with as many digits as say something.
fn quantity(value: f64, unit: Unit) -> String {
    const PREFIXES: [(f64, &str); 3] = [(1e9, " G"), (1e6, " M"), (1e4, " k")];
    match unit {
        Unit::Percent => format!("{}%", decimal(value, 1)),
        Unit::Ratio => {
            let decimals = match value.abs() {
                0.0 => 0,
                ..0.01 => 5,
                ..0.1 => 4,
                _ => 2,
            };
            decimal(value, decimals)
        }
        Unit::PerSecond | Unit::BytesPerSecond | Unit::Count => {
            let prefix = PREFIXES.into_iter().find(|(from, _)| value.abs() >= *from);
            match prefix {
                Some((_, " k")) => format!("{} k", decimal(value / 1e3, 1)),
                Some((divisor, prefix)) => format!("{}{prefix}", decimal(value / divisor, 2)),
                None => decimal(value, if value.fract() == 0.0 { 0 } else { 2 }),
            }
        }
        unit => decimal(value, unit.decimals()),
    }
}

#[cfg(test)]
mod tests {
    use framewright_lab::report::{Kernel, Published, Sides};
    use framewright_lab::reproduce::Key;

    use super::*;

    /// A row with figures of all four kinds, each with a value of its own.
    fn row() -> Row {
        let mut results = Results::default();
        let key = Key { workload: "w", machine: "m", subject: "s", metric: "drains" };
        let sides = |before: f64, after: f64| Sides::paired(&[before], &[after], Unit::Count, None);
        results.measured(key, sides(1.0, 2.0));
        let band = Band { least: 1.5, greatest: 2.5, by: "latency.l1".into() };
        results.modelled(key, sides(40.0, 50.0), Some(band));
        let kernel = Kernel { before: Some(600.0), after: Some(700.0), source: "6.1".into() };
        Row {
            published: Some(Published::sides(8000.0, 9000.0, "theirs", "there")),
            kernel: Some(kernel),
            role: Role::Predicted,
            agreement: Some(Agreement::Disagrees),
            ..results.rows.remove(0)
        }
    }

    #[test]
    fn the_four_kinds_of_figures_share_no_column() {
        let lines: Vec<String> =
            table(&[row()], Style::Plain).to_string().lines().map(str::to_owned).collect();
        let kinds: Vec<&str> = lines[0].split_whitespace().skip(4).collect();
        let expected: Vec<&str> =
            [("published", 3), ("kernel", 2), ("measured", 3), ("modelled", 4), ("band", 1)]
                .into_iter()
                .flat_map(|(kind, columns)| std::iter::repeat_n(kind, columns))
                .chain(["agrees?"])
                .collect();
        assert_eq!(kinds, expected, "{lines:#?}");
        let figures: Vec<&str> = lines[2].split_whitespace().skip(4).collect();
        assert_eq!(
            figures,
            [
                "8000",
                "9000",
                "+12.5%",
                "600",
                "700",
                "1",
                "2",
                "+100.0%",
                "40",
                "50",
                "+25.0%",
                "+1.5%..+2.5%",
                "latency.l1",
                "NO"
            ]
        );
    }

    #[test]
    fn columns_without_figures_are_left_out() {
        let bare = Row { kernel: None, measured: None, band: None, ..row() };
        let text = table(&[bare], Style::Plain).to_string();
        for word in ["kernel", "measured", "band"] {
            assert!(!text.contains(word), "{text}");
        }
    }

    #[test]
    fn a_source_is_named_once_with_its_machines() {
        let mut other = row();
        if let Some(published) = &mut other.published {
            published.machine = "another".into();
        }
        let fitted = Row { role: Role::Fitted("latencies".into()), ..row() };
        let shown = |metric: &str| Row {
            role: Role::Shown("alone".into()),
            metric: metric.into(),
            ..row()
        };
        let rows = [row(), other, fitted, shown("a"), shown("b"), shown("a")];
        let notes: Vec<String> = notes(&rows).into_iter().collect();
        let expected = [
            "published: there, on theirs; another",
            "kernel: 6.1",
            "fitted: m: latencies",
            "shown: a, b: alone",
        ];
        assert_eq!(notes, expected);
    }

    #[test]
    fn the_verdict_is_as_plain_as_a_yes() {
        let sentence = |agreement, passed, quick| {
            let row = Row { agreement: Some(agreement), ..row() };
            let verdict = Verdict { passed, checks: Vec::new() };
            sentence(&[&row], &Plan::new(3, quick), &verdict)
        };
        let yes = sentence(Agreement::Agrees, true, false);
        assert!(yes.starts_with("yes: 1 of 1 judged rows agree"), "{yes}");
        let no = sentence(Agreement::Disagrees, false, false);
        assert!(no.starts_with("NO: 0 of 1 judged rows agree"), "{no}");
        assert!(sentence(Agreement::NotJudged, true, true).starts_with("not judged"));
    }

    #[test]
    fn figures_have_the_digits_that_say_something() {
        for (value, unit, text) in [
            (7_971_818.0, Unit::PerSecond, "7.97 M"),
            (12_345.0, Unit::Count, "12.3 k"),
            (99.0, Unit::Count, "99"),
            (0.00104, Unit::Ratio, "0.00104"),
            (0.022, Unit::Ratio, "0.0220"),
            (0.99, Unit::Ratio, "0.99"),
            (0.0, Unit::Ratio, "0"),
            (85.0, Unit::Percent, "85.0%"),
            (37_409.0, Unit::Bytes, "37409"),
        ] {
            assert_eq!(quantity(value, unit), text);
        }
        let changes = [4.3, -80.5, 0.0, -0.01].map(change);
        assert_eq!(changes, ["+4.3%", "-80.5%", "0.0%", "0.0%"]);
    }
}
