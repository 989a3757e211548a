//! The table of `run alloc-micro`.

use std::fmt::Write;

use framewright_lab::micro::{METADATA, METRICS, Table as Micro, ranks, ratio};
use framewright_lab::report::{Check, Comparison, Report, Run, Style, Table, Tone, decimal};

use super::bold;

const OURS: &str = "framewright";
const FLOOR: &str = "floor-trylock";

/// One row per metric, one column per allocator, then where we stand.
pub(crate) fn micro(table: &Micro, goals: &[Check], style: Style) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "nanoseconds per operation: medians of {} interleaved rounds; less is better",
        rounds(&table.runs)
    );
    let _ = writeln!(text, "two threads: {}\n", table.two_threads);
    let _ = writeln!(text, "{}", values(table, style));
    let _ = writeln!(
        text,
        "{OURS} among allocators that merge (ties within 5 %), and beside the floor of one\n\
         try-lock per operation:\n"
    );
    let _ = write!(text, "{}", standing(table, style));
    if !goals.is_empty() {
        text.push('\n');
        text.push_str(&missed(goals, style));
    }
    text
}

/// How many goals are met, and one line for each that is not.
fn missed(goals: &[Check], style: Style) -> String {
    let met = goals.iter().filter(|goal| goal.passed).count();
    let mut text = format!("{} {met} of {} met\n", bold("goals", style), goals.len());
    for goal in goals.iter().filter(|goal| !goal.passed) {
        let _ = writeln!(text, "  missed  {}: {}", goal.name, goal.detail);
    }
    text
}

/// One row per figure, one column per subject.
pub(crate) fn instructions(report: &Report, style: Style) -> String {
    let table = Comparison::values(&report.runs).table(report.metric_names(), style);
    format!(
        "instructions per allocation and free of a frame, refills and bulk frees included;\n\
         bursts of 32,768 frames up, then down, in mapping or random order\n\n{table}"
    )
}

fn rounds(runs: &[Run]) -> u64 {
    runs.iter().flat_map(|run| run.metrics.values()).map(|metric| metric.n).max().unwrap_or(0)
}

fn values(table: &Micro, style: Style) -> Table {
    let labels = table.runs.iter().map(|run| run.label.as_str());
    let mut rows = Table::new(std::iter::once("").chain(labels), style);
    for name in METRICS.into_iter().chain([METADATA]) {
        let best = ranks(&table.runs, &table.ranked, name).into_iter().next();
        let cells = table.runs.iter().map(|run| {
            let is_best = best.as_ref().is_some_and(|best| best.label == run.label);
            let value = run.metrics.get(name).map_or_else(
                || "-".to_owned(),
                |metric| decimal(metric.median, if name == METADATA { 3 } else { 1 }),
            );
            (value, if is_best { Tone::Good } else { Tone::Plain })
        });
        rows.row(std::iter::once((name.to_owned(), Tone::Plain)).chain(cells));
    }
    rows
}

fn standing(table: &Micro, style: Style) -> Table {
    let mut rows = Table::new(["", "place", "to the best", "the best", "to floor-trylock"], style);
    for name in METRICS {
        let ranks = ranks(&table.runs, &table.ranked, name);
        let (Some(best), Some(ours)) =
            (ranks.first(), ranks.iter().find(|rank| rank.label == OURS))
        else {
            continue;
        };
        let tone = if ours.place == 1 { Tone::Good } else { Tone::Bad };
        let floor = ratio(&table.runs, name, OURS, FLOOR)
            .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        let plain = |text| (text, Tone::Plain);
        rows.row([
            plain(name.to_owned()),
            (ours.place.to_string(), tone),
            plain(format!("{:.2}", ours.to_best)),
            plain(best.label.clone()),
            plain(floor),
        ]);
    }
    rows
}
