//! `framewright run page-fault | kbuild | socket-pairs`: on threads over real memory, on a
//! simulated machine, or on simulated machines of many sizes. `page-fault` and `kbuild` also run on
//! a kernel under QEMU.

use std::{path::PathBuf, str::FromStr};

use clap::{Args as ArgGroup, ValueEnum};
use framewright_lab::{
    Error,
    html::Details,
    plot::Axis,
    report::{Measured, Report, Run, Style, Table, decimal},
    samples::Watch,
    simulated::{
        Column, ListSizes, MODEL_NOTE, Plan, Simulation,
        scaling::{self, SERIES, Scaling, unit_of},
    },
    workloads::{
        Workload,
        host::{HostSpec, Rounds},
        kbuild::Kbuild,
        page_fault::{FreeOrder, PageFault},
        socket_pairs::{Placement, SocketPairs},
    },
};
use framewright_sim::machine::Spec;

use super::{
    finish, finish_with, machines::note_inherited, only_on_qemu, only_simulated, qemu, report,
};
use crate::args::{
    machine::Machine,
    run::{RunArgs, TraceArgs},
    values::{self, Memory, choice, whole},
};
use crate::failure::{Failure, Outcome};
use crate::print::{self, bold, mib, several};
use crate::{output, progress};

/// The text before the examples of each workload.
macro_rules! with_examples {
    ($examples:literal) => {
        concat!(
            "On a simulated machine the library and the classic design, list-buddy, run one after \
             the other, each with a clock of its own. Counts are exact; times come from a model \
             (`framewright machines NAME` lists its parameters and their sources). \
             The same command gives the same bytes.\n\nExamples:\n",
            $examples
        )
    };
}

pub(crate) const PAGE_FAULT_EXAMPLES: &str = with_examples!(
    "  framewright run page-fault --machine host:2
      Two threads allocate, touch and free 128 MiB each, repeatedly.
  framewright run page-fault --machine skx-2s-112 --lists 31/186 --free-order random
      112 simulated CPUs, both designs with the list sizes of 2018.
  framewright run page-fault --machine uniform:1..512 --picture scaling.svg
      The same on 1, 2, 4, ... 512 CPUs, as series.
  framewright run page-fault --machine qemu:4 --sharing shared
      A kernel on an emulated machine: page tables, faults and interrupts of (emulated) hardware.
      Times under emulation do not carry over to hardware; a second boot counts instructions.
  framewright run page-fault --machine qemu:1 --quick --beside linux
      The distribution's kernel does the same on the same machine: instructions of both kernels by
      group of functions."
);

pub(crate) const KBUILD_EXAMPLES: &str = with_examples!(
    "  framewright run kbuild --machine host:2
      Two threads create, fork and exit processes.
  framewright run kbuild --machine qemu:4
      A kernel on an emulated machine creates and destroys address spaces; its page cache has files.
  framewright run kbuild --machine spr-2s-224 --vs pcp.high_order_drain=every-free --seeds 3
      The effect of a rule of Linux 5.18 to 6.6 on eight kernel builds on 224 simulated CPUs."
);

pub(crate) const SOCKET_PAIRS_EXAMPLES: &str = with_examples!(
    "  framewright run socket-pairs --machine host:2
      A writer and a reader.
  framewright run socket-pairs --machine icx-2s-128 --vs pcp.high_order_drain=every-free
      16 pairs on 128 simulated CPUs, with and without a rule of Linux 5.18 to 6.6.
  framewright run socket-pairs --machine uniform:4 --memory 1GiB --placement scheduled
      32 tasks on four CPUs: a scheduler places them, and a writer and its reader may share a CPU."
);

/// Help of `--machine` for workloads that also run on a kernel.
pub(crate) const KERNEL_MACHINE: &str = "\
host, host:N with N threads; uniform:N, a name that `framewright machines` lists, or FILE.toml; \
uniform:A..B or uniform:A,B,... for machines of many sizes; qemu:CPUS[,MEMORY[,NODES]] for a kernel on \
an emulated machine";

#[derive(Debug, ArgGroup)]
pub(crate) struct PageFaultArgs {
    /// The order in which frames are freed
    #[arg(long, alias = "free", value_name = "ORDER", default_value_t, value_parser = choice::<FreeOrder>())]
    pub(crate) free_order: FreeOrder,
    /// With qemu: the address spaces of the CPUs
    #[arg(long, value_enum, value_name = "HOW", default_value_t)]
    pub(crate) sharing: Sharing,
    #[command(flatten)]
    pub(crate) beside: qemu::BesideArgs,
    #[command(flatten)]
    pub(crate) common: WorkloadArgs,
}

