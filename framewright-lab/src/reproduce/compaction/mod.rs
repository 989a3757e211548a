//! *compaction* (2013): the repairs of three bugs of the scanners, as four settings
//! (`compact.repair.*`). The scanners read their cached positions before these were reset, did not
//! detect that they had met, and set skip hints for the wrong reason.
//!
//! | module   | job                                                  |
//! |----------|------------------------------------------------------|
//! | this one | published figures, and counts of running kernels     |
//! | `trials` | the runs, and the settings of each                   |
//! | `year2013` | the kernel and the load of 2013, setting by setting |

mod trials;
mod year2013;

use super::{Experiment, Key, Plan, Results, Tell, pairs::Steps};
use crate::Error;
use crate::{
    high_alloc::Flags,
    replay::State,
    report::{Better, Check, Published, Quantity, Reference, Role, Row, Unit, decimal},
};
use trials::{
    ALL, Era, FROM_STATES, IN_2013, INDEX, MACHINE, NONE, Outcome, PACKED, PAIRS, TODAY, UNREPAIRED,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "compaction",
    title: "repair causes of aborted compaction (2013)",
    question: "\
high-alloc: 95 % of memory is requested in huge pages, one every 125 ms, while builders compile
(success1, success2), and after they have ended (success3); 4 CPUs, and the 972 MiB that a kernel
manages of 1 GiB. Requests are those of programs (high-alloc-default), or those of transparent huge
pages, which try once and wake no background work (high-alloc-thp). Settings are those of the published
series, one repair after the other (compact.repair.*):
  no repairs           compact.method=scan, every repair switched off
  + reset_before_read  cached positions are reset before they are read
  + detect_meeting     also, the position of the free scanner is stored, so that the meeting is detected
  + unmarked_types     also, pageblocks that are passed over for their type get no skip hint
  all repairs          also, positions are reset as soon as the scanners have met
  off                  compact.method=off: no compaction
  + bulk_take=bulk     all repairs, with small requests served from the fullest pageblocks, as by default
  index                the default: the same, with compact.method=index
Except with the last two, free blocks are taken as Linux takes them, the smallest first anywhere in
memory (zone.bulk_take=smallest-first), which causes the fragmentation that compaction has to undo.
Then by scanners as they were in 2013, without later changes as far as these can be switched off: no
short searches of the free lists, no capture of the block that forms, no proactive compaction, no boost
of watermarks after types were mixed; and in the environment of 2013. Its settings are added one after the
other, and a line for each shows success without repairs and with all.
Then with current code and fewer settings from two recorded states of a real machine (recordings/): the
same shares of memory in use by the kernel, by files and by programs, and the same sizes of free blocks.
The published runs had 4 GiB, and no background compaction; running kernels had 1 GiB and 4 emulated
CPUs, each a thirteenth as fast as the machine below: uniform:4/13 is uniform:4 with such a clock.
The load is that of the port of stress-highalloc to running kernels: 3 trees of 16,384 files, 200 MB each, a
warm-up of 30 s. Success can be compared only at the same rate of faults (pass1_builder_faults_per_s):
12,400 in 2013, 10,400 to 12,800 (default) and 12,700 to 28,600 (thp) on running kernels.
A seed takes some four minutes of CPU time.",
    picture: None,
    run,
};

const SOURCE: &str = "mm: compaction: fix problems that made it give up early (Linux 3.14), \
                      stress-highalloc, means of 10 iterations";
const THEIRS: &str = "4 GB, x86-64, 3.13-rc2";
/// Parameters that were chosen to match these figures, within the limits of what is known.
const FITTED: &str = "the memory of the kernel after boot (fitted to success3; it shifts all three passes alike), \
                      the files that are read (fitted to the pages that running kernels reclaim in the second pass), \
                      the number of inodes that outlive their files, the memory of the system besides builders, and \
                      (for requests that try once) the time and the number of neighbours of held pages";
const KERNEL: &str = "Linux 6.1 and 6.12, 1 GiB, 4 CPUs in QEMU: the middle of their band";

