//! `framewright run high-alloc`.

use framewright_lab::{
    high_alloc::{Flags, HighAlloc},
    replay::State,
    simulated::SimulationError,
};
use framewright_sim::machine::Spec;

use super::{qemu, report::report};
use crate::args::{HighAllocArgs, HighAllocFlags, Machine};
use crate::failure::{Failure, Outcome};
use crate::{output, print, progress::Progress};

/// Runs it with every side's settings and every seed.
pub(crate) fn high_alloc(args: &HighAllocArgs) -> Result<Outcome, Failure> {
    if let Machine::Qemu(machine) = &args.machine {
        return qemu::high_alloc(&machine.0, args);
    }
    let (json, picture) = (args.run.json.path.as_deref(), args.picture.as_deref());
    output::check_outputs(json, ("--picture", picture), args.machine.file())?;
    let from = args.from.as_deref();
    [json, picture].into_iter().try_for_each(|out| output::check_json(out, from.as_slice()))?;
    let Machine::Simulated(spec, _) = &args.machine else {
        return Err(Failure::bad_input(
            "high-alloc moves pages of programs: give it a simulated machine, as in --machine uniform:4, \
             or an emulated one, as in --machine qemu:4",
        ));
    };
    let work = HighAlloc {
        flags: match args.flags {
            HighAllocFlags::Default => Flags::Default,
            HighAllocFlags::Thp => Flags::Thp,
        },
        spec: Spec::clone(spec),
        frames: args.memory.map_or(HighAlloc::DEFAULT_FRAMES, |memory| memory.frames()),
        from: from.map(State::open).transpose().map_err(Failure::bad_input)?,
        quick: args.run.quick,
        watched: picture.is_some(),
    };
    refuse(&work)?;
    let seeds = args.run.all_seeds();
    let mut progress = Progress::new("high-alloc");
    let mut tell = |done, total| progress.update(done, total);
    let result = work.run(&args.run.settings.sides(), &seeds, &mut tell).map_err(failure)?;
    drop(progress);
    let machine = spec.name().to_owned();
    let report =
        report("high-alloc", machine, Some(args.run.first_seed()), result.runs, result.checks);
    output::save_json(json, &report)?;
    output::save_svg(picture, || result.picture.unwrap_or_default())?;
    output::print(&print::high_alloc(&report, &work, seeds.len(), output::style()))?;
    Ok(output::outcome(&report.verdict))
}

fn refuse(work: &HighAlloc) -> Result<(), Failure> {
    let mib = |frames: u64| frames >> 8;
    if work.frames < HighAlloc::LEAST_FRAMES {
        return Err(Failure::BadInput(format!(
            "--memory {}MiB: builders alone need some 150 MiB; give it at least {} MiB",
            mib(work.frames),
            mib(HighAlloc::LEAST_FRAMES)
        )));
    }
    if work.frames > HighAlloc::MOST_FRAMES {
        return Err(Failure::BadInput(format!(
            "--memory {}GiB: each GiB takes some 20 MiB of the host's memory, and some seconds; give it at \
             most {} GiB",
            work.frames >> 18,
            HighAlloc::MOST_FRAMES >> 18
        )));
    }
    if work.spec.cpus() < 2 || work.spec.nodes() > 1 {
        return Err(Failure::BadInput(format!(
            "{}: high-alloc takes a machine of one node with at least 2 CPUs, one of which asks while \
             builders have the others",
            work.spec.name()
        )));
    }
    Ok(())
}

fn failure(error: SimulationError) -> Failure {
    if error.is_bad_input() {
        Failure::bad_input(error)
    } else {
        Failure::Broken(error.to_string())
    }
}
