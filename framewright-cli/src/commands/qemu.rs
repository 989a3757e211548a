//! Workloads on a kernel, which is built, booted under QEMU, and prints its result on the serial
//! line.

use std::path::PathBuf;

use clap::{Args as ArgGroup, ValueEnum};
use framewright_lab::qemu::{self, BesideLinux, Clock, QemuSpec, Work};
use framewright_lab::report::Report;
use framewright_lab::workloads::page_fault::FreeOrder;

use super::high_alloc::HighAllocArgs;
use super::paging::MmapReadArgs;
use super::workload::{PageFaultArgs, Sharing, WorkloadArgs};
use super::{finish, not_on_qemu, report};
use crate::args::{
    machine::Qemu,
    run::{ReportArgs, Settings},
};
use crate::failure::{Failure, Outcome};
use crate::print::{self, several};
use crate::{output, progress};

pub(crate) const EXAMPLES: &str = "\
One CPU unmaps pages that all others have read. Before the flush, the others still read the frame through \
stale TLB entries. After the flush the frame has another owner, and no CPU may read it that way. A seeded bug \
(--break) must be detected: exit code 1.

Examples:
  framewright run tlb-proof --machine qemu:4
  framewright run tlb-proof --machine qemu:8 --break cpu
      One CPU is left out of every flush.";

#[derive(Debug, ArgGroup)]
pub(crate) struct TlbProofArgs {
    /// The machine: qemu:CPUS[,MEMORY[,NODES]], at least two CPUs
    #[arg(long, default_value = "qemu:4")]
    pub(crate) machine: Qemu,
    /// Seed a bug; the proof must detect it
    #[arg(long = "break", value_enum, value_name = "WHAT")]
    pub(crate) broken: Option<Broken>,
    /// Pages that are unmapped, one after the other
    #[arg(long, value_name = "N", default_value_t = 200,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) trials: u32,
    #[command(flatten)]
    pub(crate) settings: Settings,
    #[command(flatten)]
    pub(crate) files: ReportArgs,
}

/// Bugs of the kernel's flushes.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Broken {
    /// CPUs acknowledge a flush and do not flush
    Flush,
    /// One CPU is left out of every flush
    Cpu,
    /// The frame is freed before the flush
    Reuse,
}

impl Broken {
    /// The name of the bug on the kernel's command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Cpu => "cpu",
            Self::Reuse => "reuse",
        }
    }
}

/// Options of a run that compares this repository's kernel with a distribution's.
#[derive(Debug, ArgGroup)]
pub(crate) struct BesideArgs {
    /// With qemu: run a distribution's kernel too, on the same emulated machine, to compare counts
    #[arg(long, value_enum, value_name = "KERNEL")]
    beside: Option<Peer>,
    /// The vmlinuz for --beside linux [default: that of the distribution's package, which is
    /// downloaded]
    #[arg(long, value_name = "FILE", requires = "beside")]
    linux: Option<PathBuf>,
}

impl BesideArgs {
    /// The Linux kernel that the options describe.
    pub(crate) fn linux(&self) -> Option<BesideLinux> {
        self.beside.map(|Peer::Linux| BesideLinux { kernel: self.linux.clone() })
    }
}

/// Kernels that this repository's kernel can be compared with.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Peer {
    /// The kernel that the distribution ships
    Linux,
}

/// Pages per CPU with `--quick`.
const QUICK_PAGES: u64 = 4096;
/// Pages per CPU if instructions are counted: more than its lists hold, so that the zone's work is
/// included.
const COUNTED_PAGES: u64 = 32_768;

/// `run tlb-proof`.
pub(crate) fn tlb_proof(args: &TlbProofArgs) -> Result<Outcome, Failure> {
    if args.machine.0.cpus < 2 {
        return Err(Failure::bad_input(
            "tlb-proof needs two CPUs, one that unmaps and a witness: --machine qemu:2",
        ));
    }
    let mut words = vec![format!("trials={}", args.trials)];
    words.extend(args.broken.map(|broken| format!("break={}", broken.word())));
    let work = Work { workload: "tlb-proof", boots: vec![(Clock::Time, words)] };
    on_kernel(&work, &args.machine.0, &args.settings, None, &args.files)
}

/// `run page-fault --machine qemu:N`.
pub(crate) fn page_fault(spec: &QemuSpec, args: &PageFaultArgs) -> Result<Outcome, Failure> {
    let common = &args.common;
    not_on_qemu(&[("--free-order", matches!(args.free_order, FreeOrder::Random))])?;
    refuse_workload_options(common)?;
    if let Some(kernel) = args.beside.linux().and_then(|linux| linux.kernel)
        && !kernel.is_file()
    {
        return Err(Failure::BadInput(format!(
            "--linux {}: there is no such file",
            kernel.display()
        )));
    }
    let sharing = match args.sharing {
        Sharing::Private => "sharing=private",
        Sharing::Shared => "sharing=shared",
    };
    let words = |more: &[&str]| -> Vec<String> {
        std::iter::once(sharing).chain(more.iter().copied()).map(str::to_owned).collect()
    };
    // As many pages as fit into half of memory if all CPUs use them.
    let fitting = |most: u64| format!("pages={}", most.min(spec.mib * 128 / u64::from(spec.cpus)));
    let quick = words(&["rounds=1", &fitting(QUICK_PAGES)]);
    let timed = if common.run.quick { quick } else { words(&[]) };
    let counted = words(&["rounds=1", &fitting(COUNTED_PAGES)]);
    // A figure that both boots report is taken from the first, the boot that counts instructions:
    // its counts are the same on every run.
    let boots = vec![(Clock::Instructions, counted), (Clock::Time, timed)];
    let work = Work { workload: "page-fault", boots };
    on_kernel(&work, spec, &common.run.settings, args.beside.linux().as_ref(), &common.run.files)
}

