//! `framewright run large-memory`: what a machine with very much memory costs.

use framewright_lab::large_memory::{Goal, LargeMemory};

use super::report::report;
use crate::args::LargeMemoryArgs;
use crate::failure::{Failure, Outcome};
use crate::{output, print, progress::Progress};

const WORKLOAD: &str = "large-memory";

/// Measures every part, and sets the goals beside the figures.
pub(crate) fn large_memory(args: &LargeMemoryArgs) -> Result<Outcome, Failure> {
    let json = args.json.path.as_deref();
    output::check_json(json, &[])?;
    let plan = plan(args)?;
    let mut progress = Progress::new(WORKLOAD);
    let result = plan.run(&mut |done, total| progress.update(done, total)).map_err(|error| {
        if error.is_broken() {
            Failure::Broken(error.to_string())
        } else {
            Failure::bad_input(error)
        }
    })?;
    drop(progress);
    // A look is too short to judge by.
    let checks =
        if args.quick { Vec::new() } else { result.goals.iter().map(Goal::check).collect() };
    let report = report(WORKLOAD, machine(args, &plan), None, result.runs(), checks);
    output::save_json(json, &report)?;
    let text = print::large_memory(&result, &report, args.quick, output::style());
    output::print(&text)?;
    Ok(output::outcome(&report.verdict))
}

fn plan(args: &LargeMemoryArgs) -> Result<LargeMemory, Failure> {
    let frames = args.memory.frames();
    let mut plan = LargeMemory::new(frames, args.nodes).map_err(Failure::bad_input)?;
    if let Some(cpus) = args.cpus {
        plan.cpus = cpus;
    }
    Ok(if args.quick { plan.quick() } else { plan })
}

/// The machine in words: it exists on paper only.
fn machine(args: &LargeMemoryArgs, plan: &LargeMemory) -> String {
    let nodes = if plan.nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", plan.nodes) };
    format!("{} on {nodes}, {} CPUs, metadata only", args.memory, plan.cpus)
}