/// The figures of every pair.
const FIGURES: [&str; 10] = [
    "success1_mean_pct",
    "success2_mean_pct",
    "success3_mean_pct",
    "migrate_scanned",
    "free_scanned",
    "pages_migrated",
    "compact_stall",
    "examined_per_huge_page",
    "migrated_per_huge_page",
    "alloc_max_ns",
];

/// Further figures of the pairs whose counts were published.
const DETAILS: [&str; 14] = [
    "success1_min_pct",
    "success1_max_pct",
    "compaction_cost",
    "migrate_scanned_per_request",
    "isolated_per_request",
    "migrated_per_request",
    "pgsteal_kswapd",
    "pgscan_direct",
    "pgsteal_direct",
    "pswpout",
    "scan_restarts",
    "scan_without_targets",
    "scan_unsuitable",
    "scan_meetings",
];

/// Published figures without a row.
const NOT_MODELLED: [&str; 2] = [
    "user, system and elapsed time of the whole test: copies of trees and builds are scaled down with memory",
    "page writes of reclaim, and faults of the disk",
];

/// The figure that compares the load with that of running kernels: faults of a builder per second
/// in the first pass.
const RATE: &str = "pass1_builder_faults_per_s";
/// The minimum and maximum of running kernels, Linux 6.1 and 6.12.
const RATES: [(Flags, (f64, f64)); 2] =
    [(Flags::Default, (10_400.0, 12_800.0)), (Flags::Thp, (12_700.0, 28_600.0))];
/// The value in 2013: 253.95 million faults of 11 builders in 1,857 s.
const RATE_IN_2013: f64 = 12_400.0;
const RATE_SOURCE: &str = "stress-highalloc of 2013";

/// Figures of time.
const MODELLED: [&str; 1] = ["alloc_max_ns"];

fn run(plan: &Plan, tell: &mut Tell<'_>) -> Result<Results, Error> {
    let states = states()?;
    let each = TODAY.len() + IN_2013.len() + states.len() * FROM_STATES.len();
    let steps = 2 * (each * plan.seeds.len() + year2013::runs(plan));
    let mut steps = Steps::new(steps, tell);
    let mut results = Results { rows: rows(), ..Results::default() };
    for flags in [Flags::Default, Flags::Thp] {
        let outcome = trials::run(flags, (None, Era::Today), &TODAY, plan, &mut steps)?;
        compare(&mut results, &outcome);
        for metric in &FIGURES[..3] {
            let workload = &outcome.workload;
            let key = Key { workload, machine: MACHINE, subject: LEVEL, metric };
            results.measured(key, outcome.settings.sides(UNREPAIRED, ALL, metric));
        }
        let key =
            Key { workload: &outcome.workload, machine: MACHINE, subject: LEVEL, metric: RATE };
        results.modelled(key, outcome.settings.sides(UNREPAIRED, ALL, RATE));
        if !plan.quick {
            results.checks.extend(goals(flags, &outcome));
        }
        results.findings.extend(findings(&outcome));
        results.runs.extend(outcome.runs());
        let outcome = trials::run(flags, (None, Era::IN_2013), &IN_2013, plan, &mut steps)?;
        compare(&mut results, &outcome);
        if !plan.quick {
            results.checks.push(repairs_help(&outcome));
            results.checks.push(scanning_rises(&outcome));
        }
        results.findings.extend(findings(&outcome));
        results.runs.extend(outcome.runs());
        year2013::contributions(flags, plan, &mut steps, &mut results)?;
    }
    for (state, flags) in states.iter().flat_map(|it| [(it, Flags::Default), (it, Flags::Thp)]) {
        let outcome =
            trials::run(flags, (Some(state), Era::Today), &FROM_STATES, plan, &mut steps)?;
        compare(&mut results, &outcome);
        if !plan.quick {
            results.checks.extend(goals_from_state(&outcome));
        }
        results.runs.extend(outcome.runs());
    }
    results.not_modelled = &NOT_MODELLED;
    results.findings.extend(FOUND.map(str::to_owned));
    if !plan.quick {
        results.findings.push(NO_BANDS.to_owned());
    }
    results.rows.sort_by_key(place);
    Ok(results)
}

