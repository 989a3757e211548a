//! The rows of a result as tables.

use framewright_lab::report::{
    Agreement, Band, Judgement, Metric, Quantity, Role, Row, Style, Table, Tone, Unit, decimal,
};
use indexmap::IndexMap;
use std::fmt::Write;

use crate::print::{WIDTH, bold};

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

/// The header of the last column.
const AGREES: &str = "agrees?\n(constant)";

/// Columns without any value are left out.
const COLUMNS: [Column; 14] = [
    words("figure", |row| Some(row.metric.clone())),
    words("allocator", |row| Some(row.subject.clone())),
    figures("published\nbefore", |row| value(row, row.published.as_ref()?.before)),
    figures("published\nafter", |row| value(row, row.published.as_ref()?.after)),
    figures("published\nchange", |row| row.published.as_ref()?.change_pct.map(change)),
    figures("kernel\nbefore", |row| value(row, row.kernel.as_ref()?.before)),
    figures("kernel\nafter", |row| value(row, row.kernel.as_ref()?.after)),
    figures("measured\nbefore", |row| value(row, Some(row.measured.as_ref()?.before.median))),
    figures("measured\nafter", |row| value(row, median(row.measured.as_ref()?.after.as_ref()))),
    figures("measured\nchange", |row| {
        median(row.measured.as_ref()?.change_pct.as_ref()).map(change)
    }),
    figures("modelled\nbefore", |row| level(row, Some(row.modelled.as_ref()?.before.median))),
    figures("modelled\nafter", |row| level(row, median(row.modelled.as_ref()?.after.as_ref()))),
    figures("modelled\nchange", |row| {
        median(row.modelled.as_ref()?.change_pct.as_ref()).map(change)
    }),
    figures("modelled\nband", |row| {
        // The group of the parameter is left out, because the column is narrow.
        let by = |it: &Band| it.by.as_ref()?.rsplit('.').next().map(|name| format!("\n{name}"));
        row.band.as_ref().map(|it| band(row, it) + &by(it).unwrap_or_default())
    }),
];

/// A table for each machine and workload, and one more for their modelled figures. Separate tables
/// keep the columns narrow.
pub(crate) fn tables(rows: &[Row], style: Style) -> String {
    let mut groups: IndexMap<(&str, &str, bool), Vec<&Row>> = IndexMap::new();
    for row in rows {
        groups.entry((&row.machine, &row.workload, row.modelled.is_some())).or_default().push(row);
    }
    let mut text = String::new();
    for ((machine, workload, _), rows) in groups {
        let _ = writeln!(text, "{}", bold(&format!("{machine}, {workload}"), style));
        // The first two columns name the row.
        let _ = writeln!(text, "{}", table(&rows, style).within(WIDTH, &[0, 1]));
    }
    text
}

