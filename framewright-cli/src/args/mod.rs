//! The command line as types. What is wrong with a value is found here, before any work.

mod fragmentation;
mod high_alloc;
mod hunt;
mod machine;
mod number;
mod paging;
mod prices;
mod qemu;
mod record;
mod reproduce;
mod run;
mod setting;
mod size;
mod time;
mod workload;

use std::path::PathBuf;

use clap::{Args as ArgGroup, Parser, Subcommand};
use framewright_lab::micro::instructions::Workload;

pub(crate) use fragmentation::{
    ChurnArgs, Contender as FragmentationContender, FragmentationArgs, FreeBy, Mix, ReplaceArgs,
    Types,
};
pub(crate) use high_alloc::{Flags as HighAllocFlags, HighAllocArgs};
pub(crate) use hunt::{HuntArgs, What, Which};
pub(crate) use machine::{Host, Machine, Qemu, simulated};
pub(crate) use paging::{CdnArgs, MmapReadArgs, PagingArgs, Readers as FileReaders};
pub(crate) use prices::PricesArgs;
pub(crate) use qemu::{BesideArgs, TlbProofArgs};
pub(crate) use record::{Buffer, RecordArgs};
pub(crate) use reproduce::ReproduceArgs;
pub(crate) use run::RunArgs;
pub(crate) use setting::Settings;
pub(crate) use size::Memory;
pub(crate) use workload::{FreeOrder, Machines, PageFaultArgs, Sharing, WorkloadArgs};

/// The page allocator that you can test before you ship: run it, replay a real kernel's requests
/// through it, compare its settings.
#[derive(Debug, Parser)]
#[command(name = "framewright", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  framewright replay recordings/sockets.txt.zst
      What a real kernel asked of its page allocator, asked of this one.
  framewright replay recordings/sockets.txt.zst --vs pcp.high_order_drain=every-free
      The same twice, side by side: percentages are gains over the first column.
  framewright record -- make
      What the kernel under your feet is asked while a command runs, to replay it.
  framewright run page-fault --machine host:2
      Two CPUs touch 128 MiB each, give it back, and again.
  framewright reproduce bulk-free
      A change that was published with figures, on simulated servers: does it do that here?
  framewright hunt
      Schedules that find bugs put in on purpose, and none in the code as it is.
  framewright tuning pcp
      What can be set, what it means, and where it comes from.
  framewright machines skx-2s-112
      A server with 112 CPUs: what things cost on it, and how we know.

Exit codes: 0 fine, 1 a check failed, 2 bad input.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a workload: on this machine's threads, on a simulated machine, or in a kernel on an emulated
    /// one
    #[command(subcommand, after_help = RUN_EXAMPLES)]
    Run(Run),
    /// Replay a recording of a real kernel's page allocations
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(ReplayArgs),
    /// Record what the running kernel's page allocator does
    #[command(after_help = record::EXAMPLES)]
    Record(RecordArgs),
    /// Do published results again, on simulated machines, and say whether they agree
    #[command(after_help = reproduce::EXAMPLES)]
    Reproduce(ReproduceArgs),
    /// Hunt concurrency bugs on simulated CPUs, schedule by schedule
    #[command(after_help = hunt::EXAMPLES)]
    Hunt(HuntArgs),
    /// List the settings: default, range, meaning, source
    #[command(after_help = TUNING_EXAMPLES)]
    Tuning(TuningArgs),
    /// List the simulated machines, or one with every parameter and where it comes from
    #[command(after_help = MACHINES_EXAMPLES)]
    Machines(MachinesArgs),
    /// Show which costs of a simulated machine the gain of each mechanism comes from
    #[command(after_help = prices::EXAMPLES)]
    Prices(PricesArgs),
}

const RUN_EXAMPLES: &str = "\
Examples:
  framewright run page-fault --machine host:2 --memory 2GiB
  framewright run page-fault --machine skx-2s-112
  framewright run kbuild --machine host:2
  framewright run mmap-read --set tlb.batching=off --vs tlb.batching=lazy
  framewright run high-alloc --flags thp --vs compact.method=scan
  framewright run alloc-micro --quick
  framewright run alloc-micro --instructions
  framewright run churn --quick
  framewright run large-memory --quick
  framewright run page-fault --machine qemu:4
  framewright run tlb-proof
  framewright run page-fault --vs pcp.bulk_free=select-under-lock --json result.json";

