//! The arguments of `run churn` and `run replace`, and their help.

use std::path::PathBuf;

use clap::{Args as ArgGroup, ValueEnum};
use framewright_lab::fragmentation::{FreeBy, Mix, Types};
use framewright_sim::machine::Spec;

use crate::args::{
    machine::Machine,
    run::RunArgs,
    values::{Memory, choice, whole},
};

/// The end of the help of `churn` and of `replace`: the command's own description, the description
/// of both, and examples.
macro_rules! with_examples {
    ($what:literal, $examples:literal) => {
        concat!(
            $what,
            " There is no memory behind the frames. The allocators run one after the other and get the same \
             calls. No allocator is drained during the run: the command counts free frames from \
             its own calls. One call in 7 is timed, and the time of reading the clock is subtracted. \
             cpu_ns_per_operation is the CPU time of this process: it includes the work of the command, \
             which is the same for all allocators. \
             Two or more threads are pinned to CPUs, with real-time priority if the system permits that. They are \
             not pinned if the process may use fewer CPUs. \
             With one thread, the same arguments give the same counts.\n\n\
             On a simulated machine (--machine), every CPU takes the place of a thread; with --free-by other it sends \
             its blocks to the next CPU, which frees them. The allocator's \
             work takes the time of a model. Between two operations a CPU works as long as it takes to clear a page, or \
             for --think. All figures are the same on every run; zone_lock_wait_pct is the share of CPU time that waits \
             for zone locks. The \
             library and list-buddy have such a model.\n\n\
             The other allocators have no watermarks. The library has none here either, unless --set or \
             --vs names zone.min_free or zone.watermark_scale. frame-alloc-depot and \
             buddy_system_allocator ignore migratetypes.\n\nExamples:\n",
            $examples
        )
    };
}

pub(crate) const CHURN_EXAMPLES: &str = with_examples!(
    "Random blocks are allocated up to the occupancy. Then each operation allocates a block or frees a \
     random one, with equal probability. The occupancy falls by at most half a percent of memory. At the \
     end huge pages are allocated until one is refused (order9_allocatable), and again after a drain of all \
     CPU lists (order9_after_drain); order9_ideal is the number of free frames divided by 512. \
     huge_frames_free counts aligned ranges of 512 free frames, 20 times during the run: the huge pages that a drain \
     of all CPU lists would make allocatable. huge_frames_kept_pct is the mean of the last tenth in percent of the \
     mean of the second tenth. Latencies include those of refused requests.",
    "  framewright run churn --quick
      A short run: 1 GiB, a million operations, 80 % in use.
  framewright run churn --occupancy 70,80,90 --seeds 3
      Three occupancies, medians of three seeds: some minutes.
  framewright run churn --mix small --vs zone.bulk_take=one-by-one
      Orders 0 to 4 only, with two settings.
  framewright run churn --types mixed --picture churn.svg
      Unmovable allocations among the movable ones, drawn over time.
  framewright run churn --operations 1e9 --contenders framewright --picture churn.svg
      A billion operations, some minutes: whether the free huge pages become fewer.
  framewright run churn --threads 2 --free-by other
      Two CPUs, each of which frees what the other allocated.
  framewright run churn --machine uniform:16 --quick
      16 simulated CPUs: also the waits for the zone lock."
);

pub(crate) const REPLACE_EXAMPLES: &str = with_examples!(
    "All memory is allocated in single pages, and a random share of them is freed. Then each round \
     replaces every page once, in random order: it frees one page and allocates another. \
     huge_frames_free counts aligned ranges of 512 free frames.",
    "  framewright run replace --quick
      A short run: 1 GiB, half of it free, 16 rounds.
  framewright run replace --free 50,90,20 --contenders framewright,list-buddy
      Three shares of free memory, two allocators: some minutes.
  framewright run replace --batch 1024
      1,024 pages are freed before as many are allocated.
  framewright run replace --rounds 32 --picture replace.svg
      The free huge frames after each round, as a picture.
  framewright run replace --machine uniform:64 --free-by other --batch 1024
      64 simulated CPUs, each of which frees the pages of another.
  framewright run replace --machine uniform:64 --vs zone.refill_pageblocks=64
      64 simulated CPUs: the huge frames beside the waits for the zone lock, with two settings."
);

/// Help of `--seeds`.
pub(crate) const SEEDS: &str = "Run this many seeds, from --seed on, and show medians, 95 % confidence intervals of means (Student's t), and \
     p-values of differences from the first column (U test of Mann and Whitney)";

/// Help of `run churn --quick`.
pub(crate) const CHURN_QUICK: &str =
    "Short run: 1 GiB and a million operations, unless they are given. Do not quote its figures";

/// Help of `run replace --quick`.
pub(crate) const REPLACE_QUICK: &str =
    "Short run: 1 GiB and 16 rounds, unless they are given. Do not quote its figures";

