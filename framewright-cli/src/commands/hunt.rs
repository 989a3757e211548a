//! `framewright hunt`: searches schedules of small programs for failures, with and without seeded
//! bugs.

use std::{fmt::Write, str::FromStr};

use clap::Args as ArgGroup;
use framewright_lab::report::{Better, Check, Measured, Metric, Run, Style, Table, Tone, Unit};
use framewright_sim::scenario::{
    Bug, Campaign, Find, Kind, Point, Row, SCENARIOS, Scenario, Verdict,
};

use super::{finish, report};
use crate::args::run::{ReportArgs, TraceArgs};
use crate::failure::{Failure, Outcome};
use crate::print::{bold, several};
use crate::{output, progress};

pub(crate) const EXAMPLES: &str = "\
Runs small programs of three simulated CPUs under one schedule after the other. Without a bug, every \
program must pass all checks under all schedules (the control). With a seeded bug a check must fail: a \
check that never fails proves nothing. Every failure is printed with the command that repeats it.

Schedules: random chooses among runnable CPUs with equal probability; pct:DEPTH runs the CPU with the \
highest of random priorities, which change DEPTH - 1 times; exhaustive:BOUND tries all schedules with at \
most BOUND deviations from the default one.

Examples:
  framewright hunt
      All scenarios and bugs, in less than a minute.
  framewright hunt --full
      The full check, which takes hours: 20 seeds of up to 100,000 schedules for each bug, 1,000,000
      for each control, and exhaustive searches.
  framewright hunt unmap --bug early-mask --schedule random --seeds 20
      One bug, with 20 seeds.
  framewright hunt drain --bug none --schedule random --schedules 1000000
      One control, for longer.
  framewright hunt unmap --bug early-mask --schedule random --seed 17
      One hunt with a given seed: its result is the same every time. With --schedules 1 and the
      printed seed, it runs only the schedule that finds the bug.
  framewright hunt list
      All scenarios and bugs.

Exit codes: 0 every control is clean, and one kind of schedule finds each bug with nine of ten seeds; 1 \
otherwise, or if a recorded schedule belongs to another program; 2 bad input.";

/// Help of `--perfetto`.
pub(crate) const PERFETTO: &str = "\
Write a trace of each failing schedule that is shown to this file, for https://ui.perfetto.dev: the turns of the CPUs, \
their steps, and the step that breaks";

/// Arguments of `hunt`.
#[derive(Debug, ArgGroup)]
pub(crate) struct HuntArgs {
    /// A scenario; `list` lists all scenarios [default: all]
    #[arg(value_name = "SCENARIO")]
    pub(crate) what: Option<Target>,
    /// Hunt only this bug, without controls; `none` runs controls only
    #[arg(long, value_name = "BUG")]
    pub(crate) bug: Option<BugChoice>,
    /// random, pct:DEPTH, exhaustive:BOUND, or replay:... as printed; may be given more than once
    /// [default: random and pct:4; with --full also pct:3, pct:6, and exhaustive:1 to exhaustive:3
    /// where that takes minutes]
    #[arg(long = "schedule", value_name = "KIND")]
    pub(crate) kinds: Vec<Kind>,
    /// Hunts for each bug, with different seeds [default: 4, with --full 20; 1 if --seed is given]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) seeds: Option<u64>,
    /// The first seed
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Schedules of one hunt, and of one control [default: 20000; with --full 100000 and 1000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) schedules: Option<u64>,
    /// The full check, which takes hours
    #[arg(long)]
    pub(crate) full: bool,
    /// Parallel hunts; the result is the same for any number [default: the processors of this host]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    #[command(flatten)]
    pub(crate) files: ReportArgs,
}

/// The scenarios of a hunt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// List all scenarios instead.
    List,
    /// One scenario.
    Scenario(&'static Scenario),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name == "list" {
            return Ok(Self::List);
        }
        Scenario::named(name).map(Self::Scenario).ok_or_else(|| {
            let names: Vec<_> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
            format!("valid: {}, and list", names.join(", "))
        })
    }
}

/// The bugs of a hunt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BugChoice {
    /// No bug: controls only.
    None,
    /// One bug.
    Bug(Bug),
}

impl FromStr for BugChoice {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name == "none" {
            return Ok(Self::None);
        }
        name.parse().map(Self::Bug).map_err(|_| {
            let names = Bug::ALL.map(Bug::name);
            format!("valid: {}, and none", names.join(", "))
        })
    }
}

