//! The result of `run large-memory`.

use std::fmt::Write;

use framewright_lab::large_memory::{Goal, LargeMemoryResult, Section};
use framewright_lab::report::{Report, Style, Table, Tone, Unit, decimal};
use indexmap::IndexSet;

use super::{bold, report as common};

/// A table per part, then the goals.
pub(crate) fn large_memory(
    result: &LargeMemoryResult,
    report: &Report,
    quick: bool,
    style: Style,
) -> String {
    let rounds = common::rounds(report);
    let mut text = format!("machine  {}; medians of {rounds} rounds\n\n", report.machine);
    for section in &result.sections {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}\n{}", bold(section.title, style), section.note);
        let _ = writeln!(text, "{}", table(section, style));
    }
    text.push_str(&goals(&result.goals, quick, style));
    text
}

/// One row per figure, one column per case.
fn table(section: &Section, style: Style) -> Table {
    let labels = section.runs.iter().map(|run| run.label.as_str());
    let mut table = Table::new(std::iter::once("").chain(labels), style);
    let names: IndexSet<&String> = section.runs.iter().flat_map(|run| run.metrics.keys()).collect();
    for name in names {
        let cells = section.runs.iter().map(|run| {
            let metric = run.metrics.get(name);
            metric.map_or_else(|| "-".to_owned(), |metric| quantity(metric.median, metric.unit))
        });
        table.plain_row(std::iter::once(name.clone()).chain(cells));
    }
    table
}

/// One row per goal: what was measured, the goal, and whether it is met.
fn goals(goals: &[Goal], quick: bool, style: Style) -> String {
    let header = ["goals", "measured", "goal", if quick { "not judged" } else { "" }];
    let mut table = Table::new(header, style);
    for goal in goals {
        let bound = if goal.is_rate() { "at least" } else { "at most" };
        let (word, tone) = match goal.is_met() {
            _ if quick => ("", Tone::Plain),
            true => ("met", Tone::Good),
            false => ("MISSED", Tone::Bad),
        };
        let plain = |text| (text, Tone::Plain);
        table.row([
            plain(goal.what.clone()),
            plain(quantity(goal.measured, goal.unit)),
            plain(format!("{bound} {}", quantity(goal.limit, goal.unit))),
            (word.to_owned(), tone),
        ]);
    }
    table.to_string()
}

/// A figure in the unit in which it is a handy number.
fn quantity(value: f64, unit: Unit) -> String {
    const TIMES: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];
    const KIB: f64 = 1024.0;
    const SIZES: [(f64, &str); 3] = [(KIB * KIB * KIB, "GiB"), (KIB * KIB, "MiB"), (KIB, "KiB")];
    match unit {
        Unit::Nanos => handy(value, &TIMES),
        Unit::Bytes => handy(value, &SIZES),
        Unit::BytesPerSecond => format!("{}/s", handy(value, &SIZES)),
        Unit::Ratio => format!("{} times", decimal(value, 2)),
        unit => decimal(value, unit.decimals()),
    }
}

/// Three digits that count, in the largest of `units` that is not larger than the value.
fn handy(value: f64, units: &[(f64, &str)]) -> String {
    let fits = units.iter().find(|(unit, _)| value >= *unit).or(units.last());
    let &(unit, name) = fits.unwrap_or(&(1.0, ""));
    let value = value / unit;
    let decimals = match value {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    format!("{} {name}", decimal(value, decimals))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_three_digits_and_a_unit() {
        for (value, unit, text) in [
            (0.4e9, Unit::Nanos, "400 ms"),
            (2_000.0, Unit::Nanos, "2.00 µs"),
            (34.56, Unit::Nanos, "34.6 ns"),
            (0.25, Unit::Nanos, "0.25 ns"),
            (180e6, Unit::Bytes, "172 MiB"),
            (5e12, Unit::BytesPerSecond, "4657 GiB/s"),
            (1.234, Unit::Ratio, "1.23 times"),
            (131_072.0, Unit::Count, "131072"),
        ] {
            assert_eq!(quantity(value, unit), text);
        }
    }
}
