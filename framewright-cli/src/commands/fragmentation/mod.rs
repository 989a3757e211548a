//! `framewright run churn | replace`: how many huge pages an allocator can still form after many
//! allocations and frees.

mod args;

use std::collections::HashSet;

use framewright_lab::{
    Error,
    fragmentation::{
        Allocator, Churn, Column, FragmentationResult, FreeBy, Mix, Replace, SERIES, SHARES,
        Section, Setup, SimulatedCpus, TIMED_ONE_IN, Types,
    },
    html::Details,
    plot::Axis,
    report::{Comparison, HEADER_NOTE, Measured, Point, Report, Run, Style, Table, decimal},
};

use super::{finish_with, machines::note_inherited, only_simulated, report};
use crate::args::machine::Machine;
use crate::failure::{Failure, Outcome};
use crate::print::{self, bold, paragraph, several};
use crate::{output, progress};
pub(crate) use args::{
    CHURN_EXAMPLES, CHURN_QUICK, ChurnArgs, REPLACE_EXAMPLES, REPLACE_QUICK, ReplaceArgs, SEEDS,
};
use args::{FragmentationArgs, Name};

/// Default frames: 4 GiB, and 1 GiB with `--quick`.
const FRAMES: [u64; 2] = [1 << 20, 1 << 18];
/// The minimum for each simulated CPU: 16 MiB.
const LEAST_PER_CPU: u64 = 1 << 12;

/// `run churn`.
pub(crate) fn churn(args: &ChurnArgs) -> Result<Outcome, Failure> {
    let operations = if args.common.run.quick { 1_000_000 } else { 16_000_000 };
    let operations = args.operations.unwrap_or(operations);
    let work = Churn { mix: args.mix, operations };
    let setup = setup(&args.common, &args.occupancy)?;
    let result = progress::during("churn", |tell| work.run(&setup, tell));
    let result = result.map_err(about)?;
    let orders = match args.mix {
        Mix::Small => "of orders 0 to 4",
        Mix::Mixed => "of orders 0 to 4, and some of order 9",
    };
    let what = format!("{} on blocks {orders}", several(operations, "operation"));
    let shown = Shown { workload: "churn", what, x: "millions of operations", share: "in use" };
    let series = |section: &Section, style| {
        format!("{}\n", show_series(section, "millions of operations", |_| true, style))
    };
    shown.finish(&args.common, &setup, &result, &series)
}

/// `run replace`.
pub(crate) fn replace(args: &ReplaceArgs) -> Result<Outcome, Failure> {
    let common = &args.common;
    let is_short = common.run.quick || common.simulated().is_some();
    let rounds = args.rounds.unwrap_or(if is_short { 16 } else { 128 });
    let work = Replace { rounds, batch: args.batch as usize };
    let setup = setup(&args.common, &args.free)?;
    let result = progress::during("replace", |tell| work.run(&setup, tell));
    let result = result.map_err(about)?;
    let batch = match args.batch {
        1 => "one at a time".to_owned(),
        batch => format!("{batch} at a time"),
    };
    let what = format!("{} in which every page is replaced, {batch}", several(rounds, "round"));
    let shown = Shown { workload: "replace", what, x: "rounds", share: "free" };
    // After 1, 2, 4, 8... rounds, and after the last.
    let is_shown = |round: usize| round.is_power_of_two() || round == rounds as usize;
    let series =
        |section: &Section, style| format!("{}\n", show_series(section, "round", is_shown, style));
    shown.finish(&args.common, &setup, &result, &series)
}

