//! `framewright run high-alloc`.

use framewright_lab::{
    high_alloc::{Flags, HighAlloc, HostHighAlloc},
    replay::State,
    simulated::SimulationError,
};
use framewright_sim::machine::Spec;

use super::{machines::note_inherited, qemu, refuse, report::report};
use crate::args::{HighAllocArgs, HighAllocFlags, Host, Machine};
use crate::failure::{Failure, Outcome};
use crate::{output, print, progress::Progress};

/// Runs it with every side's settings and every seed.
pub(crate) fn high_alloc(args: &HighAllocArgs) -> Result<Outcome, Failure> {
    match &args.machine {
        Machine::Host(host) => on_threads(*host, args),
        Machine::Simulated(spec, _) => simulated(spec, args),
        Machine::Qemu(machine) => qemu::high_alloc(&machine.0, args),
    }
}

fn flags(args: &HighAllocArgs) -> Flags {
    match args.flags {
        HighAllocFlags::Default => Flags::Default,
        HighAllocFlags::Thp => Flags::Thp,
    }
}

/// On threads over real memory.
fn on_threads(host: Host, args: &HighAllocArgs) -> Result<Outcome, Failure> {
    let json = args.run.json.path.as_deref();
    refuse::only_simulated(&[
        ("--from", args.from.is_some()),
        ("--picture", args.picture.is_some()),
    ])?;
    output::check_json(json, &[])?;
    let default = || match args.run.quick {
        true => HighAlloc::LEAST_FRAMES,
        false => HostHighAlloc::DEFAULT_FRAMES,
    };
    let work = HostHighAlloc {
        flags: flags(args),
        threads: host.cpus(),
        frames: args.memory.map_or_else(default, |memory| memory.frames()),
        quick: args.run.quick,
    };
    refuse_little(work.frames)?;
    let seeds = args.run.all_seeds();
    let mut progress = Progress::new("high-alloc");
    let mut tell = |done, total| progress.update(done, total);
    let result = work.run(&args.run.settings.sides(), &seeds, &mut tell);
    let result = result.map_err(Failure::bad_input)?;
    drop(progress);
    let machine = format!("host:{}", host.cpus());
    let report =
        report("high-alloc", machine, Some(args.run.first_seed()), result.runs, result.checks);
    output::save_json(json, &report)?;
    output::print(&print::high_alloc_on_threads(&report, &work, seeds.len(), output::style()))?;
    Ok(output::outcome(&report.verdict))
}

/// On a simulated machine.
fn simulated(spec: &Spec, args: &HighAllocArgs) -> Result<Outcome, Failure> {
    let (json, picture) = (args.run.json.path.as_deref(), args.picture.as_deref());
    output::check_outputs(json, ("--picture", picture), args.machine.file())?;
    note_inherited(&args.machine);
    let from = args.from.as_deref();
    [json, picture].into_iter().try_for_each(|out| output::check_json(out, from.as_slice()))?;
    let work = HighAlloc {
        flags: flags(args),
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

fn refuse_little(frames: u64) -> Result<(), Failure> {
    let mib = |frames: u64| frames >> 8;
    if frames < HighAlloc::LEAST_FRAMES {
        return Err(Failure::BadInput(format!(
            "--memory {}MiB: builders alone need some 150 MiB; give it at least {} MiB",
            mib(frames),
            mib(HighAlloc::LEAST_FRAMES)
        )));
    }
    Ok(())
}

fn refuse(work: &HighAlloc) -> Result<(), Failure> {
    refuse_little(work.frames)?;
    if work.frames > HighAlloc::MOST_FRAMES {
        return Err(Failure::BadInput(format!(
            "--memory {}GiB: each GiB takes some 16 MiB of this machine's memory, and some seconds; give it \
             at most {} GiB",
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
