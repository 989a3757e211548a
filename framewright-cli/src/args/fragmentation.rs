//! The arguments of `run churn` and `run replace`.

use std::path::PathBuf;

use clap::{Args as ArgGroup, ValueEnum};

use super::{Memory, RunArgs, number::whole};

/// The text before the examples of each.
macro_rules! with_examples {
    ($what:literal, $examples:literal) => {
        concat!(
            $what,
            " Nothing stands behind the frames; every allocator gets the same calls, one after the \
             other. No allocator is asked or drained on the way: the command counts free frames from \
             its own calls. One call in 7 is timed, and the time of reading the clock is subtracted; \
             cpu_ns_per_operation is CPU time, which includes the command's own work, the same for all, \
             but not that of other programs. \
             With one thread, all counts are the same for the same arguments.\n\n\
             The library has no watermarks here, as the others have none, unless --set or --vs names \
             zone.min_free or zone.watermark_scale. frame-alloc-depot and buddy_system_allocator know \
             no migratetypes.\n\nExamples:\n",
            $examples
        )
    };
}

pub(super) const CHURN_EXAMPLES: &str = with_examples!(
    "Random blocks are allocated up to the occupancy. Then a coin decides between an allocation and \
     the free of a random block, at most half a percent of memory below the occupancy. At the end huge pages are \
     allocated until one is refused (order9_allocatable), after a drain of all lists of CPUs again \
     (order9_after_drain); order9_ideal are those that the free frames would make. Latencies include \
     requests that were refused.",
    "  framewright run churn --quick
      A look: 1 GiB, a million operations, 80 % in use.
  framewright run churn --occupancy 70,80,90 --seeds 3
      Three occupancies, medians of three seeds: some minutes.
  framewright run churn --mix small --vs zone.bulk_take=one-by-one
      Orders 0 to 4 alone, and what a setting does.
  framewright run churn --types mixed --picture churn.svg
      Kernel allocations among the movable ones, drawn over time.
  framewright run churn --threads 2 --free-by other
      Two CPUs, each of which frees what the other allocated."
);

pub(super) const REPLACE_EXAMPLES: &str = with_examples!(
    "All memory is allocated in single pages, and a random share of them freed. Then every page is \
     replaced once per round, in random order: one is freed, one is allocated. huge_frames_free are \
     aligned ranges of 512 frames of which none is allocated.",
    "  framewright run replace --quick
      A look: 1 GiB, half of it free, 16 rounds.
  framewright run replace --free 50,90,20 --contenders framewright,list-buddy
      Three shares of free memory, two allocators: some minutes.
  framewright run replace --batch 1024
      1,024 pages are freed before as many are allocated.
  framewright run replace --rounds 32 --picture replace.svg
      How it goes on from round to round."
);

/// Help of `--seeds`.
pub(super) const SEEDS: &str = "As many seeds, from that one on; figures are medians";

/// Help of `--quick`.
pub(super) const CHURN_QUICK: &str =
    "A look, not a measurement: 1 GiB and a million operations, unless they are given";

/// Help of `--quick`.
pub(super) const REPLACE_QUICK: &str =
    "A look, not a measurement: 1 GiB and 16 rounds, unless they are given";

/// The arguments of `run churn`.
#[derive(Debug, ArgGroup)]
pub(crate) struct ChurnArgs {
    /// Memory in use, in percent; several by comma
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_value = "80",
          value_parser = clap::value_parser!(u8).range(1..=99))]
    pub(crate) occupancy: Vec<u8>,
    /// Orders of the blocks
    #[arg(long, value_enum, value_name = "MIX", default_value_t)]
    pub(crate) mix: Mix,
    /// Allocations and frees in all, as in 16M [default: 16M; 1M if --quick]
    #[arg(long, value_name = "N", value_parser = operations)]
    pub(crate) operations: Option<u64>,
    #[command(flatten)]
    pub(crate) common: FragmentationArgs,
}

/// The arguments of `run replace`.
#[derive(Debug, ArgGroup)]
pub(crate) struct ReplaceArgs {
    /// Memory that is free, in percent; several by comma
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_value = "50",
          value_parser = clap::value_parser!(u8).range(1..=99))]
    pub(crate) free: Vec<u8>,
    /// How often every page is replaced [default: 128; 16 if --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rounds: Option<u32>,
    /// Pages that are freed before as many are allocated
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub(crate) batch: u32,
    #[command(flatten)]
    pub(crate) common: FragmentationArgs,
}

/// The arguments of both.
#[derive(Debug, ArgGroup)]
pub(crate) struct FragmentationArgs {
    /// Memory that each allocator manages, as in 4GiB or 512M [default: 4GiB; 1GiB if --quick]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) memory: Option<Memory>,
    /// Threads, each a CPU with an equal share of memory and work
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) threads: u16,
    /// Migratetypes of the blocks
    #[arg(long, value_enum, value_name = "TYPES", default_value_t)]
    pub(crate) types: Types,
    /// The CPU that frees a block
    #[arg(long, value_enum, value_name = "CPU", default_value_t)]
    pub(crate) free_by: FreeBy,
    /// Allocators that take part, by comma [default: all]
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',', hide_default_value = true,
          default_values_t = [Contender::Framewright, Contender::ListBuddy,
                              Contender::FrameAllocDepot, Contender::BuddySystemAllocator])]
    pub(crate) contenders: Vec<Contender>,
    /// Draw the free huge frames over time into this file, as SVG
    #[arg(long, value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Orders of the blocks.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Mix {
    /// 0 to 4, small ones more often
    Small,
    /// The same, and one block in 512 is of order 9
    #[default]
    Mixed,
}

/// Migratetypes of the blocks.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Types {
    /// All are movable
    #[default]
    Movable,
    /// 5 % are unmovable, 15 % reclaimable; huge pages are movable
    Mixed,
}

/// The CPU that frees a block.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum FreeBy {
    /// The CPU that allocated it
    #[default]
    Same,
    /// Another: the next thread, or a second CPU if there is one thread
    Other,
}

/// An allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "verbatim")]
pub(crate) enum Contender {
    #[value(name = "framewright")]
    Framewright,
    #[value(name = "list-buddy")]
    ListBuddy,
    #[value(name = "frame-alloc-depot")]
    FrameAllocDepot,
    #[value(name = "buddy_system_allocator")]
    BuddySystemAllocator,
}

/// A number of operations, with a decimal unit.
fn operations(text: &str) -> Result<u64, String> {
    const MOST: u64 = 1_000_000_000_000;
    const UNITS: [(char, u64); 3] = [('k', 1_000), ('M', 1_000_000), ('G', 1_000_000_000)];
    let unit = UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(*name)?, *unit)));
    let (digits, unit) = unit.unwrap_or((text, 1));
    whole::<u64>(digits)
        .and_then(|number| number.checked_mul(unit))
        .filter(|number| (1..=MOST).contains(number))
        .ok_or_else(|| "a number of operations is 1 to 1000G, as in 16M or 250k".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_decimal_units() {
        for (text, number) in
            [("7", 7), ("250k", 250_000), ("16M", 16_000_000), ("1G", 1_000_000_000)]
        {
            assert_eq!(operations(text), Ok(number));
        }
        for text in ["", "0", "M", "-1", "16m", "1.5M", "1001G", "99999999999999999999G"] {
            assert!(operations(text).unwrap_err().contains("as in 16M"), "{text}");
        }
    }
}
