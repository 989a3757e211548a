//! `framewright run alloc-micro`: nanoseconds or instructions per operation, beside others.

use std::env;
use std::process::Command;

use framewright_lab::micro::instructions::{self, Workload};
use framewright_lab::micro::{Scale, run};
use framewright_lab::report::Report;

use super::{qemu, report::report};
use crate::args::AllocMicroArgs;
use crate::failure::{Failure, Outcome};
use crate::{output, print, progress::Progress};

const WORKLOAD: &str = "alloc-micro";
/// The cells with two threads are part of every run.
const TWO_CPUS: &str = "host:2";
const CALLGRIND: &str = "callgrind";

/// Measures every allocator in every cell, or counts instructions.
pub(crate) fn micro(args: &AllocMicroArgs) -> Result<Outcome, Failure> {
    if let Some(workload) = args.counted {
        output::print(&format!("{}\n", workload.run()))?;
        return Ok(Outcome::Fine);
    }
    if let Some(machine) = &args.machine {
        return qemu::alloc_micro(&machine.0, &args.json);
    }
    let json = args.json.path.as_deref();
    output::check_json(json, &[])?;
    let (text, report) = if args.instructions { count()? } else { measure(args) };
    output::save_json(json, &report)?;
    output::print(&text)?;
    Ok(output::outcome(&report.verdict))
}

fn measure(args: &AllocMicroArgs) -> (String, Report) {
    let mut scale = if args.quick { Scale::quick() } else { Scale::full() };
    if let Some(memory) = args.memory {
        scale.frames = memory.frames();
    }
    let mut progress = Progress::new(WORKLOAD);
    let table = run(&scale, &mut |done, total| progress.update(done, total));
    drop(progress);
    // A look is too short to judge by.
    let goals = if args.quick { Vec::new() } else { table.checks() };
    let text = print::micro(&table, &goals, output::style());
    (text, report(WORKLOAD, TWO_CPUS.to_owned(), None, table.runs, goals))
}

fn count() -> Result<(String, Report), Failure> {
    let program = env::current_exe()
        .map_err(|error| Failure::BadInput(format!("cannot find the program itself: {error}")))?;
    let progress = Progress::spinner("counting instructions under callgrind");
    let child = |workload: Workload| {
        let mut command = Command::new(&program);
        command.args(["run", WORKLOAD, "--counted", &workload.to_string()]);
        command
    };
    let runs = instructions::measure(&child).map_err(Failure::bad_input)?;
    drop(progress);
    let report = report(WORKLOAD, CALLGRIND.to_owned(), None, runs, Vec::new());
    Ok((print::instructions(&report, output::style()), report))
}
