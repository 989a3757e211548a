//! `framewright run churn | replace`: how many huge pages an allocator can still form after many
//! allocations and frees.

use std::{collections::HashSet, path::PathBuf};

use clap::{Args as ArgGroup, ValueEnum};
use framewright_lab::{
    Error,
    fragmentation::{
        Allocator, Churn, Column, FragmentationResult, FreeBy, Mix, Replace, SERIES, SHARES,
        Section, Setup, TIMED_ONE_IN, Types,
    },
    report::{Comparison, HEADER_NOTE, Measured, Report, Run, Style, Table, decimal},
};

use super::{finish, report};
use crate::args::{
    run::RunArgs,
    values::{Memory, whole},
};
use crate::failure::{Failure, Outcome};
use crate::print::{self, bold, paragraph, several};
use crate::{output, progress};

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
             Two threads are pinned, and run with real-time priority if the system permits that. \
             With one thread, the same arguments give the same counts.\n\n\
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
     CPU lists (order9_after_drain); order9_ideal is the number of free frames divided by 512. Latencies \
     include those of refused requests.",
    "  framewright run churn --quick
      A short run: 1 GiB, a million operations, 80 % in use.
  framewright run churn --occupancy 70,80,90 --seeds 3
      Three occupancies, medians of three seeds: some minutes.
  framewright run churn --mix small --vs zone.bulk_take=one-by-one
      Orders 0 to 4 only, with two settings.
  framewright run churn --types mixed --picture churn.svg
      Unmovable allocations among the movable ones, drawn over time.
  framewright run churn --threads 2 --free-by other
      Two CPUs, each of which frees what the other allocated."
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
      The free huge frames after each round, as a picture."
);

/// Help of `--seeds`.
pub(crate) const SEEDS: &str = "Run this many seeds, from --seed on, and show medians";

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
    /// Free memory, in percent; several values separated by commas
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_value = "50",
          value_parser = clap::value_parser!(u8).range(1..=99))]
    pub(crate) free: Vec<u8>,
    /// Rounds, in each of which every page is replaced [default: 128; 16 if --quick]
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
    /// Allocators to compare, separated by commas [default: all]
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',', hide_default_value = true,
          default_values_t = [Name::Framewright, Name::ListBuddy,
                              Name::FrameAllocDepot, Name::BuddySystemAllocator])]
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

/// Default frames: 4 GiB, and 1 GiB with `--quick`.
const FRAMES: [u64; 2] = [1 << 20, 1 << 18];

/// `run churn`.
pub(crate) fn churn(args: &ChurnArgs) -> Result<Outcome, Failure> {
    let operations = if args.common.run.quick { 1_000_000 } else { 16_000_000 };
    let operations = args.operations.unwrap_or(operations);
    let work = Churn { mix: args.mix, operations };
    let setup = setup(&args.common, &args.occupancy)?;
    let result = progress::during("churn", |tell| work.run(&setup, tell));
    let result = result.map_err(|error| about(&error))?;
    let orders = match args.mix {
        Mix::Small => "of orders 0 to 4",
        Mix::Mixed => "of orders 0 to 4, and some of order 9",
    };
    let what = format!("{} on blocks {orders}", several(operations, "operation"));
    let shown = Shown { workload: "churn", what, x: "millions of operations", share: "in use" };
    shown.finish(&args.common, &setup, &result, &|_, _| String::new())
}

/// `run replace`.
pub(crate) fn replace(args: &ReplaceArgs) -> Result<Outcome, Failure> {
    let rounds = args.rounds.unwrap_or(if args.common.run.quick { 16 } else { 128 });
    let work = Replace { rounds, batch: args.batch as usize };
    let setup = setup(&args.common, &args.free)?;
    let result = progress::during("replace", |tell| work.run(&setup, tell));
    let result = result.map_err(|error| about(&error))?;
    let batch = match args.batch {
        1 => "one at a time".to_owned(),
        batch => format!("{batch} at a time"),
    };
    let what = format!("{} in which every page is replaced, {batch}", several(rounds, "round"));
    let shown = Shown { workload: "replace", what, x: "rounds", share: "free" };
    let series = |section: &Section, style| format!("{}\n", show_rounds(section, rounds, style));
    shown.finish(&args.common, &setup, &result, &series)
}

/// The setup of the experiment. Returns an error if the output files cannot be written.
fn setup(args: &FragmentationArgs, shares: &[u8]) -> Result<Setup, Failure> {
    let (json, picture) = (args.run.json.path.as_deref(), args.picture.as_deref());
    output::check_outputs(json, ("--picture", picture), None)?;
    let frames = FRAMES[usize::from(args.run.quick)];
    Ok(Setup {
        frames: args.memory.map_or(frames, |memory| memory.frames()),
        threads: args.threads,
        types: args.types,
        free_by: args.free_by,
        columns: columns(args)?,
        shares: shares.to_vec(),
        seeds: args.run.all_seeds(),
    })
}