/// The rows of all pairs of settings.
fn compare(results: &mut Results, outcome: &Outcome) {
    let workload = &outcome.workload;
    for (subject, before, after) in PAIRS {
        let details = if DETAILED.contains(&subject) { &DETAILS[..] } else { &[] };
        for &metric in FIGURES.iter().chain(details) {
            let key = Key { workload, machine: MACHINE, subject, metric };
            let settings = &outcome.settings;
            let sides = match metric {
                "success1_min_pct" => settings.extremes(before, after, FIGURES[0], f64::min),
                "success1_max_pct" => settings.extremes(before, after, FIGURES[0], f64::max),
                _ => settings.sides(before, after, metric),
            };
            let Some(sides) = sides else { continue };
            if MODELLED.contains(&metric) {
                results.modelled(key, Some(sides));
            } else {
                results.measured(key, Some(sides));
            }
        }
    }
}

/// The pairs with [`DETAILS`]: those whose counts were published.
const DETAILED: [&str; 2] = [PAIRS[1].0, PAIRS[2].0];

/// The states of memory of a real machine, at two times.
fn states() -> Result<Vec<State>, Error> {
    const STATES: [(&str, &[u8]); 2] = [
        ("compile", include_bytes!("compile.before")),
        ("sockets", include_bytes!("sockets.before")),
    ];
    let read = |(name, bytes)| State::parse(name, bytes);
    let states: Result<_, _> = STATES.into_iter().map(read).collect();
    states.map_err(Error::from)
}

/// The reason for the absence of bands.
const NO_BANDS: &str = "no bands: no modelled figure of this experiment was published, and a variation of the machine \
                        would take as long as a seed";

/// Further findings that the figures do not show.
const FOUND: [&str; 9] = [
    "the gain of repairs depends on the selection of free blocks. If the smallest block anywhere in memory is taken \
     first, small requests fragment nearly free pageblocks, and compaction has to form huge pages. If the fullest \
     pageblocks serve small requests (packed), reclaim alone forms most huge pages, and repairs gain little",
    "requests that try once succeed as rarely as on running kernels for three reasons, none of which is sufficient \
     alone: the smallest block is taken first, one page in 80 is held for longer than all tries to move it take, and \
     asynchronous compaction ends at a contended lock",
    "the model contradicts one statement of the publication: that the repairs alone raise the success of requests that \
     try once by half or more, in the first two passes. In the model, most of these requests fail at pages that are held \
     for a moment and at contended locks, which no repair changes",
    "requests of programs succeed as often as on running kernels because programs can be swapped. Without swap, \
     background reclaim gives up when all file pages are reclaimed, skip hints of scanners are never reset, and long \
     series of requests fail (6 points less in the first pass)",
    "background reclaim runs in parallel with the request that has woken it, as on running kernels. If it starts \
     after the end of the request, requests of programs find less free memory for compaction (1 point less)",
    "in the second pass, requests that try once succeed no more often than on running kernels because builders read \
     files from all of their trees, and the page cache grows as fast. If builders read the same few files repeatedly, \
     more memory of the first pass is still in free huge pages (6 points more)",
    "a short search of the free lists moves scanners back to useful pageblocks: without it, and without other changes \
     after 2013, repairs gain more and cost more scanning",
    "one parameter, the memory of the kernel after boot, fits the success of requests of programs on the idle machine. \
     It shifts all passes alike, so the differences between passes are not fitted. The number of pages that are \
     held for a moment was measured on running kernels; their time, and the number of neighbours, are estimates",
    "in the first pass the repairs gain as much as published only if background reclaim frees pages for single frames, \
     which is assumed of kernels of 2013. Later kernels reclaim twice a huge page for each request that fails. Then \
     reclaim alone forms most huge pages, and little is left for compaction, with repairs or without",
];

/// The name of the workload in rows.
fn workload(flags: Flags, state: Option<&str>, era: Era) -> String {
    let from = state.map_or_else(String::new, |state| format!(", from {state}"));
    let era = match era {
        Era::Today => String::new(),
        Era::IN_2013 => ", as in 2013".to_owned(),
        Era::In2013(count) => format!(", scanners of 2013, {count} settings of the environment"),
    };
    format!("high-alloc-{}{from}{era}", flags.name())
}

