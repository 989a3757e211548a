//! `framewright run mmap-read | cdn`.

use framewright_lab::{
    paging::{self, Paging, Work},
    workloads::{
        cdn::Cdn,
        mmap_read::{MmapRead, Readers},
    },
};
use framewright_sim::machine::Spec;

use super::{host_paging, machines::note_inherited, qemu, refuse, report::report};
use crate::args::{CdnArgs, FileReaders, Machine, MmapReadArgs, PagingArgs};
use crate::failure::{Failure, Outcome};
use crate::{output, print, progress::Progress};

/// `run mmap-read`.
pub(crate) fn mmap_read(args: &MmapReadArgs) -> Result<Outcome, Failure> {
    let readers = match args.readers {
        FileReaders::Processes => Readers::Processes,
        FileReaders::Threads => Readers::Threads,
    };
    let times = if args.common.run.quick { (args.times / 5).max(2) } else { args.times };
    let work = MmapRead { readers, times, disks: args.disks };
    if !matches!(args.common.machine, Machine::Qemu(_)) {
        refuse::only_on_qemu(&[("--beside", args.beside.linux().is_some())])?;
    }
    match &args.common.machine {
        Machine::Host(host) => host_paging::mmap_read(work, *host, &args.common),
        Machine::Simulated(..) => run(Work::MmapRead(work), &args.common),
        Machine::Qemu(machine) => qemu::mmap_read(&machine.0, args),
    }
}

/// `run cdn`.
pub(crate) fn cdn(args: &CdnArgs) -> Result<Outcome, Failure> {
    let centidays = args.days.hundredths;
    let centidays = if args.common.run.quick { centidays.div_ceil(5) } else { centidays };
    let (writes, times, threads) = (args.writes, args.times, args.threads);
    let huge = args.huge.unwrap_or(0);
    run(Work::Cdn(Cdn { centidays, writes, times, threads, huge, ..Cdn::new(0) }), &args.common)
}

fn run(work: Work, args: &PagingArgs) -> Result<Outcome, Failure> {
    let (json, svg) = (args.run.json.path.as_deref(), args.svg.as_deref());
    output::check_outputs(json, ("--svg", svg), args.machine.file())?;
    let Machine::Simulated(spec, _) = &args.machine else {
        let name = work.name();
        return Err(Failure::BadInput(format!(
            "{name} runs on simulated machines alone: give it one, as in --machine uniform:4"
        )));
    };
    note_inherited(&args.machine);
    let frames = args.memory.map_or_else(|| default_frames(spec), |memory| memory.frames());
    let paging = Paging { work, spec: Spec::clone(spec), frames };
    let mut progress = Progress::new(paging.work.name());
    let mut tell = |done, total| progress.update(done, total);
    let result = paging
        .run(&args.run.settings.sides(), &args.run.all_seeds(), &mut tell)
        .map_err(|error| Failure::of_simulation(&error, args.memory))?;
    drop(progress);
    let (name, machine) = (paging.work.name(), spec.name().to_owned());
    let report = report(name, machine, Some(args.run.first_seed()), result.runs, result.checks);
    output::save_json(json, &report)?;
    let draw = || paging::plot(&report.runs, &paging.work, &report.command.join(" ")).svg();
    output::save_svg(svg, draw)?;
    output::print(&print::paging(&report, &paging, output::style()))?;
    Ok(output::outcome(&report.verdict))
}

/// Enough that lists of CPUs and watermarks are a small part of it.
fn default_frames(spec: &Spec) -> u64 {
    const PER_CPU: u64 = 16 << 8;
    const LEAST: u64 = 64 << 8;
    (PER_CPU * u64::from(spec.cpus())).max(LEAST)
}