/// The arguments of `run churn`.
#[derive(Debug, ArgGroup)]
pub(crate) struct ChurnArgs {
    /// Memory in use, in percent; several values separated by commas
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_value = "80",
          value_parser = clap::value_parser!(u8).range(1..=99))]
    pub(crate) occupancy: Vec<u8>,
    /// Orders of the blocks
    #[arg(long, value_name = "MIX", default_value_t, value_parser = choice::<Mix>())]
    pub(crate) mix: Mix,
    /// Allocations and frees in all, as in 16M or 1e9 [default: 16M; 1M if --quick]
    #[arg(long, value_name = "N", value_parser = operations)]
    pub(crate) operations: Option<u64>,
    #[command(flatten)]
    pub(crate) common: FragmentationArgs,
}

/// The arguments of `run replace`.
#[derive(Debug, ArgGroup)]
pub(crate) struct ReplaceArgs {
    /// Free memory, in percent; several values separated by commas
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_value = "50",
          value_parser = clap::value_parser!(u8).range(1..=99))]
    pub(crate) free: Vec<u8>,
    /// Rounds, in each of which every page is replaced [default: 128; 16 if --quick, or on a
    /// simulated machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rounds: Option<u32>,
    /// Pages that are freed before the same number is allocated
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub(crate) batch: u32,
    #[command(flatten)]
    pub(crate) common: FragmentationArgs,
}

/// The arguments that `churn` and `replace` have in common.
#[derive(Debug, ArgGroup)]
pub(crate) struct FragmentationArgs {
    /// Memory that each allocator manages, as in 4GiB or 512M [default: 4GiB; 1GiB if --quick; on
    /// simulated machines at least 16MiB for each CPU]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) memory: Option<Memory>,
    /// Threads, each a CPU with an equal share of memory and work
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "machine",
          value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) threads: u16,
    /// uniform:N, a name that `framewright machines` lists, or FILE.toml: simulated CPUs instead of
    /// threads; host:N: N threads
    #[arg(long)]
    pub(crate) machine: Option<Machine>,
    /// Simulated machines: modelled nanoseconds between two operations of a CPU [default: the time in
    /// which the machine clears a page]
    #[arg(long, value_name = "NS", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pub(crate) think: Option<u64>,
    /// Migratetypes of the blocks
    #[arg(long, value_name = "TYPES", default_value_t, value_parser = choice::<Types>())]
    pub(crate) types: Types,
    /// The CPU that frees a block
    #[arg(long, value_name = "CPU", default_value_t, value_parser = choice::<FreeBy>())]
    pub(crate) free_by: FreeBy,
    /// Allocators to compare, separated by commas [default: all, on simulated machines the first
    /// two]
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    pub(crate) contenders: Vec<Name>,
    /// Draw the free huge frames over time into this file, as SVG
    #[arg(long, value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// The name of an allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "verbatim")]
pub(crate) enum Name {
    #[value(name = "framewright")]
    Framewright,
    #[value(name = "list-buddy")]
    ListBuddy,
    #[value(name = "frame-alloc-depot")]
    FrameAllocDepot,
    #[value(name = "buddy_system_allocator")]
    BuddySystemAllocator,
}

/// A number of operations, with a decimal unit or a power of ten.
fn operations(text: &str) -> Result<u64, String> {
    const MOST: u64 = 1_000_000_000_000;
    const UNITS: [(char, u64); 3] = [('k', 1_000), ('M', 1_000_000), ('G', 1_000_000_000)];
    let unit = UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(*name)?, *unit)));
    let power = || {
        let (digits, power) = text.split_once('e')?;
        Some((digits, 10_u64.checked_pow(whole(power)?)?))
    };
    let (digits, unit) = unit.or_else(power).unwrap_or((text, 1));
    whole::<u64>(digits)
        .and_then(|number| number.checked_mul(unit))
        .filter(|number| (1..=MOST).contains(number))
        .ok_or_else(|| "a number of operations is 1 to 1000G, as in 16M, 250k or 1e9".to_owned())
}

impl FragmentationArgs {
    /// The simulated machine, if it is one.
    pub(super) fn simulated(&self) -> Option<&Spec> {
        match &self.machine {
            Some(Machine::Simulated(spec, _)) => Some(spec),
            _ => None,
        }
    }

    /// The allocators to compare.
    pub(super) fn contenders(&self) -> &[Name] {
        match (&self.contenders[..], self.simulated()) {
            ([], None) => Name::value_variants(),
            ([], Some(_)) => &[Name::Framewright, Name::ListBuddy],
            (named, _) => named,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_decimal_units() {
        for (text, number) in [
            ("7", 7),
            ("250k", 250_000),
            ("16M", 16_000_000),
            ("1G", 1_000_000_000),
            ("5e3", 5000),
            ("1e9", 1_000_000_000),
        ] {
            assert_eq!(operations(text), Ok(number));
        }
        for text in [
            "",
            "0",
            "M",
            "-1",
            "16m",
            "1.5M",
            "1001G",
            "99999999999999999999G",
            "1e13",
            "1e99",
            "e9",
            "1e",
            "1e-3",
            "1.5e3",
            "1e3k",
        ] {
            assert!(operations(text).unwrap_err().contains("as in 16M"), "{text}");
        }
    }
}
