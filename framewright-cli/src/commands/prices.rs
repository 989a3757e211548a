//! `framewright prices`: which prices of a machine gains come from.

use framewright_lab::report::{Better, Check, Metric, Run, Unit, decimal};
use framewright_lab::reproduce::{MECHANISMS, MOST_LEFT_PERCENT, Origin};

use super::report::report;
use crate::args::PricesArgs;
use crate::failure::{Failure, Outcome};
use crate::{output, print, progress::Progress};

const NAME: &str = "prices";

/// Runs every mechanism with the costs that its gain comes from and with these set to zero. Returns
/// whether nothing of any gain is left.
pub(crate) fn prices(args: &PricesArgs) -> Result<Outcome, Failure> {
    let json = args.json.path.as_deref();
    output::check_json(json, &[])?;
    let mut progress = Progress::new(NAME);
    let mut origins = Vec::new();
    for (nth, mechanism) in (0..).zip(&MECHANISMS) {
        let mut tell = |done: u64, total: u64| {
            progress.update(nth * total + done, MECHANISMS.len() as u64 * total);
        };
        let origin = mechanism
            .origin(&mut tell)
            .map_err(|error| Failure::Broken(format!("{}: {error}", mechanism.name)))?;
        origins.push(origin);
    }
    drop(progress);
    let mut machines: Vec<&str> = MECHANISMS.iter().map(|mechanism| mechanism.machine).collect();
    machines.dedup();
    let runs = origins.iter().flat_map(runs).collect();
    let checks = origins.iter().map(check).collect();
    let report = report(NAME, machines.join(" "), Some(1), runs, checks);
    output::save_json(json, &report)?;
    output::print(&print::prices(&origins, output::style()))?;
    Ok(output::outcome(&report.verdict))
}

/// Times with the costs of the machine, and with those of the gain's source at zero.
fn runs(origin: &Origin) -> [Run; 2] {
    let [key, before, after] = origin.mechanism.setting;
    [("priced", origin.priced), ("free", origin.free)].map(|(label, times)| {
        let better = Some(Better::Lower);
        let metric = |value| Metric::once(value, Unit::Nanos, better);
        let mut metrics = indexmap::IndexMap::new();
        metrics.insert("before_ns".to_owned(), metric(times.before));
        metrics.insert("after_ns".to_owned(), metric(times.after));
        metrics.insert("saved_ns".to_owned(), Metric::once(times.saved(), Unit::Nanos, None));
        let settings = [(key.to_owned(), format!("{before}, {after}"))]
            .into_iter()
            .chain([("prices".to_owned(), origin.mechanism.prices.join(" "))])
            .collect();
        let label = format!("{}, {label}", origin.mechanism.name);
        Run { label, settings, metrics, ..Run::default() }
    })
}

fn check(origin: &Origin) -> Check {
    Check {
        name: origin.mechanism.name.to_owned(),
        passed: origin.holds(),
        detail: format!(
            "{} % of the gain is left where its prices are zero (at most {MOST_LEFT_PERCENT} %)",
            decimal(origin.left_percent(), 2)
        ),
    }
}
