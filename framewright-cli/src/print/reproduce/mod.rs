//! The result of `framewright reproduce`.

mod table;

use std::fmt::Write;

use framewright_lab::report::{Role, Row, Style, Verdict};
use framewright_lab::reproduce::{Experiment, Results};
use indexmap::{IndexMap, IndexSet};

use super::{bold, paragraph};

/// A table per experiment, where its figures come from, what they say; then the verdict.
pub(crate) fn reproduce(
    experiments: &[Experiment],
    results: &[Results],
    verdict: &Verdict,
    style: Style,
) -> String {
    let mut text = String::new();
    for (experiment, results) in experiments.iter().zip(results) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}  {}", bold(experiment.name, style), experiment.title);
        let _ = writeln!(text, "{}\n", experiment.question);
        text.push_str(&table::tables(&results.rows, style));
        for note in notes(&results.rows) {
            text.push_str(&paragraph(&note));
        }
        for finding in &results.findings {
            text.push_str(&paragraph(&format!("found: {finding}")));
        }
        for check in &results.checks {
            let word = if check.passed { "holds" } else { "DOES NOT HOLD" };
            let line = format!("{}  {word}: {}", bold(&check.name, style), check.detail);
            text.push_str(&paragraph(&line));
        }
        text.push('\n');
    }
    let _ = writeln!(text, "{}  {}", bold("verdict", style), verdict.words);
    text
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

#[cfg(test)]
mod tests {
    use super::{table::tests::row, *};

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
}
