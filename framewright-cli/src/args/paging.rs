//! What workloads on pages of files take.

use std::{path::PathBuf, str::FromStr};

use clap::{Args as ArgGroup, ValueEnum};

use super::{BesideArgs, Machine, Memory, RunArgs, number::whole};

/// What stands before the examples of each.
macro_rules! with_examples {
    ($where:literal, $examples:literal) => {
        concat!(
            "This workload touches more than there is memory for, so that reclaim has to find what \
             can go, take it out of page tables, and make every CPU forget it. ",
            $where,
            "\n\nMemory is small here, so that a run takes seconds: what counts is how often it turns \
             over.\n\nExamples:\n",
            $examples
        )
    };
}

/// Where it runs: not only where other workloads on pages of files do.
pub(super) const MMAP_READ_MACHINE: &str = "\
uniform:N, a name that `framewright machines` lists, or FILE.toml; host:N with N threads over real memory; \
qemu:CPUS[,MEMORY[,NODES]] for a kernel on an emulated machine";

/// How much memory there is.
pub(super) const MMAP_READ_MEMORY: &str = "\
Memory of the machine, as in 1GiB [default: 16 MiB per CPU, and at least 64 MiB; on a host 512 MiB; on \
qemu it is a part of the machine]";

pub(super) const MMAP_READ_EXAMPLES: &str = with_examples!(
    "On a simulated machine figures of time are a model's, counts are what the code did, and the same \
     command gives the same bytes. On host:N memory, files and interrupts are real, and on qemu:N page \
     tables and interrupts are: no two runs are the same.",
    "  framewright run mmap-read --machine uniform:4 --set tlb.batching=off --vs tlb.batching=all
      Interrupts per reclaimed page, without and with batches.
  framewright run mmap-read --readers threads --machine uniform:8 --memory 512MiB
      Every page may be cached by every CPU: the shape of a cache server.
  framewright run mmap-read --machine host:1 --set tlb.batching=off --vs tlb.batching=lazy
      No model: real memory, real files, and the kernel's interrupts, as it counts them.
  framewright run mmap-read --machine qemu:4,128MiB --readers threads
      A kernel of our own on an emulated machine, which reads half as much again as memory, twice."
);

pub(super) const CDN_EXAMPLES: &str = with_examples!(
    "The machine is simulated: figures of time are a model's, counts are what the code did. The same \
     command gives the same bytes.",
    "  framewright run cdn --machine uniform:16 --memory 64MiB --days 1 --svg day.svg
      A cache server for a day: does it fade?
  framewright run cdn --huge 160 --days 0.1 --memory 256MiB --vs zone.huge_reserve=0
      One request in 160 is for an object of 2 MiB, a tenth of what is sent: huge pages are wanted where
      pages of files turn over. How many are had without a stall, before any were kept ready, and by
      default?"
);

/// What `run mmap-read` takes.
#[derive(Debug, ArgGroup)]
pub(crate) struct MmapReadArgs {
    /// Processes that map a file each, or threads that share one mapping
    #[arg(long, value_enum, value_name = "WHO", default_value_t)]
    pub(crate) readers: Readers,
    /// How much is read in all, in multiples of memory
    #[arg(long, value_name = "N", default_value_t = Self::TIMES,
          value_parser = clap::value_parser!(u32).range(2..=100))]
    pub(crate) times: u32,
    /// Solid-state disks that the files are on; 0: they consist of holes, as in the benchmark
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(..=1000))]
    pub(crate) disks: u32,
    #[command(flatten)]
    pub(crate) beside: BesideArgs,
    #[command(flatten)]
    pub(crate) common: PagingArgs,
}

impl MmapReadArgs {
    /// Multiples of memory, unless it is said.
    pub(crate) const TIMES: u32 = 10;
}

