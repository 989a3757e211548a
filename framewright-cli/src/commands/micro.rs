//! `framewright run alloc-micro`: nanoseconds or instructions per operation, compared with other
//! allocators.

use std::{env, fmt::Write, process::Command};

use clap::Args as ArgGroup;
use framewright_lab::micro::instructions::{self, Workload};
use framewright_lab::micro::{
    LLFREE, METADATA, METRICS, Outside, Scale, Table as Micro, ranks, ratio, run,
};
use framewright_lab::report::{
    Check, Comparison, Measured, Report, Run, Style, Table, Tone, decimal,
};

use super::{finish, qemu, report};
use crate::args::{machine::Qemu, run::ReportArgs, values::Memory};
use crate::failure::{Failure, Outcome};
use crate::print::bold;
use crate::{
    output,
    progress::{self, Progress},
};

pub(crate) const EXAMPLES: &str = "\
Build the program with `cargo build --profile lto` for figures to quote: `--release` inlines less. \
There is no memory behind the frames: only the allocators are timed. The goals are printed below the \
figures; with --quick they are not checked. Latencies up to p99.99 and the remaining huge pages of a \
fragmented pool are figures of run churn and run replace.

Examples:
  framewright run alloc-micro
      Medians of 15 rounds, and the goals: one to two minutes.
  framewright run alloc-micro --quick --memory 512MiB
      A short run with less memory.
  framewright run alloc-micro --instructions
      Instructions instead of times: the same on every run.
  framewright run churn --mix small --threads 2 --occupancy 95
      Tail latencies of allocations and frees: p99, p99.9 and p99.99 of two threads.";

#[derive(Debug, ArgGroup)]
pub(crate) struct AllocMicroArgs {
    /// Memory that each allocator manages, as in 4GiB or 512M [default: 4GiB; 1GiB if --quick]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) memory: Option<Memory>,
    /// Short run: a few rounds only, goals are not checked
    #[arg(long)]
    pub(crate) quick: bool,
    /// Count instructions (with valgrind's callgrind) instead of measuring time
    #[arg(long, conflicts_with_all = ["memory", "quick"])]
    pub(crate) instructions: bool,
    /// Count instructions of a kernel on an emulated machine: qemu:N
    #[arg(long, value_name = "MACHINE", conflicts_with_all = ["memory", "quick", "instructions"])]
    pub(crate) machine: Option<Qemu>,
    /// The workload that the program runs when it has started itself under callgrind
    #[arg(long, hide = true, value_name = "WORKLOAD")]
    pub(crate) counted: Option<Workload>,
    #[command(flatten)]
    pub(crate) files: ReportArgs,
}

const WORKLOAD: &str = "alloc-micro";
/// The machine that the report names: every run has measurements with two threads.
const TWO_CPUS: &str = "host:2";
const CALLGRIND: &str = "callgrind";

/// Measures the time of every operation with every allocator, or counts instructions.
pub(crate) fn micro(args: &AllocMicroArgs) -> Result<Outcome, Failure> {
    if let Some(workload) = args.counted {
        output::print(&format!("{}\n", workload.run()))?;
        return Ok(Outcome::Fine);
    }
    if let Some(machine) = &args.machine {
        return qemu::alloc_micro(&machine.0, &args.files);
    }
    output::check_report(&args.files, &[])?;
    let (text, report) = if args.instructions { count()? } else { measure(args)? };
    finish(&report, &args.files, &text)
}

fn measure(args: &AllocMicroArgs) -> Result<(String, Report), Failure> {
    let mut scale = if args.quick { Scale::quick() } else { Scale::full() };
    if let Some(memory) = args.memory {
        scale = scale
            .with_frames(memory.frames())
            .map_err(|error| Failure::BadInput(format!("--memory: {error}")))?;
    }
    let table = progress::during(WORKLOAD, |tell| run(&scale, tell));
    // A short run is too inaccurate to check the goals.
    let goals = if args.quick { Vec::new() } else { table.checks() };
    let text = show_micro(&table, &goals, output::style());
    let measured = Measured { runs: table.runs, checks: goals, ..Measured::default() };
    Ok((text, report(WORKLOAD, TWO_CPUS.to_owned(), None, measured)))
}

