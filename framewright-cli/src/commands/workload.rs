//! `framewright run page-fault | kbuild | socket-pairs`: on threads over real memory, on a simulated
//! machine, or on simulated machines of many sizes.

use framewright_lab::{
    report::{Check, Report},
    simulated::{
        Contender, Plan, Simulation,
        scaling::{self, Scaling},
    },
    workloads::{
        Workload,
        host::{HostSpec, Rounds},
        kbuild::Kbuild,
        page_fault::{self, PageFault},
        socket_pairs::SocketPairs,
    },
};
use framewright_sim::machine::Spec;

use super::{machines::note_inherited, qemu, refuse, report::report};
use crate::args::{FreeOrder, Machine, Machines, PageFaultArgs, Sharing, WorkloadArgs};
use crate::failure::{Failure, Outcome};
use crate::{output, print, progress::Progress};

/// `run page-fault`.
pub(crate) fn page_fault(args: &PageFaultArgs) -> Result<Outcome, Failure> {
    if let Machines::One(Machine::Qemu(machine)) = &args.common.machine {
        return qemu::page_fault(&machine.0, args);
    }
    refuse::only_on_qemu(&[
        ("--sharing", matches!(args.sharing, Sharing::Shared)),
        ("--beside", args.beside.linux().is_some()),
    ])?;
    let free_order = match args.free_order {
        FreeOrder::Mapping => page_fault::FreeOrder::Mapping,
        FreeOrder::Random => page_fault::FreeOrder::Random,
    };
    let work = PageFault { free_order, ..PageFault::new(args.common.run.first_seed()) };
    workload(&Workload::PageFault(work), &args.common)
}

/// `run kbuild`.
pub(crate) fn kbuild(args: &WorkloadArgs) -> Result<Outcome, Failure> {
    if let Machines::One(Machine::Qemu(machine)) = &args.machine {
        return qemu::kbuild(&machine.0, args);
    }
    workload(&Workload::Kbuild(Kbuild::new(args.run.first_seed())), args)
}

/// `run socket-pairs`.
pub(crate) fn socket_pairs(args: &WorkloadArgs) -> Result<Outcome, Failure> {
    workload(&Workload::SocketPairs(SocketPairs::new(args.run.first_seed())), args)
}

fn workload(work: &Workload, args: &WorkloadArgs) -> Result<Outcome, Failure> {
    let machine = match &args.machine {
        Machines::One(machine) => machine.file(),
        Machines::Uniform(_) => None,
    };
    output::check_outputs(args.run.json.path.as_deref(), ("--svg", args.svg.as_deref()), machine)?;
    if args.svg.is_some() && !matches!(args.machine, Machines::Uniform(_)) {
        return Err(Failure::bad_input(
            "--svg draws series: give it machines of many sizes, as in --machine uniform:1..512",
        ));
    }
    if let Machines::One(machine) = &args.machine {
        note_inherited(machine);
    }
    match &args.machine {
        Machines::One(Machine::Host(host)) => on_threads(work, host.cpus(), args),
        Machines::One(Machine::Simulated(spec, _)) => simulated(work, spec, args),
        Machines::One(Machine::Qemu(_)) => Err(Failure::BadInput(format!(
            "there is no {} for the kernel: on qemu machines there are page-fault, kbuild, mmap-read, \
             high-alloc, tlb-proof and alloc-micro",
            work.name()
        ))),
        Machines::Uniform(cpus) => scaled(work, cpus, args),
    }
}

/// Each side's settings on threads, their rounds alternating.
fn on_threads(work: &Workload, cpus: u16, args: &WorkloadArgs) -> Result<Outcome, Failure> {
    refuse::only_simulated(&[
        ("--lists", args.lists.is_some()),
        ("--seeds", args.run.seeds > 1),
        ("--window", args.window.is_some()),
        ("--warm-up", args.warm_up.is_some()),
    ])?;
    let frames = args.memory.map_or_else(|| work.ample_frames(cpus), |memory| memory.frames());
    let spec = HostSpec { cpus, frames, pin: true };
    let rounds = if args.run.quick { Rounds::quick() } else { Rounds::full() };
    let mut progress = Progress::new(work.name());
    let mut tell = |done, total| progress.update(done, total);
    let result = work
        .run_on_host(&spec, &args.run.settings.sides(), rounds, &mut tell)
        .map_err(Failure::bad_input)?;
    drop(progress);
    let machine = format!("host:{cpus}");
    let report =
        report(work.name(), machine, Some(args.run.first_seed()), result.runs, result.checks);
    let text = print::on_threads(&report, &spec, &result.notes, output::style());
    finish(&report, &text, args)
}

