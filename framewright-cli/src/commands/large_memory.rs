//! `framewright run large-memory`: how the metadata and the times of the allocator grow with the
//! size of memory.

use std::fmt::Write;

use clap::Args as ArgGroup;
use framewright_lab::large_memory::{Goal, LargeMemory, LargeMemoryResult, Section};
use framewright_lab::report::{
    Measured, Report, Style, Table, Tone, Unit, decimal, scaled, scaled_nanos,
};
use indexmap::IndexSet;

use super::{finish, report};
use crate::args::{run::ReportArgs, values::Memory};
use crate::failure::{Failure, Outcome};
use crate::print::{self, bold, several};
use crate::{output, progress};

pub(crate) const EXAMPLES: &str = "\
There is no memory behind the frames: the run makes and measures the metadata of the allocator, \
some 120 bytes for each MiB, and the lists of CPUs: 269 MiB for 1 TiB and 64 CPUs. \
The goals are printed below the figures, with the measured values; with --quick they are not checked.

Examples:
  framewright run large-memory
      The goals for a machine of 1 TiB on 4 nodes, and the measured values.
  framewright run large-memory --quick --memory 64GiB --nodes 2
      A smaller machine. The three compared zones have a 64th, a quarter, and all of its memory.
  framewright run large-memory --memory 8TiB --nodes 8 --cpus 512 --json large.json
      A larger machine, which takes some 3 GiB here.";

#[derive(Debug, ArgGroup)]
pub(crate) struct LargeMemoryArgs {
    /// Memory of the machine, as in 256GiB or 4TiB
    #[arg(long, value_name = "SIZE", default_value = "1TiB", allow_hyphen_values = true)]
    pub(crate) memory: Memory,
    /// Nodes, with equal shares of memory
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) nodes: u8,
    /// CPUs, each with its own lists for every zone [default: 16 for each node]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) cpus: Option<u16>,
    /// Short run: a few rounds only, goals are not checked
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) files: ReportArgs,
}

const WORKLOAD: &str = "large-memory";

/// Measures every part, and compares the figures with the goals.
pub(crate) fn large_memory(args: &LargeMemoryArgs) -> Result<Outcome, Failure> {
    output::check_report(&args.files, &[])?;
    let plan = plan(args)?;
    let result = progress::during(WORKLOAD, |tell| plan.run(tell))?;
    // A short run is too inaccurate to check the goals.
    let checks =
        if args.quick { Vec::new() } else { result.goals.iter().map(Goal::check).collect() };
    let measured = Measured { runs: result.runs(), checks, ..Measured::default() };
    let report = report(WORKLOAD, machine(args, &plan), None, measured);
    finish(&report, &args.files, &show(&result, &report, args.quick, output::style()))
}

fn plan(args: &LargeMemoryArgs) -> Result<LargeMemory, Failure> {
    let frames = args.memory.frames();
    let mut plan = LargeMemory::new(frames, args.nodes)?;
    if let Some(cpus) = args.cpus {
        plan.cpus = cpus;
    }
    Ok(if args.quick { plan.quick() } else { plan })
}

/// Describes the machine.
fn machine(args: &LargeMemoryArgs, plan: &LargeMemory) -> String {
    let (nodes, cpus) = (several(plan.nodes, "node"), several(plan.cpus, "CPU"));
    format!("{} on {nodes}, {cpus}, metadata only", args.memory)
}

/// A table per part, then the goals.
fn show(result: &LargeMemoryResult, report: &Report, quick: bool, style: Style) -> String {
    let rounds = print::medians(report);
    let mut text = format!("machine  {}; {rounds}\n\n", report.machine);
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
        table.plain_row(std::iter::once(without_unit(name)).chain(cells));
    }
    table
}

/// The name of a figure without its unit, which is in the cells.
fn without_unit(name: &str) -> String {
    let units = ["_ns", "_bytes", "_bytes_per_s"];
    units.into_iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name).to_owned()
}

/// One row per goal: the measured value, the goal, and whether it is met.
fn goals(goals: &[Goal], quick: bool, style: Style) -> String {
    let header = ["goals", "measured", "goal", if quick { "not checked" } else { "" }];
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

/// A figure with its unit, scaled to three digits if it is a time or a size.
fn quantity(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Nanos => scaled_nanos(value),
        Unit::Bytes => size(value),
        Unit::BytesPerSecond => format!("{}/s", size(value)),
        Unit::Ratio => format!("{} times", decimal(value, 2)),
        unit => decimal(value, unit.decimals()),
    }
}

/// `bytes` with three digits in the largest unit that gives at least one.
fn size(bytes: f64) -> String {
    const KIB: f64 = 1024.0;
    let (value, unit) =
        scaled(bytes, &[(KIB * KIB * KIB, "GiB"), (KIB * KIB, "MiB"), (KIB, "KiB")]);
    format!("{value} {unit}")
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
