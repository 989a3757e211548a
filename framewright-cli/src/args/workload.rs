//! What workloads take: where they run, for how long, with which lists.

use std::{path::PathBuf, str::FromStr};

use clap::{Args as ArgGroup, ValueEnum};
use framewright_lab::simulated::ListSizes;

use super::{BesideArgs, Machine, Memory, RunArgs, number::whole, time};

/// What stands before the examples of each.
macro_rules! with_examples {
    ($examples:literal) => {
        concat!(
            "On a simulated machine the library and the classic design, list-buddy, run one after \
             the other, each by a clock of its own: figures of time are a model's (`framewright \
             machines NAME` says where every parameter comes from), counts are what the code did. \
             The same command gives the same bytes.\n\nExamples:\n",
            $examples
        )
    };
}

pub(super) const PAGE_FAULT_EXAMPLES: &str = with_examples!(
    "  framewright run page-fault --machine host:2
      Two threads touch 128 MiB each, give it back, and again.
  framewright run page-fault --machine skx-2s-112 --lists 31/186 --free-order random
      112 simulated CPUs, both designs with the list sizes of 2018.
  framewright run page-fault --machine uniform:1..512 --svg scaling.svg
      The same on 1, 2, 4, ... 512 CPUs, as series.
  framewright run page-fault --machine qemu:4 --sharing shared
      A kernel on an emulated machine: page tables, faults and interrupts that hardware makes. Times
      under emulation rank nothing; instructions are counted in a boot of their own.
  framewright run page-fault --machine qemu:1 --quick --beside linux
      The distribution's kernel does the same on the same machine: instructions by group."
);

pub(super) const KBUILD_EXAMPLES: &str = with_examples!(
    "  framewright run kbuild --machine host:2
      Two threads make, share and tear down processes.
  framewright run kbuild --machine qemu:4
      A kernel on an emulated machine: address spaces that come and go, files in its page cache.
  framewright run kbuild --machine spr-2s-224 --vs pcp.high_order_drain=every-free --seeds 3
      What a rule of Linux 5.18 to 6.6 does to eight kernel builds on 224 simulated CPUs."
);

pub(super) const SOCKET_PAIRS_EXAMPLES: &str = with_examples!(
    "  framewright run socket-pairs --machine host:2
      A writer and a reader.
  framewright run socket-pairs --machine icx-2s-128 --vs pcp.high_order_drain=every-free
      64 pairs on 128 simulated CPUs, with and without a rule of Linux 5.18 to 6.6."
);

/// Where it runs: here also in a kernel.
pub(super) const KERNEL_MACHINE: &str = "\
host, host:N with N threads; uniform:N, a name that `framewright machines` lists, or FILE.toml; \
uniform:A..B or uniform:A,B,... for machines of many sizes; qemu:CPUS[,MEMORY[,NODES]] for a kernel on \
an emulated machine";

#[derive(Debug, ArgGroup)]
pub(crate) struct PageFaultArgs {
    /// In which order frames are freed
    #[arg(long, alias = "free", value_enum, value_name = "ORDER", default_value_t)]
    pub(crate) free_order: FreeOrder,
    /// On qemu: each CPU in an address space of its own, or all in one
    #[arg(long, value_enum, value_name = "HOW", default_value_t)]
    pub(crate) sharing: Sharing,
    #[command(flatten)]
    pub(crate) beside: BesideArgs,
    #[command(flatten)]
    pub(crate) common: WorkloadArgs,
}

#[derive(Debug, ArgGroup)]
pub(crate) struct WorkloadArgs {
    /// host, host:N with N threads; uniform:N, a name that `framewright machines` lists, or FILE.toml;
    /// uniform:A..B or uniform:A,B,... for machines of many sizes
    #[arg(long, default_value = "host")]
    pub(crate) machine: Machines,
    /// Memory to manage, as in 4GiB or 512M [default: on threads half as much again as the work
    /// holds, else all that the machine has]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) memory: Option<Memory>,
    /// Simulated machines: frames per batch and on a CPU's lists, for both designs, as in 31/186
    #[arg(long, value_name = "BATCH/HIGH")]
    pub(crate) lists: Option<Lists>,
    /// Simulated machines: virtual time that figures are taken from, as in 50ms [default: 50ms,
    /// kbuild 200ms; longer on less than 64 CPUs]
    #[arg(long, value_name = "TIME", value_parser = time::window)]
    pub(crate) window: Option<u64>,
    /// Simulated machines: virtual time before that [default: 20ms; kbuild 60ms]
    #[arg(long, value_name = "TIME", value_parser = time::warm_up)]
    pub(crate) warm_up: Option<u64>,
    /// Machines of many sizes (uniform:A..B): draw throughput and waiting into this file, as SVG
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Which CPUs share an address space.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Sharing {
    /// None, as processes
    #[default]
    Private,
    /// All, as threads
    Shared,
}

/// In which order a burst is freed.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum FreeOrder {
    /// As it was mapped
    #[default]
    Mapping,
    /// At random
    Random,
}

