//! Workloads on a kernel: it is built, booted under QEMU, and tells its result over the serial line.

use framewright_lab::qemu::{self, Clock, QemuError, QemuSpec, Work};

use super::report::report;
use crate::args::{
    FileReaders, JsonArgs, MmapReadArgs, Settings, Sharing, TlbProofArgs, WorkloadArgs,
};
use crate::failure::{Failure, Outcome};
use crate::{output, print, progress::Progress};

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
    on_kernel(&work, &args.machine.0, &args.settings, &args.json)
}

/// `run page-fault --machine qemu:N`.
pub(super) fn page_fault(
    spec: &QemuSpec,
    sharing: Sharing,
    args: &WorkloadArgs,
) -> Result<Outcome, Failure> {
    if args.memory.is_some() || args.lists.is_some() || args.svg.is_some() || args.run.seeds > 1 {
        return Err(Failure::bad_input(
            "--lists, --seeds and --svg are for simulated machines; memory is a part of the machine: \
             --machine qemu:4,1GiB",
        ));
    }
    let sharing = match sharing {
        Sharing::Private => "sharing=private",
        Sharing::Shared => "sharing=shared",
    };
    let words = |more: &[&str]| -> Vec<String> {
        std::iter::once(sharing).chain(more.iter().copied()).map(str::to_owned).collect()
    };
    let timed = if args.run.quick { words(&["rounds=1", "pages=4096"]) } else { words(&[]) };
    let counted = words(&["rounds=1", "pages=2048"]);
    let boots = vec![(Clock::Time, timed), (Clock::Instructions, counted)];
    on_kernel(&Work { workload: "page-fault", boots }, spec, &args.run.settings, &args.run.json)
}

/// `run mmap-read --machine qemu:N`.
pub(super) fn mmap_read(spec: &QemuSpec, args: &MmapReadArgs) -> Result<Outcome, Failure> {
    if args.common.memory.is_some() || args.common.run.seeds > 1 || args.disks > 0 {
        return Err(Failure::bad_input(
            "--disks and --seeds are for simulated machines; memory is a part of the machine: \
             --machine qemu:4,128MiB",
        ));
    }
    let readers = match args.readers {
        FileReaders::Processes => "readers=processes",
        FileReaders::Threads => "readers=threads",
    };
    let work = Work { workload: "mmap-read", boots: vec![(Clock::Time, vec![readers.to_owned()])] };
    on_kernel(&work, spec, &args.common.run.settings, &args.common.run.json)
}

/// `run alloc-micro --machine qemu:N`.
pub(super) fn alloc_micro(spec: &QemuSpec, json: &JsonArgs) -> Result<Outcome, Failure> {
    let work = Work { workload: "alloc-micro", boots: vec![(Clock::Instructions, Vec::new())] };
    on_kernel(&work, spec, &Settings::default(), json)
}

fn on_kernel(
    work: &Work,
    spec: &QemuSpec,
    settings: &Settings,
    json: &JsonArgs,
) -> Result<Outcome, Failure> {
    let json = json.path.as_deref();
    output::check_json(json, &[])?;
    let mut progress = Progress::new(work.workload);
    let mut tell = |done, total| progress.update(done, total);
    let result = qemu::run(spec, work, &settings.sides(), &mut tell).map_err(failure)?;
    drop(progress);
    let report = report(work.workload, spec.to_string(), None, result.runs, result.checks);
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
