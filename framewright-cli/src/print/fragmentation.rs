//! The results of `run churn` and `run replace`.

use std::{collections::HashSet, fmt::Write};

use framewright_lab::fragmentation::{
    Churn, FragmentationResult, FreeBy, Mix, Replace, SERIES, SHARES, Section, Setup, TIMED_ONE_IN,
    Types,
};
use framewright_lab::report::{Comparison, HEADER_NOTE, Report, Run, Style, Table, decimal};

use super::{bold, paragraph, report as common, several};

/// The header, a table for each occupancy, the checks.
pub(crate) fn churn(
    work: &Churn,
    setup: &Setup,
    result: &FragmentationResult,
    report: &Report,
    style: Style,
) -> String {
    let orders = match work.mix {
        Mix::Small => "of orders 0 to 4",
        Mix::Mixed => "of orders 0 to 4, and some of order 9",
    };
    let work = format!("{} operations on blocks {orders}", work.operations);
    let mut text = header(&work, setup, report, style);
    for section in &result.sections {
        text.push_str(&table(section, "in use", report, style));
    }
    text.push_str(&common::checks(report, style));
    text
}

/// The same, and the free huge frames after some rounds.
pub(crate) fn replace(
    work: &Replace,
    setup: &Setup,
    result: &FragmentationResult,
    report: &Report,
    style: Style,
) -> String {
    let batch = match work.batch {
        1 => "one at a time".to_owned(),
        batch => format!("{batch} at a time"),
    };
    let what = format!("{} rounds in which every page is replaced, {batch}", work.rounds);
    let mut text = header(&what, setup, report, style);
    for section in &result.sections {
        text.push_str(&table(section, "free", report, style));
        let _ = writeln!(text, "{}", rounds(section, work.rounds, style));
    }
    text.push_str(&common::checks(report, style));
    text
}

/// Threads, and who frees, in words.
pub(crate) fn threads(setup: &Setup) -> String {
    let frees = match (setup.free_by, setup.threads) {
        (FreeBy::Itself, _) => "",
        (FreeBy::Other, 1) => ", a second CPU frees",
        (FreeBy::Other, _) => ", the next one frees",
    };
    format!("{}{frees}", several(setup.threads, "thread"))
}

fn header(work: &str, setup: &Setup, report: &Report, style: Style) -> String {
    let types = match setup.types {
        Types::Movable => "all movable",
        Types::Mixed => "5 % unmovable, 15 % reclaimable",
    };
    let seeds = match setup.seeds.len() {
        1 => "one seed".to_owned(),
        seeds => format!("medians of {seeds} seeds"),
    };
    let mut text = format!("machine  {}; {seeds}\n", report.machine);
    // Writing to a string does not fail.
    let _ = writeln!(text, "work     {work}; {types}");
    text.push_str(&paragraph(&format!(
        "note     times are this machine's, others' work on it included; one call in {TIMED_ONE_IN} is \
         timed, without what reading the clock takes"
    )));
    text.push('\n');
    text.push_str(&settings(report, style));
    text
}

/// The settings of the library's sides, once: they are the same in all sections.
fn settings(report: &Report, style: Style) -> String {
    let mut first = report.clone();
    let mut seen = HashSet::new();
    first.runs.retain(|run| seen.insert(run.label.clone()));
    for run in &mut first.runs {
        run.settings.retain(|key, _| !SHARES.contains(&key.as_str()));
    }
    common::settings(&first, style)
}

/// One row per figure, one column per allocator. The library's sides are compared, others stand beside.
fn table(section: &Section, words: &str, report: &Report, style: Style) -> String {
    let is_side = |run: &&Run| run.label.starts_with("framewright ");
    let sides: Vec<&Run> = section.runs.iter().filter(is_side).collect();
    let others = section.runs.iter().filter(|run| !is_side(run));
    let note = if sides.is_empty() { String::new() } else { format!(" {HEADER_NOTE}") };
    let comparison = others.fold(Comparison::of(sides), Comparison::beside);
    let table = comparison.table(report.metric_names(), style);
    let heading = bold(&format!("{} % {words}", section.share), style);
    format!("{heading}{note}\n{table}\n")
}

/// The series after 1, 2, 4, 8... rounds, and after the last.
fn rounds(section: &Section, last: u32, style: Style) -> Table {
    let header = format!("{SERIES} after round");
    let labels = section.runs.iter().map(|run| run.label.as_str());
    let mut table = Table::new(std::iter::once(header.as_str()).chain(labels), style);
    let doubled = std::iter::successors(Some(1_u32), |round| round.checked_mul(2));
    for round in doubled.take_while(|round| *round < last).chain([last]) {
        let value = |run: &Run| {
            let point = run.series.get(SERIES).and_then(|points| points.get(round as usize));
            // A median of two seeds may have a half.
            let decimals = |value: f64| usize::from(value.fract() != 0.0);
            point.map_or_else(String::new, |point| decimal(point.1, decimals(point.1)))
        };
        table.plain_row(std::iter::once(round.to_string()).chain(section.runs.iter().map(value)));
    }
    table
}
