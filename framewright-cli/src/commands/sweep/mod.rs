//! `framewright sweep`: many runs as one table. `framewright sweep merge`: the tables of shards as one.

mod jobs;

use std::{
    io::{IsTerminal, stderr},
    num::NonZeroU16,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    thread::available_parallelism,
    time::{Duration, Instant},
};

use clap::{Args as ArgGroup, Subcommand};
use framewright_lab::{
    Error,
    report::check_destination,
    sweep::{Done, Entry, Format, Plan, Selection, Shard, Sweep},
};
use humantime::format_duration;
use rustix::time::{ClockId, clock_gettime};

use crate::failure::{Failure, Outcome};
use crate::print::several;
use crate::{output, progress};

pub(crate) const EXAMPLES: &str = "\
A plan in TOML names workloads, machines, options of the workloads, settings and seeds. Every combination is a run. \
The table has a row for each figure of each run. The same plan gives the same bytes.

While the sweep runs, OUT.parts/ has a file for each finished run. If the program is killed, the same command continues. \
Runs that OUT already has are not repeated, so a plan can be extended.

Examples:
  framewright sweep examples/sweep.toml -o lists.csv
      Which sizes of per-CPU lists serve which machine?
  framewright sweep examples/sweep.toml -o few.csv --sample 20
      Twenty of its runs, drawn at random: always the same ones of the same plan.
  framewright sweep examples/sweep.toml -o first.csv --shard 1/2
  framewright sweep examples/sweep.toml -o second.csv --shard 2/2
  framewright sweep merge examples/sweep.toml first.csv second.csv -o lists.csv
      The same on two machines.
  framewright compare lists.csv --by pcp.high_fraction --figure pages_per_s --picture lists.svg";

/// Arguments of `sweep`.
#[derive(Debug, ArgGroup)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct SweepArgs {
    #[command(subcommand)]
    merge: Option<SweepCommand>,
    /// The plan, in TOML
    #[arg(required = true, value_name = "PLAN.toml")]
    plan: Option<PathBuf>,
    /// The table: OUT.csv, or OUT.parquet if the program was built with the feature `parquet`
    #[arg(short, long, required = true, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Parallel runs [default: one for each CPU of this machine]
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroU16>,
    /// Only part I of N equal parts of the runs, as in 2/4: for several machines; `sweep merge` joins the tables
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    #[command(flatten)]
    sample: SampleArgs,
    /// Only check the plan and the output, and print the number of runs
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, ArgGroup)]
struct SampleArgs {
    /// Only N runs, drawn at random, but always the same of the same plan; a larger sample contains each smaller one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    sample: Option<u64>,
}

#[derive(Debug, Subcommand)]
enum SweepCommand {
    /// Join the tables of all shards of a plan
    Merge(MergeArgs),
}

#[derive(Debug, ArgGroup)]
struct MergeArgs {
    /// The plan of the shards
    #[arg(value_name = "PLAN.toml")]
    plan: PathBuf,
    /// The tables of the shards
    #[arg(required = true, value_name = "TABLE")]
    tables: Vec<PathBuf>,
    /// The table with all runs
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    #[command(flatten)]
    sample: SampleArgs,
}

/// `sweep` and `sweep merge`.
pub(crate) fn sweep(args: &SweepArgs) -> Result<Outcome, Failure> {
    match (&args.merge, &args.plan, &args.output) {
        (Some(SweepCommand::Merge(merge)), ..) => join(merge),
        (None, Some(plan), Some(output)) => run(plan, output, args),
        // The command line requires both.
        (None, ..) => Err(Failure::bad_input("a sweep needs a plan and -o OUT")),
    }
}