/// Both designs on one simulated machine.
fn simulated(work: &Workload, spec: &Spec, args: &WorkloadArgs) -> Result<Outcome, Failure> {
    let frames = args.memory.map(|memory| memory.frames());
    let plan = plan(work, args);
    let plan = if args.window.is_some() { plan } else { plan.on(spec.cpus()) };
    let simulation = Simulation { work: work.clone(), spec: spec.clone(), frames, plan };
    let lists = args.lists.map(|lists| lists.0);
    let contenders: Vec<Contender> =
        contenders(args).iter().map(|contender| simulation.with_lists(contender, lists)).collect();
    let mut progress = Progress::new(work.name());
    let mut tell = |done, total| progress.update(done, total);
    let result = simulation
        .run(&contenders, &args.run.all_seeds(), &mut tell)
        .map_err(|error| Failure::of_simulation(&error, args.memory))?;
    drop(progress);
    let machine = spec.name().to_owned();
    let report =
        report(work.name(), machine, Some(args.run.first_seed()), result.runs, result.checks);
    let text = print::simulated(&report, &simulation, output::style());
    finish(&report, &text, args)
}

/// Both designs on machines of many sizes.
fn scaled(work: &Workload, cpus: &[u16], args: &WorkloadArgs) -> Result<Outcome, Failure> {
    if args.memory.is_some() {
        return Err(Failure::bad_input(
            "--memory is for one machine; those of many sizes have 512 MiB for every CPU",
        ));
    }
    let scaling = Scaling {
        work: work.clone(),
        cpus: cpus.to_vec(),
        plan: plan(work, args),
        lists: args.lists.map(|lists| lists.0),
    };
    let mut progress = Progress::new(work.name());
    let mut tell = |done, total| progress.update(done, total);
    let runs = scaling
        .run(&contenders(args), &args.run.all_seeds(), &mut tell)
        .map_err(|error| Failure::of_simulation(&error, None))?;
    drop(progress);
    let sizes: Vec<String> = cpus.iter().map(u16::to_string).collect();
    let machine = format!("uniform:{}", sizes.join(","));
    let report = report(work.name(), machine, Some(args.run.first_seed()), runs, vec![books()]);
    let draw = || scaling::plot(&report.runs, work.name(), &report.command.join(" ")).svg();
    output::save_svg(args.svg.as_deref(), draw)?;
    let text = print::scaled(&report, &scaling, output::style());
    finish(&report, &text, args)
}

fn finish(report: &Report, text: &str, args: &WorkloadArgs) -> Result<Outcome, Failure> {
    output::save_json(args.run.json.path.as_deref(), report)?;
    output::print(text)?;
    Ok(output::outcome(&report.verdict))
}

fn books() -> Check {
    Check {
        name: "invariants".to_owned(),
        passed: true,
        detail: "after each run all frames are free, and the books agree".to_owned(),
    }
}

/// The library with each side's settings, then the classic design with those that it knows.
fn contenders(args: &WorkloadArgs) -> Vec<Contender> {
    let sides = args.run.settings.sides();
    if let [side] = &sides[..] {
        return vec![Contender::framewright(side), Contender::list_buddy("list-buddy", side)];
    }
    let library = sides.iter().map(|side| {
        let label = format!("framewright {}", side.label);
        Contender { label, ..Contender::framewright(side) }
    });
    let classic =
        sides.iter().map(|side| Contender::list_buddy(&format!("list-buddy {}", side.label), side));
    library.chain(classic).collect()
}

fn plan(work: &Workload, args: &WorkloadArgs) -> Plan {
    let plan = Plan::of(work);
    let plan = match args.run.quick {
        true => Plan { warm_up: plan.warm_up / 5, window: plan.window / 5 },
        false => plan,
    };
    Plan {
        warm_up: args.warm_up.unwrap_or(plan.warm_up),
        window: args.window.unwrap_or(plan.window),
    }
}