#[derive(Debug, ArgGroup)]
pub(crate) struct SocketPairsArgs {
    /// The CPUs of writers and readers; `scheduled` is for simulated machines
    #[arg(long, value_name = "HOW", default_value_t, value_parser = choice::<Placement>())]
    pub(crate) placement: Placement,
    /// CPUs from a pinned writer to its reader: 32 is the other socket of icx-2s-128
    #[arg(long, value_name = "CPUS", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) distance: u16,
    /// Pairs of a writer and a reader [default: 16; pinned at most one pair for two CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) pairs: Option<u16>,
    #[command(flatten)]
    pub(crate) common: WorkloadArgs,
}

#[derive(Debug, ArgGroup)]
pub(crate) struct WorkloadArgs {
    /// host, host:N with N threads; uniform:N, a name that `framewright machines` lists, or
    /// FILE.toml; uniform:A..B or uniform:A,B,... for machines of many sizes
    #[arg(long, default_value = "host")]
    pub(crate) machine: Machines,
    /// Memory to manage, as in 4GiB or 512M [default: on threads 1.5 times the frames that the
    /// workload holds, else all memory of the machine]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) memory: Option<Memory>,
    /// Simulated machines: frames per batch and on a CPU's lists, for both designs, as in 31/186
    #[arg(long, value_name = "BATCH/HIGH")]
    pub(crate) lists: Option<Lists>,
    /// Simulated machines: measured virtual time, as in 50ms [default: 50ms, kbuild 200ms; longer
    /// on machines with fewer than 64 CPUs]
    #[arg(long, value_name = "TIME", value_parser = values::window)]
    pub(crate) window: Option<u64>,
    /// Simulated machines: virtual time of the warm-up before --window [default: 20ms; kbuild 60ms]
    #[arg(long, value_name = "TIME", value_parser = values::warm_up)]
    pub(crate) warm_up: Option<u64>,
    /// Machines of many sizes (uniform:A..B): draw throughput and waiting into this file, as SVG
    #[arg(long, alias = "svg", value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// The address spaces of the CPUs.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Sharing {
    /// Each CPU runs a process of its own
    #[default]
    Private,
    /// The CPUs run threads of one process
    Shared,
}

/// One machine, or uniform ones of many sizes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Machines {
    One(Machine),
    /// The CPU counts.
    Uniform(Vec<u16>),
}

impl Machines {
    /// The CPUs of the smallest machine; `None` with an emulated machine.
    fn fewest_cpus(&self) -> Option<u16> {
        match self {
            Self::One(Machine::Host(host)) => Some(host.cpus()),
            Self::One(Machine::Simulated(spec, _)) => Some(spec.cpus()),
            Self::One(Machine::Qemu(_)) => None,
            Self::Uniform(cpus) => cpus.first().copied(),
        }
    }
}

impl FromStr for Machines {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("uniform:") {
            Some(sizes) if sizes.contains("..") || sizes.contains(',') => {
                series(sizes).map(Self::Uniform)
            }
            _ => text.parse().map(Self::One),
        }
    }
}

/// CPU counts of a series of machines: `A..B` doubles from A and ends with B.
fn series(text: &str) -> Result<Vec<u16>, String> {
    const MOST: u16 = 512;
    let bad = || {
        format!(
            "uniform:A..B and uniform:A,B,... take 1 to {MOST} CPUs, smaller ones first, as in \
             uniform:1..512 or uniform:1,28,56"
        )
    };
    let size = |text: &str| match whole(text.trim()) {
        Some(size @ 1..=MOST) => Ok(size),
        _ => Err(bad()),
    };
    let sizes: Vec<u16> = match text.split_once("..") {
        Some((first, last)) => {
            let (first, last) = (size(first)?, size(last)?);
            if first > last {
                return Err(bad());
            }
            let doubled = std::iter::successors(Some(first), |size| size.checked_mul(2));
            doubled.take_while(|size| *size < last).chain([last]).collect()
        }
        None => text.split(',').map(size).collect::<Result<_, _>>()?,
    };
    if sizes.is_sorted_by(|a, b| a < b) { Ok(sizes) } else { Err(bad()) }
}

/// List sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lists(pub(crate) ListSizes);