/// The columns of the tables: the library once for the settings of each side, and each other
/// allocator once.
fn columns(args: &FragmentationArgs) -> Result<Vec<Column>, Failure> {
    let mut all = Vec::new();
    for (index, name) in args.contenders.iter().enumerate() {
        if args.contenders[..index].contains(name) {
            return Err(Failure::bad_input("--contenders names an allocator twice"));
        }
        match name {
            Name::Framewright => {
                match &args.run.settings.sides()[..] {
                    [side] => all.push(Column::framewright("framewright", side)),
                    sides => all.extend(sides.iter().map(|side| {
                        Column::framewright(&format!("framewright {}", side.label), side)
                    })),
                }
            }
            Name::ListBuddy => all.push(Column::other(Allocator::ListBuddy)),
            Name::FrameAllocDepot => all.push(Column::other(Allocator::FrameAllocDepot)),
            Name::BuddySystemAllocator => all.push(Column::other(Allocator::BuddySystem)),
        }
    }
    Ok(all)
}

/// The error, with the option that caused it.
fn about((option, error): &(&'static str, Error)) -> Failure {
    Failure::BadInput(format!("--{option}: {error}"))
}

/// The text around the tables of a workload.
struct Shown {
    workload: &'static str,
    /// The amount of work, as in `16000000 operations on blocks of orders 0 to 4`.
    what: String,
    /// The unit of the horizontal axis of the picture.
    x: &'static str,
    /// The meaning of a share of memory.
    share: &'static str,
}

impl Shown {
    /// Prints the head, a table for each share of memory followed by the text of `more`, and the
    /// checks, and writes the output files.
    fn finish(
        &self,
        args: &FragmentationArgs,
        setup: &Setup,
        result: &FragmentationResult,
        more: &dyn Fn(&Section, Style) -> String,
    ) -> Result<Outcome, Failure> {
        let machine = format!("{} MiB, metadata only, {}", setup.frames >> 8, threads(setup));
        let measured =
            Measured { runs: result.runs(), checks: result.checks.clone(), ..Measured::default() };
        let report = report(self.workload, machine, setup.seeds.first().copied(), measured);
        let draw = || {
            let command = report.command.join(" ");
            result.plot(&report.workload, &command, self.x, self.share).svg()
        };
        output::save_svg(args.picture.as_deref(), draw)?;
        let style = output::style();
        let mut text = self.head(setup, &report, style);
        for section in &result.sections {
            text.push_str(&table(section, self.share, &report, style));
            text.push_str(&more(section, style));
        }
        text.push_str(&print::checks(&report, style));
        finish(&report, &args.run.json, &text)
    }

    fn head(&self, setup: &Setup, report: &Report, style: Style) -> String {
        let types = match setup.types {
            Types::Movable => "all movable",
            Types::Mixed => "5 % unmovable, 15 % reclaimable",
        };
        let machine = format!("{}; {}", report.machine, print::seeds(setup.seeds.len()));
        let lines = [("machine", machine), ("work", format!("{}; {types}", self.what))];
        let note = paragraph(&format!(
            "note     times include other load of this machine; one call in {TIMED_ONE_IN} is \
             timed, and the time of reading the clock is subtracted"
        ));
        format!("{}{note}\n{}", print::head(lines), settings(report, style))
    }
}

/// The number of threads, and the CPU that frees a block.
fn threads(setup: &Setup) -> String {
    let frees = match (setup.free_by, setup.threads) {
        (FreeBy::Same, _) => "",
        (FreeBy::Other, 1) => ", a second CPU frees",
        (FreeBy::Other, _) => ", the next one frees",
    };
    format!("{}{frees}", several(setup.threads, "thread"))
}

/// The settings of the library's sides, printed once: they are the same in all sections.
fn settings(report: &Report, style: Style) -> String {
    let mut first = report.clone();
    let mut seen = HashSet::new();
    first.runs.retain(|run| seen.insert(run.label.clone()));
    for run in &mut first.runs {
        run.settings.retain(|key, _| !SHARES.contains(&key.as_str()));
    }
    print::settings(&first, style)
}

/// One row per figure, one column per allocator. The library's sides are compared; other allocators
/// are further columns.
fn table(section: &Section, words: &str, report: &Report, style: Style) -> String {
    let is_side = |run: &&Run| run.label.starts_with("framewright ");
    let sides: Vec<&Run> = section.runs.iter().filter(is_side).collect();
    let others = section.runs.iter().filter(|run| !is_side(run));
    let note = if sides.is_empty() { String::new() } else { format!(" {HEADER_NOTE}") };
    let comparison = others.fold(Comparison::of(sides), Comparison::beside);
    let table = comparison.table(report.metric_names(), style);
    let heading = bold(&format!("{} % {words}", section.share), style);
    format!("{heading}{note}\n{table}\n")
}

/// The series after 1, 2, 4, 8... rounds, and after the last.
fn show_rounds(section: &Section, last: u32, style: Style) -> Table {
    let header = format!("{SERIES} after round");
    let labels = section.runs.iter().map(|run| run.label.as_str());
    let mut table = Table::new(std::iter::once(header.as_str()).chain(labels), style);
    let doubled = std::iter::successors(Some(1_u32), |round| round.checked_mul(2));
    for round in doubled.take_while(|round| *round < last).chain([last]) {
        let value = |run: &Run| {
            let point = run.series.get(SERIES).and_then(|points| points.get(round as usize));
            // A median of two seeds may have a half.
            let decimals = |value: f64| usize::from(value.fract() != 0.0);
            point.map_or_else(String::new, |point| decimal(point.1, decimals(point.1)))
        };
        table.plain_row(std::iter::once(round.to_string()).chain(section.runs.iter().map(value)));
    }
    table
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
