//! The result of `hunt`.

use std::fmt::Write;

use framewright_lab::report::{Style, Table, Tone};
use framewright_sim::scenario::{Bug, Find, Point, Row, SCENARIOS, Verdict};

use super::bold;

/// A row per scenario, bug and kind of schedule; below, how to repeat what was found.
pub(crate) fn hunt(rows: &[Row], style: Style) -> String {
    let header =
        ["scenario", "bug", "schedules", "found", "median", "fastest", "tried", "other failures"];
    let mut table = Table::new(header, style);
    for row in rows {
        let plain = |text: String| (text, Tone::Plain);
        table.row([
            plain(row.scenario.name.to_owned()),
            plain(row.bug.map_or("none", Bug::name).to_owned()),
            plain(row.kind.to_string()),
            found(row),
            plain(number(row.median())),
            plain(number(row.fastest())),
            plain(if row.is_exhausted() {
                format!("all {}", row.tried())
            } else {
                row.tried().to_string()
            }),
            plain(row.strays().to_string()),
        ]);
    }
    let mut text = table.to_string();
    text.push_str("\nSchedules until a bug was found: median over all hunts, and the fewest.\n");
    text.push_str(&reached(rows, style));
    text.push_str(&repeats(rows, style));
    text
}

/// How often what a scenario is about happened at each of its points, in all runs without a bug.
fn reached(rows: &[Row], style: Style) -> String {
    let mut text = String::new();
    let controls = |row: &&Row| row.bug.is_none() && !row.scenario.points().is_empty();
    let counted: Vec<_> = rows.iter().filter(controls).collect();
    let Some(first) = counted.first() else { return text };
    let names = first.scenario.points().iter().map(|point| point.name);
    let mut table = Table::new(["scenario"].into_iter().chain(names), style);
    let mut notes = Vec::new();
    for same in counted.chunk_by(|a, b| a.scenario.name == b.scenario.name) {
        let scenario = same[0].scenario;
        let mut cells = vec![(scenario.name.to_owned(), Tone::Plain)];
        notes.extend(scenario.tally.map(|tally| (scenario.name, tally.what)));
        for (at, point) in scenario.points().iter().enumerate() {
            let times = same.iter().map(|row| row.reached()[at]).sum::<u64>();
            cells.push(times_at(point, times));
            let reason = point.never.map(|why| (scenario.name, why));
            notes.extend(reason.filter(|reason| !notes.contains(reason)));
        }
        table.row(cells);
    }
    text.push_str("\nHow often it happened at each step, in runs without a bug.\n\n");
    text.push_str(&table.to_string());
    for (name, note) in notes {
        // Writing to a string does not fail.
        let _ = writeln!(text, "- {name}: {note}");
    }
    text
}

/// It is bad when nothing happens where it can, and when something does where it cannot.
fn times_at(point: &Point, times: u64) -> (String, Tone) {
    match (point.never, times) {
        (None, 0) => ("0".to_owned(), Tone::Bad),
        (Some(_), 0) => ("-".to_owned(), Tone::Plain),
        (None, _) => (times.to_string(), Tone::Plain),
        (Some(_), _) => (times.to_string(), Tone::Bad),
    }
}

fn found(row: &Row) -> (String, Tone) {
    let tone = if row.is_good() { Tone::Good } else { Tone::Bad };
    match (row.bug, row.found()) {
        (_, 0) if row.misfit().is_some() => ("does not fit".to_owned(), Tone::Bad),
        (None, 0) => ("clean".to_owned(), tone),
        (None, _) => ("NOT CLEAN".to_owned(), tone),
        // One kind that finds it is enough: another one is not wrong.
        (Some(_), found) => {
            let tone = if row.is_good() { Tone::Good } else { Tone::Plain };
            (format!("{found} of {}", row.bags.len()), tone)
        }
    }
}

fn number(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

/// For each bug the find that took the fewest schedules, for each control all that was found, and
/// the first of whatever nobody expected.
fn repeats(rows: &[Row], style: Style) -> String {
    let mut text = String::new();
    for same in rows.chunk_by(|a, b| a.scenario.name == b.scenario.name && a.bug == b.bug) {
        let bags = || same.iter().flat_map(|row| &row.bags);
        let finds = bags().filter_map(|bag| bag.found.as_ref());
        let strays = bags().filter_map(|bag| bag.stray.as_ref()).take(1);
        if same[0].bug.is_some() {
            text.extend(finds.min_by_key(|find| find.at).map(|find| repeat(find, "", style)));
            text.extend(strays.map(|stray| repeat(stray, "not expected: ", style)));
        } else {
            text.extend(finds.map(|find| repeat(find, "NOT CLEAN: ", style)));
        }
    }
    text
}

fn repeat(find: &Find, note: &str, style: Style) -> String {
    let what = match &find.verdict {
        Verdict::Clean => "clean".to_owned(),
        Verdict::Seen { what, .. } => what.clone(),
        Verdict::Failed(failure) => failure.to_string(),
    };
    let command = bold(&format!("framewright hunt {}", find.repeat), style);
    format!("\n{command}\n    {note}{what}\n")
}

/// What there is to hunt.
pub(crate) fn hunt_list(style: Style) -> String {
    let mut text = String::new();
    for scenario in &SCENARIOS {
        let name = bold(scenario.name, style);
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name}: {}, on {} CPUs", scenario.about, scenario.cpus);
        for bug in scenario.bugs {
            let _ = writeln!(text, "    {bug:23} {}", bug.about());
        }
    }
    text
}