#[derive(Debug, Subcommand)]
pub(crate) enum Run {
    /// Bursts of 32,768 frames up, then down, every frame touched (will-it-scale's page_fault1)
    #[command(after_help = workload::PAGE_FAULT_EXAMPLES,
              mut_arg("machine", |machine| machine.help(workload::KERNEL_MACHINE)))]
    PageFault(PageFaultArgs),
    /// Compilers that fork, fault, write and exit: what exits do to the lists of a CPU
    #[command(after_help = workload::KBUILD_EXAMPLES,
              mut_arg("machine", |machine| machine.help(workload::KERNEL_MACHINE)))]
    Kbuild(WorkloadArgs),
    /// Blocks of orders 0 to 3 allocated on one CPU and freed on another (lmbench's bw_unix)
    #[command(after_help = workload::SOCKET_PAIRS_EXAMPLES)]
    SocketPairs(WorkloadArgs),
    /// Sparse files of ten times the memory, mapped and read once (vm-scalability's lru-file-mmap-read)
    #[command(after_help = paging::MMAP_READ_EXAMPLES,
              mut_arg("machine", |machine| machine.help(paging::MMAP_READ_MACHINE)),
              mut_arg("memory", |memory| memory.help(paging::MMAP_READ_MEMORY)))]
    MmapRead(MmapReadArgs),
    /// A cache server: random reads and stores through one mapping larger than memory, for days
    #[command(after_help = paging::CDN_EXAMPLES,
              mut_arg("machine", |machine| machine.value_parser(machine::simulated_machine)))]
    Cdn(CdnArgs),
    /// Huge pages asked of a machine that compiles, and of the same when it is idle (mmtests'
    /// stress-highalloc)
    #[command(after_help = high_alloc::EXAMPLES,
              mut_arg("seed", |seed| seed.help(high_alloc::SEED)),
              mut_arg("seeds", |seeds| seeds.help(high_alloc::SEEDS)),
              mut_arg("quick", |quick| quick.help(high_alloc::QUICK)))]
    HighAlloc(HighAllocArgs),
    /// On a kernel: what CPUs have cached is reached before a flush, and never after
    #[command(after_help = qemu::EXAMPLES)]
    TlbProof(TlbProofArgs),
    /// Nanoseconds per operation, beside other allocators and the floor
    AllocMicro(AllocMicroArgs),
    /// Huge pages that are left after millions of random allocations and frees, beside other allocators
    #[command(after_help = fragmentation::CHURN_EXAMPLES,
              mut_arg("seeds", |seeds| seeds.help(fragmentation::SEEDS)),
              mut_arg("quick", |quick| quick.help(fragmentation::CHURN_QUICK)))]
    Churn(ChurnArgs),
    /// Huge pages that form while every page gets another frame, again and again (LLFree's benchmark),
    /// beside other allocators
    #[command(after_help = fragmentation::REPLACE_EXAMPLES,
              mut_arg("seeds", |seeds| seeds.help(fragmentation::SEEDS)),
              mut_arg("quick", |quick| quick.help(fragmentation::REPLACE_QUICK)))]
    Replace(ReplaceArgs),
    /// A machine of 1 TiB on 4 nodes, as metadata only: start, hotplug, blocks up to 1 GiB,
    /// contiguous runs, node fallback
    #[command(after_help = LARGE_MEMORY_EXAMPLES)]
    LargeMemory(LargeMemoryArgs),
}

/// Where the result goes besides standard output.
#[derive(Debug, ArgGroup)]
pub(crate) struct JsonArgs {
    /// Write the result to this file, as JSON
    #[arg(long = "json", value_name = "FILE")]
    pub(crate) path: Option<PathBuf>,
}