impl FromStr for Lists {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sizes = text
            .split_once('/')
            .and_then(|(batch, high)| Some(ListSizes { batch: whole(batch)?, high: whole(high)? }));
        match sizes {
            Some(sizes @ ListSizes { batch: 1..=1024, high }) if high >= 4 * sizes.batch => {
                Ok(Self(sizes))
            }
            _ => Err("BATCH/HIGH takes a batch of 1 to 1024 frames and lists of at least four \
                      batches, as in 31/186"
                .to_owned()),
        }
    }
}

/// `run page-fault`.
pub(crate) fn page_fault(args: &PageFaultArgs) -> Result<Outcome, Failure> {
    if let Machines::One(Machine::Qemu(machine)) = &args.common.machine {
        return qemu::page_fault(&machine.0, args);
    }
    only_on_qemu(&[
        ("--sharing", matches!(args.sharing, Sharing::Shared)),
        ("--beside", args.beside.linux().is_some()),
    ])?;
    workload(&bursts(args), &args.common)
}

/// The work of `run page-fault`.
pub(crate) fn bursts(args: &PageFaultArgs) -> Workload {
    let free_order = args.free_order;
    Workload::PageFault(PageFault { free_order, ..PageFault::new(args.common.run.first_seed()) })
}

/// `run kbuild`.
pub(crate) fn kbuild(args: &WorkloadArgs) -> Result<Outcome, Failure> {
    if let Machines::One(Machine::Qemu(machine)) = &args.machine {
        return qemu::kbuild(&machine.0, args);
    }
    workload(&compilers(args), args)
}

/// The work of `run kbuild`.
pub(crate) fn compilers(args: &WorkloadArgs) -> Workload {
    Workload::Kbuild(Kbuild::new(args.run.first_seed()))
}

/// `run socket-pairs`.
pub(crate) fn socket_pairs(args: &SocketPairsArgs) -> Result<Outcome, Failure> {
    if let Machines::One(Machine::Host(_)) = &args.common.machine {
        only_simulated(&[("--placement scheduled", args.placement == Placement::Scheduled)])?;
    }
    workload(&sockets(args)?, &args.common)
}

/// The work of `run socket-pairs`.
pub(crate) fn sockets(args: &SocketPairsArgs) -> Result<Workload, Failure> {
    let default = SocketPairs::new(args.common.run.first_seed());
    let (placement, pairs) = (args.placement, args.pairs.unwrap_or(default.pairs));
    let work = SocketPairs { placement, pairs, distance: args.distance, ..default };
    if args.distance > 1 && placement == Placement::Scheduled {
        return Err(Failure::BadInput("--distance is for pinned writers and readers".into()));
    }
    if args.distance > 1 && args.pairs.is_some_and(|pairs| pairs > args.distance) {
        return Err(Failure::BadInput(format!(
            "--pairs {pairs}: at --distance {} there is space for {}",
            args.distance,
            several(args.distance, "pair")
        )));
    }
    let cpus = args.common.machine.fewest_cpus();
    match cpus.filter(|&cpus| args.pairs.is_some() && work.pairs_on(cpus) < pairs) {
        None => Ok(Workload::SocketPairs(work)),
        Some(cpus) => Err(Failure::BadInput(format!(
            "--pairs {pairs} needs {} CPUs to pin writers and readers to, and the machine has {cpus}; choose fewer \
             pairs, or a simulated machine with --placement scheduled",
            2 * u32::from(pairs)
        ))),
    }
}

fn workload(work: &Workload, args: &WorkloadArgs) -> Result<Outcome, Failure> {
    let machine = match &args.machine {
        Machines::One(machine) => machine.file(),
        Machines::Uniform(_) => None,
    };
    let others = [("--picture", args.picture.as_deref()), args.trace.file()];
    output::check_outputs(&args.run.files, &others, machine.as_slice())?;
    if args.picture.is_some() && !matches!(args.machine, Machines::Uniform(_)) {
        return Err(Failure::bad_input(
            "--picture draws series: give it machines of many sizes, as in --machine uniform:1..512",
        ));
    }
    if let Machines::One(machine) = &args.machine {
        note_inherited(machine);
    }
    match &args.machine {
        Machines::One(Machine::Host(host)) => on_threads(work, host.cpus(), args),
        Machines::One(Machine::Simulated(spec, _)) => simulated(work, spec, args),
        Machines::One(Machine::Qemu(_)) => Err(Failure::BadInput(format!(
            "the kernel does not run {}; valid with qemu: page-fault, kbuild, mmap-read, \
             high-alloc, tlb-proof and alloc-micro",
            work.name()
        ))),
        Machines::Uniform(cpus) => scaled(work, cpus, args),
    }
}

