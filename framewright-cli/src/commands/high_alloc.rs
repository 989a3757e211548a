//! `framewright run high-alloc`: requests for huge pages on a machine on which programs compile.

use std::path::{Path, PathBuf};

use clap::Args as ArgGroup;
use framewright::frame::PAGEBLOCK_FRAMES;
use framewright_lab::{
    high_alloc::{Environment, Flags, HighAlloc, HostHighAlloc},
    html::Details,
    replay::State,
    report::decimal,
};
use framewright_sim::machine::Spec;

use super::{finish, finish_with, machines::note_inherited, only_simulated, qemu, report};
use crate::args::{
    machine::{Host, Machine},
    run::{RunArgs, TraceArgs},
    values::{Memory, choice},
};
use crate::failure::{Failure, Outcome};
use crate::print::{self, mib, several};
use crate::{output, progress};

pub(crate) const EXAMPLES: &str = "\
Builder threads compile while one thread requests huge pages of 2 MiB, one every 125 ms, 95 % of memory \
in all, and frees them at the end of the pass. Two passes run under load (success1, success2), and a third \
(success3) after the memory of builders, source trees and caches is freed. `achievable1_pct` to \
`achievable3_pct` are the shares of the same requests that an oracle with full knowledge of memory could serve.

On a simulated machine counts are exact, times come from a model, and the same command gives the same \
bytes. The last CPU makes the requests, and does the kernel's background work between them. Builders run \
on the other CPUs; the last of these does background work while a request waits. \
With host:N the memory and the times are real, and every word of a page is verified after a move. Intervals \
are a 16th as long: 512 MiB take some 15 s, 4 s with --quick. \
With qemu:N a kernel runs the workload on real page tables; a fixed amount of work separates two requests.

Examples:
  framewright run high-alloc --seeds 10
      The default method of compaction (compact.method=index), with ten seeds.
  framewright run high-alloc --flags thp --set compact.method=scan --vs compact.method=index
      Requests that try once and wake no background work: compaction by two scanners, as in Linux,
      and the default method, by index.
  framewright run high-alloc --set compact.method=scan --vs compact.repair.detect_meeting=off
      The gain of one of the repairs that Linux made to the scanners in 2013.
  framewright run high-alloc --flags thp --vs compact.method=scan --picture memory.svg
      Draws memory with both methods, a cell per pageblock.
  framewright run high-alloc --from recordings/compile.before --vs compact.method=scan
      Starts with memory in the state of a real machine: the same shares in use by the kernel, by
      files and by programs, and the same sizes of free blocks, scaled to the size of this machine.
  framewright run high-alloc --memory 4GiB --machine uniform:8
      A larger machine. With 4 CPUs each GiB takes some six seconds of CPU time, two with --quick,
      and 16 MiB of this machine's memory: 95 seconds for 16GiB, 27 with --quick; eleven minutes and
      4 GiB for 256GiB --quick. There is one builder for each 400 MiB, and one more. If there are
      more builders than CPUs, they take turns: then they compile less for each GiB before the
      first pass.
  framewright run high-alloc --machine host:2 --flags thp --vs compact.method=scan
      Threads over real memory, one method after the other.
  framewright run high-alloc --machine qemu:4,256MiB
      A kernel on an emulated machine: pages move under programs that use them.";