const WORKLOAD: &str = "hunt";

/// Hunts, and checks that every bug is found and every control is clean.
pub(crate) fn hunt(args: &HuntArgs) -> Result<Outcome, Failure> {
    if matches!(args.what, Some(Target::List)) {
        let mut files = args.files.all().into_iter().chain([args.trace.file()]);
        if let Some((option, _)) = files.find(|(_, file)| file.is_some()) {
            let message = format!("{option} is for hunts; `hunt list` prints the scenarios");
            return Err(Failure::BadInput(message));
        }
        output::print(&show_hunt_list(output::style()))?;
        return Ok(Outcome::Fine);
    }
    output::check_outputs(&args.files, &[args.trace.file()], &[])?;
    let campaign = campaign(args)?;
    let trace = args.trace.begin()?;
    let rows = progress::during(WORKLOAD, |tell| campaign.run(tell));
    if let Some(trace) = &trace {
        for Failing { row, find, .. } in failing(&rows) {
            let _ = trace.find(row.scenario, row.bug, find);
        }
    }
    output::save_trace(trace)?;
    let runs = rows.iter().map(run).collect();
    let measured = Measured { runs, checks: checks(&rows), ..Measured::default() };
    let report = report(WORKLOAD, machine(&rows), Some(campaign.first_seed), measured);
    finish(&report, &args.files, &show_hunt(&rows, output::style()))
}

/// The campaign that the arguments describe.
fn campaign(args: &HuntArgs) -> Result<Campaign, Failure> {
    let mut campaign = if args.full { Campaign::full() } else { Campaign::default() };
    if let Some(Target::Scenario(scenario)) = args.what {
        campaign.scenarios = vec![scenario];
    }
    match args.bug {
        None => {}
        Some(BugChoice::None) => campaign.bugs.clear(),
        Some(BugChoice::Bug(bug)) => {
            campaign.scenarios.retain(|scenario| scenario.bugs.contains(&bug));
            if let (true, Some(Target::Scenario(scenario))) =
                (campaign.scenarios.is_empty(), args.what)
            {
                return Err(Failure::BadInput(cannot_have(scenario, bug)));
            }
            (campaign.bugs, campaign.controls) = (vec![bug], false);
        }
    }
    if !args.kinds.is_empty() {
        campaign.kinds.clear();
        for kind in &args.kinds {
            // A kind that is given twice runs once: both results would be the same.
            if !campaign.kinds.contains(kind) {
                campaign.kinds.push(kind.clone());
            }
        }
    }
    if campaign.kinds.iter().any(|kind| matches!(kind, Kind::Replay(_)))
        && (campaign.scenarios.len() > 1 || args.bug.is_none())
    {
        return Err(Failure::BadInput(
            "a recorded schedule needs the name of its scenario and --bug BUG or --bug none"
                .to_owned(),
        ));
    }
    campaign.jobs = args.jobs.map(usize::from);
    campaign.first_seed = args.seed.unwrap_or(0);
    let seeds = args.seed.map_or(campaign.seeds, |_| 1);
    campaign.seeds = args.seeds.unwrap_or(seeds);
    if let Some(schedules) = args.schedules {
        campaign.schedules = schedules;
        campaign.control = schedules;
        campaign.control_exhaustive = schedules;
    }
    Ok(campaign)
}

fn cannot_have(scenario: &Scenario, bug: Bug) -> String {
    let names: Vec<_> = scenario.bugs.iter().map(|bug| bug.name()).collect();
    let name = scenario.name;
    if names.is_empty() {
        format!("scenario '{name}' has no seeded bugs; it is a control only (--bug none)")
    } else {
        format!("scenario '{name}' has no bug '{bug}'; its bugs: {}", names.join(", "))
    }
}

fn machine(rows: &[Row]) -> String {
    let cpus = rows.iter().map(|row| row.scenario.cpus).max().unwrap_or_default();
    format!("{cpus} simulated CPUs without costs")
}

