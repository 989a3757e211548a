//! What has to hold besides agreement.

use super::{
    BANDS, RATE, RATES,
    trials::{ALL, INDEX, Outcome, PACKED, UNREPAIRED},
};
use crate::{
    high_alloc::Flags,
    report::{Check, decimal},
};

const SUCCESS: [&str; 3] = ["success1_mean_pct", "success2_mean_pct", "success3_mean_pct"];
const ACHIEVED: [&str; 3] =
    ["achieved1_of_achievable_pct", "achieved2_of_achievable_pct", "achieved3_of_achievable_pct"];

/// Scanners that the index is held against: where free blocks are taken as Linux takes them, and as here.
const SCANNERS: [(&str, usize); 2] = [("all", ALL), ("packed", PACKED)];

/// What the index has to achieve of what is achievable, in percent.
const LEAST: [(Flags, [f64; 3]); 2] =
    [(Flags::Default, [90.0, 90.0, 97.0]), (Flags::Thp, [80.0, 80.0, 97.0])];

pub(super) fn goals(flags: Flags, outcome: &Outcome) -> Vec<Check> {
    let check = |what: &str, passed: bool, detail: String| Check {
        name: format!("{}: {what}", outcome.workload),
        passed,
        detail,
    };
    let (one, percent) = (|value: f64| decimal(value, 1), "%");
    let mut checks = Vec::new();
    let bands = BANDS.iter().find(|(of, _)| *of == flags).map(|(_, bands)| bands);
    for (metric, &(least, most)) in SUCCESS.iter().zip(bands.into_iter().flatten()) {
        let ours = outcome.mean(ALL, metric);
        checks.push(check(
            &format!("all, {metric}, in the band of running kernels"),
            (least..=most).contains(&ours),
            format!("{} {percent} ({least} to {most})", one(ours)),
        ));
    }
    let rates = RATES.iter().find(|(of, _)| *of == flags).map(|(_, rates)| rates);
    if let Some(&(least, most)) = rates {
        let rate = outcome.mean(ALL, RATE);
        checks.push(check(
            "all, faults per second of a builder, as on running kernels",
            (least..=most).contains(&rate),
            format!("{rate:.0} ({least} to {most})"),
        ));
    }
    checks.push(repairs_help(outcome));
    let goals = LEAST.iter().find(|(of, _)| *of == flags).map(|(_, goals)| goals);
    for (metric, &least) in ACHIEVED.iter().zip(goals.into_iter().flatten()) {
        let ours = outcome.mean(INDEX, metric);
        checks.push(check(
            &format!("index, {metric}"),
            ours >= least,
            format!("{} {percent} (at least {least})", one(ours)),
        ));
    }
    let of = |setting, metric| outcome.mean(setting, metric);
    for (name, scanners) in SCANNERS {
        let looks = |setting| of(setting, "examined_per_huge_page");
        let (theirs, ours) = (looks(scanners), looks(INDEX));
        checks.push(check(
            &format!("index looks at a 50th of what {name} looks at"),
            ours * 50.0 <= theirs,
            format!(
                "{} and {} per huge page: a {}th",
                one(theirs),
                one(ours),
                one(theirs / ours.max(1e-9))
            ),
        ));
        let moves = |setting| of(setting, "migrated_per_huge_page");
        let (theirs, ours) = (moves(scanners), moves(INDEX));
        checks.push(check(
            &format!("index moves no more pages than {name}"),
            ours <= theirs,
            format!("{} and {} per huge page", one(theirs), one(ours)),
        ));
    }
    if flags == Flags::Default {
        let longest = outcome.most(INDEX, "alloc_max_ns") / 1e6;
        checks.push(check(
            "index, the longest allocation of the first pass",
            longest <= 10.0,
            format!("{} ms (at most 10)", decimal(longest, 2)),
        ));
    }
    checks
}

/// Success with every repair, against that with none.
pub(super) fn repairs_help(outcome: &Outcome) -> Check {
    let gains = SUCCESS.map(|metric| outcome.mean(ALL, metric) - outcome.mean(UNREPAIRED, metric));
    Check {
        name: format!("{}: all beats unrepaired in every phase", outcome.workload),
        passed: gains.iter().all(|&gain| gain > 0.0),
        detail: format!("by {} points", gains.map(|gain| decimal(gain, 2)).join(", ")),
    }
}

/// What repaired scanners do more of: what was published of it is their price.
pub(super) fn scanning_rises(outcome: &Outcome) -> Check {
    let rise = |metric| outcome.mean(ALL, metric) / outcome.mean(UNREPAIRED, metric).max(1.0);
    let [pages, room] = ["migrate_scanned", "free_scanned"].map(rise);
    Check {
        name: format!("{}: scanning rises with the repairs", outcome.workload),
        passed: pages > 1.0 && room > 1.0,
        detail: format!(
            "{} times as much for pages, {} times for room",
            decimal(pages, 2),
            decimal(room, 2)
        ),
    }
}

/// What has to hold from a recorded state.
pub(super) fn goals_from_state(outcome: &Outcome) -> impl Iterator<Item = Check> {
    SCANNERS.into_iter().map(|(name, scanners)| no_less(outcome, name, scanners))
}

fn no_less(outcome: &Outcome, name: &str, scanners: usize) -> Check {
    let gains = SUCCESS.map(|metric| outcome.mean(INDEX, metric) - outcome.mean(scanners, metric));
    let achieved = ACHIEVED.map(|metric| decimal(outcome.mean(INDEX, metric), 1));
    Check {
        name: format!("{}: index gets no less than {name} in any phase", outcome.workload),
        passed: gains.iter().all(|&gain| gain >= 0.0),
        detail: format!(
            "{} points more; {} % of what is achievable",
            gains.map(|gain| decimal(gain, 1)).join(", "),
            achieved.join(", ")
        ),
    }
}

/// What each repair is worth.
pub(super) fn findings(outcome: &Outcome) -> Vec<String> {
    const NAMES: [&str; 4] =
        ["reset before read", "detect meeting", "unmarked types", "reset on meeting"];
    let share = |(nth, name): (usize, &&str)| {
        let gain = |metric| outcome.mean(nth + 1, metric) - outcome.mean(nth, metric);
        let points = SUCCESS.map(|metric| format!("{:+.1}", gain(metric)));
        let before = outcome.mean(nth, "migrate_scanned").max(1.0);
        let scans = outcome.mean(nth + 1, "migrate_scanned") / before;
        format!("{name} {} (scans {} times)", points.join("/"), decimal(scans, 2))
    };
    let shares: Vec<String> = NAMES.iter().enumerate().map(share).collect();
    vec![format!(
        "{}: each repair's own share, in points of success in the three passes: {}",
        outcome.workload,
        shares.join("; ")
    )]
}