/// Arguments of `run high-alloc`.
#[derive(Debug, ArgGroup)]
pub(crate) struct HighAllocArgs {
    /// The work that a request for a huge page may do
    #[arg(long, value_name = "FLAGS", default_value_t, value_parser = choice::<Flags>())]
    pub(crate) flags: Flags,
    /// uniform:N, a name that `framewright machines` lists, or FILE.toml; host:N with N builder
    /// threads; qemu:CPUS[,MEMORY[,NODES]] for a kernel on an emulated machine
    #[arg(long, default_value = "uniform:4")]
    pub(crate) machine: Machine,
    /// Memory, as in 4GiB [default: 1GiB; on threads 512MiB, or 256MiB with --quick]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) memory: Option<Memory>,
    /// Simulated machines: start with memory in the state of a real machine, from a file of its
    /// kernel's tables, as stored next to recordings (NAME.before) [default: all memory is free]
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Simulated machines: draw memory into this file before, after and during the run with the
    /// first seed, a cell for each pageblock or, in large memory, for a few of them
    #[arg(long, value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Help of `--seed`.
pub(crate) const SEED: &str = "Seed of every random choice; on threads, of the builders' work";

/// Help of `--seeds`.
pub(crate) const SEEDS: &str = "Run this many seeds, from --seed on, and show medians, 95 % confidence intervals of means (Student's t), \
     and p-values of differences from the first column (U test of Mann and Whitney); on threads one after the other";

/// Help of `--quick`.
pub(crate) const QUICK: &str =
    "Short run: a request every 25 ms, with a fifth of the load between two requests";

/// `run high-alloc`.
pub(crate) fn high_alloc(args: &HighAllocArgs) -> Result<Outcome, Failure> {
    match &args.machine {
        Machine::Host(host) => on_threads(*host, args),
        Machine::Simulated(spec, _) => simulated(spec, args),
        Machine::Qemu(machine) => qemu::high_alloc(&machine.0, args),
    }
}

/// Runs the workload on threads over real memory.
fn on_threads(host: Host, args: &HighAllocArgs) -> Result<Outcome, Failure> {
    only_simulated(&[
        ("--from", args.from.is_some()),
        ("--perfetto", args.trace.perfetto.is_some()),
        ("--picture", args.picture.is_some()),
    ])?;
    output::check_report(&args.run.files, &[])?;
    let default = || match args.run.quick {
        true => HighAlloc::LEAST_FRAMES,
        false => HostHighAlloc::DEFAULT_FRAMES,
    };
    let work = HostHighAlloc {
        flags: args.flags,
        threads: host.cpus(),
        frames: args.memory.map_or_else(default, |memory| memory.frames()),
        quick: args.run.quick,
    };
    refuse_too_small(work.frames)?;
    let (sides, seeds) = (args.run.settings.sides(), args.run.all_seeds());
    let measured = progress::during("high-alloc", |tell| work.run(&sides, &seeds, tell))?;
    let machine = format!("host:{}", host.cpus());
    let report = report("high-alloc", machine, Some(args.run.first_seed()), measured);
    let report = report.over_seeds(args.run.seeds);
    let builders = match (work.threads, work.building()) {
        (1, _) => "one builder thread".to_owned(),
        (threads, building) if building < threads => {
            let builders =
                if building == 1 { "one builder" } else { &format!("{building} builders") };
            format!("{threads} threads for {builders} (one for each 400 MiB, and one more)")
        }
        (threads, _) => format!("{threads} builder threads"),
    };
    let machine = format!(
        "{}: {builders}, one for requests, one for background work; {} MiB of real memory; {}",
        report.machine,
        mib(work.frames),
        times(seeds.len(), work.quick)
    );
    let note = "times include other load of this machine; counts differ from run to run";
    let head =
        print::head([("machine", machine), flags_line(work.flags), ("note", note.to_owned())]);
    finish(&report, &args.run.files, &(head + &print::body(&report, output::style())))
}

/// Runs the workload on a simulated machine.
fn simulated(spec: &Spec, args: &HighAllocArgs) -> Result<Outcome, Failure> {
    let (picture, from) = (args.picture.as_deref(), args.from.as_deref());
    let inputs: Vec<&Path> = args.machine.file().into_iter().chain(from).collect();
    let others = [("--picture", picture), args.trace.file()];
    output::check_outputs(&args.run.files, &others, &inputs)?;
    note_inherited(&args.machine);
    let work = requests(spec, args)?;
    let (sides, seeds) = (args.run.settings.sides(), args.run.all_seeds());
    let trace = args.trace.begin()?;
    let mut watch = args.run.watch(trace.as_ref());
    watch.memory |= picture.is_some();
    let mut measured =
        progress::during("high-alloc", |tell| work.run_watched(&sides, &seeds, watch, tell))?;
    output::save_trace(trace)?;
    let details = Details::of(&measured);
    let drawn = measured.picture.take();
    let seed = Some(args.run.first_seed());
    let report = report("high-alloc", spec.name().to_owned(), seed, measured);
    let report = report.over_seeds(args.run.seeds);
    output::save_text(picture, || drawn.unwrap_or_default())?;
    let (name, cpus) = (spec.name(), spec.cpus());
    let times = times(seeds.len(), work.quick);
    let machine = format!("{name} (simulated): {cpus} CPUs, {} MiB; {times}", mib(work.frames));
    let [_, model, note] = print::simulated(spec, work.frames, "");
    let state = work.from.as_ref().map(|state| ("state", initial_state(state, work.frames)));
    let head = [("machine", machine), flags_line(work.flags)].into_iter();
    let head = head.chain(turns(&work)).chain(state).chain([model, note]);
    let text = print::head(head) + &print::body(&report, output::style());
    finish_with(&report, details, &args.run.files, &text)
}

/// The workload on a simulated machine, with the options of `args`.
pub(crate) fn requests(spec: &Spec, args: &HighAllocArgs) -> Result<HighAlloc, Failure> {
    let from = args.from.as_deref();
    let work = HighAlloc {
        flags: args.flags,
        spec: spec.clone(),
        frames: args.memory.map_or(HighAlloc::DEFAULT_FRAMES, |memory| memory.frames()),
        from: from.map(State::open).transpose().map_err(Failure::bad_input)?,
        environment: Environment::default(),
        quick: args.run.quick,
    };
    refuse(&work)?;
    Ok(work)
}

fn refuse_too_small(frames: u64) -> Result<(), Failure> {
    let mib = |frames: u64| frames >> 8;
    if frames < HighAlloc::LEAST_FRAMES {
        return Err(Failure::BadInput(format!(
            "--memory {}MiB: builders alone need some 150 MiB; the minimum is {} MiB",
            mib(frames),
            mib(HighAlloc::LEAST_FRAMES)
        )));
    }
    Ok(())
}

fn refuse(work: &HighAlloc) -> Result<(), Failure> {
    refuse_too_small(work.frames)?;
    if work.frames > HighAlloc::MOST_FRAMES {
        return Err(Failure::BadInput(format!(
            "--memory {}GiB: each GiB takes some 16 MiB of this machine's memory, and some seconds; the \
             maximum is {} GiB",
            work.frames >> 18,
            HighAlloc::MOST_FRAMES >> 18
        )));
    }
    if work.spec.cpus() < 2 || work.spec.nodes() > 1 {
        return Err(Failure::BadInput(format!(
            "{}: it has {} and {}; high-alloc needs a machine of one node with at least 2 CPUs: one makes the requests, \
             builders run on the others",
            work.spec.name(),
            several(work.spec.nodes(), "node"),
            several(work.spec.cpus(), "CPU")
        )));
    }
    Ok(())
}

/// The number of seeds, and a remark if the run is short.
fn times(seeds: usize, quick: bool) -> String {
    let seeds = if seeds == 1 { "one seed".to_owned() } else { format!("{seeds} seeds") };
    let quick = if quick { "; --quick: a fifth of the load between requests" } else { "" };
    format!("{seeds}{quick}")
}

/// The work that a request may do.
fn flags_line(flags: Flags) -> (&'static str, String) {
    let may = match flags {
        Flags::Default => {
            "a request reclaims, compacts, and wakes background reclaim and compaction"
        }
        Flags::Thp => "a request reclaims and compacts once, and wakes no background work",
    };
    ("flags", format!("{}: {may}", flags.name()))
}

/// Describes builders that share CPUs. In larger memory, such builders compile less for each GiB
/// before the first pass.
fn turns(work: &HighAlloc) -> Option<(&'static str, String)> {
    let (builders, cpus) = (work.builders(), u64::from(work.spec.cpus()) - 1);
    let cpus = match cpus {
        _ if builders <= cpus => return None,
        1 => "one CPU".to_owned(),
        _ => format!("{cpus} CPUs"),
    };
    Some(("load", format!("{builders} builders take turns on {cpus}")))
}

/// The initial state of memory.
fn initial_state(state: &State, frames: u64) -> String {
    let whole = state.pageblocks() * PAGEBLOCK_FRAMES as u64;
    let scaled = match whole == frames {
        true => String::new(),
        false => format!(", {} MiB, scaled to {} MiB", mib(whole), mib(frames)),
    };
    let one = |percent| decimal(percent, 1);
    format!(
        "{}{scaled}: {} % is free, {} % of that in blocks smaller than a huge page; {} % of all pageblocks have \
         unmovable pages",
        state.name(),
        one(state.free_pct()),
        one(state.scattered_pct()),
        one(state.unmovable_pct()),
    )
}