/// The figures of a row.
fn run(row: &Row) -> Run {
    let bug = row.bug.map_or("none", Bug::name);
    let label = format!("{} {bug} {}", row.scenario.name, row.kind);
    let mut run = Run { label, ..Run::default() };
    let settings = [
        ("scenario", row.scenario.name.to_owned()),
        ("bug", bug.to_owned()),
        ("schedule", row.kind.to_string()),
    ];
    run.settings.extend(settings.map(|(name, value)| (name.to_owned(), value)));
    let mut count = |name: &str, value: u64, better| {
        run.metrics.insert(name.to_owned(), Metric::once(value as f64, Unit::Count, better));
    };
    count("hunts", row.results.len() as u64, None);
    let better = if row.bug.is_some() { Better::Higher } else { Better::Lower };
    count("found", row.found() as u64, Some(better));
    count("schedules_tried", row.tried(), None);
    count("exhausted", u64::from(row.is_exhausted()), None);
    count("other_failures", row.unexpected_count(), Some(Better::Lower));
    count(
        "longest_steps",
        row.results.iter().map(|result| result.steps).max().unwrap_or_default(),
        None,
    );
    for (point, times) in row.scenario.points().iter().zip(row.reached()) {
        if point.never.is_none() || times > 0 {
            count(&format!("reached_{}", point.name), times, None);
        }
    }
    let taken: Vec<_> = row.finds().map(|at| at as f64).collect();
    if let Some(taken) = Metric::of_rounds(&taken, Unit::Count, Some(Better::Lower)) {
        run.metrics.insert("schedules_to_find".to_owned(), taken);
    }
    run
}

/// One check for each control, and one for each bug. A bug check passes if one kind of schedules
/// finds the bug.
fn checks(rows: &[Row]) -> Vec<Check> {
    let mut checks: Vec<Check> = Vec::new();
    for same in rows.chunk_by(|a, b| a.scenario.name == b.scenario.name && a.bug == b.bug) {
        let (scenario, tried) = (same[0].scenario.name, same.iter().map(Row::tried).sum::<u64>());
        checks.push(match same[0].bug {
            None => Check::new(
                format!("{scenario} is clean"),
                same.iter().all(Row::is_good),
                format!("{}{}", several(tried, "schedule"), reservations(same)),
            ),
            Some(bug) => {
                let best =
                    same.iter().max_by_key(|row| 100 * row.found() / row.results.len().max(1));
                let found = best.map_or(0, Row::found);
                let hunts = best.map_or(0, |row| row.results.len());
                Check::new(
                    format!("{scenario} finds {bug}"),
                    same.iter().any(Row::is_good),
                    format!(
                        "{found} of {} found it (at least 90 %){}",
                        several(hunts as u64, "hunt"),
                        reservations(same)
                    ),
                )
            }
        });
    }
    checks
}

/// Limitations of the result of some rows, as the end of a sentence.
fn reservations(rows: &[Row]) -> String {
    let misfits = rows.iter().filter_map(Row::misfit);
    let misfit =
        misfits.map(|misfit| format!("; the schedule belongs to another program: {misfit}"));
    let is_cut = |row: &&Row| {
        let nothing_found = row.bug.is_some() && row.found() == 0;
        nothing_found && matches!(row.kind, Kind::Exhaustive { .. }) && !row.is_exhausted()
    };
    let cut = rows.iter().find(is_cut).map(|row| {
        let schedules = several(row.tried(), "schedule");
        format!("; {} was cut off (--schedules) after {schedules}", row.kind)
    });
    misfit.chain(cut).collect()
}

/// A row per scenario, bug and kind of schedule; then the commands that repeat the failures.
pub(crate) fn show_hunt(rows: &[Row], style: Style) -> String {
    let header =
        ["scenario", "bug", "schedules", "found", "median", "fastest", "tried", "other failures"];
    let mut table = Table::new(header, style);
    for row in rows {
        let plain = |text: String| (text, Tone::Plain);
        table.row([
            plain(row.scenario.name.to_owned()),
            plain(row.bug.map_or("none", Bug::name).to_owned()),
            plain(row.kind.to_string()),
            found(row),
            plain(row.median().map_or_else(|| number(None), |median| median.to_string())),
            plain(number(row.fastest())),
            plain(if row.is_exhausted() {
                format!("all {}", row.tried())
            } else {
                row.tried().to_string()
            }),
            plain(row.unexpected_count().to_string()),
        ]);
    }
    let mut text = table.to_string();
    text.push_str("\nmedian, fastest: schedules until the bug was found, over all hunts.\n");
    text.push_str(&reached(rows, style));
    text.push_str(&repeats(rows, style));
    text
}