/// Refuses options of workloads that have no effect on a kernel.
fn refuse_workload_options(args: &WorkloadArgs) -> Result<(), Failure> {
    not_on_qemu(&[
        ("--memory", args.memory.is_some()),
        ("--lists", args.lists.is_some()),
        ("--window", args.window.is_some()),
        ("--warm-up", args.warm_up.is_some()),
        ("--perfetto", args.trace.perfetto.is_some()),
        ("--picture", args.picture.is_some()),
        ("--seed", args.run.seed.is_some()),
        ("--seeds", args.run.seeds > 1),
    ])
}

/// `run kbuild --machine qemu:N`.
pub(crate) fn kbuild(spec: &QemuSpec, args: &WorkloadArgs) -> Result<Outcome, Failure> {
    refuse_workload_options(args)?;
    let words = if args.run.quick { vec!["compilers=3".to_owned()] } else { Vec::new() };
    let work = Work { workload: "kbuild", boots: vec![(Clock::Time, words)] };
    on_kernel(&work, spec, &args.run.settings, None, &args.run.files)
}

/// `run high-alloc --machine qemu:N`.
pub(crate) fn high_alloc(spec: &QemuSpec, args: &HighAllocArgs) -> Result<Outcome, Failure> {
    not_on_qemu(&[
        ("--memory", args.memory.is_some()),
        ("--perfetto", args.trace.perfetto.is_some()),
        ("--picture", args.picture.is_some()),
        ("--from", args.from.is_some()),
        ("--seed", args.run.seed.is_some()),
        ("--seeds", args.run.seeds > 1),
    ])?;
    let mut words = vec![format!("flags={}", args.flags.name())];
    if args.run.quick {
        words.push("steps=4".to_owned());
    }
    let work = Work { workload: "high-alloc", boots: vec![(Clock::Time, words)] };
    on_kernel(&work, spec, &args.run.settings, None, &args.run.files)
}

/// `run mmap-read --machine qemu:N`.
pub(crate) fn mmap_read(spec: &QemuSpec, args: &MmapReadArgs) -> Result<Outcome, Failure> {
    let common = &args.common;
    not_on_qemu(&[
        ("--memory", common.memory.is_some()),
        ("--times", args.times != MmapReadArgs::TIMES),
        ("--disks", args.disks > 0),
        ("--quick", common.run.quick),
        ("--perfetto", common.trace.perfetto.is_some()),
        ("--picture", common.picture.is_some()),
        ("--seed", common.run.seed.is_some()),
        ("--seeds", common.run.seeds > 1),
    ])?;
    let mut words = vec![format!("readers={}", args.readers)];
    let linux = args.beside.linux();
    if linux.as_ref().is_some_and(|linux| linux.kernel.is_some()) {
        return Err(Failure::bad_input(
            "mmap-read needs modules of the kernel's package: leave --linux out",
        ));
    }
    if linux.is_some() {
        // The same for both kernels: a file of holes, half as large again as the machine's memory.
        words.extend([format!("pages={}", spec.mib * 256 * 3 / 2), "store-every=0".to_owned()]);
    }
    let work = Work { workload: "mmap-read", boots: vec![(Clock::Time, words)] };
    on_kernel(&work, spec, &common.run.settings, linux.as_ref(), &common.run.files)
}

/// `run alloc-micro --machine qemu:N`.
#[cfg(feature = "full")]
pub(crate) fn alloc_micro(spec: &QemuSpec, files: &ReportArgs) -> Result<Outcome, Failure> {
    let work = Work { workload: "alloc-micro", boots: vec![(Clock::Instructions, Vec::new())] };
    on_kernel(&work, spec, &Settings::default(), None, files)
}

fn on_kernel(
    work: &Work,
    spec: &QemuSpec,
    settings: &Settings,
    linux: Option<&BesideLinux>,
    files: &ReportArgs,
) -> Result<Outcome, Failure> {
    output::check_report(files, &[])?;
    let sides = settings.sides();
    let mut measured =
        progress::during(work.workload, |tell| qemu::run(spec, work, &sides, linux, tell))?;
    let notes = std::mem::take(&mut measured.notes);
    let report = Report { notes, ..report(work.workload, spec.to_string(), None, measured) };
    let (cpus, nodes) = (several(spec.cpus, "CPU"), several(spec.nodes, "node"));
    let machine = format!(
        "{cpus}, {nodes}, {} MiB, emulated by QEMU: real page tables and interrupts",
        spec.mib
    );
    let note = "counts are exact; times under emulation do not carry over to hardware";
    let head = [("machine", machine), ("note", note.to_owned())].into_iter();
    let head = print::head(head.chain(print::notes(&report.notes)));
    finish(&report, files, &(head + &print::body(&report, output::style())))
}