/// Runs each side on threads. The rounds of the sides alternate.
fn on_threads(work: &Workload, cpus: u16, args: &WorkloadArgs) -> Result<Outcome, Failure> {
    only_simulated(&[
        ("--lists", args.lists.is_some()),
        ("--seeds", args.run.seeds > 1),
        ("--perfetto", args.trace.perfetto.is_some()),
        ("--window", args.window.is_some()),
        ("--warm-up", args.warm_up.is_some()),
    ])?;
    let frames = args.memory.map_or_else(|| work.ample_frames(cpus), |memory| memory.frames());
    let spec = HostSpec { cpus, frames, pin: true };
    let rounds = if args.run.quick { Rounds::quick() } else { Rounds::full() };
    let sides = args.run.settings.sides();
    let measured =
        progress::during(work.name(), |tell| work.run_on_host(&spec, &sides, rounds, tell))?;
    let notes = measured.notes.clone();
    let seed = Some(args.run.first_seed());
    let report = report(work.name(), format!("host:{cpus}"), seed, measured);
    let (machine, rounds) = (&report.machine, print::medians(&report));
    let machine = format!("{machine} of {} MiB; {rounds}", mib(frames));
    let head = print::head([("machine", machine)].into_iter().chain(print::notes(&notes)));
    finish(&report, &args.run.files, &(head + &print::body(&report, output::style())))
}

/// Runs both designs on one simulated machine.
fn simulated(work: &Workload, spec: &Spec, args: &WorkloadArgs) -> Result<Outcome, Failure> {
    let simulation = simulation(work, spec, args);
    let columns = columns(args);
    let trace = args.trace.begin()?;
    let measured = progress::during(work.name(), |tell| {
        measure(&simulation, &columns, args, args.run.watch(trace.as_ref()), tell)
    })?;
    output::save_trace(trace)?;
    let details = Details::of(&measured);
    let seed = Some(args.run.first_seed());
    let report = report(work.name(), spec.name().to_owned(), seed, measured);
    let report = report.over_seeds(args.run.seeds);
    let frames = simulation.frames.unwrap_or_else(|| spec.frames());
    let head = print::head(print::simulated(spec, frames, &time(&report, simulation.plan)));
    let text = head + &print::body(&report, output::style());
    finish_with(&report, details, &args.run.files, &text)
}

/// The workload on a simulated machine, with the options of `args`.
pub(crate) fn simulation(work: &Workload, spec: &Spec, args: &WorkloadArgs) -> Simulation {
    let frames = args.memory.map(|memory| memory.frames());
    let plan = plan(work, args);
    let plan = if args.window.is_some() { plan } else { plan.on(spec.cpus()) };
    Simulation { work: work.clone(), spec: spec.clone(), frames, plan }
}

/// Runs each column with all seeds of `args`.
pub(crate) fn measure(
    simulation: &Simulation,
    columns: &[Column],
    args: &WorkloadArgs,
    watch: Watch<'_>,
    tell: &mut dyn FnMut(u64, u64),
) -> Result<Measured, Failure> {
    let lists = args.lists.map(|lists| lists.0);
    let columns: Vec<Column> =
        columns.iter().map(|column| simulation.with_lists(column, lists)).collect();
    let measured = simulation.run_watched(&columns, &args.run.all_seeds(), watch, tell);
    measured.map_err(|error| about_memory(error, args.memory))
}

/// Runs both designs on machines of many sizes.
fn scaled(work: &Workload, cpus: &[u16], args: &WorkloadArgs) -> Result<Outcome, Failure> {
    if args.trace.perfetto.is_some() {
        return Err(Failure::bad_input(
            "--perfetto traces one machine, as in --machine uniform:4; machines of many sizes would have too many tracks",
        ));
    }
    if args.memory.is_some() {
        return Err(Failure::bad_input(
            "--memory is for one machine; those of many sizes have 512 MiB for every CPU",
        ));
    }
    let scaling = Scaling {
        work: work.clone(),
        cpus: cpus.to_vec(),
        plan: plan(work, args),
        lists: args.lists.map(|lists| lists.0),
    };
    let (columns, seeds) = (columns(args), args.run.all_seeds());
    let measured = progress::during(work.name(), |tell| scaling.run(&columns, &seeds, tell))?;
    let sizes: Vec<String> = cpus.iter().map(u16::to_string).collect();
    let machine = format!("uniform:{}", sizes.join(","));
    let report = report(work.name(), machine, Some(args.run.first_seed()), measured);
    let report = report.over_seeds(args.run.seeds);
    let draw = || scaling::plot(&report.runs, work.name(), &report.command.join(" ")).svg();
    output::save_text(args.picture.as_deref(), draw)?;
    let details = Details { time: Axis::doubling("CPUs"), ..Details::default() };
    let text = show_scaled(&report, &scaling, output::style());
    finish_with(&report, details, &args.run.files, &text)
}