/// The subject of rows whose figures are judged instead of their change.
const LEVEL: &str = "no repairs, all repairs: level";

fn place(row: &Row) -> (bool, String, usize, usize) {
    let subjects: Vec<&str> = [LEVEL].into_iter().chain(PAIRS.map(|(name, _, _)| name)).collect();
    let at = |names: &[&str], name: &str| names.iter().position(|&it| it == name);
    (
        row.workload.contains(", from "),
        row.workload.clone(),
        at(&subjects, &row.subject).unwrap_or(usize::MAX),
        at(&[&FIGURES[..], &DETAILS].concat(), &row.metric).unwrap_or(usize::MAX),
    )
}

/// Published figures: without repairs, with the first two repairs, with all repairs.
const PUBLISHED: [(Flags, [[f64; 3]; 3]); 2] = [
    (Flags::Default, [[27.5, 26.4, 76.7], [45.5, 47.3, 86.2], [46.3, 48.1, 86.0]]),
    (Flags::Thp, [[19.2, 19.3, 66.3], [29.2, 32.2, 85.6], [32.8, 35.7, 83.5]]),
];

/// Success of running kernels in percent: minimum and maximum of some runs.
pub(super) const BANDS: [(Flags, [(f64, f64); 3]); 2] = [
    (Flags::Default, [(82.0, 86.0), (82.0, 86.0), (84.0, 91.0)]),
    (Flags::Thp, [(25.0, 48.0), (25.0, 48.0), (84.0, 91.0)]),
];

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let (_, meeting, all) = (PAIRS[0].0, PAIRS[1].0, PAIRS[2].0);
    let eras = [Era::Today, Era::IN_2013];
    for ((flags, [before, second, last]), era) in
        PUBLISHED.into_iter().flat_map(|table| eras.map(|era| (table, era)))
    {
        let workload = &workload(flags, None, era);
        let row = |subject, metric, unit, better, before, after| {
            Key { workload, machine: MACHINE, subject, metric }
                .row(EXPERIMENT.name, unit, Some(better))
                .published(Published::sides(before, after, THEIRS, SOURCE))
        };
        for phase in 0..3 {
            let metric = FIGURES[phase];
            let percent = |subject, after| {
                row(subject, metric, Unit::Percent, Better::Higher, before[phase], after)
            };
            // Both pairs have the same figure before, so it is judged once.
            let all = percent(all, last[phase]).also(Quantity::Before, Role::Predicted);
            rows.extend([percent(meeting, second[phase]), all]);
        }
        if flags == Flags::Default {
            for (subject, after) in [(meeting, 154e6), (all, 159e6)] {
                rows.push(row(subject, "migrate_scanned", Unit::Count, Better::Lower, 42e6, after));
            }
            let cost = ("compaction_cost", Unit::Count, Better::Lower);
            rows.push(row(meeting, cost.0, cost.1, cost.2, 1566.0, 5312.0));
            rows.extend(levels_before(workload, all));
        }
    }
    for (flags, bands) in BANDS {
        let workload = &workload(flags, None, Era::Today);
        for (metric, (least, most)) in FIGURES.into_iter().zip(bands) {
            let key = Key { workload, machine: MACHINE, subject: LEVEL, metric };
            rows.push(
                key.row(EXPERIMENT.name, Unit::Percent, Some(Better::Higher))
                    .kernel(None, f64::midpoint(least, most), KERNEL)
                    .judged(Quantity::After, Reference::Kernel)
                    .role(Role::Fitted(FITTED.into())),
            );
        }
        let key = Key { workload, machine: MACHINE, subject: LEVEL, metric: RATE };
        rows.push(
            key.row(EXPERIMENT.name, Unit::PerSecond, None)
                .kernel(None, RATE_IN_2013, RATE_SOURCE)
                .judged(Quantity::After, Reference::Kernel)
                .role(Role::Fitted("the time that a program takes for a page".into())),
        );
    }
    rows
}

