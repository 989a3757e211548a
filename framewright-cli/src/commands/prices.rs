//! `framewright prices`: for each mechanism, the operation costs of the machine that its gain
//! depends on.

use std::fmt::Write;

use clap::Args as ArgGroup;
use framewright_lab::report::{
    Better, Check, Measured, Metric, Run, Style, Table, Tone, Unit, decimal, scaled_nanos,
};
use framewright_lab::reproduce::{MECHANISMS, MOST_LEFT_PERCENT, Mechanism, Origin, Times};

use super::{finish, report};
use crate::args::run::ReportArgs;
use crate::failure::{Failure, Outcome};
use crate::print::{bold, paragraph};
use crate::{output, progress};

pub(crate) const EXAMPLES: &str = "\
A mechanism saves time because it avoids a costly operation. Each workload runs with and without the \
mechanism on a simulated machine, and again on the same machine with the costs of that operation set to zero. \
In the second case at most 3 % of the gain may remain: a larger remainder has another cause. \
The costs are named by their keys in the machine's file (`framewright machines NAME`). Takes less than a minute.

Examples:
  framewright prices
      A row per mechanism, and the costs that its gain depends on.
  framewright prices --json prices.json
      The same as JSON.

Exit codes: 0 no gain is left without its costs, 1 a gain is left, 2 bad input.";

#[derive(Debug, ArgGroup)]
pub(crate) struct PricesArgs {
    #[command(flatten)]
    pub(crate) files: ReportArgs,
}

const NAME: &str = "prices";

/// Runs every mechanism with the costs that its gain depends on, and with these costs set to zero.
/// The checks pass if almost no gain is left with costs of zero.
pub(crate) fn prices(args: &PricesArgs) -> Result<Outcome, Failure> {
    output::check_report(&args.files, &[])?;
    let origins = progress::during(NAME, |tell| -> Result<Vec<_>, Failure> {
        let origin = |(nth, mechanism): (u64, &'static Mechanism)| {
            let mut tell = |done, total| tell(nth * total + done, MECHANISMS.len() as u64 * total);
            let broken = |error| Failure::Broken(format!("{}: {error}", mechanism.name));
            mechanism.origin(&mut tell).map_err(broken)
        };
        (0..).zip(&MECHANISMS).map(origin).collect()
    })?;
    let mut machines: Vec<&str> = MECHANISMS.iter().map(|mechanism| mechanism.machine).collect();
    machines.dedup();
    let runs = origins.iter().flat_map(runs).collect();
    let checks = origins.iter().map(check).collect();
    let measured = Measured { runs, checks, ..Measured::default() };
    let report = report(NAME, machines.join(" "), Some(1), measured);
    finish(&report, &args.files, &show_prices(&origins, output::style()))
}

/// Times with the costs of the machine, and with the costs that the gain depends on set to zero.
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
    Check::new(
        origin.mechanism.name.to_owned(),
        origin.holds(),
        format!(
            "{} % of the gain is left with its costs at zero (at most {MOST_LEFT_PERCENT} %)",
            decimal(origin.left_percent(), 2)
        ),
    )
}

/// A row per mechanism; below, the compared settings and the costs that were set to zero.
pub(crate) fn show_prices(origins: &[Origin], style: Style) -> String {
    let header = ["mechanism", "machine", "saves", "without its costs", "left", ""];
    let mut table = Table::new(header, style).left_aligned(1).left_aligned(5);
    for origin in origins {
        let (word, tone) = if origin.holds() {
            ("due to its costs", Tone::Good)
        } else {
            ("NOT ONLY DUE TO ITS COSTS", Tone::Bad)
        };
        let plain = |text: String| (text, Tone::Plain);
        table.row([
            plain(origin.mechanism.name.to_owned()),
            plain(origin.mechanism.machine.to_owned()),
            plain(saved(origin.priced)),
            plain(saved(origin.free)),
            plain(format!("{} %", decimal(origin.left_percent(), 2))),
            (word.to_owned(), tone),
        ]);
    }
    let mut text =
        format!("{table}\nleft: share of the saved time; at most {MOST_LEFT_PERCENT} %\n");
    for Origin { mechanism, .. } in origins {
        let [key, before, after] = mechanism.setting;
        // Writing to a `String` does not fail.
        let _ = writeln!(text, "\n{}", bold(mechanism.name, style));
        let _ = writeln!(text, "time: {}", mechanism.figure);
        let _ = writeln!(text, "change: {key}={before}, then {after}");
        text.push_str(&paragraph(&format!("costs: {}", mechanism.prices.join(" "))));
    }
    text
}

/// The saved time, and the time without the mechanism.
fn saved(times: Times) -> String {
    format!("{} of {}", scaled_nanos(times.saved()), scaled_nanos(times.before))
}
