//! The command line as types. Bad values are refused here, before any work.

use clap::{
    CommandFactory, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::args::machine::simulated_machine;
use crate::commands::{
    compare, completions, high_alloc, hunt, inspect, machines, paging, qemu, record, replay, sweep,
    workload,
};
use crate::failure::{Failure, Outcome};
#[cfg(feature = "full")]
use crate::full;

/// The page allocator that you can test before you ship: run it, replay a real kernel's requests
/// through it, compare its settings.
#[derive(Debug, Parser)]
#[command(name = "framewright", version, after_help = after_help(), max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  framewright replay recordings/sockets.txt.zst
      Replays the page allocations and frees of a real kernel.
  framewright replay recordings/sockets.txt.zst --vs pcp.high_order_drain=every-free
      Compares two settings side by side: percentages are gains over the first column.
  framewright record -- make
      Records the running kernel while a command runs, for a replay.
  framewright inspect
      Shows the free memory of this machine, and how many huge pages it could give now.
  framewright run page-fault --machine host:2
      Two CPUs allocate, touch and free 128 MiB each, repeatedly.
  framewright sweep examples/sweep.toml -o lists.csv
      Runs all combinations of machines, settings and seeds of a plan, and writes one table.
  framewright hunt
      Searches for schedules that trigger seeded bugs, and checks the code without bugs.
  framewright tuning pcp
      Lists settings with their meaning and source.
  framewright machines skx-2s-112
      Lists the costs of a server with 112 CPUs, and their sources.
  framewright machines measure -o mine.toml
      Measures this machine, and writes it as a machine that the simulator runs.
";

#[cfg(feature = "full")]
const MORE: &str = "
  framewright reproduce bulk-free
      Repeats a published measurement on simulated servers, and judges the agreement.
  framewright validate mine.toml
      Does the same work on this machine and on the simulated one, and compares the figures.
";
#[cfg(not(feature = "full"))]
const MORE: &str = "

Programs built with `--features full` have more commands: reproduce, validate, prices, and run \
alloc-micro, churn, replace, large-memory.
";

fn after_help() -> String {
    format!("{}{MORE}\nExit codes: 0 success, 1 a check failed, 2 bad input.", EXAMPLES.trim_end())
}

/// The commands and workloads of programs with the feature `full`.
pub(crate) const ONLY_FULL: [&str; 7] =
    ["reproduce", "validate", "prices", "alloc-micro", "churn", "replace", "large-memory"];

impl Args {
    /// Reads the command line. Ends the program if it is wrong, or asks for help.
    pub(crate) fn read() -> Self {
        Self::try_parse().unwrap_or_else(|error| match error.get(ContextKind::InvalidSubcommand) {
            Some(ContextValue::String(name)) if ONLY_FULL.contains(&name.as_str()) => {
                Self::command().error(ErrorKind::InvalidSubcommand, not_built(name)).exit()
            }
            _ => error.exit(),
        })
    }
}

/// Why a program without the feature `full` refuses a command.
fn not_built(name: &str) -> String {
    format!(
        "'{name}' is only in programs built with the feature `full`: cargo build --release --features full"
    )
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a workload: on threads, on a simulated machine, or in a kernel on an emulated machine
    #[command(subcommand, after_help = RUN_EXAMPLES)]
    Run(Run),
    /// Replay a recording of a real kernel's page allocations
    #[command(after_help = replay::EXAMPLES)]
    Replay(replay::ReplayArgs),
    /// Record the page allocator of the running kernel
    #[command(after_help = record::EXAMPLES)]
    Record(record::RecordArgs),
    /// Show the fragmentation of the running kernel's memory, and how many huge pages it could give
    #[command(after_help = inspect::EXAMPLES)]
    Inspect(inspect::InspectArgs),
    /// Run a workload with all combinations of machines, settings and seeds, and write one table
    #[command(after_help = sweep::EXAMPLES)]
    Sweep(sweep::SweepArgs),
    /// Compare a figure of a sweep by the values of one setting
    #[command(after_help = compare::EXAMPLES)]
    Compare(compare::CompareArgs),
    /// Hunt concurrency bugs on simulated CPUs, schedule by schedule
    #[command(after_help = hunt::EXAMPLES, mut_arg("perfetto", |trace| trace.help(hunt::PERFETTO)))]
    Hunt(hunt::HuntArgs),
    /// List the settings: default, range, meaning, source
    #[command(after_help = machines::TUNING_EXAMPLES)]
    Tuning(machines::TuningArgs),
    /// List the simulated machines, or one with every parameter and its source; or measure this one
    #[command(after_help = machines::MACHINES_EXAMPLES)]
    Machines(machines::MachinesArgs),
    /// Print completions for a shell, or write man pages
    #[command(subcommand, after_help = completions::EXAMPLES)]
    Completions(completions::Format),
    #[cfg(feature = "full")]
    #[command(flatten)]
    Full(full::Command),
}

const RUN_EXAMPLES: &str = "\
Examples:
  framewright run page-fault --machine host:2 --memory 2GiB
  framewright run page-fault --machine skx-2s-112
  framewright run kbuild --machine host:2
  framewright run mmap-read --set tlb.batching=off --vs tlb.batching=lazy
  framewright run high-alloc --flags thp --vs compact.method=scan
  framewright run page-fault --machine qemu:4
  framewright run tlb-proof
  framewright run page-fault --vs pcp.bulk_free=select-under-lock --json result.json";

#[derive(Debug, Subcommand)]
pub(crate) enum Run {
    /// Bursts of 32,768 frames, allocated and touched, then freed (will-it-scale's page_fault1)
    #[command(after_help = workload::PAGE_FAULT_EXAMPLES,
              mut_arg("machine", |machine| machine.help(workload::KERNEL_MACHINE)))]
    PageFault(workload::PageFaultArgs),
    /// Compilers that fork, fault, write and exit: the effect of exits on the lists of a CPU
    #[command(after_help = workload::KBUILD_EXAMPLES,
              mut_arg("machine", |machine| machine.help(workload::KERNEL_MACHINE)))]
    Kbuild(workload::WorkloadArgs),
    /// Blocks of orders 0 to 3 allocated on one CPU and freed on another (lmbench's bw_unix)
    #[command(after_help = workload::SOCKET_PAIRS_EXAMPLES)]
    SocketPairs(workload::SocketPairsArgs),
    /// Sparse files of ten times the memory, mapped and read once (vm-scalability's
    /// lru-file-mmap-read)
    #[command(after_help = paging::MMAP_READ_EXAMPLES,
              mut_arg("machine", |machine| machine.help(paging::MMAP_READ_MACHINE)),
              mut_arg("memory", |memory| memory.help(paging::MMAP_READ_MEMORY)))]
    MmapRead(paging::MmapReadArgs),
    /// A cache server: random reads and stores through one mapping larger than memory, for days
    #[command(after_help = paging::CDN_EXAMPLES,
              mut_arg("machine", |machine| machine.value_parser(simulated_machine)))]
    Cdn(paging::CdnArgs),
    /// Huge pages requested on a machine that compiles, and when it is idle (mmtests'
    /// stress-highalloc)
    #[command(after_help = high_alloc::EXAMPLES,
              mut_arg("seed", |seed| seed.help(high_alloc::SEED)),
              mut_arg("seeds", |seeds| seeds.help(high_alloc::SEEDS)),
              mut_arg("quick", |quick| quick.help(high_alloc::QUICK)))]
    HighAlloc(high_alloc::HighAllocArgs),
    /// Proof, on a kernel, that stale TLB entries are used before a flush and never after
    #[command(after_help = qemu::EXAMPLES)]
    TlbProof(qemu::TlbProofArgs),
    #[cfg(feature = "full")]
    #[command(flatten)]
    Full(full::Run),
}

