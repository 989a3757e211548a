//! What `run high-alloc` takes.

use std::path::PathBuf;

use clap::{Args as ArgGroup, ValueEnum};

use super::{Machine, Memory, RunArgs};

pub(crate) const EXAMPLES: &str = "\
Builders compile while one thread asks for 95 % of memory in huge pages of 2 MiB, one every 125 ms, and \
keeps them until the pass ends: twice under load (success1, success2), and once when builders, trees \
and caches are gone (success3). `achievable` is what an oracle says that knows where everything is. \
On a simulated machine figures of time are a model's, counts are what the code did, and the same \
command gives the same bytes. The last CPU asks, and does the kernel's own work in between; builders have \
the others, the last of which goes on with that work while a request waits. \
On threads the same is done to real memory: every word of a page is looked at when it has moved; times are \
real, and the course goes by 16 times as fast: some 15 s for 512 MiB, 4 s with --quick. \
On qemu a kernel does it, with real page tables: work, not time, stands between two requests.

Examples:
  framewright run high-alloc --seeds 10
      By index, which is the default, ten times.
  framewright run high-alloc --flags thp --set compact.method=scan --vs compact.method=index
      One attempt, nobody woken: by scanning frames, and by index.
  framewright run high-alloc --set compact.method=scan --vs compact.repair.detect_meeting=off
      What one repair of 2013 is worth.
  framewright run high-alloc --flags thp --vs compact.method=scan --picture memory.svg
      Memory with both, a cell per pageblock.
  framewright run high-alloc --from recordings/compile.before --vs compact.method=scan
      Memory begins as that of a real machine was: as much in use by the kernel, by files and by
      programs, and what is free in blocks as large. Shares are its, sizes this machine's.
  framewright run high-alloc --memory 4GiB --machine uniform:8
      A larger machine. With 4 CPUs each GiB takes a processor some six seconds, two with --quick,
      and 16 MiB of this machine's memory: 16GiB 95 seconds, 27 with --quick; 256GiB --quick eleven
      minutes, and 4 GiB. There is a builder for each 400 MiB; those without a CPU of their own take
      turns: during a pass as much is built for each GiB as on a small machine, but less before it.
  framewright run high-alloc --machine host:2 --flags thp --vs compact.method=scan
      Threads over real memory, one method after the other.
  framewright run high-alloc --machine qemu:4,256MiB
      A kernel on an emulated machine: pages move under programs that use them.";

/// What `run high-alloc` takes.
#[derive(Debug, ArgGroup)]
pub(crate) struct HighAllocArgs {
    /// What a request for a huge page may do
    #[arg(long, value_enum, value_name = "FLAGS", default_value_t)]
    pub(crate) flags: Flags,
    /// uniform:N, a name that `framewright machines` lists, or FILE.toml; host:N with N threads that build;
    /// qemu:CPUS[,MEMORY[,NODES]] for a kernel on an emulated machine
    #[arg(long, default_value = "uniform:4")]
    pub(crate) machine: Machine,
    /// Memory, as in 4GiB [default: 1GiB; on threads 512MiB, or 256MiB with --quick]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) memory: Option<Memory>,
    /// Simulated machines: begin with memory as it was on a real machine: a file of the kernel's tables, as recordings have
    /// beside them (NAME.before) [default: all of it is free]
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Simulated machines: draw memory into this file, a cell per pageblock, or per few of them where there are
    /// many: before, after, and over time; of several runs, the one with the first seed
    #[arg(long, value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// What chance is here.
pub(super) const SEED: &str = "Seed of everything left to chance; on threads, of what builders do";

/// What several are here.
pub(super) const SEEDS: &str =
    "As many seeds, from that one on: runs, one after the other on threads";

/// What a look is here.
pub(super) const QUICK: &str =
    "A look: a request every 25 ms, so a fifth of the load between two of them";

/// What a request may do.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Flags {
    /// Reclaim, compact, and wake who does it in the background
    #[default]
    Default,
    /// The same once, waking nobody: as for transparent huge pages
    Thp,
}
