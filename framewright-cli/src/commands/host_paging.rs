//! `framewright run mmap-read --machine host`: real memory, real files, real interrupts.

use framewright_lab::{
    host_paging::{HostPaging, HostPagingError},
    workloads::mmap_read::MmapRead,
};

use super::{refuse, report::report};
use crate::args::{Host, PagingArgs};
use crate::failure::{Failure, Outcome};
use crate::{output, print, progress::Progress};

/// Enough that the frames that may be deferred, a 200th of it, are many.
const FRAMES: u64 = 512 << 8;

/// Reads files on threads of this process.
pub(super) fn mmap_read(work: MmapRead, host: Host, args: &PagingArgs) -> Result<Outcome, Failure> {
    let json = args.run.json.path.as_deref();
    refuse::only_simulated(&[
        ("--disks", work.disks > 0),
        // Nothing here is left to chance that could be had again.
        ("--seed", args.run.seed.is_some()),
        ("--seeds", args.run.seeds > 1),
        ("--svg", args.svg.is_some()),
    ])?;
    output::check_json(json, &[])?;
    let rounds = if args.run.quick { 2 } else { HostPaging::ROUNDS };
    let frames = args.memory.map_or(FRAMES, |memory| memory.frames());
    let paging = HostPaging { work, readers: host.cpus(), frames, rounds };
    let mut progress = Progress::new("mmap-read");
    let mut tell = |done, total| progress.update(done, total);
    let result = paging.run(&args.run.settings.sides(), &mut tell).map_err(failure)?;
    drop(progress);
    let machine = format!("host:{}", host.cpus());
    let report = report("mmap-read", machine, None, result.runs, result.checks);
    output::save_json(json, &report)?;
    output::print(&print::host_paging(&report, &paging, &result.notes, output::style()))?;
    Ok(output::outcome(&report.verdict))
}

fn failure(error: HostPagingError) -> Failure {
    match error {
        HostPagingError::Paging(error) => Failure::Broken(error.to_string()),
        error => Failure::bad_input(error),
    }
}
