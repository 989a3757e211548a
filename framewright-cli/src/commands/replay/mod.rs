//! `framewright replay`: replays a recording of a real kernel.

mod page;
mod requests;
mod runs;
mod text;
mod verdict;

use std::{
    iter,
    path::{Path, PathBuf},
};

use framewright_lab::plot::{Axis, Panel, Plot};
use framewright_lab::replay::{self, Balance, Logical, Recording, Survey, Tables, Traced};
use framewright_lab::report::{Check, Measured, Report};
use framewright_lab::simulated::{Column, Design};
use framewright_lab::trace::{Snapshot, snapshot};

use clap::{Args as ArgGroup, ValueEnum};

use super::{finish_with, report};
use crate::args::run::{ReportArgs, Settings, TraceArgs};
use crate::args::values;
use crate::failure::{Failure, Outcome};
use crate::{output, progress::Progress};

pub(crate) const EXAMPLES: &str = "\
A recording is ftrace or `perf script` text of the kmem events, plain or zstd. The kernel's tables \
at its start (NAME.before for NAME.txt or NAME.txt.zst) are used if they are next to it.

Examples:
  framewright replay recordings/sockets.txt.zst
  framewright replay recordings/sockets.txt.zst --set pcp.batch=31 --vs pcp.batch=127
  framewright replay recordings/sockets.txt.zst --beside list-buddy
      The same on the classic design, from the same state: huge pages that can be allocated, over time.
  framewright replay recordings/sockets.txt.zst --beside list-buddy --picture sockets.svg
      The huge pages over time as a picture, with a line for each allocator.
  framewright replay recordings/sockets.txt.zst --json sockets.json";

#[derive(Debug, ArgGroup)]
pub(crate) struct ReplayArgs {
    /// The recording
    #[arg(value_name = "RECORDING")]
    pub(crate) trace: PathBuf,
    /// The maximum number of bytes to read from a pipe or a device: all of them are kept in memory
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = values::bytes)]
    pub(crate) limit: u64,
    /// Replay the recording on this allocator, too, from the same state: the same free blocks of
    /// every order, types of pageblocks, and frames on CPU lists, as far as its lists can hold them
    #[arg(long, value_enum, value_name = "ALLOCATOR")]
    pub(crate) beside: Option<Beside>,
    /// Draw the blocks of order 9 that can be allocated over time into this file, as SVG
    #[arg(long, alias = "svg", value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) trace_file: TraceArgs,
    #[command(flatten)]
    pub(crate) settings: Settings,
    #[command(flatten)]
    pub(crate) files: ReportArgs,
}

/// An allocator other than the library.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Beside {
    /// The classic design of kernels: no watermarks, no reserves; it has some of the settings of
    /// --set
    ListBuddy,
}

/// Allowed difference of the frames in use at the end, in percent.
const TOLERANCE: f64 = 5.0;

