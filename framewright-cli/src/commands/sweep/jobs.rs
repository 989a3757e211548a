//! The runs of a plan as commands of `framewright run`: each run is a function call with the options of that command.

use std::error::Error as _;

use clap::{
    Args, Command,
    error::{ContextKind, ContextValue, ErrorKind},
};
use framewright_lab::{
    paging::Work,
    report::Measured,
    samples::Watch,
    simulated::Column,
    sweep::{Catalog, Entry, Figure, Machine as PlanMachine},
    workloads::Workload,
};
use framewright_sim::toml_file::hint;

use crate::args::machine::Machine;
use crate::commands::{
    OUTPUTS,
    high_alloc::{self, HighAllocArgs},
    paging::{self, CdnArgs, MmapReadArgs, PagingArgs},
    workload::{self, Machines, PageFaultArgs, SocketPairsArgs, WorkloadArgs},
};
use crate::failure::Failure;

/// The workloads of sweeps.
const WORKLOADS: [&str; 6] =
    ["page-fault", "kbuild", "socket-pairs", "mmap-read", "cdn", "high-alloc"];

/// Options that another part of a plan gives.
const GIVEN: [(&str, &str); 5] = [
    ("machine", "machines = [...]"),
    ("seed", "seeds = [...]"),
    ("seeds", "seeds = [...]"),
    ("set", "[settings]"),
    ("vs", "[settings] with a list of values"),
];
/// Options without a meaning for a run of a sweep, besides those that name output files.
const WITHOUT_MEANING: [&str; 3] = ["sharing", "beside", "from"];

/// A run: a workload with its options.
enum Job {
    PageFault(PageFaultArgs),
    Kbuild(WorkloadArgs),
    SocketPairs(SocketPairsArgs),
    MmapRead(MmapReadArgs),
    Cdn(CdnArgs),
    HighAlloc(HighAllocArgs),
}

impl Job {
    fn of(workload: &str, args: &[String]) -> Result<Self, clap::Error> {
        match workload {
            "page-fault" => parse(args).map(Self::PageFault),
            "kbuild" => parse(args).map(Self::Kbuild),
            "socket-pairs" => parse(args).map(Self::SocketPairs),
            "mmap-read" => parse(args).map(Self::MmapRead),
            "cdn" => parse(args).map(Self::Cdn),
            _ => parse(args).map(Self::HighAlloc),
        }
    }

    /// Runs the library. The other designs of `framewright run` do not run.
    fn measure(&self) -> Result<Measured, Failure> {
        match self {
            Self::PageFault(args) => allocations(&workload::bursts(args), &args.common),
            Self::Kbuild(args) => allocations(&workload::compilers(args), args),
            Self::SocketPairs(args) => allocations(&workload::sockets(args)?, &args.common),
            Self::MmapRead(args) => files(Work::MmapRead(paging::reading(args)), &args.common),
            Self::Cdn(args) => files(Work::Cdn(paging::serving(args)), &args.common),
            Self::HighAlloc(args) => {
                let Machine::Simulated(spec, _) = &args.machine else {
                    return Err(Failure::bad_input(NOT_SIMULATED));
                };
                let work = high_alloc::requests(spec, args)?;
                let (sides, seeds) = (args.run.settings.sides(), args.run.all_seeds());
                Ok(work.run(&sides, &seeds, &mut |_, _| ())?)
            }
        }
    }
}

const NOT_SIMULATED: &str = "a sweep runs on simulated machines, as in uniform:4: runs on threads beside each other \
                             would disturb each other, and no two have the same figures";

fn allocations(work: &Workload, args: &WorkloadArgs) -> Result<Measured, Failure> {
    let Machines::One(Machine::Simulated(spec, _)) = &args.machine else {
        return Err(Failure::bad_input(NOT_SIMULATED));
    };
    let columns: Vec<Column> = args.run.settings.sides().iter().map(Column::framewright).collect();
    let simulation = workload::simulation(work, spec, args);
    workload::measure(&simulation, &columns, args, Watch::default(), &mut |_, _| ())
}

fn files(work: Work, args: &PagingArgs) -> Result<Measured, Failure> {
    paging::measure(&paging::paging(work, args)?, args, Watch::default(), &mut |_, _| ())
}

fn command<A: Args>() -> Command {
    A::augment_args(Command::new("run").no_binary_name(true).disable_help_flag(true))
}

fn parse<A: Args>(args: &[String]) -> Result<A, clap::Error> {
    A::from_arg_matches(&command::<A>().try_get_matches_from(args)?)
}