/// What `run cdn` takes.
#[derive(Debug, ArgGroup)]
pub(crate) struct CdnArgs {
    /// How long: a day is 2,500 turnovers of memory
    #[arg(long, value_name = "DAYS", default_value = "1")]
    pub(crate) days: Days,
    /// Requests that store something new, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5,
          value_parser = clap::value_parser!(u8).range(..=100))]
    pub(crate) writes: u8,
    /// Size of the file, in multiples of memory
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(2..=100))]
    pub(crate) times: u32,
    /// Requests under way at once, per CPU
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: u16,
    /// One request in so many is for an object of 2 MiB, kept in a huge page of its own until it expires
    /// [default: none is]
    #[arg(long, value_name = "ONE_IN", value_parser = one_in)]
    pub(crate) huge: Option<u32>,
    #[command(flatten)]
    pub(crate) common: PagingArgs,
}

/// What both take.
#[derive(Debug, ArgGroup)]
pub(crate) struct PagingArgs {
    /// uniform:N, a name that `framewright machines` lists, or FILE.toml
    #[arg(long, default_value = "uniform:4")]
    pub(crate) machine: Machine,
    /// Memory of the machine, as in 1GiB [default: 16 MiB per CPU, and at least 64 MiB]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, value_parser = memory)]
    pub(crate) memory: Option<Memory>,
    /// Draw what happened over time into this file, as SVG
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Memory that turns over within a time that anybody waits.
fn memory(text: &str) -> Result<Memory, String> {
    let memory: Memory = text.parse()?;
    if memory.frames() > MOST_FRAMES {
        let reason = "every GiB takes a processor some 3 seconds to be read ten times";
        return Err(format!("the most there can be is {MOST_MEMORY}: {reason}"));
    }
    Ok(memory)
}

/// One request in so many.
fn one_in(text: &str) -> Result<u32, String> {
    match whole(text) {
        Some(one_in @ 1..=1_000_000) => Ok(one_in),
        _ => Err("it takes 1 to 1000000, as in 160".to_owned()),
    }
}

/// 64 GiB: minutes of a run, and 1.5 GiB of what a simulation knows of pages.
const MOST_FRAMES: u64 = 64 << 18;
const MOST_MEMORY: &str = "64GiB";

/// Who reads.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Readers {
    /// A process per CPU, each with a file of its own
    #[default]
    Processes,
    /// A thread per CPU, all with one mapping of one file
    Threads,
}

/// Days, to the hundredth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Days {
    pub(crate) hundredths: u32,
}

impl FromStr for Days {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const MOST: f64 = 365.0;
        match text.parse::<f64>() {
            Ok(days) if (0.01..=MOST).contains(&days) => {
                Ok(Self { hundredths: (days * 100.0).round() as u32 })
            }
            _ => Err("it takes 0.01 to 365 days, as in 0.25 or 7".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_turns_over_in_minutes() {
        assert_eq!(memory(MOST_MEMORY).map(Memory::frames), Ok(MOST_FRAMES));
        for (text, hint) in [("8TiB", "the most there can be is 64GiB"), ("1", "the least")] {
            assert!(memory(text).unwrap_err().contains(hint), "{text}");
        }
    }

    #[test]
    fn one_request_in_many_has_bounds() {
        assert_eq!([one_in("1"), one_in("1000000")], [Ok(1), Ok(1_000_000)]);
        for text in ["", "0", "1000001", "-1", "zzz", "1.5"] {
            assert!(one_in(text).unwrap_err().contains("1 to 1000000, as in 160"), "{text}");
        }
    }

    #[test]
    fn days_have_hundredths_and_bounds() {
        let hundredths = |text: &str| text.parse::<Days>().map(|days| days.hundredths);
        assert_eq!([hundredths("7"), hundredths("0.25")], [Ok(700), Ok(25)]);
        for text in ["", "0", "0.001", "-1", "366", "a day", "nan", "inf"] {
            assert!(hundredths(text).unwrap_err().contains("0.01 to 365 days"), "{text}");
        }
    }
}