/// Published figures of which only the value before all repairs is compared.
fn levels_before(workload: &str, subject: &str) -> impl Iterator<Item = Row> {
    /// Requests of the three passes: 95 % of nearly 4 GiB, in huge pages.
    const REQUESTS: f64 = 3.0 * 1_850.0;
    let per_request = |count: f64| count / REQUESTS;
    let levels = [
        ("success1_min_pct", Unit::Percent, 9.0),
        ("success1_max_pct", Unit::Percent, 36.0),
        ("migrate_scanned_per_request", Unit::Ratio, per_request(42_290_478.0)),
        ("isolated_per_request", Unit::Ratio, per_request(2_547_248.0)),
        ("migrated_per_request", Unit::Ratio, per_request(1_177_325.0)),
    ];
    levels.into_iter().map(move |(metric, unit, before)| {
        Key { workload, machine: MACHINE, subject, metric }
            .row(EXPERIMENT.name, unit, None)
            .published(Published::before(before, THEIRS, SOURCE))
            .judged(Quantity::Before, Reference::Published)
    })
}

const SUCCESS: [&str; 3] = ["success1_mean_pct", "success2_mean_pct", "success3_mean_pct"];
const ACHIEVED: [&str; 3] =
    ["achieved1_of_achievable_pct", "achieved2_of_achievable_pct", "achieved3_of_achievable_pct"];

/// The scanners that the index is compared with: with free blocks taken as Linux takes them, and as
/// the library does.
const SCANNERS: [(&str, usize); 2] = [("all repairs", ALL), ("bulk_take=bulk", PACKED)];

/// Goals of `compact.method=index`, in percent of the achievable share.
const LEAST: [(Flags, [f64; 3]); 2] =
    [(Flags::Default, [90.0, 90.0, 97.0]), (Flags::Thp, [80.0, 80.0, 97.0])];

