//! `framewright reproduce`: published measurements, repeated.

mod table;

use std::{fmt::Write, path::PathBuf};

use clap::Args as ArgGroup;
use clap::builder::{PossibleValue, PossibleValuesParser};
use framewright_lab::report::{Measured, Report, Role, Row, Style, Verdict};
use framewright_lab::reproduce::{
    EXPERIMENTS, Experiment, Plan, Results, Variation, judge, verdict,
};
use indexmap::{IndexMap, IndexSet};

use super::{finish, report};
use crate::args::run::ReportArgs;
use crate::failure::{Failure, Outcome};
use crate::print::{self, bold, paragraph};
use crate::{output, progress};
pub(crate) use table::quantity;

pub(crate) const EXAMPLES: &str = "\
Each experiment repeats a change of a real kernel's page allocator whose effect was measured and published. \
Here, before and after are two settings of the library on a simulated machine. The tables have up to four \
kinds of columns. \"published\": figures from the authors' machine. \"kernel\": counts of a running kernel. \
\"measured\": counts from the run of the library. \"modelled\": times of the simulated machine. The band is \
the range of a modelled figure while every parameter of the machine that was estimated or fitted is a quarter \
smaller or larger (framewright machines NAME shows which). By default they vary all at once, in eight \
combinations of which half have the smaller value of a parameter: each comparison with a published figure then \
takes 16 further runs. With --bands each parameter varies by itself, for every figure, and the band names the one \
with the largest effect: some 150 further runs each, which takes hours.

A figure agrees if it has the same sign as the published one and is within a factor of three. If the library \
is compared with a running kernel's counts (tlb-batch), better figures agree as well. \u{d7}0.68 is our figure \
divided by theirs. In brackets: whether a model without any knowledge, the median of the other machines' \
published figures, would agree. Where three machines or more were published, their order is judged too (rank \
correlation, 1 is the same order). Two kinds of figures are shown and not judged: those to which parameters of \
the machine were fitted, and those without a comparable figure. Notes name them. All others must agree.

Examples:
  framewright reproduce bulk-free
      Selecting the blocks of a bulk free before taking the zone lock, on four servers of 2018.
  framewright reproduce all --seeds 5 --json results.json
      Everything, five seeds each; differences are taken seed by seed.
  framewright reproduce high-order-drain --quick
      One seed, short runs, nothing judged.

Exit codes: 0 every judged figure agrees, 1 a figure does not, or some could not be measured (the verdict is \
`incomplete`: outside of the source tree, hot-path cannot build the programs that it compares), 2 bad input.";

const ALL: &str = "all";

#[derive(Debug, ArgGroup)]
pub(crate) struct ReproduceArgs {
    /// The published result
    #[arg(value_name = "EXPERIMENT", value_parser = names())]
    experiment: String,
    /// Runs of each side, each with a seed of its own
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with = "quick")]
    seeds: u32,
    /// One seed and short runs, not judged
    #[arg(long)]
    quick: bool,
    /// Bands by one parameter of the machine at a time: some 150 further runs per row
    #[arg(long, conflicts_with = "quick")]
    bands: bool,
    /// Draw the figures over time of web-cache into this file, as SVG
    #[arg(long, alias = "svg", value_name = "FILE")]
    picture: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) files: ReportArgs,
}

impl ReproduceArgs {
    /// The experiments to repeat.
    pub(crate) fn experiments(&self) -> Vec<Experiment> {
        let chosen =
            |experiment: &Experiment| self.experiment == ALL || self.experiment == experiment.name;
        EXPERIMENTS.into_iter().filter(chosen).collect()
    }

    /// The amount of work.
    pub(crate) fn plan(&self) -> Plan {
        let variation = if self.bands { Variation::Each } else { Variation::Together };
        Plan { variation, ..Plan::new(self.seeds, self.quick) }
    }
}

fn names() -> PossibleValuesParser {
    let value =
        |experiment: &Experiment| PossibleValue::new(experiment.name).help(experiment.title);
    let all = PossibleValue::new(ALL).help("all of them");
    EXPERIMENTS.iter().map(value).chain([all]).collect::<Vec<_>>().into()
}

/// Runs the experiments and judges their rows. The outcome says whether all judged rows agree.
pub(crate) fn reproduce(args: &ReproduceArgs) -> Result<Outcome, Failure> {
    let (experiments, plan) = (args.experiments(), args.plan());
    let picture = args.picture.as_deref();
    output::check_outputs(&args.files, &[("--picture", picture)], &[])?;
    if picture.is_some() && experiments.iter().all(|experiment| experiment.picture.is_none()) {
        let has_any = |it: &&Experiment| it.picture.is_some();
        let names: Vec<&str> = EXPERIMENTS.iter().filter(has_any).map(|it| it.name).collect();
        let names = names.join(", ");
        return Err(Failure::BadInput(format!("--picture: only {names} has figures over time")));
    }
    let mut results = Vec::new();
    for experiment in &experiments {
        results.push(run(experiment, &plan)?);
    }
    let report = report_of(&experiments, &plan, &results);
    let mut drawn = experiments.iter().zip(&results);
    if let Some((draw, results)) = drawn.find_map(|(it, results)| Some((it.picture?, results))) {
        output::save_text(picture, || draw(&results.runs, &report.command.join(" ")).svg())?;
    }
    let text = show(&experiments, &results, &report.verdict, output::style());
    finish(&report, &args.files, &text)
}

