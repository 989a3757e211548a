//! `framewright hunt`: schedules that find bugs, and code that has none.

use framewright_lab::report::{Better, Check, Metric, Run, Unit};
use framewright_sim::scenario::{Bug, Campaign, Kind, Row, Scenario};

use super::report::report;
use crate::args::{HuntArgs, What, Which};
use crate::failure::{Failure, Outcome};
use crate::{output, print, progress::Progress};

const WORKLOAD: &str = "hunt";

/// Hunts, and says whether everything was found that should be, and nothing else.
pub(crate) fn hunt(args: &HuntArgs) -> Result<Outcome, Failure> {
    if matches!(args.what, Some(What::List)) {
        output::print(&print::hunt_list(output::style()))?;
        return Ok(Outcome::Fine);
    }
    let json = args.json.path.as_deref();
    output::check_json(json, &[])?;
    let campaign = campaign(args)?;
    let mut progress = Progress::new(WORKLOAD);
    let rows = campaign.run(&mut |done, total| progress.update(done, total));
    drop(progress);
    let runs = rows.iter().map(run).collect();
    let report = report(WORKLOAD, machine(&rows), Some(campaign.first_seed), runs, checks(&rows));
    output::save_json(json, &report)?;
    output::print(&print::hunt(&rows, output::style()))?;
    Ok(output::outcome(&report.verdict))
}

/// What the arguments ask for.
fn campaign(args: &HuntArgs) -> Result<Campaign, Failure> {
    let mut campaign = if args.full { Campaign::full() } else { Campaign::default() };
    if let Some(What::Scenario(scenario)) = args.what {
        campaign.scenarios = vec![scenario];
    }
    match args.bug {
        None => {}
        Some(Which::None) => campaign.bugs.clear(),
        Some(Which::Bug(bug)) => {
            campaign.scenarios.retain(|scenario| scenario.bugs.contains(&bug));
            if let (true, Some(What::Scenario(scenario))) =
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
            // Who asks twice gets the same answer twice: once will do.
            if !campaign.kinds.contains(kind) {
                campaign.kinds.push(kind.clone());
            }
        }
    }
    if campaign.kinds.iter().any(|kind| matches!(kind, Kind::Replay(_)))
        && (campaign.scenarios.len() > 1 || args.bug.is_none())
    {
        return Err(Failure::BadInput(
            "a recorded schedule is of one scenario, with one --bug or none: name them".to_owned(),
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
        format!("scenario '{name}' has no bugs to put in: it is there to stay clean (--bug none)")
    } else {
        format!("scenario '{name}' cannot have '{bug}'; it can have: {}", names.join(", "))
    }
}

fn machine(rows: &[Row]) -> String {
    let cpus = rows.iter().map(|row| row.scenario.cpus).max().unwrap_or_default();
    format!("{cpus} simulated CPUs on which nothing costs anything")
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
    count("hunts", row.bags.len() as u64, None);
    let better = if row.bug.is_some() { Better::Higher } else { Better::Lower };
    count("found", row.found() as u64, Some(better));
    count("schedules_tried", row.tried(), None);
    count("exhausted", u64::from(row.is_exhausted()), None);
    count("other_failures", row.strays(), Some(Better::Lower));
    count("longest_steps", row.bags.iter().map(|bag| bag.steps).max().unwrap_or_default(), None);
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

/// One check for each control, and one for each bug: it is enough that one way of choosing
/// schedules finds it.
fn checks(rows: &[Row]) -> Vec<Check> {
    let mut checks: Vec<Check> = Vec::new();
    for same in rows.chunk_by(|a, b| a.scenario.name == b.scenario.name && a.bug == b.bug) {
        let (scenario, tried) = (same[0].scenario.name, same.iter().map(Row::tried).sum::<u64>());
        checks.push(match same[0].bug {
            None => Check {
                name: format!("{scenario} is clean"),
                passed: same.iter().all(Row::is_good),
                detail: format!("{tried} schedules{}", reservations(same)),
            },
            Some(bug) => {
                let best = same.iter().max_by_key(|row| 100 * row.found() / row.bags.len().max(1));
                let found = best.map_or(0, Row::found);
                let hunts = best.map_or(0, |row| row.bags.len());
                Check {
                    name: format!("{scenario} finds {bug}"),
                    passed: same.iter().any(Row::is_good),
                    detail: format!(
                        "{found} of {hunts} hunts did, of nine in ten that should{}",
                        reservations(same)
                    ),
                }
            }
        });
    }
    checks
}

/// What there is to say against the result of some rows.
fn reservations(rows: &[Row]) -> String {
    let misfits = rows.iter().filter_map(Row::misfit);
    let misfit = misfits.map(|misfit| format!("; the schedule is not of this program: {misfit}"));
    let is_cut = |row: &&Row| {
        let nothing_found = row.bug.is_some() && row.found() == 0;
        nothing_found && matches!(row.kind, Kind::Exhaustive { .. }) && !row.is_exhausted()
    };
    let cut = rows.iter().find(is_cut).map(|row| {
        format!("; {} was cut off (--schedules) after {} schedules", row.kind, row.tried())
    });
    misfit.chain(cut).collect()
}
