//! The files of `inspect`: rows of a time series, JSON and a page.

use anstream::adapter::strip_str;
use framewright_lab::{
    html::{Details, page},
    inspect::{CSV_HEADER, Figure, HugePages, Look, Source, charts},
    report::{Measured, Metric, Point, Report, Run},
};

use super::{InspectArgs, name, tables};
use crate::args::run::ReportArgs;
use crate::commands::report;
use crate::failure::Failure;
use crate::output;

/// The notes of a report: the source of the prediction, and missing tables.
pub(super) fn notes(look: &Look) -> Vec<String> {
    let huge = HugePages::predict(look);
    let source = (!huge.zones.is_empty()).then(|| tables::source(huge.basis).to_owned());
    look.missing.iter().cloned().chain(source).collect()
}

/// Rows of a time series.
pub(super) fn rows(figures: &[Figure], seconds: f64) -> String {
    figures.iter().map(|figure| figure.csv(seconds) + "\n").collect()
}

/// Writes the rows of one look, if there is a file for them.
pub(super) fn save_rows(args: &InspectArgs, figures: &[Figure]) -> Result<(), Failure> {
    output::save_text(args.csv.as_deref(), || format!("{CSV_HEADER}\n{}", rows(figures, 0.0)))
}

/// Writes the figures of all looks as JSON and as a page, if there are files for it: the last values, and series or
/// charts if there are several looks. `more` are further runs. The page also shows `text`.
pub(super) fn save(
    args: &InspectArgs,
    source: &Source,
    looks: &[(f64, Vec<Figure>)],
    more: Vec<Run>,
    notes: Vec<String>,
    text: &str,
) -> Result<(), Failure> {
    if args.json.is_none() && args.html.is_none() {
        return Ok(());
    }
    let mut runs: Vec<Run> = Vec::new();
    let is_series = looks.len() > 1;
    for (seconds, figures) in looks {
        for figure in figures {
            add(&mut runs, figure, is_series.then_some(*seconds));
        }
    }
    runs.extend(more);
    let measured = Measured { runs, ..Measured::default() };
    let mut report = Report { notes, ..report("inspect", name(source), None, measured) };
    // The rows of --csv have times, and are already written.
    let json = ReportArgs { html: None, ..args.files(None) };
    output::save_report(&json, &report, &Details::default())?;
    // A chart for each of some hundred figures would be too much: the page has charts of several lines.
    report.runs.iter_mut().for_each(|run| run.series.clear());
    output::save_text(args.html.as_deref(), || page(&report, &details(&report, looks, text)))
}

/// The content of the page besides the figures.
fn details(report: &Report, looks: &[(f64, Vec<Figure>)], text: &str) -> Details {
    Details {
        of_library: false,
        summary: summary(report).into_iter().collect(),
        beside: report.runs.iter().map(|run| run.label.clone()).collect(),
        charts: charts(looks),
        text: strip_str(text).to_string(),
        ..Details::default()
    }
}

/// The number of huge pages in words, for the head of the page; `None` if it could not be predicted.
fn summary(report: &Report) -> Option<(String, String)> {
    let machine = report.runs.iter().find(|run| run.label == "machine")?;
    let pages = |name: &str| Some(machine.metrics.get(&format!("huge_pages_{name}"))?.median);
    let words = format!(
        "{} without compaction, {} to {} with compaction",
        pages("without_compaction")?,
        pages("with_compaction_least")?,
        pages("with_compaction_most")?
    );
    Some(("huge pages that a program could get now".to_owned(), words))
}

/// Adds a figure to the run of its zone, or of the machine.
fn add(runs: &mut Vec<Run>, figure: &Figure, seconds: Option<f64>) {
    let (label, key) = (figure.place(), figure.key());
    let at = runs.iter().position(|run| run.label == label).unwrap_or_else(|| {
        runs.push(Run { label, ..Run::default() });
        runs.len() - 1
    });
    let run = &mut runs[at];
    if let Some(seconds) = seconds {
        let point = Point(seconds, figure.value);
        run.series.entry(key.clone()).or_default().push(point);
    }
    run.metrics.insert(key, Metric::once(figure.value, figure.unit, None));
}