fn run(experiment: &Experiment, plan: &Plan) -> Result<Results, Failure> {
    let results = progress::during(experiment.name, |tell| (experiment.run)(plan, tell));
    let broken = |error| Failure::Broken(format!("{}: {error}", experiment.name));
    let mut results = results.map_err(broken)?;
    judge(&mut results, plan);
    Ok(results)
}

fn report_of(experiments: &[Experiment], plan: &Plan, results: &[Results]) -> Report {
    let names: Vec<&str> = experiments.iter().map(|experiment| experiment.name).collect();
    let mut machines: Vec<&str> = Vec::new();
    for row in results.iter().flat_map(|results| &results.rows) {
        if !machines.contains(&&*row.machine) {
            machines.push(&row.machine);
        }
    }
    let runs = results.iter().flat_map(|results| results.runs.clone()).collect();
    let verdict = verdict(results, plan);
    let workload = format!("reproduce {}", names.join(" "));
    let measured = Measured { runs, ..Measured::default() };
    let report = report(&workload, machines.join(" "), plan.seeds.first().copied(), measured);
    let published = results.iter().flat_map(|results| results.rows.clone()).collect();
    Report { published, verdict, ..report }
}

/// A table per experiment, the sources of its figures, its findings; then the verdict.
fn show(
    experiments: &[Experiment],
    results: &[Results],
    verdict: &Verdict,
    style: Style,
) -> String {
    let mut text = String::new();
    for (experiment, results) in experiments.iter().zip(results) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}  {}", bold(experiment.name, style), experiment.title);
        let _ = writeln!(text, "{}\n", experiment.question);
        text.push_str(&table::tables(&results.rows, style));
        for note in notes(&results.rows) {
            text.push_str(&paragraph(&note));
        }
        for finding in &results.findings {
            text.push_str(&paragraph(&format!("found: {finding}")));
        }
        if experiment.picture.is_some() {
            let _ = writeln!(text, "{}", print::series_of(&results.runs, style));
        }
        for published in results.not_modelled {
            text.push_str(&paragraph(&format!("not modelled: {published}")));
        }
        for check in &results.checks {
            let word = if check.passed { "holds" } else { "DOES NOT HOLD" };
            let line = format!("{}  {word}: {}", bold(&check.name, style), check.detail);
            text.push_str(&paragraph(&line));
        }
        text.push('\n');
    }
    let _ = writeln!(text, "{}  {}", bold("verdict", style), verdict.words);
    text
}

/// The sources of figures, and why rows are not judged, each once.
fn notes(rows: &[Row]) -> IndexSet<String> {
    let mut sources: IndexMap<&str, IndexSet<&str>> = IndexMap::new();
    for published in rows.iter().filter_map(|row| row.published.as_ref()) {
        sources.entry(&published.source).or_default().insert(&published.machine);
    }
    let published = sources.into_iter().map(|(source, machines)| {
        let machines: Vec<&str> = machines.into_iter().collect();
        format!("published: {source}, on {}", machines.join("; "))
    });
    let kernels = rows.iter().filter_map(|row| row.kernel.as_ref());
    let kernels = kernels.map(|kernel| format!("kernel: {}", kernel.source));
    let mut notes: IndexSet<String> = published.chain(kernels).collect();
    notes.extend(rows.iter().filter_map(|row| {
        let why = row.unsteady.as_ref()?;
        Some(format!("unsteady: {}, {} of {}: {why}", row.machine, row.metric, row.subject))
    }));
    let mut shown: IndexMap<&str, IndexSet<String>> = IndexMap::new();
    for (row, judgement) in
        rows.iter().flat_map(|row| row.judgements.iter().map(move |it| (row, it)))
    {
        match &judgement.role {
            Role::Fitted(why) => _ = notes.insert(format!("fitted: {}: {why}", row.machine)),
            Role::Shown(why) => _ = shown.entry(why).or_default().insert(shown_as(row, rows)),
            Role::Predicted => {}
        }
    }
    notes.extend(shown.into_iter().map(|(why, metrics)| {
        let metrics: Vec<String> = metrics.into_iter().collect();
        format!("shown: {}: {why}", metrics.join(", "))
    }));
    notes
}

/// The figure of a row that is not judged, with its allocator if the same figure of another
/// allocator is judged.
fn shown_as(row: &Row, rows: &[Row]) -> String {
    let is_judged = |other: &Row| {
        other.metric == row.metric && other.judgements.iter().any(|it| it.role == Role::Predicted)
    };
    match rows.iter().any(is_judged) {
        true => format!("{} of {}", row.metric, row.subject),
        false => row.metric.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::{table::tests::row, *};

    #[test]
    fn a_source_is_named_once_with_its_machines() {
        let mut other = row();
        if let Some(published) = &mut other.published {
            published.machine = "another".into();
        }
        let in_role = |role| {
            let mut row = row();
            row.judgements[0].role = role;
            row
        };
        let fitted = in_role(Role::Fitted("latencies".into()));
        let shown =
            |metric: &str| Row { metric: metric.into(), ..in_role(Role::Shown("alone".into())) };
        let rows = [row(), other, fitted, shown("a"), shown("b"), shown("a")];
        let notes: Vec<String> = notes(&rows).into_iter().collect();
        let expected = [
            "published: there, on theirs; another",
            "kernel: 6.1",
            "fitted: m: latencies",
            "shown: a, b: alone",
        ];
        assert_eq!(notes, expected);
    }
}