fn run(plan: &Path, out: &Path, args: &SweepArgs) -> Result<Outcome, Failure> {
    let selection = Selection { sample: args.sample.sample, shard: args.shard };
    let plan = open(plan, out, &[])?;
    if args.dry_run {
        output::print(&format!("{}\n", several(selection.runs(&plan)? as u64, "run")))?;
        return Ok(Outcome::of(true));
    }
    let sweep = Sweep::open(&plan, &selection, out)?;
    if sweep.is_written() {
        let runs = several(sweep.len() as u64, "run");
        output::note(format_args!("'{}' already has the {runs} of the plan", out.display()));
        return finish(|| sweep.write());
    }
    let jobs = args.jobs.or_else(|| available_parallelism().ok()?.try_into().ok());
    let jobs = jobs.map_or(1, |jobs| usize::from(jobs.get()));
    let started = Instant::now();
    let (in_runs, before) = (AtomicU64::new(0), clock(ClockId::ProcessCPUTime));
    let work = |entry: &Entry<'_>| {
        let before = clock(ClockId::ThreadCPUTime);
        let figures = jobs::run(entry);
        let time = clock(ClockId::ThreadCPUTime).saturating_sub(before);
        in_runs.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
        figures
    };
    progress::during("sweep", |tell| {
        let mut log = Log { started, told: started };
        sweep.measure(jobs, &work, &mut |done, total| {
            tell(done, total);
            log.tell(done, total);
        })
    })?;
    let outcome = finish(|| sweep.write())?;
    let all = clock(ClockId::ProcessCPUTime).saturating_sub(before);
    let in_runs = Duration::from_nanos(in_runs.into_inner());
    output::note(format_args!(
        "{} with {}; CPU time: {} in runs, {} around them",
        short(started.elapsed()),
        several(jobs as u64, "worker"),
        short(in_runs),
        short(all.saturating_sub(in_runs))
    ));
    Ok(outcome)
}

fn join(args: &MergeArgs) -> Result<Outcome, Failure> {
    let inputs: Vec<&Path> = args.tables.iter().map(PathBuf::as_path).collect();
    let plan = open(&args.plan, &args.output, &inputs)?;
    let selection = Selection { sample: args.sample.sample, shard: None };
    let sweep = Sweep::open(&plan, &selection, &args.output)?;
    finish(|| sweep.merge(&inputs))
}

/// The plan, if the output can be written and is none of the inputs.
fn open(plan: &Path, out: &Path, inputs: &[&Path]) -> Result<Plan, Failure> {
    Format::of(out)?;
    let inputs: Vec<&Path> = inputs.iter().copied().chain([plan]).collect();
    check_destination(out, &inputs).map_err(Failure::bad_input)?;
    Plan::open(plan, &jobs::Programs).map_err(Failure::bad_input)
}

/// Writes the table, and names the runs that failed.
fn finish(write: impl FnOnce() -> Result<Done, Error>) -> Result<Outcome, Failure> {
    let uninterrupted = output::hold();
    let done = write()?;
    drop(uninterrupted);
    let Done { runs, failed, failures } = &done;
    for (command, reason) in failures {
        anstream::eprintln!("run failed: {command}: {reason}");
    }
    if *failed > failures.len() as u64 {
        anstream::eprintln!("... and {} more", failed - failures.len() as u64);
    }
    output::print(&format!("{}, {failed} failed\n", several(*runs, "run")))?;
    Ok(Outcome::of(*failed == 0))
}

/// Progress in a file: a line each minute. A terminal has a bar.
struct Log {
    started: Instant,
    told: Instant,
}

impl Log {
    fn tell(&mut self, done: u64, total: u64) {
        const EVERY: Duration = Duration::from_secs(60);
        if done == 0 || self.told.elapsed() < EVERY || stderr().is_terminal() {
            return;
        }
        self.told = Instant::now();
        let left = self.started.elapsed().mul_f64((total - done) as f64 / done as f64);
        let left = format_duration(Duration::from_secs(left.as_secs()));
        output::note(format_args!("{done} of {} done; {left} left", several(total, "run")));
    }
}

fn clock(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// A time in tenths of a second.
fn short(time: Duration) -> String {
    const TENTH: u128 = 100;
    let tenths = (time.as_millis() + TENTH / 2) / TENTH;
    format_duration(Duration::from_millis((tenths * TENTH) as u64)).to_string()
}