fn goals(flags: Flags, outcome: &Outcome) -> Vec<Check> {
    let check = |what: &str, passed: bool, detail: String| {
        Check::new(format!("{}: {what}", outcome.workload), passed, detail)
    };
    let (one, percent) = (|value: f64| decimal(value, 1), "%");
    let mut checks = Vec::new();
    let bands = BANDS.iter().find(|(of, _)| *of == flags).map(|(_, bands)| bands);
    for (metric, &(least, most)) in SUCCESS.iter().zip(bands.into_iter().flatten()) {
        let ours = outcome.settings.mean(ALL, metric);
        checks.push(check(
            &format!("all repairs: {metric}, in the band of running kernels"),
            (least..=most).contains(&ours),
            format!("{} {percent} ({least} to {most})", one(ours)),
        ));
    }
    let rates = RATES.iter().find(|(of, _)| *of == flags).map(|(_, rates)| rates);
    if let Some(&(least, most)) = rates {
        let rate = outcome.settings.mean(ALL, RATE);
        checks.push(check(
            "all repairs: faults per second of a builder, as on running kernels",
            (least..=most).contains(&rate),
            format!("{rate:.0} ({least} to {most})"),
        ));
    }
    checks.push(repairs_help(outcome));
    let goals = LEAST.iter().find(|(of, _)| *of == flags).map(|(_, goals)| goals);
    for (metric, &least) in ACHIEVED.iter().zip(goals.into_iter().flatten()) {
        let ours = outcome.settings.mean(INDEX, metric);
        checks.push(check(
            &format!("index: {metric}"),
            ours >= least,
            format!("{} {percent} (at least {least})", one(ours)),
        ));
    }
    let of = |setting, metric| outcome.settings.mean(setting, metric);
    for (name, scanners) in SCANNERS {
        let looks = |setting| of(setting, "examined_per_huge_page");
        let (theirs, ours) = (looks(scanners), looks(INDEX));
        checks.push(check(
            &format!("index examines a 50th of the pages of {name}"),
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
        let longest = outcome.settings.most(INDEX, "alloc_max_ns") / 1e6;
        checks.push(check(
            "index: the longest allocation of the first pass",
            longest <= 10.0,
            format!("{} ms (at most 10)", decimal(longest, 2)),
        ));
    }
    checks
}

/// Success with every repair, compared with none.
fn repairs_help(outcome: &Outcome) -> Check {
    let gains = SUCCESS.map(|metric| {
        outcome.settings.mean(ALL, metric) - outcome.settings.mean(UNREPAIRED, metric)
    });
    Check::new(
        format!("{}: success rises with the repairs in every pass", outcome.workload),
        gains.iter().all(|&gain| gain > 0.0),
        format!("by {} points", gains.map(|gain| decimal(gain, 2)).join(", ")),
    )
}

/// The increase of scanning by the repairs, which was published as their cost.
fn scanning_rises(outcome: &Outcome) -> Check {
    let rise = |metric| {
        outcome.settings.mean(ALL, metric) / outcome.settings.mean(UNREPAIRED, metric).max(1.0)
    };
    let [pages, free] = ["migrate_scanned", "free_scanned"].map(rise);
    Check::new(
        format!("{}: scanning rises with the repairs", outcome.workload),
        pages > 1.0 && free > 1.0,
        format!(
            "migrate scanner {} times, free scanner {} times",
            decimal(pages, 2),
            decimal(free, 2)
        ),
    )
}

/// Checks of runs from a recorded state.
fn goals_from_state(outcome: &Outcome) -> impl Iterator<Item = Check> {
    SCANNERS.into_iter().map(|(name, scanners)| no_less(outcome, name, scanners))
}

fn no_less(outcome: &Outcome, name: &str, scanners: usize) -> Check {
    let gains = SUCCESS.map(|metric| {
        outcome.settings.mean(INDEX, metric) - outcome.settings.mean(scanners, metric)
    });
    let achieved = ACHIEVED.map(|metric| decimal(outcome.settings.mean(INDEX, metric), 1));
    Check::new(
        format!("{}: index succeeds at least as often as {name} in every pass", outcome.workload),
        gains.iter().all(|&gain| gain >= 0.0),
        format!(
            "{} points more; {} % of the achievable share",
            gains.map(|gain| decimal(gain, 1)).join(", "),
            achieved.join(", ")
        ),
    )
}

/// The gain of each repair.
fn findings(outcome: &Outcome) -> Vec<String> {
    const NAMES: [&str; 4] =
        ["reset before read", "detect meeting", "unmarked types", "reset on meeting"];
    let share = |(nth, name): (usize, &&str)| {
        let gain =
            |metric| outcome.settings.mean(nth + 1, metric) - outcome.settings.mean(nth, metric);
        let points = SUCCESS.map(|metric| format!("{:+.1}", gain(metric)));
        let before = outcome.settings.mean(nth, "migrate_scanned").max(1.0);
        let scans = outcome.settings.mean(nth + 1, "migrate_scanned") / before;
        format!("{name} {} (scans {} times)", points.join("/"), decimal(scans, 2))
    };
    let shares: Vec<String> = NAMES.iter().enumerate().map(share).collect();
    let percent = |of: &dyn Fn(usize) -> f64| [0, 1, 2].map(|pass| decimal(of(pass), 1)).join(", ");
    let success = |setting| percent(&|pass| outcome.settings.mean(setting, SUCCESS[pass]));
    let achievable = percent(&|pass| {
        let of = |metric: [&str; 3]| outcome.settings.mean(ALL, metric[pass]);
        100.0 * of(SUCCESS) / of(ACHIEVED).max(1.0)
    });
    let workload = &outcome.workload;
    vec![
        format!(
            "{workload}: each repair's own share, in points of success in the three passes: {}",
            shares.join("; ")
        ),
        format!(
            "{workload}: without any compaction {} % succeed in the three passes, with all repairs {} %, and {achievable} \
             % are achievable: compaction, repaired or not, can gain no more than the difference of the first and the last",
            success(NONE),
            success(ALL)
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tables_and_the_kernels_bands_have_rows() {
        let rows = rows();
        assert_eq!(rows.len(), 2 * (2 * 6 + 2) + 2 * (1 + 5) + 2 * 4);
        assert!(rows.iter().all(|row| row.published.is_some() != row.kernel.is_some()));
        assert!(PAIRS.iter().all(|&(_, before, after)| TODAY.contains(&before.max(after))));
    }
}