fn count() -> Result<(String, Report), Failure> {
    let program = env::current_exe()
        .map_err(|error| Failure::BadInput(format!("cannot find the program itself: {error}")))?;
    let progress = Progress::spinner("counting instructions under callgrind");
    let child = |workload: Workload| {
        let mut command = Command::new(&program);
        command.args(["run", WORKLOAD, "--counted", &workload.to_string()]);
        command
    };
    let runs = instructions::measure(&child)?;
    drop(progress);
    let measured = Measured { runs, ..Measured::default() };
    let report = report(WORKLOAD, CALLGRIND.to_owned(), None, measured);
    Ok((show_instructions(&report, output::style()), report))
}

const OURS: &str = "framewright";
const FLOOR: &str = "floor-trylock";

/// One row per metric, one column per allocator; then the rank of the library.
pub(crate) fn show_micro(table: &Micro, goals: &[Check], style: Style) -> String {
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
        "rank of {OURS} among allocators that merge (ties within 5 %), and ratio to the lower bound of one\n\
         try-lock per operation:\n"
    );
    let _ = write!(text, "{}", ranking(table, style));
    if !goals.is_empty() {
        text.push('\n');
        text.push_str(&missed(goals, style));
    }
    text.push_str("\ntails: framewright run churn --mix small --threads 2 --occupancy 95\n\n");
    text.push_str(&outside(&LLFREE, style));
    text
}

/// Figures that were measured outside this program, with their source.
fn outside(allocator: &Outside, style: Style) -> String {
    let Outside { name, source, measured, figures } = allocator;
    let mut rows = Table::new(["", name, &format!("{OURS} of that day")], style);
    for (metric, theirs, ours) in *figures {
        rows.plain_row([(*metric).to_owned(), decimal(*theirs, 1), decimal(*ours, 1)]);
    }
    format!("not ranked: {source},\nmeasured outside this program, {measured}\n\n{rows}")
}

/// The number of goals that are met, and one line for each that is not.
fn missed(goals: &[Check], style: Style) -> String {
    let met = goals.iter().filter(|goal| goal.passed).count();
    let mut text = format!("{} {met} of {} met\n", bold("goals", style), goals.len());
    for goal in goals.iter().filter(|goal| !goal.passed) {
        let _ = writeln!(text, "  missed  {}: {}", goal.name, goal.detail);
    }
    text
}

/// One row per figure, one column per run.
pub(crate) fn show_instructions(report: &Report, style: Style) -> String {
    let table = Comparison::values(&report.runs).table(report.metric_names(), style);
    format!(
        "instructions per allocation and free of a frame, refills and bulk frees included;\n\
         bursts of 32,768 frames, allocated, then freed in mapping or random order\n\n{table}"
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

fn ranking(table: &Micro, style: Style) -> Table {
    let mut rows = Table::new(["", "rank", "to the best", "the best", "to floor-trylock"], style);
    for name in METRICS {
        let ranks = ranks(&table.runs, &table.ranked, name);
        let (Some(best), Some(ours)) =
            (ranks.first(), ranks.iter().find(|rank| rank.label == OURS))
        else {
            continue;
        };
        let tone = if ours.rank == 1 { Tone::Good } else { Tone::Bad };
        let floor = ratio(&table.runs, name, OURS, FLOOR)
            .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        let plain = |text| (text, Tone::Plain);
        rows.row([
            plain(name.to_owned()),
            (ours.rank.to_string(), tone),
            plain(format!("{:.2}", ours.to_best)),
            plain(best.label.clone()),
            plain(floor),
        ]);
    }
    rows
}
