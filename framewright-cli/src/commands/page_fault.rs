//! `framewright run page-fault`: bursts of frames up, then down, on threads over real memory.

use framewright_lab::workloads::page_fault::{self, HostSpec, PageFault};

use super::report::report;
use crate::args::{FreeOrder, Machine, PageFaultArgs};
use crate::failure::{Failure, Outcome};
use crate::{output, print, progress::Progress};

/// Runs each side's settings, their rounds alternating.
pub(crate) fn page_fault(args: &PageFaultArgs) -> Result<Outcome, Failure> {
    let json = args.json.path.as_deref();
    output::check_json(json, &[])?;
    let work = work(args);
    let Machine::Host(host) = &args.machine else {
        return Err(Failure::bad_input(format!(
            "page-fault does not run on '{}', a simulated machine; it runs on host and host:N",
            args.machine
        )));
    };
    let cpus = host.cpus();
    let frames = args.memory.map_or_else(|| work.ample_frames(cpus), |memory| memory.frames());
    let spec = HostSpec { cpus, frames, pin: true };
    let mut progress = Progress::new("page-fault");
    let mut tell = |done, total| progress.update(done, total);
    let result =
        work.run_on_host(&spec, &args.settings.sides(), &mut tell).map_err(Failure::bad_input)?;
    drop(progress);
    let machine = args.machine.to_string();
    let report = report("page-fault", machine, Some(args.seed), result.runs, result.checks);
    output::save_json(json, &report)?;
    output::print(&print::page_fault(&report, &spec, &result.notes, output::style()))?;
    Ok(output::outcome(&report.verdict))
}

fn work(args: &PageFaultArgs) -> PageFault {
    let work = if args.quick { PageFault::quick(args.seed) } else { PageFault::full(args.seed) };
    let free_order = match args.free {
        FreeOrder::Mapping => page_fault::FreeOrder::Mapping,
        FreeOrder::Random => page_fault::FreeOrder::Random,
    };
    PageFault { free_order, ..work }
}