/// One machine, or uniform ones of many sizes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Machines {
    One(Machine),
    /// CPUs of each.
    Uniform(Vec<u16>),
}

impl FromStr for Machines {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("uniform:") {
            Some(sizes) if sizes.contains("..") || sizes.contains(',') => {
                series(sizes).map(Self::Uniform)
            }
            _ => text.parse().map(Self::One),
        }
    }
}

/// Sizes of machines: `A..B` doubles from A, and ends with B.
fn series(text: &str) -> Result<Vec<u16>, String> {
    const MOST: u16 = 512;
    let bad = || {
        format!(
            "uniform:A..B and uniform:A,B,... take 1 to {MOST} CPUs, smaller ones first, as in \
             uniform:1..512 or uniform:1,28,56"
        )
    };
    let size = |text: &str| match whole(text.trim()) {
        Some(size @ 1..=MOST) => Ok(size),
        _ => Err(bad()),
    };
    let sizes: Vec<u16> = match text.split_once("..") {
        Some((first, last)) => {
            let (first, last) = (size(first)?, size(last)?);
            if first > last {
                return Err(bad());
            }
            let doubled = std::iter::successors(Some(first), |size| size.checked_mul(2));
            doubled.take_while(|size| *size < last).chain([last]).collect()
        }
        None => text.split(',').map(size).collect::<Result<_, _>>()?,
    };
    if sizes.is_sorted_by(|a, b| a < b) { Ok(sizes) } else { Err(bad()) }
}

/// List sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lists(pub(crate) ListSizes);

impl FromStr for Lists {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sizes = text
            .split_once('/')
            .and_then(|(batch, high)| Some(ListSizes { batch: whole(batch)?, high: whole(high)? }));
        match sizes {
            Some(sizes @ ListSizes { batch: 1..=1024, high }) if high >= 4 * sizes.batch => {
                Ok(Self(sizes))
            }
            _ => Err("BATCH/HIGH takes a batch of 1 to 1024 frames and lists of at least four \
                      batches, as in 31/186"
                .to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str) -> Vec<u16> {
        match text.parse() {
            Ok(Machines::Uniform(sizes)) => sizes,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn ranges_double_and_end_where_they_should() {
        assert_eq!(sizes("uniform:1..512"), [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
        assert_eq!(sizes("uniform:3..20"), [3, 6, 12, 20]);
        assert_eq!(sizes("uniform:7..7"), [7]);
        assert_eq!(sizes("uniform:1,28,56"), [1, 28, 56]);
        assert!(matches!("uniform:4".parse(), Ok(Machines::One(_))));
    }

    #[test]
    fn ranges_that_are_none_are_refused() {
        for text in [
            "uniform:0..4",
            "uniform:8..4",
            "uniform:1..1000",
            "uniform:1,,2",
            "uniform:4,2",
            "uniform:+1..4",
            "uniform:..",
            "uniform:,",
        ] {
            let error = text.parse::<Machines>().unwrap_err();
            assert!(error.contains("as in uniform:1..512"), "{text}: {error}");
        }
    }

    #[test]
    fn lists_hold_at_least_four_batches() {
        assert_eq!("31/186".parse(), Ok(Lists(ListSizes { batch: 31, high: 186 })));
        for text in ["31", "31/", "0/10", "63/186", "31/x", "-1/4", "+31/186", "2000/10000"] {
            assert!(text.parse::<Lists>().unwrap_err().contains("as in 31/186"), "{text}");
        }
    }
}
