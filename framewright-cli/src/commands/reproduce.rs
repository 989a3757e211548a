//! `framewright reproduce`: published results, done again.

use framewright_lab::report::Report;
use framewright_lab::reproduce::{Experiment, Plan, Results, judge, verdict};

use super::report::report;
use crate::args::ReproduceArgs;
use crate::failure::{Failure, Outcome};
use crate::{output, print, progress::Progress};

/// Runs the experiments, judges their rows, and says whether all that were judged agree.
pub(crate) fn reproduce(args: &ReproduceArgs) -> Result<Outcome, Failure> {
    let json = args.json.path.as_deref();
    let (experiments, plan) = (args.experiments(), args.plan());
    output::check_json(json, &[])?;
    let mut results = Vec::new();
    for experiment in &experiments {
        results.push(run(experiment, &plan)?);
    }
    let report = report_of(&experiments, &plan, &results);
    output::save_json(json, &report)?;
    let text = print::reproduce(&experiments, &results, &report.verdict, output::style());
    output::print(&text)?;
    Ok(output::outcome(&report.verdict))
}

fn run(experiment: &Experiment, plan: &Plan) -> Result<Results, Failure> {
    let mut progress = Progress::new(experiment.name);
    let mut results = (experiment.run)(plan, &mut |done, total| progress.update(done, total))
        .map_err(|error| Failure::Broken(format!("{}: {error}", experiment.name)))?;
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
    let report =
        report(&workload, machines.join(" "), plan.seeds.first().copied(), runs, Vec::new());
    let published = results.iter().flat_map(|results| results.rows.clone()).collect();
    Report { published, verdict, ..report }
}
