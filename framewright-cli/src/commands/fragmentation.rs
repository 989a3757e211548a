//! `framewright run churn` and `framewright run replace`.

use framewright_lab::fragmentation::{
    self, Allocator, Churn, Contender, FragmentationResult, Replace, Setup, SetupError,
};
use framewright_lab::report::Report;

use super::report::report;
use crate::args::{
    ChurnArgs, FragmentationArgs, FragmentationContender, FreeBy, Mix, ReplaceArgs, Types,
};
use crate::failure::{Failure, Outcome};
use crate::{output, print, progress::Progress};

/// Frames that are managed, unless it is said: 4 GiB, and for a look 1 GiB.
const FRAMES: [u64; 2] = [1 << 20, 1 << 18];

/// Holds a pool at an occupancy.
pub(crate) fn churn(args: &ChurnArgs) -> Result<Outcome, Failure> {
    let quick = args.common.run.quick;
    let work = Churn {
        mix: match args.mix {
            Mix::Small => fragmentation::Mix::Small,
            Mix::Mixed => fragmentation::Mix::Mixed,
        },
        operations: args.operations.unwrap_or(if quick { 1_000_000 } else { 16_000_000 }),
    };
    let setup = setup(&args.common, &args.occupancy)?;
    let mut progress = Progress::new("churn");
    let result = work.run(&setup, &mut |done, total| progress.update(done, total));
    drop(progress);
    let result = result.map_err(|error| failure(&error, "--occupancy"))?;
    let report = report_of("churn", &setup, &result);
    let axes = ("millions of operations", "in use");
    let text = print::churn(&work, &setup, &result, &report, output::style());
    finish(&args.common, &result, &report, axes, &text)
}

/// Replaces every page, again and again.
pub(crate) fn replace(args: &ReplaceArgs) -> Result<Outcome, Failure> {
    let quick = args.common.run.quick;
    let rounds = args.rounds.unwrap_or(if quick { 16 } else { 128 });
    let work = Replace { rounds, batch: args.batch as usize };
    let setup = setup(&args.common, &args.free)?;
    let mut progress = Progress::new("replace");
    let result = work.run(&setup, &mut |done, total| progress.update(done, total));
    drop(progress);
    let result = result.map_err(|error| failure(&error, "--free"))?;
    let report = report_of("replace", &setup, &result);
    let text = print::replace(&work, &setup, &result, &report, output::style());
    finish(&args.common, &result, &report, ("rounds", "free"), &text)
}

/// Checks where results go before any work.
fn setup(args: &FragmentationArgs, shares: &[u8]) -> Result<Setup, Failure> {
    let (json, picture) = (args.run.json.path.as_deref(), args.picture.as_deref());
    output::check_outputs(json, ("--picture", picture), None)?;
    let frames = FRAMES[usize::from(args.run.quick)];
    Ok(Setup {
        frames: args.memory.map_or(frames, |memory| memory.frames()),
        threads: args.threads,
        types: match args.types {
            Types::Movable => fragmentation::Types::Movable,
            Types::Mixed => fragmentation::Types::Mixed,
        },
        free_by: match args.free_by {
            FreeBy::Same => fragmentation::FreeBy::Itself,
            FreeBy::Other => fragmentation::FreeBy::Other,
        },
        contenders: contenders(args)?,
        shares: shares.to_vec(),
        seeds: args.run.all_seeds(),
    })
}

/// The library once for each side's settings, the others once.
fn contenders(args: &FragmentationArgs) -> Result<Vec<Contender>, Failure> {
    let mut all = Vec::new();
    for (index, chosen) in args.contenders.iter().enumerate() {
        if args.contenders[..index].contains(chosen) {
            return Err(Failure::bad_input("--contenders names an allocator twice"));
        }
        match chosen {
            FragmentationContender::Framewright => match &args.run.settings.sides()[..] {
                [side] => all.push(Contender::framewright("framewright", side)),
                sides => all.extend(sides.iter().map(|side| {
                    Contender::framewright(&format!("framewright {}", side.label), side)
                })),
            },
            FragmentationContender::ListBuddy => all.push(Contender::other(Allocator::ListBuddy)),
            FragmentationContender::FrameAllocDepot => {
                all.push(Contender::other(Allocator::FrameAllocDepot));
            }
            FragmentationContender::BuddySystemAllocator => {
                all.push(Contender::other(Allocator::BuddySystem));
            }
        }
    }
    Ok(all)
}

fn report_of(workload: &str, setup: &Setup, result: &FragmentationResult) -> Report {
    let machine = format!("{} MiB, metadata only, {}", setup.frames >> 8, print::threads(setup));
    report(workload, machine, setup.seeds.first().copied(), result.runs(), result.checks.clone())
}

fn finish(
    args: &FragmentationArgs,
    result: &FragmentationResult,
    report: &Report,
    (x, words): (&str, &str),
    text: &str,
) -> Result<Outcome, Failure> {
    output::save_json(args.run.json.path.as_deref(), report)?;
    let draw = || result.plot(&report.workload, &report.command.join(" "), x, words).svg();
    output::save_svg(args.picture.as_deref(), draw)?;
    output::print(text)?;
    Ok(output::outcome(&report.verdict))
}

/// The error, with the option that is to blame; `shares` is the one with shares of memory.
fn failure(error: &SetupError, shares: &str) -> Failure {
    let option = match error {
        SetupError::Memory { .. } => "--memory",
        SetupError::Threads { .. } => "--threads",
        SetupError::Share { .. } | SetupError::Twice { .. } | SetupError::TooFew { .. } => shares,
        SetupError::Tuning { .. } => "--set",
    };
    Failure::BadInput(format!("{option}: {error}"))
}