/// Replays the recording with each side's settings.
pub(crate) fn replay(args: &ReplayArgs) -> Result<Outcome, Failure> {
    let picture = args.picture.as_deref();
    let beside = |which| snapshot::beside(&args.trace, which).map_err(Failure::bad_input);
    let [before, after] = [beside("before")?, beside("after")?];
    let tables = before.as_deref().into_iter().chain(after.as_deref());
    let inputs: Vec<&Path> = iter::once(args.trace.as_path()).chain(tables).collect();
    let others = [("--picture", picture), args.trace_file.file()];
    output::check_outputs(&args.files, &others, &inputs)?;
    let trace = args.trace_file.begin()?;
    let recording = Recording::open(&args.trace, args.limit).map_err(Failure::bad_input)?;
    let sides = args.settings.sides();

    let mut progress = Progress::new("reading");
    let steps = 1 + sides.len() + usize::from(args.beside.is_some());
    let survey = Survey::of(&recording, &mut |part| progress.step(0, steps, part))?;
    for warning in &survey.warnings {
        progress.warn(format_args!("{}: {warning}", survey.file));
    }
    let tables = Tables { before: open(before, &progress)?, after: open(after, &progress)? };
    if tables.before.is_none() {
        progress.warn(format_args!(
            "{}: no kernel tables beside it (NAME.before): the machine is as large as the \
             recording needs, and starts unfragmented",
            survey.file
        ));
    }
    let mut replays = Vec::new();
    for (step, side) in (1..).zip(&sides) {
        progress.set_message(&format!("replaying: {}", side.label));
        let mut tell = |part| progress.step(step, steps, part);
        let traced = trace.as_ref().map(|trace| {
            // The recorded kernel is the same for all sides.
            Traced { trace, title: &side.label, with_kernel: step == 1 }
        });
        let replayed =
            replay::run_traced(&recording, &survey, &tables, &side.tuning, traced, &mut tell);
        replays.push(replayed?);
    }
    let mut list_buddy = None;
    if let (Some(Beside::ListBuddy), Some(side)) = (args.beside, sides.first()) {
        let column = Column::list_buddy("list-buddy", side);
        progress.set_message(&format!("replaying: {}", column.label));
        let mut tell = |part| progress.step(steps - 1, steps, part);
        if let Design::ListBuddy(tuning) = column.design {
            let (title, with_kernel) = (column.label.as_str(), false);
            let traced = trace.as_ref().map(|trace| Traced { trace, title, with_kernel });
            let replayed =
                replay::run_list_buddy(&recording, &survey, &tables, &tuning, traced, &mut tell)?;
            list_buddy = Some((column, replayed));
        }
    }
    drop(progress);
    output::save_trace(trace)?;

    let ours = || sides.iter().zip(&replays);
    let beside = list_buddy.as_ref();
    let mut results: Vec<_> = ours().map(|(side, replay)| runs::ours(side, replay)).collect();
    results.extend(beside.map(|(column, replay)| runs::list_buddy(column, replay)));
    results.extend(replays.first().map(|replay| runs::kernel(replay, &survey.requests)));
    let balances = ours().map(|(side, replay)| (&side.label, &replay.balance, &replay.logical));
    let balances: Vec<_> = balances
        .chain(beside.map(|(column, replay)| (&column.label, &replay.balance, &replay.logical)))
        .collect();
    let name = |label| (balances.len() > 1).then_some(label);
    let checks = balances
        .iter()
        .map(|(label, frames, logical)| balance(name(label.as_str()), frames, logical));
    let cpus = format!("replay:{}", survey.cpus);
    let measured = Measured { runs: results, checks: checks.collect(), ..Measured::default() };
    let report = report("replay", cpus, None, measured);
    output::save_text(picture, || plot(&report).svg())?;
    let beside = beside.map(|(_, replay)| replay);
    let text = text::show(&report, &replays, beside, &survey.requests, output::style());
    finish_with(&report, page::details(&sides, &replays), &args.files, &text)
}

/// The blocks of order 9 over time, with a line for each run that has them.
fn plot(report: &Report) -> Plot {
    let (x, y) = (Axis::linear("seconds"), Axis::linear("blocks of order 9 that can be allocated"));
    let panels = vec![Panel::of_series(&report.runs, runs::ORDER9, x, y)];
    Plot { title: report.workload.clone(), subtitle: report.command.join(" "), panels }
}

/// Reads the kernel's tables from a file, if there is one. Warns of tables that the file lacks.
fn open(path: Option<PathBuf>, progress: &Progress) -> Result<Option<Snapshot>, Failure> {
    let Some(path) = path else { return Ok(None) };
    let snapshot = Snapshot::open(&path).map_err(Failure::bad_input)?;
    for gap in snapshot.gaps() {
        progress.warn(format_args!("{}: {gap}", path.display()));
    }
    Ok(Some(snapshot))
}

/// Checks the frames in use at the end against the number computed from the recording. In large memory, they are close even
/// if most allocations were refused.
fn balance(side: Option<&str>, balance: &Balance, logical: &Logical) -> Check {
    let is_near = balance.difference_percent.abs() <= TOLERANCE;
    let passed = is_near && !verdict::refuses_many(logical);
    Check::new(
        side.map_or_else(|| "balance".to_owned(), |label| format!("balance, {label}")),
        passed,
        format!(
            "{} frames in use at the end, {} computed from the recording: {:.2} % difference, \
             {TOLERANCE} % allowed{}",
            balance.replayed,
            balance.recorded,
            balance.difference_percent,
            if passed { String::new() } else { cause(logical) }
        ),
    )
}

/// Possible reasons for a difference of the frames in use, as the end of a sentence.
fn cause(logical: &Logical) -> String {
    let (refused, unmatched) = (logical.refused_allocs, logical.unmatched_frees);
    match refused {
        0 => format!("; no allocations were refused, {unmatched} frees matched no allocation"),
        1 => "; 1 allocation was refused: the machine is too small for its watermark settings"
            .to_owned(),
        _ => format!(
            "; {refused} allocations were refused: the machine is too small for its watermark \
             settings"
        ),
    }
}