#[derive(Debug, ArgGroup)]
pub(crate) struct AllocMicroArgs {
    /// Memory that each allocator manages, as in 4GiB or 512M [default: 4GiB; 1GiB if --quick]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) memory: Option<Memory>,
    /// A few rounds only: a look, not a measurement
    #[arg(long)]
    pub(crate) quick: bool,
    /// Count instructions (with valgrind's callgrind) instead of measuring time
    #[arg(long, conflicts_with_all = ["memory", "quick"])]
    pub(crate) instructions: bool,
    /// Count instructions of a kernel on an emulated machine: qemu:N
    #[arg(long, value_name = "MACHINE", conflicts_with_all = ["memory", "quick", "instructions"])]
    pub(crate) machine: Option<Qemu>,
    /// What the program starts itself with under callgrind
    #[arg(long, hide = true, value_name = "WORKLOAD")]
    pub(crate) counted: Option<Workload>,
    #[command(flatten)]
    pub(crate) json: JsonArgs,
}

const LARGE_MEMORY_EXAMPLES: &str = "\
Nothing stands behind the frames: what is made and measured are the books that an allocator keeps \
of them, some 100 bytes for each MiB, and the lists of CPUs. So a machine of 1 TiB fits into 250 MiB. \
Goals stand below the figures, with what was measured; with --quick they are not judged.

Examples:
  framewright run large-memory
      What is promised of a machine of 1 TiB on 4 nodes, and what is kept.
  framewright run large-memory --quick --memory 64GiB --nodes 2
      A smaller machine. The three zones that are compared have a 64th of it, a quarter, and all.
  framewright run large-memory --memory 8TiB --nodes 8 --cpus 512 --json large.json
      A larger one, in some 3 GiB.";

#[derive(Debug, ArgGroup)]
pub(crate) struct LargeMemoryArgs {
    /// Memory of the machine, as in 256GiB or 4TiB
    #[arg(long, value_name = "SIZE", default_value = "1TiB", allow_hyphen_values = true)]
    pub(crate) memory: Memory,
    /// Nodes that it is on, in equal shares
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) nodes: u8,
    /// CPUs, each with lists of its own for every zone [default: 16 of each node]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) cpus: Option<u16>,
    /// A few rounds only: a look, not a measurement
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) json: JsonArgs,
}

const REPLAY_EXAMPLES: &str = "\
A recording is ftrace or `perf script` text of the kmem events, plain or zstd. The kernel's tables \
at its start (NAME.before for NAME.txt or NAME.txt.zst) are used where they lie beside it.

Examples:
  framewright replay recordings/sockets.txt.zst
  framewright replay recordings/sockets.txt.zst --set pcp.batch=31 --vs pcp.batch=127
  framewright replay recordings/sockets.txt.zst --json sockets.json";

#[derive(Debug, ArgGroup)]
pub(crate) struct ReplayArgs {
    /// The recording
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
    /// The most to read from a pipe or a device, whose data is kept in memory
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size::bytes)]
    pub(crate) limit: u64,
    #[command(flatten)]
    pub(crate) settings: Settings,
    #[command(flatten)]
    pub(crate) json: JsonArgs,
}

const TUNING_EXAMPLES: &str = "\
Examples:
  framewright tuning                 all settings
  framewright tuning pcp             those of the per-CPU lists
  framewright tuning pcp.batch       this one";

#[derive(Debug, ArgGroup)]
pub(crate) struct TuningArgs {
    /// A setting, or the first part of its name
    #[arg(value_name = "KEY")]
    pub(crate) key: Option<String>,
}

const MACHINES_EXAMPLES: &str = "\
A machine is a TOML file: where its CPUs and its memory are, and what things cost on it. Every figure \
is measured (the note says where), fitted (the note says to what), or guessed.

Examples:
  framewright machines
      What there is; and uniform:N, a machine of N CPUs, one socket and node per 28.
  framewright machines skx-2s-112
      One of them: every parameter, its unit, its value, and where that comes from.
  framewright machines skx-2s-112 --toml
      The same as a file, which says what each means: change it, name it, and run it as
      --machine FILE.toml.";

#[derive(Debug, ArgGroup)]
pub(crate) struct MachinesArgs {
    /// A preset, uniform:N, or FILE.toml
    #[arg(value_name = "MACHINE")]
    pub(crate) machine: Option<String>,
    /// Print it as a file
    #[arg(long, requires = "machine")]
    pub(crate) toml: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Args::command().debug_assert();
    }
}