/// The library with each side's settings, then the classic design with the settings that it has.
fn columns(args: &WorkloadArgs) -> Vec<Column> {
    let sides = args.run.settings.sides();
    if let [side] = &sides[..] {
        return vec![Column::framewright(side), Column::list_buddy("list-buddy", side)];
    }
    let library = sides.iter().map(|side| {
        let label = format!("framewright {}", side.label);
        Column { label, ..Column::framewright(side) }
    });
    let classic =
        sides.iter().map(|side| Column::list_buddy(&format!("list-buddy {}", side.label), side));
    library.chain(classic).collect()
}

fn plan(work: &Workload, args: &WorkloadArgs) -> Plan {
    let plan = Plan::of(work);
    let plan = match args.run.quick {
        true => Plan { warm_up: plan.warm_up / 5, window: plan.window / 5, ..plan },
        false => plan,
    };
    Plan {
        steady: plan.steady,
        warm_up: args.warm_up.unwrap_or(plan.warm_up),
        window: args.window.unwrap_or(plan.window),
    }
}

/// The error, with the value of `--memory` if that is the cause.
pub(crate) fn about_memory(error: Error, memory: Option<Memory>) -> Failure {
    match memory {
        Some(memory) if error.is_about_memory() => {
            Failure::BadInput(format!("--memory {memory}: {error}"))
        }
        _ => error.into(),
    }
}

/// The series over CPU counts, as tables.
fn show_scaled(report: &Report, scaling: &Scaling, style: Style) -> String {
    let machine = format!(
        "{} (simulated), one node per 28 CPUs, 512 MiB per CPU; {}",
        report.machine,
        time(report, scaling.plan)
    );
    let mut text = print::head([("machine", machine), ("note", format!("{MODEL_NOTE}\n"))]);
    text.push_str(&print::settings(report, style));
    for series in SERIES {
        let labels = report.runs.iter().map(|run| run.label.as_str());
        let mut table = Table::new(std::iter::once("CPUs").chain(labels), style);
        for (row, cpus) in scaling.cpus.iter().enumerate() {
            let value = |run: &Run| {
                let point = run.series.get(series).and_then(|points| points.get(row));
                let decimals = unit_of(series).0.decimals();
                point.map_or_else(String::new, |point| decimal(point.1, decimals))
            };
            table.plain_row(std::iter::once(cpus.to_string()).chain(report.runs.iter().map(value)));
        }
        text.push_str(&format!("{}\n{table}\n", bold(series, style)));
    }
    text + &print::checks(report, style)
}

/// The virtual time of a run, and its seeds.
fn time(report: &Report, Plan { warm_up, window, .. }: Plan) -> String {
    let ms = |nanos: u64| nanos as f64 / 1e6;
    let seeds = print::seeds(print::rounds(report) as usize);
    format!("{} virtual ms after {} of warming up; {seeds}", ms(window), ms(warm_up))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str) -> Vec<u16> {
        match text.parse() {
            Ok(Machines::Uniform(sizes)) => sizes,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn ranges_double_and_end_where_they_should() {
        assert_eq!(sizes("uniform:1..512"), [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
        assert_eq!(sizes("uniform:3..20"), [3, 6, 12, 20]);
        assert_eq!(sizes("uniform:7..7"), [7]);
        assert_eq!(sizes("uniform:1,28,56"), [1, 28, 56]);
        assert!(matches!("uniform:4".parse(), Ok(Machines::One(_))));
    }

    #[test]
    fn malformed_ranges_are_refused() {
        for text in [
            "uniform:0..4",
            "uniform:8..4",
            "uniform:1..1000",
            "uniform:1,,2",
            "uniform:4,2",
            "uniform:+1..4",
            "uniform:..",
            "uniform:,",
        ] {
            let error = text.parse::<Machines>().unwrap_err();
            assert!(error.contains("as in uniform:1..512"), "{text}: {error}");
        }
    }

    #[test]
    fn lists_hold_at_least_four_batches() {
        assert_eq!("31/186".parse(), Ok(Lists(ListSizes { batch: 31, high: 186 })));
        for text in ["31", "31/", "0/10", "63/186", "31/x", "-1/4", "+31/186", "2000/10000"] {
            assert!(text.parse::<Lists>().unwrap_err().contains("as in 31/186"), "{text}");
        }
    }
}