impl Command {
    /// Runs the command.
    pub(crate) fn run(&self) -> Result<Outcome, Failure> {
        match self {
            Self::Run(Run::PageFault(args)) => workload::page_fault(args),
            Self::Run(Run::Kbuild(args)) => workload::kbuild(args),
            Self::Run(Run::SocketPairs(args)) => workload::socket_pairs(args),
            Self::Run(Run::MmapRead(args)) => paging::mmap_read(args),
            Self::Run(Run::Cdn(args)) => paging::cdn(args),
            Self::Run(Run::TlbProof(args)) => qemu::tlb_proof(args),
            Self::Run(Run::HighAlloc(args)) => high_alloc::high_alloc(args),
            Self::Replay(args) => replay::replay(args),
            Self::Record(args) => record::record(args),
            Self::Inspect(args) => inspect::inspect(args),
            Self::Sweep(args) => sweep::sweep(args),
            Self::Compare(args) => compare::compare(args),
            Self::Hunt(args) => hunt::hunt(args),
            Self::Tuning(args) => machines::tuning(args),
            Self::Machines(args) => machines::machines(args),
            Self::Completions(format) => completions::completions(format),
            #[cfg(feature = "full")]
            Self::Run(Run::Full(run)) => run.run(),
            #[cfg(feature = "full")]
            Self::Full(command) => command.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Args::command().debug_assert();
    }
}
