//! What workloads take that are for a kernel alone.

use std::path::PathBuf;

use clap::{Args as ArgGroup, ValueEnum};
use framewright_lab::qemu::BesideLinux;

use super::{JsonArgs, Qemu, Settings};

pub(crate) const EXAMPLES: &str = "\
One CPU unmaps pages that all others have read. Before the flush they still read the frame; after it, when \
the frame has another owner, no CPU reaches it. What is broken on purpose has to be found out: exit code 1.

Examples:
  framewright run tlb-proof --machine qemu:4
  framewright run tlb-proof --machine qemu:8 --break cpu
      One CPU is left out of every flush.";

#[derive(Debug, ArgGroup)]
pub(crate) struct TlbProofArgs {
    /// The machine: qemu:CPUS[,MEMORY[,NODES]], at least two CPUs
    #[arg(long, default_value = "qemu:4")]
    pub(crate) machine: Qemu,
    /// Break something, to see that it is found out
    #[arg(long = "break", value_enum, value_name = "WHAT")]
    pub(crate) broken: Option<Broken>,
    /// Pages that are unmapped, one after the other
    #[arg(long, value_name = "N", default_value_t = 200,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) trials: u32,
    #[command(flatten)]
    pub(crate) settings: Settings,
    #[command(flatten)]
    pub(crate) json: JsonArgs,
}

/// What can be broken.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Broken {
    /// CPUs say that they have forgotten, and have not
    Flush,
    /// One CPU is left out
    Cpu,
    /// The frame is free before the flush
    Reuse,
}

impl Broken {
    /// What the kernel calls it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Cpu => "cpu",
            Self::Reuse => "reuse",
        }
    }
}

/// What runs beside a kernel on an emulated machine.
#[derive(Debug, ArgGroup)]
pub(crate) struct BesideArgs {
    /// On qemu: run a distribution's kernel beside, on the same emulated machine: counts, no times
    #[arg(long, value_enum, value_name = "PEER")]
    beside: Option<Peer>,
    /// The kernel of --beside linux, a vmlinuz [default: that of the distribution's package, which is
    /// downloaded]
    #[arg(long, value_name = "FILE", requires = "beside")]
    linux: Option<PathBuf>,
}

impl BesideArgs {
    /// The Linux that is asked for.
    pub(crate) fn linux(&self) -> Option<BesideLinux> {
        self.beside.map(|Peer::Linux| BesideLinux { kernel: self.linux.clone() })
    }
}

/// What can run beside.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Peer {
    /// The kernel that the distribution ships
    Linux,
}