/// The figures of a run, or the reason why it failed.
pub(super) fn run(entry: &Entry<'_>) -> Result<Vec<Figure>, String> {
    let job = Job::of(entry.workload(), &entry.args()).map_err(|error| reason(&error))?;
    let measured = job.measure().map_err(|failure| failure.to_string())?;
    if let Some(check) = measured.checks.iter().find(|check| !check.passed) {
        return Err(format!("check failed: {}: {}", check.name, check.detail));
    }
    Ok(measured.runs.first().map(Figure::of_run).unwrap_or_default())
}

/// The workloads, machines, options and settings of this program.
pub(super) struct Programs;

impl Catalog for Programs {
    fn workload(&self, name: &str) -> Result<(), String> {
        if WORKLOADS.contains(&name) {
            return Ok(());
        }
        let hint = hint(name, WORKLOADS.into_iter());
        Err(format!("there is no such workload for a sweep{hint}"))
    }

    fn machines(&self, workload: &str, text: &str) -> Result<Vec<PlanMachine>, String> {
        let plain = |name: &str| PlanMachine {
            arg: name.to_owned(),
            name: name.to_owned(),
            description: String::new(),
        };
        let machines = match text.parse()? {
            Machines::Uniform(sizes) => {
                sizes.iter().map(|cpus| plain(&format!("uniform:{cpus}"))).collect()
            }
            Machines::One(Machine::Simulated(spec, file)) => {
                // A file may change: its machine is a part of what identifies a run.
                let description = file.as_ref().map_or_else(String::new, |_| spec.to_toml());
                let name = spec.name().to_owned();
                vec![PlanMachine { arg: text.to_owned(), name, description }]
            }
            Machines::One(_) => return Err(NOT_SIMULATED.to_owned()),
        };
        for machine in &machines {
            let arg = format!("--machine={}", machine.arg);
            let job = Job::of(workload, &[arg]).map_err(|error| reason(&error))?;
            if let Job::HighAlloc(args) = &job
                && let Machine::Simulated(spec, _) = &args.machine
            {
                high_alloc::requests(spec, args).map_err(|failure| failure.to_string())?;
            }
        }
        Ok(machines)
    }

    fn option(&self, workload: &str, key: &str, value: Option<&str>) -> Result<(), String> {
        if let Some((_, place)) = GIVEN.iter().find(|(given, _)| *given == key) {
            return Err(format!("is no option of a plan: write {place}"));
        }
        let names = names(workload);
        let known = || names.iter().map(String::as_str).filter(|name| is_offered(name));
        if !known().any(|name| name == key) {
            let hint = hint(key, known());
            return Err(format!("{workload} has no such option for a sweep{hint}"));
        }
        let arg = value.map_or_else(|| format!("--{key}"), |value| format!("--{key}={value}"));
        Job::of(workload, &[arg]).map(drop).map_err(|error| reason(&error))
    }

    fn setting(&self, key: &str, value: &str) -> Result<(), String> {
        let arg = format!("--set={key}={value}");
        Job::of(WORKLOADS[0], &[arg]).map(drop).map_err(|error| reason(&error))
    }
}

fn is_offered(option: &str) -> bool {
    let is_output = OUTPUTS.iter().any(|output| output.trim_start_matches('-') == option);
    let is_given = GIVEN.iter().any(|(given, _)| *given == option);
    !is_output && !is_given && !WITHOUT_MEANING.contains(&option)
}

/// The names of the options of a workload.
fn names(workload: &str) -> Vec<String> {
    let command = match workload {
        "page-fault" => command::<PageFaultArgs>(),
        "kbuild" => command::<WorkloadArgs>(),
        "socket-pairs" => command::<SocketPairsArgs>(),
        "mmap-read" => command::<MmapReadArgs>(),
        "cdn" => command::<CdnArgs>(),
        _ => command::<HighAllocArgs>(),
    };
    command.get_arguments().filter_map(|arg| arg.get_long()).map(str::to_owned).collect()
}

/// The reason of an error of the command line, without the option and the value, which the plan's error names.
fn reason(error: &clap::Error) -> String {
    if let Some(source) = error.source() {
        return source.to_string();
    }
    let valid = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(valid)) if !valid.is_empty() => valid.join(", "),
        _ => String::new(),
    };
    match error.kind() {
        ErrorKind::InvalidValue if !valid.is_empty() => format!("valid: {valid}"),
        ErrorKind::InvalidValue => {
            "needs a value, as in \"8\"; true is for options without a value".into()
        }
        ErrorKind::TooManyValues => "takes no value: write true".into(),
        _ => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            line.strip_prefix("error: ").unwrap_or(line).to_owned()
        }
    }
}
