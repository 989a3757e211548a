//! `framewright run large-memory`: what a machine with very much memory costs.

use std::fmt::Write;

use clap::Args as ArgGroup;
use framewright_lab::large_memory::{Goal, LargeMemory, LargeMemoryResult, Section};
use framewright_lab::report::{Measured, Report, Style, Table, Tone, Unit, decimal};
use indexmap::IndexSet;

use super::{finish, report};
use crate::args::{run::JsonArgs, values::Memory};
use crate::failure::{Failure, Outcome};
use crate::print::{self, TIMES, bold, in_unit};
use crate::{output, progress};

pub(crate) const EXAMPLES: &str = "\
Nothing stands behind the frames: what is made and measured are the books that an allocator keeps \
of them, some 100 bytes for each MiB, and the lists of CPUs. So a machine of 1 TiB fits into 250 MiB. \
Goals stand below the figures, with what was measured; with --quick they are not judged.

Examples:
  framewright run large-memory
      What is promised of a machine of 1 TiB on 4 nodes, and what is kept.
  framewright run large-memory --quick --memory 64GiB --nodes 2
      A smaller machine. The three zones that are compared have a 64th of it, a quarter, and all.
  framewright run large-memory --memory 8TiB --nodes 8 --cpus 512 --json large.json
      A larger one, in some 3 GiB.";

#[derive(Debug, ArgGroup)]
pub(crate) struct LargeMemoryArgs {
    /// Memory of the machine, as in 256GiB or 4TiB
    #[arg(long, value_name = "SIZE", default_value = "1TiB", allow_hyphen_values = true)]
    pub(crate) memory: Memory,
    /// Nodes that it is on, in equal shares
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) nodes: u8,
    /// CPUs, each with lists of its own for every zone [default: 16 of each node]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) cpus: Option<u16>,
    /// A few rounds only: a look, not a measurement
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) json: JsonArgs,
}

const WORKLOAD: &str = "large-memory";

/// Measures every part, and sets the goals beside the figures.
pub(crate) fn large_memory(args: &LargeMemoryArgs) -> Result<Outcome, Failure> {
    output::check_json(args.json.path.as_deref(), &[])?;
    let plan = plan(args)?;
    let result = progress::during(WORKLOAD, |tell| plan.run(tell))?;
    // A look is too short to judge by.
    let checks =
        if args.quick { Vec::new() } else { result.goals.iter().map(Goal::check).collect() };
    let measured = Measured { runs: result.runs(), checks, ..Measured::default() };
    let report = report(WORKLOAD, machine(args, &plan), None, measured);
    finish(&report, &args.json, &show(&result, &report, args.quick, output::style()))
}

fn plan(args: &LargeMemoryArgs) -> Result<LargeMemory, Failure> {
    let frames = args.memory.frames();
    let mut plan = LargeMemory::new(frames, args.nodes)?;
    if let Some(cpus) = args.cpus {
        plan.cpus = cpus;
    }
    Ok(if args.quick { plan.quick() } else { plan })
}

/// The machine in words: it exists on paper only.
fn machine(args: &LargeMemoryArgs, plan: &LargeMemory) -> String {
    let nodes = if plan.nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", plan.nodes) };
    format!("{} on {nodes}, {} CPUs, metadata only", args.memory, plan.cpus)
}

/// A table per part, then the goals.
fn show(result: &LargeMemoryResult, report: &Report, quick: bool, style: Style) -> String {
    let rounds = print::rounds(report);
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
    let (value, name) = in_unit(value, units);
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