/// The number of times that each counted step of a scenario happened, in all runs without a bug.
fn reached(rows: &[Row], style: Style) -> String {
    let mut text = String::new();
    let controls = |row: &&Row| row.bug.is_none() && !row.scenario.points().is_empty();
    let counted: Vec<_> = rows.iter().filter(controls).collect();
    let Some(first) = counted.first() else { return text };
    let names = first.scenario.points().iter().map(|point| point.name);
    let mut table = Table::new(["scenario"].into_iter().chain(names), style);
    let mut notes = Vec::new();
    for same in counted.chunk_by(|a, b| a.scenario.name == b.scenario.name) {
        let scenario = same[0].scenario;
        let mut cells = vec![(scenario.name.to_owned(), Tone::Plain)];
        notes.extend(scenario.tally.map(|tally| (scenario.name, tally.what)));
        for (at, point) in scenario.points().iter().enumerate() {
            let times = same.iter().map(|row| row.reached()[at]).sum::<u64>();
            cells.push(times_at(point, times));
            let reason = point.never.map(|why| (scenario.name, why));
            notes.extend(reason.filter(|reason| !notes.contains(reason)));
        }
        table.row(cells);
    }
    text.push_str("\nHow often each step was reached, in runs without a bug.\n\n");
    text.push_str(&table.to_string());
    for (name, note) in notes {
        // Writing to a string does not fail.
        let _ = writeln!(text, "- {name}: {note}");
    }
    text
}

/// Red marks a step that never happened although it can, or happened although it cannot.
fn times_at(point: &Point, times: u64) -> (String, Tone) {
    match (point.never, times) {
        (None, 0) => ("0".to_owned(), Tone::Bad),
        (Some(_), 0) => ("-".to_owned(), Tone::Plain),
        (None, _) => (times.to_string(), Tone::Plain),
        (Some(_), _) => (times.to_string(), Tone::Bad),
    }
}

fn found(row: &Row) -> (String, Tone) {
    let tone = if row.is_good() { Tone::Good } else { Tone::Bad };
    match (row.bug, row.found()) {
        (_, 0) if row.misfit().is_some() => ("does not fit".to_owned(), Tone::Bad),
        (None, 0) => ("clean".to_owned(), tone),
        (None, _) => ("NOT CLEAN".to_owned(), tone),
        // A bug check passes if one kind finds the bug, so this row is not shown as bad.
        (Some(_), found) => {
            let tone = if row.is_good() { Tone::Good } else { Tone::Plain };
            (format!("{found} of {}", row.results.len()), tone)
        }
    }
}

fn number(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

/// For each bug the failure found after the fewest schedules, for each control all failures, and
/// the first unexpected failure.
fn failing(rows: &[Row]) -> Vec<Failing<'_>> {
    let mut all = Vec::new();
    for same in rows.chunk_by(|a, b| a.scenario.name == b.scenario.name && a.bug == b.bug) {
        let row = &same[0];
        let results = || same.iter().flat_map(|row| &row.results);
        let finds = results().filter_map(|result| result.found.as_ref());
        let unexpected = results().filter_map(|result| result.unexpected.as_ref()).take(1);
        let failing = |note| move |find| Failing { row, find, note };
        if row.bug.is_some() {
            all.extend(finds.min_by_key(|find| find.at).map(failing("")));
            all.extend(unexpected.map(failing("unexpected: ")));
        } else {
            all.extend(finds.map(failing("NOT CLEAN: ")));
        }
    }
    all
}

/// A failure that is shown.
struct Failing<'r> {
    /// A row with its scenario and bug.
    row: &'r Row,
    find: &'r Find,
    note: &'static str,
}

/// The failures that are shown, with the commands that repeat them.
fn repeats(rows: &[Row], style: Style) -> String {
    failing(rows).iter().map(|failing| repeat(failing.find, failing.note, style)).collect()
}

fn repeat(find: &Find, note: &str, style: Style) -> String {
    let what = match &find.verdict {
        Verdict::Clean => "clean".to_owned(),
        Verdict::Seen { what, .. } => what.clone(),
        Verdict::Failed(failure) => failure.to_string(),
    };
    let command = bold(&format!("framewright hunt {}", find.repeat), style);
    format!("\n{command}\n    {note}{what}\n")
}

/// All scenarios and bugs.
pub(crate) fn show_hunt_list(style: Style) -> String {
    let mut text = String::new();
    for scenario in &SCENARIOS {
        let name = bold(scenario.name, style);
        // Writing to a string does not fail.
        let cpus = several(scenario.cpus, "CPU");
        let _ = writeln!(text, "{name}: {}, on {cpus}", scenario.about);
        for bug in scenario.bugs {
            let _ = writeln!(text, "    {bug:23} {}", bug.about());
        }
    }
    text
}
