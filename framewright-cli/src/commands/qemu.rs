//! Workloads on a kernel: it is built, booted under QEMU, and tells its result over the serial line.

use framewright_lab::qemu::{self, BesideLinux, Clock, QemuError, QemuSpec, Work};

use super::{refuse, report::report};
use crate::args::{
    FileReaders, FreeOrder, HighAllocArgs, HighAllocFlags, JsonArgs, MmapReadArgs, PageFaultArgs,
    Settings, Sharing, TlbProofArgs, WorkloadArgs,
};
use crate::failure::{Failure, Outcome};
use crate::{output, print, progress::Progress};

/// Pages of a CPU, for a look.
const QUICK_PAGES: u64 = 4096;
/// Pages of a CPU where instructions are counted: more than its lists keep, so that the zone has its part.
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
    on_kernel(&work, &args.machine.0, &args.settings, None, &args.json)
}

/// `run page-fault --machine qemu:N`.
pub(super) fn page_fault(spec: &QemuSpec, args: &PageFaultArgs) -> Result<Outcome, Failure> {
    let common = &args.common;
    refuse::not_on_qemu(&[("--free-order", matches!(args.free_order, FreeOrder::Random))])?;
    refuse_of_workloads(common)?;
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
    // As many as fit into half of memory, with all CPUs at it.
    let fitting = |most: u64| format!("pages={}", most.min(spec.mib * 128 / u64::from(spec.cpus)));
    let quick = words(&["rounds=1", &fitting(QUICK_PAGES)]);
    let timed = if common.run.quick { quick } else { words(&[]) };
    let counted = words(&["rounds=1", &fitting(COUNTED_PAGES)]);
    // What both have is told of the one that is the same every time.
    let boots = vec![(Clock::Instructions, counted), (Clock::Time, timed)];
    let work = Work { workload: "page-fault", boots };
    on_kernel(&work, spec, &common.run.settings, args.beside.linux().as_ref(), &common.run.json)
}

/// What workloads take that means nothing to a kernel.
fn refuse_of_workloads(args: &WorkloadArgs) -> Result<(), Failure> {
    refuse::not_on_qemu(&[
        ("--memory", args.memory.is_some()),
        ("--lists", args.lists.is_some()),
        ("--window", args.window.is_some()),
        ("--warm-up", args.warm_up.is_some()),
        ("--svg", args.svg.is_some()),
        ("--seed", args.run.seed.is_some()),
        ("--seeds", args.run.seeds > 1),
    ])
}

/// `run kbuild --machine qemu:N`.
pub(super) fn kbuild(spec: &QemuSpec, args: &WorkloadArgs) -> Result<Outcome, Failure> {
    refuse_of_workloads(args)?;
    let words = if args.run.quick { vec!["compilers=3".to_owned()] } else { Vec::new() };
    let work = Work { workload: "kbuild", boots: vec![(Clock::Time, words)] };
    on_kernel(&work, spec, &args.run.settings, None, &args.run.json)
}

/// `run high-alloc --machine qemu:N`.
pub(super) fn high_alloc(spec: &QemuSpec, args: &HighAllocArgs) -> Result<Outcome, Failure> {
    refuse::not_on_qemu(&[
        ("--memory", args.memory.is_some()),
        ("--picture", args.picture.is_some()),
        ("--from", args.from.is_some()),
        ("--seed", args.run.seed.is_some()),
        ("--seeds", args.run.seeds > 1),
    ])?;
    let flags = match args.flags {
        HighAllocFlags::Default => "flags=default",
        HighAllocFlags::Thp => "flags=thp",
    };
    let mut words = vec![flags.to_owned()];
    if args.run.quick {
        words.push("steps=4".to_owned());
    }
    let work = Work { workload: "high-alloc", boots: vec![(Clock::Time, words)] };
    on_kernel(&work, spec, &args.run.settings, None, &args.run.json)
}

/// `run mmap-read --machine qemu:N`.
pub(super) fn mmap_read(spec: &QemuSpec, args: &MmapReadArgs) -> Result<Outcome, Failure> {
    let common = &args.common;
    refuse::not_on_qemu(&[
        ("--memory", common.memory.is_some()),
        ("--times", args.times != MmapReadArgs::TIMES),
        ("--disks", args.disks > 0),
        ("--quick", common.run.quick),
        ("--svg", common.svg.is_some()),
        ("--seed", common.run.seed.is_some()),
        ("--seeds", common.run.seeds > 1),
    ])?;
    let readers = match args.readers {
        FileReaders::Processes => "readers=processes",
        FileReaders::Threads => "readers=threads",
    };
    let mut words = vec![readers.to_owned()];
    let linux = args.beside.linux();
    if linux.as_ref().is_some_and(|linux| linux.kernel.is_some()) {
        return Err(Failure::bad_input(
            "mmap-read needs modules of the kernel's package: leave --linux out",
        ));
    }
    if linux.is_some() {
        // The same for both: a file of holes, half as large again as the machine's memory.
        words.extend([format!("pages={}", spec.mib * 256 * 3 / 2), "store-every=0".to_owned()]);
    }
    let work = Work { workload: "mmap-read", boots: vec![(Clock::Time, words)] };
    on_kernel(&work, spec, &common.run.settings, linux.as_ref(), &common.run.json)
}

/// `run alloc-micro --machine qemu:N`.
pub(super) fn alloc_micro(spec: &QemuSpec, json: &JsonArgs) -> Result<Outcome, Failure> {
    let work = Work { workload: "alloc-micro", boots: vec![(Clock::Instructions, Vec::new())] };
    on_kernel(&work, spec, &Settings::default(), None, json)
}

fn on_kernel(
    work: &Work,
    spec: &QemuSpec,
    settings: &Settings,
    linux: Option<&BesideLinux>,
    json: &JsonArgs,
) -> Result<Outcome, Failure> {
    let json = json.path.as_deref();
    output::check_json(json, &[])?;
    let mut progress = Progress::new(work.workload);
    let mut tell = |done, total| progress.update(done, total);
    let result = qemu::run(spec, work, &settings.sides(), linux, &mut tell).map_err(failure)?;
    drop(progress);
    let mut report = report(work.workload, spec.to_string(), None, result.runs, result.checks);
    report.notes = result.notes;
    let text = print::emulated(&report, spec, output::style());
    output::save_json(json, &report)?;
    output::print(&text)?;
    Ok(output::outcome(&report.verdict))
}

fn failure(error: QemuError) -> Failure {
    if error.is_bad_input() {
        Failure::bad_input(error)
    } else {
        Failure::Broken(error.to_string())
    }
}