/// The setup of the experiment. Returns an error if the output files cannot be written.
fn setup(args: &FragmentationArgs, shares: &[u8]) -> Result<Setup, Failure> {
    let (picture, machine) = (args.picture.as_deref(), args.machine.as_ref());
    let inputs = machine.and_then(Machine::file);
    output::check_outputs(&args.run.files, &[("--picture", picture)], inputs.as_slice())?;
    machine.into_iter().for_each(note_inherited);
    let threads = match machine {
        None => args.threads,
        Some(Machine::Host(host)) => host.cpus(),
        Some(Machine::Simulated(spec, _)) => spec.cpus(),
        Some(Machine::Qemu(_)) => {
            return Err(Failure::bad_input(
                "churn and replace do not run on an emulated machine; valid: --threads N, or a \
                 simulated machine, as in --machine uniform:4",
            ));
        }
    };
    let spec = args.simulated();
    if spec.is_none() {
        only_simulated(&[("--think", args.think.is_some())])?;
    }
    let least = spec.map_or(0, |spec| u64::from(spec.cpus()) * LEAST_PER_CPU);
    let frames = FRAMES[usize::from(args.run.quick)].max(least);
    Ok(Setup {
        frames: args.memory.map_or(frames, |memory| memory.frames()),
        threads,
        simulated: spec.map(|spec| SimulatedCpus {
            spec: spec.clone(),
            think_ns: args.think,
            samples_memory: args.run.watch(None).memory,
        }),
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
    let contenders = args.contenders();
    for (index, name) in contenders.iter().enumerate() {
        if contenders[..index].contains(name) {
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
fn about((option, error): (&'static str, Error)) -> Failure {
    match error.is_bad_input() {
        true => Failure::BadInput(format!("--{option}: {error}")),
        false => error.into(),
    }
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
        let machine = match &setup.simulated {
            Some(simulated) => simulated.spec.name().to_owned(),
            None => format!("{} MiB, metadata only, {}", setup.frames >> 8, threads(setup)),
        };
        let measured =
            Measured { runs: result.runs(), checks: result.checks.clone(), ..Measured::default() };
        let report = report(self.workload, machine, setup.seeds.first().copied(), measured);
        let columns = setup.columns.len();
        let mut report = report.over_seeds_in_groups(args.run.seeds, columns);
        let draw = || {
            let command = report.command.join(" ");
            result.plot(&report.workload, &command, self.x, self.share).svg()
        };
        output::save_text(args.picture.as_deref(), draw)?;
        let style = output::style();
        let mut text = self.head(setup, &report, style);
        for (section, runs) in result.sections.iter().zip(report.runs.chunks(columns.max(1))) {
            text.push_str(&table(section, self.share, &report, style));
            text.push_str(&print::over_seeds(runs, style));
            text.push_str(&more(section, style));
        }
        text.push_str(&print::checks(&report, style));
        // The headings of the tables name the shares. The runs of a file need labels of their own.
        if result.sections.len() > 1 {
            for (section, runs) in
                result.sections.iter().zip(report.runs.chunks_mut(columns.max(1)))
            {
                runs.iter_mut().for_each(|run| run.label = self.label(&run.label, section.share));
            }
        }
        let samples = result.sections.iter().flat_map(|section| {
            let label = |label: &str| self.label(label, section.share);
            section.samples.iter().map(move |(of, samples)| (label(of), samples.clone()))
        });
        let time = Axis::linear(self.x);
        let details = Details { time, samples: samples.collect(), ..Details::default() };
        finish_with(&report, details, &args.run.files, &text)
    }

    /// The label of a column at one share of memory.
    fn label(&self, column: &str, share: u8) -> String {
        format!("{column}, {share} % {}", self.share)
    }

    fn head(&self, setup: &Setup, report: &Report, style: Style) -> String {
        let types = match setup.types {
            Types::Movable => "all movable",
            Types::Mixed => "5 % unmovable, 15 % reclaimable",
        };
        let seeds = print::seeds(setup.seeds.len());
        let work = format!("{}; {types}", self.what);
        if let Some(SimulatedCpus { spec, think_ns, .. }) = &setup.simulated {
            let think = match think_ns {
                Some(0) => "nothing between operations".to_owned(),
                Some(think_ns) => format!("{think_ns} ns between operations"),
                None => "a page is cleared between operations".to_owned(),
            };
            let lines = print::simulated(spec, setup.frames, &seeds);
            let frees = match setup.free_by {
                FreeBy::Same => "",
                FreeBy::Other => "; the next CPU frees",
            };
            let work = [("work", format!("{work}; {think}{frees}"))];
            let head = print::head(lines.into_iter().chain(work));
            return format!("{head}\n{}", settings(report, style));
        }
        let machine = format!("{}; {seeds}", report.machine);
        let lines = [("machine", machine), ("work", work)];
        let note = paragraph(&format!(
            "note     times include other load of this machine; one call in {TIMED_ONE_IN} is \
             timed, and the time of reading the clock is subtracted"
        ));
        let lines = lines.into_iter().chain(setup.pinning().map(|how| ("threads", how)));
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

/// The points of the series whose index `is_shown`, one row each. `unit` is that of their
/// positions.
fn show_series(
    section: &Section,
    unit: &str,
    is_shown: impl Fn(usize) -> bool,
    style: Style,
) -> Table {
    let header = format!("{SERIES} after {unit}");
    let labels = section.runs.iter().map(|run| run.label.as_str());
    let mut table = Table::new(std::iter::once(header.as_str()).chain(labels), style);
    let series: Vec<&[Point]> =
        section.runs.iter().filter_map(|run| run.series.get(SERIES).map(Vec::as_slice)).collect();
    let points = series.first().map_or(0, |points| points.len());
    for index in (0..points).filter(|index| is_shown(*index)) {
        let at = series[0][index].0.to_string();
        // A median of two seeds may have a half.
        let value = |points: &&[Point]| {
            points.get(index).map_or_else(String::new, |Point(_, value)| {
                decimal(*value, usize::from(value.fract() != 0.0))
            })
        };
        table.plain_row(std::iter::once(at).chain(series.iter().map(value)));
    }
    table
}