fn table(rows: &[&Row], style: Style) -> Table {
    let used = |column: &&Column| rows.iter().any(|row| (column.cell)(row).is_some());
    let columns: Vec<&Column> = COLUMNS.iter().filter(used).collect();
    let headers = columns.iter().map(|column| column.header).chain([AGREES]);
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

/// Whether each judged quantity agrees, our figure divided by the reference, and in brackets what a constant would get.
fn agreement(row: &Row) -> (String, Tone) {
    let words: Vec<(&str, Tone)> = row.judgements.iter().map(word).collect();
    let tone =
        [Tone::Bad, Tone::Good].into_iter().find(|tone| words.iter().any(|(_, it)| it == tone));
    let tone = tone.unwrap_or(Tone::Plain);
    if let [(first, _), rest @ ..] = &words[..]
        && tone == Tone::Plain
        && rest.iter().all(|(word, _)| word == first)
    {
        return ((*first).to_owned(), tone);
    }
    let lines = row.judgements.iter().zip(words).map(|(judgement, (word, _))| {
        let quantity = match judgement.by {
            _ if row.judgements.len() == 1 => "",
            Quantity::Before => "before:\n",
            Quantity::After => "after:\n",
            Quantity::Change => "change:\n",
        };
        format!("{quantity}{word}{}", measure(judgement))
    });
    (lines.collect::<Vec<_>>().join("\n"), tone)
}

fn word(judgement: &Judgement) -> (&'static str, Tone) {
    match (judgement.agreement, &judgement.role) {
        (Some(Agreement::Agrees), _) => ("yes", Tone::Good),
        (Some(Agreement::Disagrees), _) => ("NO", Tone::Bad),
        (Some(Agreement::Missing), _) => ("NO FIGURE", Tone::Bad),
        (_, Role::Fitted(_)) => ("fitted", Tone::Plain),
        (_, Role::Shown(_)) => ("shown", Tone::Plain),
        (_, Role::Predicted) => ("not judged", Tone::Plain),
    }
}

/// The factor of a judged quantity, and whether a constant agrees.
fn measure(judgement: &Judgement) -> String {
    if !matches!(judgement.agreement, Some(Agreement::Agrees | Agreement::Disagrees)) {
        return String::new();
    }
    let factor = judgement
        .factor
        .map_or_else(String::new, |factor| format!(" \u{d7}{}", decimal(factor, 2)));
    let constant = judgement.constant.map_or("", |constant| match constant.agrees {
        true => " (yes)",
        false => " (no)",
    });
    factor + constant
}

fn median(metric: Option<&Metric>) -> Option<f64> {
    metric.map(|metric| metric.median)
}

/// A modelled level, unless the row has none.
fn level(row: &Row, level: Option<f64>) -> Option<String> {
    match &row.unsteady {
        Some(_) => level.map(|_| "unsteady".to_owned()),
        None => value(row, level),
    }
}

fn value(row: &Row, value: Option<f64>) -> Option<String> {
    value.map(|value| quantity(value, row.unit))
}

fn band(row: &Row, band: &Band) -> String {
    let by = row.judgements.first().map_or(Quantity::Change, |judgement| judgement.by);
    format!("{}..{}", of_quantity(row, by, band.least), of_quantity(row, by, band.greatest))
}

fn of_quantity(row: &Row, by: Quantity, value: f64) -> String {
    match by {
        Quantity::Change => change(value),
        Quantity::Before | Quantity::After => quantity(value, row.unit),
    }
}

fn change(percent: f64) -> String {
    let text = decimal(percent, 1);
    let sign = if text.starts_with('-') || text == "0.0" { "" } else { "+" };
    format!("{sign}{text}%")
}

/// A figure with its significant digits.
pub(crate) fn quantity(value: f64, unit: Unit) -> String {
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
pub(crate) mod tests {
    use framewright_lab::report::{Constant, Kernel, Published, Reference, Sides};
    use framewright_lab::reproduce::{Key, Results};

    use super::*;

    /// A row with figures of all four kinds, each with a different value.
    pub(crate) fn row() -> Row {
        let mut results = Results::default();
        let key = Key { workload: "w", machine: "m", subject: "s", metric: "drains" };
        let sides = |before: f64, after: f64| Sides::paired(&[before], &[after], Unit::Count, None);
        results.measured(key, sides(1.0, 2.0));
        results.modelled(key, sides(40.0, 50.0));
        let band = Band { least: 1.5, greatest: 2.5, by: Some("latency.l1".into()) };
        let kernel = Kernel { before: Some(600.0), after: Some(700.0), source: "6.1".into() };
        let judgement = Judgement {
            agreement: Some(Agreement::Disagrees),
            ..Judgement::new(Quantity::Change, Reference::Published)
        };
        Row {
            published: Some(Published::sides(8000.0, 9000.0, "theirs", "there")),
            kernel: Some(kernel),
            band: Some(band),
            judgements: vec![judgement],
            ..results.rows.remove(0)
        }
    }

    #[test]
    fn the_four_kinds_of_figures_share_no_column() {
        let lines: Vec<String> =
            table(&[&row()], Style::Plain).to_string().lines().map(str::to_owned).collect();
        let kinds: Vec<&str> = lines[0].split_whitespace().skip(2).collect();
        let expected: Vec<&str> =
            [("published", 3), ("kernel", 2), ("measured", 3), ("modelled", 4)]
                .into_iter()
                .flat_map(|(kind, columns)| std::iter::repeat_n(kind, columns))
                .chain(["agrees?"])
                .collect();
        assert_eq!(kinds, expected, "{lines:#?}");
        let figures: Vec<&str> = lines[2].split_whitespace().skip(2).collect();
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
                "NO"
            ]
        );
    }

    #[test]
    fn a_judged_row_shows_its_factor_and_what_a_constant_gets() {
        let with = |agreement, role| Judgement {
            agreement: Some(agreement),
            factor: Some(0.676),
            constant: Some(Constant { value: 4.3, agrees: true }),
            ..Judgement::new(Quantity::Change, Reference::Published).role(role)
        };
        let of = |judgements| agreement(&Row { judgements, ..row() });
        let yes = with(Agreement::Agrees, Role::Predicted);
        let before = Judgement {
            by: Quantity::Before,
            ..with(Agreement::NotJudged, Role::Fitted("it".into()))
        };
        assert_eq!(of(vec![yes.clone()]), ("yes \u{d7}0.68 (yes)".to_owned(), Tone::Good));
        let both = of(vec![yes, before.clone()]);
        assert_eq!(both.0, "change:\nyes \u{d7}0.68 (yes)\nbefore:\nfitted");
        assert_eq!(of(vec![before.clone(), before]), ("fitted".to_owned(), Tone::Plain));
    }

    #[test]
    fn tables_are_no_wider_than_a_terminal() {
        let subject = || "this as it was, that".to_owned();
        let counted = Row { modelled: None, band: None, subject: subject(), ..row() };
        let metric = "locked_instructions_per_frame".to_owned();
        let modelled = Row { measured: None, kernel: None, metric, subject: subject(), ..row() };
        let text = tables(&[counted, modelled], Style::Plain);
        assert_eq!(text.lines().filter(|line| *line == "m, w").count(), 2, "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
    }

    #[test]
    fn an_unsteady_row_shows_no_level() {
        let row = Row { unsteady: Some("seeds differ".into()), ..row() };
        let text = table(&[&row], Style::Plain).to_string();
        assert!(text.matches("unsteady").count() == 2 && text.contains("+25.0%"), "{text}");
    }

    #[test]
    fn columns_without_figures_are_left_out() {
        let bare = Row { kernel: None, measured: None, band: None, ..row() };
        let text = table(&[&bare], Style::Plain).to_string();
        for word in ["kernel", "measured", "band"] {
            assert!(!text.contains(word), "{text}");
        }
    }

    #[test]
    fn figures_have_their_significant_digits() {
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
